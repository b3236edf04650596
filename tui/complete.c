#include <stdio.h>
#include <string.h>

#include "core/tune/command.h"
#include "tui/words.h"

/* The line up to the cursor, and what has been found for it. */
struct typed {
    const char *line;
    int at;
    struct tui_offers *out;
};

static bool offer(const struct typed *t, const char *word, size_t typed)
{
    struct tui_offers *o = t->out;
    size_t n = (size_t)(t->at - o->start);
    if (o->n == TUI_OFFERS || n > typed || strncmp(word, t->line + o->start, n))
        return false;
    o->word[o->n].text = word;
    o->word[o->n++].typed = typed;
    return true;
}

static void offer_word(const struct typed *t, const char *word)
{
    offer(t, word, strlen(word));
}

/* The forms of a usage text: "+20%|-20%|=N|xK [--jump]". Capitals stand for a value. */
static void offer_forms(const struct typed *t, const char *usage)
{
    struct tui_offers *o = t->out;
    while (*usage && o->n_forms < TUI_FORMS) {
        char *form = o->form[o->n_forms];
        size_t n = strcspn(usage, "| []"), typed = strcspn(usage, "| []ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        snprintf(form, sizeof o->form[0], "%.*s", (int)n, usage);
        if (typed && offer(t, form, typed))
            o->n_forms++;
        usage += n + strspn(usage + n, "| []");
    }
}

static bool is_word(const char *line, const char *word)
{
    size_t n = strlen(word);
    return !strncmp(line, word, n) && (line[n] == ' ' || !line[n]);
}

static void offer_operands(const struct typed *t, const struct tui_app *app)
{
    if (is_word(t->line, bst_command_word(BST_COMMAND_PRESET)))
        for (int i = 0; i < app->model.n_presets; i++)
            offer_word(t, app->model.presets[i].name);
    if (is_word(t->line, bst_command_word(BST_COMMAND_DECAY)))
        for (int i = 0; i < BST_N_SCHEDULES; i++)
            offer_word(t, bst_schedule_name((enum bst_schedule_kind)i));
    for (int i = 0; i < BST_N_COMMANDS; i++)
        if (is_word(t->line, bst_command_word((enum bst_command_kind)i)))
            offer_forms(t, bst_command_operand((enum bst_command_kind)i));
    for (int i = 0; i < tui_n_words; i++)
        if (is_word(t->line, tui_words[i].word))
            offer_forms(t, tui_words[i].operand);
}

void tui_words_complete(const struct tui_app *app, const char *line, int at, struct tui_offers *out)
{
    struct typed t = {line, at, out};
    out->n = out->n_forms = 0;
    out->start = at;
    while (out->start > 0 && line[out->start - 1] != ' ')
        out->start--;
    if (out->start > 0) {
        offer_operands(&t, app);
        return;
    }
    for (int i = 0; i < BST_N_COMMANDS; i++)
        offer_word(&t, bst_command_word((enum bst_command_kind)i));
    for (int i = 0; i < tui_n_words; i++)
        offer_word(&t, tui_words[i].word);
}

void tui_words_hint(const char *line, char *out, size_t room)
{
    out[0] = '\0';
    for (int i = 0; i < BST_N_COMMANDS; i++) {
        enum bst_command_kind kind = (enum bst_command_kind)i;
        if (is_word(line, bst_command_word(kind)))
            snprintf(out, room, "%s  %s", bst_command_operand(kind), bst_command_help(kind));
    }
    for (int i = 0; i < tui_n_words; i++)
        if (is_word(line, tui_words[i].word))
            snprintf(out, room, "%s  %s", tui_words[i].operand, tui_words[i].help);
    /* Commands without an operand. */
    if (out[0] == ' ')
        memmove(out, out + 2, strlen(out + 2) + 1);
}
