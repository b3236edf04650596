#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "nets/nets.h"
#include "tui/preset_cmd.h"
#include "tui/verbs.h"

/* clang-format off */
static int (*const verbs[TUI_N_VERBS])(const struct tui_call *c) = {
    [TUI_VERB_RUN] = tui_verb_run,
    [TUI_VERB_FIT] = tui_verb_fit,
    [TUI_VERB_LRFIND] = tui_verb_lrfind,
    [TUI_VERB_ATTACH] = tui_verb_attach,
    [TUI_VERB_LIST] = tui_verb_list,
    [TUI_VERB_STATUS] = tui_verb_status,
    [TUI_VERB_CTL] = tui_verb_ctl,
    [TUI_VERB_STOP] = tui_verb_stop,
    [TUI_VERB_PRESET] = tui_verb_preset,
    [TUI_VERB_MEM] = tui_verb_mem,
    [TUI_VERB_DOCTOR] = tui_verb_doctor,
    [TUI_VERB_SWEEP] = tui_verb_sweep,
    [TUI_VERB_TRIAL] = tui_verb_trial,
    [TUI_VERB_REPORT] = tui_verb_report,
    [TUI_VERB_REPLAY] = tui_verb_replay,
    [TUI_VERB_JOURNAL] = tui_verb_journal,
    [TUI_VERB_EXPORT] = tui_verb_export,
    [TUI_VERB_KEYS] = tui_verb_keys,
    [TUI_VERB_CONFIG] = tui_verb_config,
};
/* clang-format on */

int tui_verb_preset(const struct tui_call *c)
{
    return tui_preset_cmd(c->cli->n_rest, c->cli->rest, &net_table, c->out, c->err);
}

static int version(void)
{
    printf("bstune %s\n", BST_VERSION);
    return TUI_EXIT_DONE;
}

/* A pipe that was closed or a full disk is a failure of whatever was printed. */
static int flushed(int code)
{
    bool bad = ferror(stdout), now = fflush(stdout) != 0;
    const char *why = now ? strerror(errno) : "not all of it could be written";
    bad = bad || now;
    if (bad)
        fprintf(stderr, "bstune: standard output: %s\n", why);
    return bad && code == TUI_EXIT_DONE ? TUI_EXIT_FAILED : code;
}

int main(int argc, char **argv)
{
    struct tui_cli cli;
    struct tui_call c = {.cli = &cli, .nets = &net_table, .out = stdout, .err = stderr};
    /* A limit on the size of files is an error of a write like any other, with a name in it. */
    signal(SIGXFSZ, SIG_IGN);
    int code = tui_cli_parse(argc, argv, &cli, stderr);
    if (code)
        return code;
    if (cli.verb == TUI_VERB_VERSION)
        return flushed(version());
    if (cli.verb == TUI_VERB_HELP) {
        tui_cli_help(cli.about, stdout);
        return flushed(TUI_EXIT_DONE);
    }
    return flushed(verbs[cli.verb](&c));
}
