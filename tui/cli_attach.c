#include "core/report/sweep_table.h"
#include "core/run/run_dir.h"
#include "core/run/study.h"
#include "tui/cli_run.h"
#include "tui/study_screen.h"

/* Where no screen can be: how far it is, once. */
static int print_study(const struct tui_call *c, const char *dir)
{
    struct bst_study *s;
    struct bst_sb text;
    enum bst_err err = bst_study_read(dir, &s);
    if (err)
        return tui_fail(c, tui_code_of(err));
    bst_sb_init(&text, 1 << 20);
    bst_sweep_print(s, &text);
    tui_print(c->out, "%s: %d of %d runs are done\n%s", dir, s->n_done, s->n_runs,
              s->n_done || s->n_failed ? text.data : "");
    bst_sb_fini(&text);
    bst_study_free(s);
    return TUI_EXIT_DONE;
}

static int attach_study(const struct tui_call *c, const char *dir)
{
    int code = tui_open_study(c, dir, 0);
    return code == TUI_STUDY_NOT_DRAWN ? print_study(c, dir) : code;
}

int tui_verb_attach(const struct tui_call *c)
{
    char dir[512];
    if (tui_find_study(c, dir))
        return attach_study(c, dir);
    enum bst_err err = bst_run_find(BST_RUNS_ROOT, tui_run_operand(c), BST_RUN_STATE, dir);
    if (err)
        return tui_fail(c, tui_code_of(err));
    struct bst_preset_env *env = bst_preset_env_new(c->nets);
    int code = tui_open_console(c, env, dir, false, NULL);
    bst_preset_env_free(env);
    return code;
}
