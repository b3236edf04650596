/* Opens a sweep's view, for the verbs that do. */
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/run/run_dir.h"
#include "core/run/study.h"
#include "tui/cli_run.h"
#include "tui/study_screen.h"

extern char **environ;

bool tui_has_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && strcmp(term, "dumb");
}

bool tui_find_study(const struct tui_call *c, char dir[512])
{
    const char *what = tui_run_operand(c);
    char under[512];
    int made;
    if (!what)
        return false;
    snprintf(under, sizeof under, "%s/%s", BST_RUNS_ROOT, what);
    const char *path = bst_study_is(what) ? what : bst_study_is(under) ? under : NULL;
    return path && !bst_run_dir_at(path, dir, &made);
}

/* As this call draws, so does the console that it opens. */
static int add_options(const struct tui_call *c, char **argv, int n)
{
    for (int i = 0; i < TUI_N_OPTIONS; i++) {
        const struct tui_option_info *o = tui_option_at((enum tui_option)i);
        const char *value = tui_value(c, (enum tui_option)i);
        char text[64];
        if (!value || !(o->verbs >> TUI_VERB_ATTACH & 1) || i == TUI_OPTION_FRAMES ||
            i == TUI_OPTION_SCRIPT)
            continue;
        snprintf(text, sizeof text, "--%s", o->name);
        argv[n++] = bst_xstrdup(text);
        if (o->argument[0])
            argv[n++] = bst_xstrdup(value);
    }
    return n;
}

static int attach(void *arg, const char *dir, pid_t *pid)
{
    const struct tui_call *c = arg;
    char *argv[2 * TUI_N_OPTIONS + 4];
    posix_spawnattr_t attr;
    sigset_t none;
    int n = 0;
    argv[n++] = bst_xstrdup("bstune");
    argv[n++] = bst_xstrdup("attach");
    argv[n++] = bst_xstrdup(dir);
    n = add_options(c, argv, n);
    argv[n] = NULL;
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    int rc = posix_spawn(pid, "/proc/self/exe", NULL, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    for (int i = 0; i < n; i++)
        bst_free(argv[i]);
    return rc;
}

int tui_open_study(const struct tui_call *c, const char *dir, pid_t sweep)
{
    struct tui_console_cfg cfg = {0};
    struct tui_study_call call = {.sweep = sweep, .attach = attach, .arg = (void *)c};
    if (tui_read_options(c, &cfg))
        return TUI_EXIT_USAGE;
    if (!tui_has_terminal())
        return TUI_STUDY_NOT_DRAWN;
    enum bst_err err = bst_study_read(dir, &call.study);
    if (err)
        return tui_fail(c, tui_code_of(err));
    int code = tui_study_screen(&cfg, &call);
    bst_study_free(call.study);
    return code;
}
