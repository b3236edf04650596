#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/io.h"
#include "core/base/json.h"
#include "core/report/sweep_table.h"
#include "core/run/run_dir.h"
#include "core/run/study.h"
#include "tui/cli_run.h"
#include "tui/study_screen.h"

extern char **environ;

/* Whose end is asked for when this command's is. */
static volatile sig_atomic_t trainer, asked;

enum { EXIT_PREEMPTED = 75, POLL_US = 200000, ARGS_MAX = 16 };

/* ^C reaches the trainer by itself, being of this process group; a plain kill does not. */
static void pass_on(int number)
{
    asked = 1;
    if (number == SIGTERM && trainer)
        kill((pid_t)trainer, SIGTERM);
}

static void take_signals(void)
{
    struct sigaction action = {.sa_handler = pass_on};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static bool read_number(const struct tui_call *c, enum tui_option o, double least, double most,
                        double *out)
{
    const char *text = tui_value(c, o);
    return !text || (bst_num_parse(text, out) && *out >= least && *out <= most);
}

static bool can_be_run(const struct bst_study_plan *plan)
{
    for (int i = 0; i < plan->n_batches; i++)
        if ((double)plan->batches[i] > bst_param_at(BST_PARAM_global_batch_size)->most)
            return false;
    return true;
}

static int read_plan(const struct tui_call *c, struct bst_study_plan *plan)
{
    const char *batches = tui_value(c, TUI_OPTION_BATCH);
    const struct bst_param_info *key = bst_param_at(BST_PARAM_global_batch_size);
    double repeat = 1, points = NAN, percent = NAN;
    plan->delta = -1;
    plan->target = NAN;
    if (!bst_sweep_parse(batches ? batches : "32,64,128,256,384,512,1024", plan->batches,
                         &plan->n_batches) ||
        !can_be_run(plan))
        return tui_usage(
            c,
            "--batch is a list as 32,64,128 of up to %d batches from %.0f to %.0f, none "
            "of them twice, not %s",
            BST_SWEEP_BATCHES, key->least, key->most, batches);
    if (!read_number(c, TUI_OPTION_REPEAT, 1, BST_SWEEP_REPEATS, &repeat) ||
        repeat != floor(repeat))
        return tui_usage(c, "--repeat is 1 to %d", BST_SWEEP_REPEATS);
    if (!read_number(c, TUI_OPTION_DELTA, 0, 100, &points))
        return tui_usage(c, "--delta is 0 to 100 points of accuracy");
    if (!read_number(c, TUI_OPTION_TARGET, 0, 100, &percent))
        return tui_usage(c, "--target is 0 to 100 per cent of accuracy");
    plan->repeats = (int)repeat;
    if (!isnan(points))
        plan->delta = points / 100;
    if (!isnan(percent))
        plan->target = percent / 100;
    return TUI_EXIT_DONE;
}

/* The folder, and in it what is asked and the preset of every run. */
static int make_folder(const struct tui_call *c, struct bst_study_plan *plan,
                       const struct bst_preset *preset)
{
    char name[80];
    int made;
    const char *given = tui_value(c, TUI_OPTION_RUN_DIR);
    struct bst_interval length = bst_preset_length(preset);
    snprintf(name, sizeof name, "sweep-%.60s", preset->id[0] ? preset->id : "preset");
    snprintf(plan->preset, sizeof plan->preset, "%s", preset->name[0] ? preset->name : preset->id);
    plan->seed = (uint64_t)preset->seed;
    plan->epochs = length.unit == BST_UNIT_EPOCHS ? length.value : NAN;
    enum bst_err err = given ? bst_run_dir_at(given, plan->dir, &made)
                             : bst_run_dir_new(BST_RUNS_ROOT, name, plan->dir, &made);
    if (!err && (bst_study_is(plan->dir) || bst_run_dir_used(plan->dir)))
        return tui_usage(c, "%s has a %s already; give its path alone to go on with it", plan->dir,
                         bst_study_is(plan->dir) ? "sweep" : "run");
    if (err || bst_study_create(plan, preset))
        return tui_fail(c, TUI_EXIT_FAILED);
    return TUI_EXIT_DONE;
}

static int create(const struct tui_call *c, char dir[512])
{
    struct bst_study_plan plan = {0};
    char epochs[64], said[96];
    int code = read_plan(c, &plan);
    if (code)
        return code;
    for (int i = 0; i < c->cli->n_sets; i++)
        if (!strncmp(c->cli->sets[i], "max_epochs=", 11) ||
            !strncmp(c->cli->sets[i], "max_steps=", 10))
            return tui_usage(c, "--set %s: how long a sweep's runs are is said by --epochs",
                             c->cli->sets[i]);
    struct tui_run *r = bst_xalloc(sizeof *r);
    snprintf(epochs, sizeof epochs, "max_epochs=%.40s",
             tui_given(c, TUI_OPTION_EPOCHS) ? tui_value(c, TUI_OPTION_EPOCHS) : "5");
    snprintf(said, sizeof said, "--epochs %.40s%s", epochs + strlen("max_epochs="),
             tui_given(c, TUI_OPTION_EPOCHS) ? "" : ", as by default");
    r->own_said = said;
    code = tui_run_preset(c, r, epochs);
    if (!code)
        code = make_folder(c, &plan, &r->preset);
    snprintf(dir, 512, "%s", plan.dir);
    bst_preset_env_free(r->env);
    bst_free(r);
    return code;
}

/* This program again, what it says into `log`; in a session of its own where nothing of this
 * terminal is to end it. `args` ends in NULL. */
static int spawn(const char *const *args, const char *log, bool own_session, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    char *argv[ARGS_MAX] = {NULL};
    for (int i = 0; args[i]; i++)
        argv[i] = bst_xstrdup(args[i]);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC,
                                     0644);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, own_session ? POSIX_SPAWN_SETSID : 0);
    int rc = posix_spawn(pid, "/proc/self/exe", &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    for (int i = 0; argv[i]; i++)
        bst_free(argv[i]);
    return rc;
}

/* The log is beside the run's folder, which may not be there yet. */
static int spawn_trainer(const struct bst_study *s, const struct bst_study_run *run,
                         const char *log, pid_t *pid)
{
    char preset[768], batch[64], seed[64];
    bst_run_path(s->plan.dir, "preset.yaml", preset);
    snprintf(batch, sizeof batch, "global_batch_size=%" PRIu64, run->batch);
    snprintf(seed, sizeof seed, "seed=%" PRIu64, run->seed);
    const char *const args[ARGS_MAX] = {"bstune",
                                        "run",
                                        preset,
                                        "--headless",
                                        "--run-dir",
                                        run->dir,
                                        "--set",
                                        batch,
                                        "--set",
                                        seed,
                                        run->state == BST_STUDY_PARTLY ? "--resume" : NULL};
    return spawn(args, log, false, pid);
}

/* Why a trainer gave up: its first complaint, else the last that it said. */
static void complaint(const char *path, char *out, size_t room)
{
    static const char name[] = "bstune run: ";
    char *text;
    size_t n;
    snprintf(out, room, "the trainer said nothing");
    if (bst_io_read_file(path, 16 << 20, &text, &n))
        return;
    while (n && text[n - 1] == '\n')
        text[--n] = '\0';
    const char *line = strstr(text, name), *last = strrchr(text, '\n');
    line = line ? line + sizeof name - 1 : last ? last + 1 : text;
    if (n)
        snprintf(out, room, "%.*s", (int)strcspn(line, "\n"), line);
    bst_free(text);
}

/* The trainer's exit code. */
static int train(const struct tui_call *c, const struct bst_study *s,
                 const struct bst_study_run *run)
{
    char log[600], why[300];
    pid_t pid;
    int status = 0;
    snprintf(log, sizeof log, "%s.log", run->dir);
    int rc = spawn_trainer(s, run, log, &pid);
    if (rc) {
        fprintf(c->err, "bstune sweep: the trainer cannot be started: %s\n", strerror(rc));
        return TUI_EXIT_FAILED;
    }
    trainer = (sig_atomic_t)pid;
    if (asked)
        kill(pid, SIGTERM); /* it came before there was a trainer to pass it on to */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    trainer = 0;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    /* Somebody else has started it meanwhile: it is waited for. */
    if (code && bst_run_is_live(run->dir))
        return TUI_EXIT_DONE;
    if (code == TUI_EXIT_FAILED || code == TUI_EXIT_USAGE) {
        complaint(log, why, sizeof why);
        if (bst_study_fail(run, why))
            return tui_fail(c, TUI_EXIT_FAILED);
        return TUI_EXIT_DONE;
    }
    return code;
}

static void say_run(const struct tui_call *c, const struct bst_study *s, int i)
{
    const struct bst_study_run *run = &s->runs[i];
    char span[32];
    fprintf(c->out, "%d of %d  batch %-5" PRIu64 " seed %-3" PRIu64 " ", i + 1, s->n_runs,
            run->batch, run->seed);
    bst_clock_span_fine(run->result.epoch_seconds, span, sizeof span);
    if (run->state == BST_STUDY_DONE)
        fprintf(c->out, "accuracy %.2f %%  %.0f samples/s  epoch %s\n", 100 * run->result.accuracy,
                run->result.samples_per_sec, span);
    else
        tui_print(c->out, "%s\n", run->state == BST_STUDY_FAILED ? run->why : "not finished");
    fflush(c->out);
}

/* One run to its end; a trainer that somebody else has started is waited for. */
static int finish(const struct tui_call *c, struct bst_study *s, int i)
{
    int code = TUI_EXIT_DONE;
    for (bool first = true;; first = false) {
        bst_study_poll(s);
        enum bst_study_state state = s->runs[i].state;
        bool over = state == BST_STUDY_DONE || state == BST_STUDY_FAILED;
        if (over && !first && !tui_given(c, TUI_OPTION_JSON))
            say_run(c, s, i);
        if (!over && state != BST_STUDY_LIVE)
            code = train(c, s, &s->runs[i]);
        if (over || code)
            return code;
        if (asked)
            return EXIT_PREEMPTED;
        if (state == BST_STUDY_LIVE)
            usleep(POLL_US);
    }
}

static int print_table(const struct tui_call *c, const struct bst_study *s)
{
    struct bst_sb text;
    bst_sb_init(&text, 1 << 20);
    if (tui_given(c, TUI_OPTION_JSON))
        bst_sweep_print_json(s, &text);
    else
        bst_sweep_print(s, &text);
    fputs(text.data, c->out);
    bst_sb_fini(&text);
    return s->n_done ? TUI_EXIT_DONE : TUI_EXIT_FAILED;
}

/* One at a time: two would take each other's runs for failed ones. */
static int run_all(const struct tui_call *c, const char *dir)
{
    struct bst_study *s;
    int code = TUI_EXIT_DONE, lock;
    if (bst_run_lock(dir, &lock)) {
        tui_print(c->err, "bstune sweep: %s: another command sweeps it; `bstune attach` looks on\n",
                  dir);
        return TUI_EXIT_FAILED;
    }
    if (bst_study_read(dir, &s)) {
        bst_run_unlock(lock);
        return tui_fail(c, TUI_EXIT_FAILED);
    }
    if (!tui_given(c, TUI_OPTION_JSON))
        tui_print(c->out, "%s: %d of %d runs are there\n", dir, s->n_done + s->n_failed, s->n_runs);
    fflush(c->out);
    take_signals();
    for (int i = 0; i < s->n_runs && !code; i++)
        code = asked ? EXIT_PREEMPTED : finish(c, s, i);
    if (code == EXIT_PREEMPTED || code > 128)
        tui_print(c->out, "bstune sweep %s goes on from here\n", dir);
    if (!code)
        code = print_table(c, s);
    bst_study_free(s);
    bst_run_unlock(lock);
    return code;
}

/* What a sweep was begun with stands. */
static int go_on(const struct tui_call *c, char dir[512])
{
    int made;
    static const enum tui_option fixed[] = {TUI_OPTION_BATCH, TUI_OPTION_EPOCHS, TUI_OPTION_REPEAT,
                                            TUI_OPTION_DELTA, TUI_OPTION_TARGET, TUI_OPTION_RUN_DIR,
                                            TUI_OPTION_SET};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (tui_given(c, fixed[i]) || (fixed[i] == TUI_OPTION_SET && c->cli->n_sets))
            return tui_usage(c, "%s is a sweep that goes on as it was begun, without --%s",
                             c->cli->operands[0], tui_option_at(fixed[i])->name);
    return bst_run_dir_at(c->cli->operands[0], dir, &made) ? tui_fail(c, TUI_EXIT_FAILED)
                                                           : TUI_EXIT_DONE;
}

static int print_sweep(const struct tui_call *c, const char *dir)
{
    struct bst_study *s;
    if (bst_study_read(dir, &s))
        return tui_fail(c, TUI_EXIT_FAILED);
    int code = print_table(c, s);
    bst_study_free(s);
    return code;
}

/* Its view until it is left; a sweep that has ended by then is what this command was for. */
static int watch(const struct tui_call *c, const char *dir)
{
    char log[768];
    pid_t pid;
    int status;
    bst_run_path(dir, "sweep.log", log);
    const char *const args[ARGS_MAX] = {"bstune", "sweep", dir, "--headless"};
    int rc = spawn(args, log, true, &pid);
    if (rc) {
        fprintf(c->err, "bstune sweep: it cannot be started: %s\n", strerror(rc));
        return TUI_EXIT_FAILED;
    }
    int code = tui_open_study(c, dir, pid);
    bool drawn = code != TUI_STUDY_NOT_DRAWN;
    if (waitpid(pid, &status, drawn ? WNOHANG : 0) != pid) {
        tui_print(c->out, "the sweep goes on: bstune attach %s\n", dir);
        return code;
    }
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (!code)
        return print_sweep(c, dir);
    if (code == EXIT_PREEMPTED)
        tui_print(c->out, "bstune sweep %s goes on from here\n", dir);
    else
        tui_print(c->err, "bstune sweep: it ended with code %d; its log: %s\n", code, log);
    return code;
}

int tui_verb_sweep(const struct tui_call *c)
{
    char dir[512];
    int code = tui_check_numbers(c);
    if (!code)
        code = bst_study_is(c->cli->operands[0]) ? go_on(c, dir) : create(c, dir);
    if (code)
        return code;
    if (tui_has_terminal() && !tui_given(c, TUI_OPTION_JSON) && !tui_given(c, TUI_OPTION_HEADLESS))
        return watch(c, dir);
    return run_all(c, dir);
}
