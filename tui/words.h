/* The words of the `:` prompt: the console's own (tui/commands.def) beside the run's
 * (core/tune/command.h). What Tab offers and what the hint says. One thread. */
#ifndef TUI_WORDS_H
#define TUI_WORDS_H

#include "tui/app.h"

struct tui_word {
    const char *word, *operand, *help;
};

extern const struct tui_word tui_words[];
extern const int tui_n_words;

enum { TUI_OFFERS = 64, TUI_FORMS = 12 };

/* Words that may stand where the cursor is, all of which begin with what is typed there. */
struct tui_offers {
    struct {
        const char *text; /* as usage shows it: "=N" */
        size_t typed;     /* of which so much is to be typed: "=", and a value behind it */
    } word[TUI_OFFERS];
    int n, start;             /* start: where in the line the word begins */
    char form[TUI_FORMS][24]; /* storage */
    int n_forms;
};

void tui_words_complete(const struct tui_app *app, const char *line, int at,
                        struct tui_offers *out);
/* Usage of the command being typed, "" when unknown. */
void tui_words_hint(const char *line, char *out, size_t room);

#endif
