#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/run/run_dir.h"
#include "core/run/session.h"
#include "tui/cli_run.h"

#define LINE_SECONDS 5.0

struct headless {
    const struct tui_call *c;
    struct tui_run *r;
    int ready_fd; /* -1: nobody waits */
    int64_t every;
    double last_line;
    bool said_start;
};

static void say_start(const struct headless *h, const struct bst_status *s)
{
    tui_print(h->c->out,
              "%s: %s on %s, %s; batch %lld = %d per device x %d accumulated x %d devices; "
              "%.6g epochs of %lld\n",
              s->run, s->net, s->data, s->backend, (long long)s->global_batch, s->micro_batch,
              s->accumulation, s->n_devices, s->epochs_total, (long long)s->samples_per_epoch);
}

static void say_update(const struct headless *h, const struct bst_status *s)
{
    char eta[32];
    bst_clock_span(s->eta_seconds.valid ? s->eta_seconds.value : NAN, eta, sizeof eta);
    fprintf(h->c->out, "update %llu  epoch %.2f  loss %.4f  lr %.5g  grad %.3g  batch %lld  %.0f/s",
            (unsigned long long)s->update, s->epoch, s->loss.valid ? s->loss.value : NAN,
            s->learning_rate.value, s->grad_norm.valid ? s->grad_norm.value : NAN,
            (long long)s->global_batch, s->samples_per_sec.value);
    if (s->tokens_per_sec.valid)
        fprintf(h->c->out, "  %.0f tokens/s", s->tokens_per_sec.value);
    fprintf(h->c->out, "  left %s\n", eta);
}

static void say_eval(const struct headless *h, const struct bst_status *s)
{
    fprintf(h->c->out, "eval    epoch %.2f  loss %.4f  accuracy %.2f %%", s->epoch,
            s->eval_loss.valid ? s->eval_loss.value : NAN, 100 * s->eval_accuracy.value);
    if (s->eval_perplexity.valid)
        fprintf(h->c->out, "  perplexity %.4g", s->eval_perplexity.value);
    if (s->eval_exact.valid)
        fprintf(h->c->out, "  exact %.2f %%", 100 * s->eval_exact.value);
    fputc('\n', h->c->out);
}

static bool line_is_due(struct headless *h, const struct bst_status *s)
{
    double now = bst_clock_now();
    bool due = h->every ? s->update % (uint64_t)h->every == 0 : now - h->last_line >= LINE_SECONDS;
    if (due || s->update == 1)
        h->last_line = now;
    return due || s->update == 1;
}

static void news(void *arg, enum bst_session_news what, const struct bst_status *s,
                 const char *text)
{
    struct headless *h = arg;
    if (what == BST_NEWS_PHASE && s->phase == BST_PHASE_TRAINING && !h->said_start) {
        h->said_start = true;
        say_start(h, s);
    } else if (what == BST_NEWS_UPDATE && line_is_due(h, s)) {
        say_update(h, s);
    } else if (what == BST_NEWS_EVAL) {
        say_eval(h, s);
    } else if (what == BST_NEWS_CHANGE) {
        tui_print(h->c->out, "change  %s\n", text);
    } else if (what == BST_NEWS_PHASE && s->phase == BST_PHASE_PAUSED) {
        fprintf(h->c->out, "paused at update %llu\n", (unsigned long long)s->update);
    } else {
        return; /* notes go through the log */
    }
    /* A line that cannot be printed for now is none of the run's results. */
    if (fflush(h->c->out))
        clearerr(h->c->out);
}

/* From here on this process has no terminal: what it says, and what libraries say, goes to the log.
 */
static void into_log(const char *dir)
{
    char path[768];
    bst_run_path(dir, "log", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    fflush(NULL);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

static void ready(void *arg)
{
    struct headless *h = arg;
    if (h->ready_fd < 0)
        return;
    into_log(h->r->dir);
    dprintf(h->ready_fd, "%d %u %s\n", h->r->made, h->r->had, h->r->dir);
    h->r->handed_over = true;
    close(h->ready_fd);
    h->ready_fd = -1;
}

static void relocked(void *arg, int lock)
{
    struct headless *h = arg;
    if (lock != h->r->lock)
        bst_run_unlock(h->r->lock);
    h->r->lock = lock;
    if (h->r->handed_over)
        into_log(h->r->dir);
}

static int ready_fd(void)
{
    const char *text = getenv(TUI_READY_ENV);
    int64_t fd;
    if (!text || !bst_int_parse(text, &fd) || fd < 3 || fd > 1023)
        return -1;
    unsetenv(TUI_READY_ENV);
    fcntl((int)fd, F_SETFD, FD_CLOEXEC);
    return (int)fd;
}

static void say_end(const struct headless *h, int code)
{
    if (code == 75)
        tui_print(h->c->out, "asked to end: saved in %s; --resume goes on\n", h->r->dir);
    else if (code)
        tui_fail(h->c, code);
    else
        tui_print(h->c->out, "done: %s/weights.safetensors\n", h->r->dir);
}

int tui_run_here(const struct tui_call *c, struct tui_run *r)
{
    struct headless h = {.c = c, .r = r, .ready_fd = ready_fd()};
    const char *every = tui_value(c, TUI_OPTION_LOG_EVERY);
    if (every && !bst_int_parse(every, &h.every))
        h.every = 0; /* refused before */
    struct bst_session_cfg cfg = {
        .preset = &r->preset,
        .presets = r->env,
        .nets = c->nets,
        .dir = r->dir,
        .lock = r->lock,
        .crew = r->crew,
        .trace_path = tui_value(c, TUI_OPTION_TRACE_SAMPLES),
        .first_command = r->first[0] ? r->first : NULL,
        .resume = tui_given(c, TUI_OPTION_RESUME) || r->journal,
        .repeat = r->journal,
        .readonly = tui_given(c, TUI_OPTION_READONLY),
        .ready = ready,
        .relocked = relocked,
        .news = news,
        .arg = &h,
    };
    int code = bst_session_run(&cfg);
    say_end(&h, code);
    return code;
}
