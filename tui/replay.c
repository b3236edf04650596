#include "tui/replay.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/run/recording.h"
#include "core/run/run_dir.h"
#include "core/tune/command.h"

struct replay {
    struct tui_link link;
    struct bst_history *all;
    struct bst_history shown; /* the beginning of `all`, its arrays borrowed */
    struct bst_recording *recording;
    struct bst_status status;
    struct bst_reply reply;
    bool come; /* a reply waits to be taken */
    double speed, end;
    double at, since; /* time of the run, and the clock when it was that */
    bool paused, over, fresh;
    char state[16]; /* how the run ended */
    double ended;   /* and when, s since 1970; 0: not known */
    char how[40];   /* "replay x10" */
};

static double time_now(const struct replay *r)
{
    double t = r->paused ? r->at : r->at + (bst_clock_now() - r->since) * r->speed;
    return fmin(t, r->end);
}

static void set_time(struct replay *r, double t)
{
    r->at = t;
    r->since = bst_clock_now();
}

static void say_how(struct replay *r)
{
    if (r->paused)
        snprintf(r->how, sizeof r->how, "replay, stands");
    else
        snprintf(r->how, sizeof r->how, "replay x%g", r->speed);
}

/* An evaluation takes its time: the status that has its loss, or the next update, shows that it is
 * over. */
static bool is_over(const struct replay *r, const struct bst_history_eval *e, double samples)
{
    const struct bst_metric *loss = &r->status.eval_loss;
    return e->samples < samples || (e->samples <= samples && loss->valid && loss->value == e->loss);
}

/* The status counts the journal's entries; a note goes with its update. */
static bool has_come(const struct replay *r, const struct bst_history_event *e, uint64_t update)
{
    return e->seq ? e->seq <= r->status.journal_seq : e->update <= update;
}

/* Updates by their time; what follows an update comes with it. */
static void cut_history(struct replay *r, double t)
{
    const struct bst_history *all = r->all;
    struct bst_history *h = &r->shown;
    int n = h->n_updates;
    h->updates = all->updates;
    h->evals = all->evals;
    h->events = all->events;
    h->noise = all->noise;
    while (n < all->n_updates && !(all->updates[n].seconds > t))
        n++;
    uint64_t update = n ? all->updates[n - 1].update : 0;
    double samples = n ? all->updates[n - 1].samples : 0;
    while (h->n_evals < all->n_evals && is_over(r, &all->evals[h->n_evals], samples))
        h->n_evals++;
    while (h->n_noise < all->n_noise && all->noise[h->n_noise].samples <= samples)
        h->n_noise++;
    while (h->n_events < all->n_events && has_come(r, &all->events[h->n_events], update))
        h->n_events++;
    if (n != h->n_updates || !h->generation)
        h->generation++;
    h->n_updates = n;
}

/* Between two lines of the recording the updates go on. */
static void add_last_update(struct replay *r)
{
    struct bst_status *s = &r->status;
    if (!r->shown.n_updates)
        return;
    const struct bst_history_update *u = &r->shown.updates[r->shown.n_updates - 1];
    if (u->update <= s->update)
        return;
    s->update = u->update;
    s->samples = (uint64_t)u->samples;
    s->epoch = u->epoch;
    s->loss = bst_metric_of(u->loss);
    s->learning_rate = bst_metric_of(u->learning_rate);
    s->grad_norm = bst_metric_of(u->grad_norm);
    s->elapsed_seconds = bst_metric_of(u->seconds);
}

static void play(struct replay *r)
{
    double t = time_now(r);
    bst_recording_at(r->recording, t, &r->status);
    cut_history(r, t);
    add_last_update(r);
    r->over = t >= r->end;
    r->fresh = true;
}

static void replay_close(struct tui_link *link)
{
    struct replay *r = (struct replay *)link;
    bst_history_close(r->all);
    bst_recording_close(r->recording);
    bst_free(r);
}

static int replay_fd(const struct tui_link *link)
{
    (void)link;
    return -1;
}

static enum tui_link_state replay_state(const struct tui_link *link)
{
    return ((const struct replay *)link)->over ? TUI_LINK_OVER : TUI_LINK_LIVE;
}

static const char fixed[] = "this is the replay of a run: nothing can be changed";

static const char *replay_fixed(const struct tui_link *link)
{
    (void)link;
    return fixed;
}

static double replay_ended(const struct tui_link *link)
{
    return ((const struct replay *)link)->ended;
}

static const char *replay_why(const struct tui_link *link)
{
    const struct replay *r = (const struct replay *)link;
    return r->over ? r->state : r->how;
}

static void replay_refresh(struct tui_link *link, bool layers)
{
    (void)layers;
    play((struct replay *)link);
}

static enum bst_client_event replay_next(struct tui_link *link)
{
    struct replay *r = (struct replay *)link;
    if (r->come) {
        r->come = false;
        return BST_CLIENT_REPLY;
    }
    if (!r->fresh)
        return BST_CLIENT_NOTHING;
    r->fresh = false;
    return BST_CLIENT_STATUS;
}

static const struct bst_status *replay_status(const struct tui_link *link)
{
    return &((const struct replay *)link)->status;
}

static const struct bst_reply *replay_reply(const struct tui_link *link)
{
    return &((const struct replay *)link)->reply;
}

static const char *replay_note(const struct tui_link *link)
{
    (void)link;
    return "";
}

static bool replay_behind(const struct tui_link *link)
{
    (void)link;
    return false;
}

static const struct bst_history *replay_history(const struct tui_link *link)
{
    return &((const struct replay *)link)->shown;
}

/* The words of a run that mean something here; everything else is refused as the run would. */
static uint64_t replay_command(struct tui_link *link, const char *text, bool dry)
{
    struct replay *r = (struct replay *)link;
    struct bst_command cmd;
    bool known_here = !bst_command_parse(text, &cmd) &&
                      (cmd.kind == BST_COMMAND_PAUSE || cmd.kind == BST_COMMAND_RESUME);
    r->reply = (struct bst_reply){.id = r->reply.id + 1, .ok = known_here};
    if (known_here && !dry) {
        set_time(r, time_now(r));
        r->paused = cmd.kind == BST_COMMAND_PAUSE;
        say_how(r);
    }
    snprintf(r->reply.outcome, sizeof r->reply.outcome, "%s", known_here ? "done" : "refused");
    snprintf(r->reply.text, sizeof r->reply.text, "%s",
             !known_here                     ? fixed
             : cmd.kind == BST_COMMAND_PAUSE ? "the replay stands"
                                             : "the replay goes on");
    r->come = true;
    return r->reply.id;
}

static void replay_arm(struct tui_link *link, bool on)
{
    (void)link;
    (void)on;
}

static void replay_lease(struct tui_link *link, bool take)
{
    (void)link;
    (void)take;
}

static const char *replay_holder(const struct tui_link *link)
{
    (void)link;
    return "";
}

static bool replay_has_lease(const struct tui_link *link)
{
    (void)link;
    return true;
}

static const struct tui_link_ops replay_ops = {
    .close = replay_close,
    .fd = replay_fd,
    .state = replay_state,
    .why = replay_why,
    .fixed = replay_fixed,
    .ended = replay_ended,
    .refresh = replay_refresh,
    .next = replay_next,
    .status = replay_status,
    .reply = replay_reply,
    .note = replay_note,
    .behind = replay_behind,
    .history = replay_history,
    .command = replay_command,
    .arm = replay_arm,
    .lease = replay_lease,
    .lease_holder = replay_holder,
    .has_lease = replay_has_lease,
};

enum bst_err tui_replay_open(const struct tui_console_cfg *cfg, struct tui_link **out)
{
    struct replay *r = bst_xalloc(sizeof *r);
    struct bst_run_info info;
    r->link.ops = &replay_ops;
    r->speed = cfg->replay->speed;
    snprintf(r->state, sizeof r->state, "replayed");
    enum bst_err err = bst_history_open(cfg->run_dir, &r->all);
    if (!err)
        err = bst_recording_open(cfg->run_dir, &r->recording);
    if (err) {
        replay_close(&r->link);
        return err;
    }
    if (!bst_run_info_read(cfg->run_dir, &info) && !info.live) {
        snprintf(r->state, sizeof r->state, "%s", info.state);
        r->ended = info.ended;
    }
    while (bst_history_poll(r->all)) {
    }
    r->end = bst_recording_end(r->recording);
    set_time(r, r->end * cfg->replay->from);
    say_how(r);
    play(r);
    *out = &r->link;
    return BST_OK;
}
