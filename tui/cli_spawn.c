#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/json.h"
#include "core/run/run_dir.h"
#include "tui/cli_run.h"
#include "tui/console.h"

extern char **environ;

enum { ERRS_CAP = 64 << 10 };

static struct tui_preset *picker(const struct bst_preset_env *env, struct bst_preset_entry **list,
                                 int *n)
{
    *n = 0;
    *list = NULL;
    if (bst_preset_list(env, list, n))
        return NULL;
    struct tui_preset *out = bst_xcalloc((size_t)*n + 1, sizeof *out);
    for (int i = 0; i < *n; i++) {
        const struct bst_preset_entry *e = &(*list)[i];
        out[i] = (struct tui_preset){e->id, e->name[0] ? e->name : NULL, e->about};
    }
    return out;
}

/* The parser took only words of the table "a|b|c": which of them. */
static int choice(const struct tui_call *c, enum tui_option o)
{
    const char *given = tui_value(c, o), *p = tui_option_at(o)->argument;
    int i = 0;
    size_t n = given ? strlen(given) : 0;
    while (given && *p && (strncmp(p, given, n) || (p[n] && p[n] != '|'))) {
        p += strcspn(p, "|");
        p += *p == '|';
        i++;
    }
    return given ? i : 0;
}

int tui_read_config(const struct tui_call *c, struct tui_config *out)
{
    struct bst_sb errs;
    bst_sb_init(&errs, ERRS_CAP);
    enum bst_err err = tui_config_read(out, &errs);
    if (err)
        tui_print(c->err, "%s", errs.data);
    bst_sb_fini(&errs);
    return err ? TUI_EXIT_USAGE : TUI_EXIT_DONE;
}

/* Their bounds. */
static int check_options(const struct tui_call *c, double *seconds, int64_t *frames)
{
    const char *refresh = tui_value(c, TUI_OPTION_REFRESH), *n = tui_value(c, TUI_OPTION_FRAMES);
    if (refresh && (!bst_num_parse(refresh, seconds) || *seconds < TUI_REFRESH_LEAST ||
                    *seconds > TUI_REFRESH_MOST))
        return tui_usage(c, "--refresh is 0.25 to 60 seconds");
    if (n && (!bst_int_parse(n, frames) || *frames < 1 || *frames > 1000000))
        return tui_usage(c, "--frames is 1 to 1000000");
    return TUI_EXIT_DONE;
}

int tui_read_options(const struct tui_call *c, struct tui_console_cfg *cfg)
{
    int64_t frames = 0;
    struct tui_config own;
    int code = tui_read_config(c, &own);
    if (!code)
        code = check_options(c, &own.refresh, &frames);
    if (code)
        return code;
    if (tui_given(c, TUI_OPTION_COLOR))
        own.color = (enum tui_color)choice(c, TUI_OPTION_COLOR);
    if (tui_given(c, TUI_OPTION_SYMBOLS))
        own.symbols = (enum tui_symbols)choice(c, TUI_OPTION_SYMBOLS);
    if (tui_given(c, TUI_OPTION_BELL))
        own.bell = choice(c, TUI_OPTION_BELL) == 0;
    cfg->color = own.color;
    cfg->symbols = own.symbols;
    cfg->no_bell = !own.bell;
    cfg->refresh = own.refresh;
    cfg->frames = (int)frames;
    cfg->ascii = own.ascii || tui_given(c, TUI_OPTION_ASCII);
    cfg->mouse = own.mouse || tui_given(c, TUI_OPTION_MOUSE);
    return TUI_EXIT_DONE;
}

/* A trainer without a console reads no configuration of one. */
int tui_check_numbers(const struct tui_call *c)
{
    struct tui_console_cfg cfg = {0};
    int64_t n = 1;
    double seconds;
    const char *every = tui_value(c, TUI_OPTION_LOG_EVERY);
    if (every && (!bst_int_parse(every, &n) || n < 1))
        return tui_usage(c, "--log-every is a whole number above 0, not %s", every);
    return tui_given(c, TUI_OPTION_HEADLESS) ? check_options(c, &seconds, &n)
                                             : tui_read_options(c, &cfg);
}

int tui_open_console(const struct tui_call *c, const struct bst_preset_env *env, const char *dir,
                     bool started_here, const struct tui_replay *replay)
{
    struct bst_preset_entry *list;
    struct tui_console_cfg cfg = {
        .run_dir = dir,
        .readonly = tui_given(c, TUI_OPTION_READONLY),
        .started_here = started_here,
        .replay = replay,
        .script = tui_value(c, TUI_OPTION_SCRIPT),
        .fake_time = getenv("BSTUNE_FAKE_TIME"),
    };
    if (tui_read_options(c, &cfg))
        return TUI_EXIT_USAGE;
    struct tui_preset *presets = picker(env, &list, &cfg.n_presets);
    cfg.presets = presets;
    bst_panic_hook(tui_console_restore);
    int code = tui_console(&cfg);
    bst_free(presets);
    bst_preset_list_free(list, cfg.n_presets);
    return code;
}

/* The call's own arguments, with --headless first so that a lone -- does not hide it. */
static char **trainer_argv(const struct tui_call *c)
{
    char **argv = bst_xcalloc((size_t)c->cli->n_rest + 4, sizeof *argv);
    int n = 0;
    argv[n++] = bst_xstrdup("bstune");
    argv[n++] = bst_xstrdup("run");
    argv[n++] = bst_xstrdup("--headless");
    for (int i = 0; i < c->cli->n_rest; i++)
        argv[n++] = bst_xstrdup(c->cli->rest[i]);
    return argv;
}

static void free_argv(char **argv)
{
    for (int i = 0; argv[i]; i++)
        bst_free(argv[i]);
    bst_free(argv);
}

/* A session of its own, so that no hang-up, interrupt or stop of this terminal reaches it. Never a
 * fork without exec: threads and OpenMP would not survive it. */
static int spawn(const struct tui_call *c, int ready, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    char number[16];
    char **argv = trainer_argv(c);
    snprintf(number, sizeof number, "%d", ready);
    setenv(TUI_READY_ENV, number, 1);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int rc = posix_spawn(pid, "/proc/self/exe", &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    unsetenv(TUI_READY_ENV);
    free_argv(argv);
    return rc;
}

/* The run's folder, and what was there before; false when the trainer ended instead, having said
 * why on standard error. */
static bool read_ready(int fd, struct tui_run *r)
{
    char line[sizeof r->dir + 32];
    size_t len = 0;
    int at = 0;
    for (;;) {
        ssize_t n = read(fd, line + len, sizeof line - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        len += (size_t)n;
        line[len] = '\0';
        char *end = strchr(line, '\n');
        if (!end)
            continue;
        *end = '\0';
        if (sscanf(line, "%d %u %n", &r->made, &r->had, &at) != 2)
            return false;
        snprintf(r->dir, sizeof r->dir, "%s", line + at);
        return true;
    }
}

static int exit_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int tui_run_spawn(const struct tui_call *c, struct tui_run *r)
{
    int ends[2], status;
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC)) {
        fprintf(c->err, "bstune run: pipe: %s\n", strerror(errno));
        return TUI_EXIT_FAILED;
    }
    /* Read before the console's own parent is made: no thread may be there yet. */
    fcntl(ends[1], F_SETFD, 0);
    int rc = spawn(c, ends[1], &pid);
    close(ends[1]);
    if (rc) {
        fprintf(c->err, "bstune run: the trainer cannot be started: %s\n", strerror(rc));
        close(ends[0]);
        return TUI_EXIT_FAILED;
    }
    bool there = read_ready(ends[0], r);
    close(ends[0]);
    if (!there)
        return waitpid(pid, &status, 0) == pid ? exit_code(status) : TUI_EXIT_FAILED;
    int code = tui_open_console(c, r->env, r->dir, true, NULL);
    /* A run that has ended by now is what this command was for; else it goes on alone. */
    if (waitpid(pid, &status, WNOHANG) != pid)
        return code;
    code = exit_code(status);
    r->claimed = !bst_run_lock(r->dir, &r->lock);
    if (r->claimed)
        tui_run_clear_up(c, r, code);
    return code;
}
