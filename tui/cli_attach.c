#include "core/run/run_dir.h"
#include "tui/cli_run.h"

int tui_verb_attach(const struct tui_call *c)
{
    char dir[512];
    enum bst_err err = bst_run_find(BST_RUNS_ROOT, tui_run_operand(c), dir);
    if (err)
        return tui_fail(c, tui_code_of(err));
    struct bst_preset_env *env = bst_preset_env_new(c->nets);
    int code = tui_open_console(c, env, dir, false, NULL);
    bst_preset_env_free(env);
    return code;
}
