#include "tui/link.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/run/run_dir.h"
#include "core/run/standing.h"
#include "tui/over.h"
#include "tui/replay.h"

/* A trainer just started is looked for often, one that was lost now and then. */
static const double eager_seconds = 15, eager_every = 0.2, patient_every = 3;
static const double catch_up_seconds = 0.4;

struct live {
    struct tui_link link;
    char dir[512];
    bool readonly;
    struct bst_client *client; /* NULL: nobody answers */
    struct bst_history *history;
    struct bst_status last; /* what was known when the client went, or from the files */
    bool has_last;
    enum tui_link_state state;
    char why[300];
    double opened, tried;
    double ended; /* s since 1970; 0: not, or not known */
    bool behind;
    bool closed; /* by a trainer that was connected; it may not be quite gone yet */
};

/* The trainer writes its status once more as it ends, later than what a console last heard. */
static bool take_last_status(struct live *l)
{
    struct bst_status *s = bst_xalloc(sizeof *s);
    bool newer = !bst_status_load(l->dir, s) &&
                 (!l->has_last || s->elapsed_seconds.value >= l->last.elapsed_seconds.value);
    if (newer)
        l->last = *s;
    bst_free(s);
    return newer;
}

/* For a run whose trainer is gone. */
static void know_from_files(struct live *l, const struct bst_run_info *info)
{
    if (!take_last_status(l) && !l->has_last)
        l->last = (struct bst_status){0};
    l->has_last = true;
    bst_standing_settle(info, l->history, &l->last);
}

/* A killed trainer could not write down when it ended; its last update says it nearly. */
static double last_written(const char *dir)
{
    char path[768];
    struct stat st;
    bst_run_path(dir, "metrics.jsonl", path);
    return stat(path, &st) ? 0 : (double)st.st_mtime;
}

/* Written down by the run's owner at its end; "running" is what a killed one leaves. */
static bool says_ended(const struct bst_run_info *info)
{
    static const char *const ends[] = {"done", "stopped", "preempted", "failed"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (!strcmp(info->state, ends[i]))
            return true;
    return false;
}

static void look(struct live *l)
{
    struct bst_run_info info;
    if (bst_run_info_read(l->dir, &info)) {
        l->state = TUI_LINK_LOST;
        snprintf(l->why, sizeof l->why, "%s", bst_err_text());
        return;
    }
    /* A trainer that has said how the run ended still frees what it has, under its lock. */
    if (info.live && !(l->closed && says_ended(&info))) {
        l->state = TUI_LINK_LOST;
        if (!bst_client_open(l->dir, "console", l->readonly, &l->client)) {
            l->state = TUI_LINK_LIVE;
            l->closed = false;
            l->why[0] = '\0';
            bst_client_ask_status(l->client, true);
        } else {
            snprintf(l->why, sizeof l->why, "%s", bst_err_text());
        }
        return;
    }
    /* The folder is made before the trainer that will own it has started. */
    if (!strcmp(info.state, "running") && bst_clock_now() - l->opened < eager_seconds)
        return;
    l->state = TUI_LINK_OVER;
    know_from_files(l, &info);
    l->ended = info.ended > 0 ? info.ended : last_written(l->dir);
    snprintf(l->why, sizeof l->why, "%s", info.state);
}

static void live_close(struct tui_link *link)
{
    struct live *l = (struct live *)link;
    bst_client_close(l->client);
    bst_history_close(l->history);
    bst_free(l);
}

static int live_fd(const struct tui_link *link)
{
    const struct live *l = (const struct live *)link;
    return l->client ? bst_client_fd(l->client) : -1;
}

static enum tui_link_state live_state(const struct tui_link *link)
{
    return ((const struct live *)link)->state;
}

static const char *live_why(const struct tui_link *link)
{
    return ((const struct live *)link)->why;
}

static const char *live_fixed(const struct tui_link *link)
{
    (void)link;
    return "";
}

static double live_ended(const struct tui_link *link)
{
    return ((const struct live *)link)->ended;
}

static void live_refresh(struct tui_link *link, bool layers)
{
    struct live *l = (struct live *)link;
    double now = bst_clock_now();
    /* A long run's files come in parts; a console that has just been opened wants them all. */
    do
        l->behind = bst_history_poll(l->history);
    while (l->behind && bst_clock_now() - now < catch_up_seconds);
    if (l->client) {
        bst_client_ask_status(l->client, layers);
        return;
    }
    if (now - l->tried >= (now - l->opened < eager_seconds ? eager_every : patient_every)) {
        l->tried = now;
        look(l);
    }
}

static enum bst_client_event live_next(struct tui_link *link)
{
    struct live *l = (struct live *)link;
    if (!l->client)
        return BST_CLIENT_NOTHING;
    enum bst_client_event e = bst_client_next(l->client);
    if (e == BST_CLIENT_STATUS) {
        l->last = *bst_client_status(l->client);
        l->has_last = true;
    }
    if (e != BST_CLIENT_CLOSED)
        return e;
    bst_client_close(l->client);
    l->client = NULL;
    l->state = TUI_LINK_LOST;
    snprintf(l->why, sizeof l->why, "the trainer has gone");
    l->tried = bst_clock_now();
    l->closed = true;
    bst_history_poll(l->history);
    struct bst_run_info info;
    if (!bst_run_info_read(l->dir, &info) && says_ended(&info))
        look(l);
    return e;
}

static const struct bst_status *live_status(const struct tui_link *link)
{
    const struct live *l = (const struct live *)link;
    return l->has_last ? &l->last : NULL;
}

static const struct bst_reply *live_reply(const struct tui_link *link)
{
    const struct live *l = (const struct live *)link;
    return l->client ? bst_client_reply(l->client) : NULL;
}

static const char *live_note(const struct tui_link *link)
{
    const struct live *l = (const struct live *)link;
    return l->client ? bst_client_note(l->client) : "";
}

static const struct bst_history *live_history(const struct tui_link *link)
{
    return ((const struct live *)link)->history;
}

static bool live_behind(const struct tui_link *link)
{
    return ((const struct live *)link)->behind;
}

static uint64_t live_command(struct tui_link *link, const char *text, bool dry)
{
    struct live *l = (struct live *)link;
    return l->client ? bst_client_command(l->client, text, dry) : 0;
}

static void live_arm(struct tui_link *link, bool on)
{
    struct live *l = (struct live *)link;
    if (l->client)
        bst_client_arm(l->client, on);
}

static void live_lease(struct tui_link *link, bool take)
{
    struct live *l = (struct live *)link;
    if (l->client)
        bst_client_lease(l->client, take);
}

static const char *live_holder(const struct tui_link *link)
{
    const struct live *l = (const struct live *)link;
    return l->client ? bst_client_lease_holder(l->client) : "";
}

static bool live_has_lease(const struct tui_link *link)
{
    const struct live *l = (const struct live *)link;
    return l->client && bst_client_has_lease(l->client);
}

static const struct tui_link_ops live_ops = {
    .close = live_close,
    .fd = live_fd,
    .state = live_state,
    .why = live_why,
    .fixed = live_fixed,
    .ended = live_ended,
    .refresh = live_refresh,
    .next = live_next,
    .status = live_status,
    .reply = live_reply,
    .note = live_note,
    .behind = live_behind,
    .history = live_history,
    .command = live_command,
    .arm = live_arm,
    .lease = live_lease,
    .lease_holder = live_holder,
    .has_lease = live_has_lease,
};

/* The run in its folder: BST_E_NOTFOUND or BST_E_IO when there is neither a trainer nor a history.
 */
static enum bst_err open_live(const struct tui_console_cfg *cfg, struct tui_link **out)
{
    struct live *l = bst_xalloc(sizeof *l);
    l->link.ops = &live_ops;
    l->readonly = cfg->readonly;
    l->opened = bst_clock_now();
    l->tried = l->opened - patient_every;
    l->state = TUI_LINK_LOST;
    snprintf(l->dir, sizeof l->dir, "%s", cfg->run_dir);
    snprintf(l->why, sizeof l->why, "waiting for the trainer");
    enum bst_err err = bst_history_open(cfg->run_dir, &l->history);
    if (err) {
        bst_free(l);
        return err;
    }
    *out = &l->link;
    return BST_OK;
}

int tui_console(const struct tui_console_cfg *cfg)
{
    return tui_console_over(cfg, cfg->replay ? tui_replay_open : open_live);
}
