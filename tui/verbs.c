#include "tui/verbs.h"

#include <stdarg.h>
#include <string.h>

bool tui_given(const struct tui_call *c, enum tui_option o)
{
    return c->cli->option[o] != NULL;
}

const char *tui_value(const struct tui_call *c, enum tui_option o)
{
    return c->cli->option[o];
}

const char *tui_run_operand(const struct tui_call *c)
{
    return c->cli->n_operands ? c->cli->operands[0] : NULL;
}

int tui_fail(const struct tui_call *c, int code)
{
    const char *word = tui_verb_at(c->cli->verb)->word, *text = bst_err_text();
    size_t n = strlen(word);
    /* A command of a run that is a verb, too, has named itself. */
    if (!strncmp(text, word, n) && text[n] == ':' && text[n + 1] == ' ')
        text += n + 2;
    tui_print(c->err, "bstune %s: %s\n", word, text);
    return code;
}

int tui_usage(const struct tui_call *c, const char *fmt, ...)
{
    const char *word = tui_verb_at(c->cli->verb)->word;
    va_list ap;
    fprintf(c->err, "bstune %s: ", word);
    va_start(ap, fmt);
    tui_printv(c->err, fmt, ap);
    va_end(ap);
    fprintf(c->err, "\nTry 'bstune %s --help'.\n", word);
    return TUI_EXIT_USAGE;
}

int tui_code_of(enum bst_err err)
{
    return err == BST_E_NOTFOUND ? TUI_EXIT_NO_RUN : TUI_EXIT_FAILED;
}
