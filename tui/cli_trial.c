#include <stdio.h>

#include "core/base/json.h"
#include "core/tune/trial.h"
#include "tui/cli_client.h"

/* What goes to the trainer is the command `trial`, which the console's prompt takes as well. */
int tui_verb_trial(const struct tui_call *c)
{
    char dir[512], text[256];
    const char *updates = tui_value(c, TUI_OPTION_UPDATES);
    int64_t n = 200;
    if (updates && (!bst_int_parse(updates, &n) || n < BST_TRIAL_LEAST || n > BST_TRIAL_MOST))
        return tui_usage(c, "--updates is a whole number from %d to %d, not %s", BST_TRIAL_LEAST,
                         BST_TRIAL_MOST, updates);
    snprintf(text, sizeof text, "trial %lld", (long long)n);
    int code = tui_run_and_command(c, dir, text);
    return code ? code : tui_give_command(c, dir, text);
}
