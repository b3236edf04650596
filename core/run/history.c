#include "core/run/history.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/run/field.h"
#include "core/run/run_dir.h"
#include "core/run/wire.h"

enum { READ_AT_ONCE = 4 << 20, LINE_MAX_BYTES = 64 << 10 };

struct tail { /* a growing file */
    char path[768];
    int fd;
    dev_t dev;
    ino_t ino;
    struct bst_frames lines;
    bool skipping;                      /* the rest of a line that is too long */
    uint64_t n_lines, n_bad, first_bad; /* lines read; those that were none of ours, from 1 */
};

/* First, so that one is the other's address. */
struct reader {
    struct bst_history h;
    struct tail metrics, journal;
    int room_updates, room_evals, room_noise, room_events;
    int n_notes; /* events that came from the metrics */
};

static double real_or_nan(const json_t *o, const char *key)
{
    return bst_json_real(o, key, NAN);
}

static void drop_after(struct reader *r, double samples)
{
    struct bst_history *h = &r->h;
    while (h->n_evals && h->evals[h->n_evals - 1].samples > samples)
        h->n_evals--;
    while (h->n_noise && h->noise[h->n_noise - 1].samples > samples)
        h->n_noise--;
}

/* Whether it was an update. */
static bool add_update(struct reader *r, const json_t *o)
{
    struct bst_history *h = &r->h;
    struct bst_history_update u = {
        .samples = real_or_nan(o, "samples"),
        .epoch = real_or_nan(o, "epoch"),
        .loss = real_or_nan(o, "loss"),
        .learning_rate = real_or_nan(o, "learning_rate"),
        .grad_norm = real_or_nan(o, "grad_norm"),
        .samples_per_sec = real_or_nan(o, "samples_per_sec"),
        .loss_scale = real_or_nan(o, "loss_scale"),
        .seconds = real_or_nan(o, "elapsed"),
        .tokens = real_or_nan(o, "tokens"),
        .tokens_per_sec = real_or_nan(o, "tokens_per_sec"),
        .update = bst_json_count(o, "update", 0),
        .global_batch = (int64_t)bst_json_count(o, "global_batch_size", 0),
        .micro_batch = (int)bst_json_count(o, "micro_batch_size", 0),
        .accumulation = (int)bst_json_count(o, "gradient_accumulation_steps", 0),
        .nonfinite = json_object_get(o, "nonfinite") != NULL,
    };
    if (!u.update || !(u.samples >= 0))
        return false;
    if (h->n_updates && u.update <= h->updates[h->n_updates - 1].update) {
        while (h->n_updates && h->updates[h->n_updates - 1].update >= u.update)
            h->n_updates--;
        drop_after(r, u.samples);
    }
    h->updates = bst_xgrow(h->updates, h->n_updates, &r->room_updates, sizeof *h->updates);
    h->updates[h->n_updates++] = u;
    return true;
}

static bool add_eval(struct reader *r, const json_t *o)
{
    struct bst_history *h = &r->h;
    struct bst_history_eval e = {
        .samples = real_or_nan(o, "samples"),
        .loss = real_or_nan(o, "loss"),
        .accuracy = real_or_nan(o, "accuracy_top1"),
        .seconds = real_or_nan(o, "elapsed"),
        .exact = real_or_nan(o, "exact_match"),
        .perplexity = real_or_nan(o, "perplexity"),
    };
    if (!(e.samples >= 0))
        return false;
    drop_after(r, e.samples);
    h->evals = bst_xgrow(h->evals, h->n_evals, &r->room_evals, sizeof *h->evals);
    h->evals[h->n_evals++] = e;
    return true;
}

static bool add_noise(struct reader *r, const json_t *o)
{
    struct bst_history *h = &r->h;
    struct bst_history_noise v = {real_or_nan(o, "samples"), real_or_nan(o, "noise_scale"),
                                  real_or_nan(o, "low"), real_or_nan(o, "high"),
                                  real_or_nan(o, "efficiency")};
    if (!(v.samples >= 0))
        return false;
    h->noise = bst_xgrow(h->noise, h->n_noise, &r->room_noise, sizeof *h->noise);
    h->noise[h->n_noise++] = v;
    return true;
}

/* Kept in the order of time, since two files bring them. */
static void add_event(struct reader *r, const struct bst_history_event *e)
{
    struct bst_history *h = &r->h;
    h->events = bst_xgrow(h->events, h->n_events, &r->room_events, sizeof *h->events);
    int at = h->n_events++;
    while (at && h->events[at - 1].wall > e->wall) {
        h->events[at] = h->events[at - 1];
        at--;
    }
    h->events[at] = *e;
}

static struct bst_history_event read_event(const json_t *o, const char *source)
{
    struct bst_history_event e = {
        .samples = real_or_nan(o, "samples"),
        .wall = bst_json_real(o, "wall", 0),
        .seq = bst_json_count(o, "seq", 0),
        .update = bst_json_count(o, "update", 0),
    };
    bst_copy_clean(e.code, sizeof e.code, bst_json_text(o, "code"));
    bst_copy_clean(e.text, sizeof e.text, bst_json_text(o, "text"));
    /* "console ann@gpu7" is "console" here. */
    bst_copy_clean(e.source, sizeof e.source, source);
    char *blank = strchr(e.source, ' ');
    if (blank)
        *blank = '\0';
    return e;
}

/* False: it is not what it says it is. A type that is not known is one of another version. */
static bool take_metrics(struct reader *r, const json_t *o)
{
    const char *type = bst_json_text(o, "type");
    if (!strcmp(type, "update"))
        return add_update(r, o);
    if (!strcmp(type, "eval"))
        return add_eval(r, o);
    if (!strcmp(type, "noise"))
        return add_noise(r, o);
    if (!strcmp(type, "note") || !strcmp(type, "advice")) {
        struct bst_history_event e = read_event(o, !strcmp(type, "note") ? "trainer" : "advisor");
        add_event(r, &e);
    }
    return *type;
}

static void prefix(struct bst_history_event *e, const char *word)
{
    char all[sizeof e->text + 32];
    snprintf(all, sizeof all, "%.24s: %s", word, e->text);
    bst_copy_clean(e->text, sizeof e->text, all);
}

static bool take_journal(struct reader *r, const json_t *o)
{
    struct bst_history_event e = read_event(o, bst_json_text(o, "source"));
    const char *outcome = bst_json_text(o, "outcome");
    e.refused = !strcmp(outcome, "refused") || !strcmp(outcome, "dropped");
    if (!e.seq)
        return false;
    const char *command = bst_json_text(o, "command");
    if (!e.text[0])
        bst_copy_clean(e.text, sizeof e.text, command);
    /* The values alone do not say that they came back. */
    else if (!e.refused && (!strncmp(command, "undo", 4) || !strcmp(command, "redo")))
        prefix(&e, command);
    add_event(r, &e);
    return true;
}

static void forget(struct reader *r, const struct tail *t)
{
    struct bst_history *h = &r->h;
    bool metrics = t == &r->metrics;
    int n = 0;
    if (metrics)
        h->n_updates = h->n_evals = h->n_noise = 0;
    for (int i = 0; i < h->n_events; i++)
        if ((h->events[i].seq == 0) != metrics)
            h->events[n++] = h->events[i];
    h->n_events = n;
}

/* A file that was replaced (a resume or a rewind cut it) is read again from its start. */
static bool open_tail(struct reader *r, struct tail *t)
{
    struct stat st;
    if (stat(t->path, &st))
        return t->fd >= 0;
    if (t->fd >= 0 && st.st_dev == t->dev && st.st_ino == t->ino &&
        st.st_size >= lseek(t->fd, 0, SEEK_CUR))
        return true;
    if (t->fd >= 0) {
        close(t->fd);
        forget(r, t);
        r->h.generation++;
    }
    bst_frames_fini(&t->lines);
    t->n_lines = t->n_bad = t->first_bad = 0;
    t->skipping = false;
    t->fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (t->fd < 0 || fstat(t->fd, &st))
        return false;
    t->dev = st.st_dev;
    t->ino = st.st_ino;
    return true;
}

static void count_bad(struct tail *t)
{
    t->first_bad = t->n_bad++ ? t->first_bad : t->n_lines;
}

static bool take_lines(struct reader *r, struct tail *t)
{
    char *line;
    size_t n;
    bool some = false;
    while ((line = bst_frames_next(&t->lines, &n)) != NULL) {
        json_t *o = json_loadb(line, n, 0, NULL);
        bool good = json_is_object(o);
        t->n_lines++;
        some = some || good;
        if (good)
            good = t == &r->metrics ? take_metrics(r, o) : take_journal(r, o);
        if (!good)
            count_bad(t);
        json_decref(o);
    }
    return some;
}

static void feed(struct tail *t, const char *bytes, size_t n)
{
    const char *end = t->skipping ? memchr(bytes, '\n', n) : NULL;
    size_t skipped = end ? (size_t)(end - bytes) + 1 : t->skipping ? n : 0;
    t->skipping = t->skipping && !end;
    if (!bst_frames_feed(&t->lines, bytes + skipped, n - skipped))
        return;
    /* A line that goes on and on is not one of ours. */
    bst_frames_fini(&t->lines);
    t->n_lines++;
    count_bad(t);
    t->skipping = true;
}

static bool follow(struct reader *r, struct tail *t)
{
    char some[65536];
    bool came = false;
    if (!open_tail(r, t))
        return false;
    for (size_t all = 0; all < READ_AT_ONCE;) {
        ssize_t n = read(t->fd, some, sizeof some);
        if (n <= 0)
            break;
        all += (size_t)n;
        feed(t, some, (size_t)n);
        came = take_lines(r, t) || came;
    }
    return came;
}

enum bst_err bst_history_open(const char *dir, struct bst_history **out)
{
    struct stat st;
    if (stat(dir, &st) || !S_ISDIR(st.st_mode))
        return bst_fail(BST_E_NOTFOUND, "%s: no such run", dir);
    struct reader *r = bst_xalloc(sizeof *r);
    r->metrics.fd = r->journal.fd = -1;
    bst_run_path(dir, "metrics.jsonl", r->metrics.path);
    bst_run_path(dir, "journal.jsonl", r->journal.path);
    bst_frames_init(&r->metrics.lines, LINE_MAX_BYTES);
    bst_frames_init(&r->journal.lines, LINE_MAX_BYTES);
    *out = &r->h;
    return BST_OK;
}

void bst_history_close(struct bst_history *h)
{
    struct reader *r = (struct reader *)h;
    if (!r)
        return;
    if (r->metrics.fd >= 0)
        close(r->metrics.fd);
    if (r->journal.fd >= 0)
        close(r->journal.fd);
    bst_frames_fini(&r->metrics.lines);
    bst_frames_fini(&r->journal.lines);
    bst_free(h->updates);
    bst_free(h->evals);
    bst_free(h->noise);
    bst_free(h->events);
    bst_free(r);
}

bool bst_history_poll(struct bst_history *h)
{
    struct reader *r = (struct reader *)h;
    uint64_t before = h->generation;
    if (follow(r, &r->metrics))
        h->generation++;
    if (follow(r, &r->journal))
        h->generation++;
    return h->generation != before;
}

bool bst_history_went_back(const struct bst_history *h, const struct bst_history_place *read)
{
    if (h->n_updates < read->n_updates || h->n_evals < read->n_evals ||
        h->n_events < read->n_events)
        return true;
    if (!read->n_updates)
        return false;
    const struct bst_history_update *last = &h->updates[read->n_updates - 1];
    return last->update != read->update ||
           (last->seconds != read->seconds && !isnan(last->seconds));
}

bool bst_history_damage(const struct bst_history *h, int file, bool over,
                        struct bst_history_damage *out)
{
    const struct reader *r = (const struct reader *)h;
    const struct tail *const tails[] = {&r->metrics, &r->journal};
    if (file < 0 || file >= (int)(sizeof tails / sizeof *tails))
        return false;
    const struct tail *t = tails[file];
    bool cut = over && bst_frames_partial(&t->lines);
    *out = (struct bst_history_damage){t->path, t->n_bad + cut,
                                       t->n_bad ? t->first_bad
                                       : cut    ? t->n_lines + 1
                                                : 0};
    return true;
}
