#include "core/report/sweep_page.h"
#include "core/run/run_dir.h"
#include "tui/verbs.h"

int tui_verb_report(const struct tui_call *c)
{
    char path[768];
    const char *dir = c->cli->operands[0];
    const char *to = tui_given(c, TUI_OPTION_OUTPUT) ? tui_value(c, TUI_OPTION_OUTPUT) : dir;
    struct bst_study *s;
    enum bst_err err = bst_study_read(dir, &s);
    if (err)
        return tui_fail(c, tui_code_of(err));
    err = bst_sweep_report(s, to);
    bst_study_free(s);
    if (err)
        return tui_fail(c, TUI_EXIT_FAILED);
    bst_run_path(to, "report.html", path);
    tui_print_path(c->out, path);
    return TUI_EXIT_DONE;
}
