#include "tui/verbs.h"

#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/json.h"
#include "core/run/preset.h"
#include "core/run/run_dir.h"
#include "core/tune/diagnostics.h"

enum { TEXT_CAP = 64 << 10 };

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

enum bst_err tui_find_run(const struct tui_call *c, enum bst_run_use use, char dir[512])
{
    const char *run = tui_run_operand(c), *word = tui_verb_at(c->cli->verb)->word;
    BST_TRY(bst_run_find(BST_RUNS_ROOT, run, use, dir));
    const char *last = strrchr(dir, '/');
    if (!run && bst_run_is_here(BST_RUNS_ROOT, dir))
        tui_print(c->err, "bstune %s: of %s\n", word, last ? last + 1 : dir);
    else if (!run)
        tui_print(c->err, "bstune %s: of a run elsewhere, %s\n", word, dir);
    return BST_OK;
}

/* Whoever asked for JSON gets it of a refusal too, in the form that `ctl --json` answers in. A
 * journal's lines are its entries, and nothing else. */
static void refuse_json(const struct tui_call *c, const char *text)
{
    struct bst_sb out;
    struct bst_json j;
    char code[16];
    if (!tui_given(c, TUI_OPTION_JSON) || c->cli->verb == TUI_VERB_JOURNAL)
        return;
    int number = bst_diag_number(text);
    bst_diag_code((enum bst_diag)number, code);
    bst_sb_init(&out, 8 * TEXT_CAP);
    bst_json_init(&j, &out);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "outcome", "refused");
    bst_json_str(&j, "code", number ? code : NULL);
    bst_json_str(&j, "text", text);
    bst_json_close(&j, '}');
    fprintf(c->out, "%s\n", out.data);
    bst_sb_fini(&out);
}

int tui_fail(const struct tui_call *c, int code)
{
    const char *word = tui_verb_at(c->cli->verb)->word, *text = bst_err_text();
    size_t n = strlen(word);
    /* A command of a run that is a verb, too, has named itself. */
    if (!strncmp(text, word, n) && text[n] == ':' && text[n + 1] == ' ')
        text += n + 2;
    tui_print(c->err, "bstune %s: %s\n", word, text);
    refuse_json(c, text);
    return code;
}

int tui_usage(const struct tui_call *c, const char *fmt, ...)
{
    const char *word = tui_verb_at(c->cli->verb)->word;
    struct bst_sb text;
    va_list ap;
    bst_sb_init(&text, TEXT_CAP);
    va_start(ap, fmt);
    bst_sb_addv(&text, fmt, ap);
    va_end(ap);
    tui_print(c->err, "bstune %s: %s\nTry 'bstune %s --help'.\n", word, text.data, word);
    refuse_json(c, text.data);
    bst_sb_fini(&text);
    return TUI_EXIT_USAGE;
}

int tui_refuse_preset(const struct tui_call *c, const struct bst_preset_errors *errs)
{
    struct bst_sb text;
    if (!errs->n)
        return tui_fail(c, TUI_EXIT_USAGE);
    fputs(errs->text.data, c->err);
    bst_sb_init(&text, TEXT_CAP);
    bst_sb_addn(&text, errs->text.data, strcspn(errs->text.data, "\n"));
    for (const char *p = errs->text.data + text.len; *p && p[1]; p += 1 + strcspn(p + 1, "\n"))
        bst_sb_addf(&text, "; %.*s", (int)strcspn(p + 1, "\n"), p + 1);
    refuse_json(c, text.data);
    bst_sb_fini(&text);
    return TUI_EXIT_USAGE;
}

int tui_check_new(const struct tui_call *c, enum tui_option o)
{
    struct stat st;
    const char *path = tui_value(c, o);
    /* A pipe or /dev/null loses nothing. */
    if (!path || tui_given(c, TUI_OPTION_FORCE) || stat(path, &st) || !S_ISREG(st.st_mode))
        return TUI_EXIT_DONE;
    return tui_usage(c, "--%s: %s is there already; --force replaces it", tui_option_at(o)->name,
                     path);
}

int tui_code_of(enum bst_err err)
{
    return err == BST_E_NOTFOUND ? TUI_EXIT_NO_RUN : TUI_EXIT_FAILED;
}
