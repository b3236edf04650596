#include <string.h>

#include "core/base/json.h"
#include "core/run/run_dir.h"
#include "tui/cli_run.h"

static bool read_percent(const char *text, double *out)
{
    char number[32];
    size_t n = strlen(text);
    if (n < 2 || n > sizeof number || text[n - 1] != '%')
        return false;
    memcpy(number, text, n - 1);
    number[n - 1] = '\0';
    return bst_num_parse(number, out) && *out >= 0 && *out <= 100;
}

int tui_verb_replay(const struct tui_call *c)
{
    char dir[512];
    double percent = 0;
    struct tui_replay wanted = {.speed = 10};
    const char *speed = tui_value(c, TUI_OPTION_SPEED), *from = tui_value(c, TUI_OPTION_FROM);
    if (speed &&
        (!bst_num_parse(speed, &wanted.speed) || wanted.speed < 0.01 || wanted.speed > 10000))
        return tui_usage(c, "--speed is 0.01 to 10000, not %s", speed);
    if (from && !read_percent(from, &percent))
        return tui_usage(c, "--from is 0%% to 100%%, not %s", from);
    wanted.from = percent / 100;
    enum bst_err err = tui_find_run(c, BST_RUN_RECORD, dir);
    if (err)
        return tui_fail(c, tui_code_of(err));
    struct bst_preset_env *env = bst_preset_env_new(c->nets);
    int code = tui_open_console(c, env, dir, false, &wanted);
    bst_preset_env_free(env);
    return code;
}
