#include "core/run/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/log.h"
#include "core/run/field.h"
#include "core/run/run_dir.h"
#include "core/run/status_json.h"

/* A line every 600th of the time so far, which keeps a file small however long the run. */
#define EVERY_LEAST 0.5
#define EVERY_MOST 10.0
#define LINES_A_DECADE 600.0
#define LAYERS_EVERY 8 /* lines */

enum { STATUS_CAP = 1 << 20, FILE_CAP = 256 << 20 };

struct bst_recorder {
    int fd;
    char path[768];
    json_t *last; /* as written; NULL: nothing yet */
    double at;
    enum bst_phase phase;
    uint64_t journal_seq;
    int lines;
    bool said;
};

enum bst_err bst_recorder_open(const char *dir, struct bst_recorder **out)
{
    struct bst_recorder *r = bst_xalloc(sizeof *r);
    bst_run_path(dir, "recording.jsonl", r->path);
    r->at = -INFINITY;
    enum bst_err err = bst_io_open_write(r->path, O_APPEND, 0600, &r->fd);
    if (err)
        bst_free(r);
    else
        *out = r;
    return err;
}

void bst_recorder_close(struct bst_recorder *r)
{
    if (!r)
        return;
    json_decref(r->last);
    close(r->fd);
    bst_free(r);
}

bool bst_recorder_is_there(const struct bst_recorder *r)
{
    return bst_io_is_at(r->fd, r->path);
}

enum bst_err bst_recorder_again(struct bst_recorder *r)
{
    int fd = -1;
    BST_TRY(bst_io_open_write(r->path, O_APPEND, 0600, &fd));
    close(r->fd);
    r->fd = fd;
    json_decref(r->last);
    r->last = NULL;
    r->at = -INFINITY;
    r->lines = 0;
    return BST_OK;
}

static bool is_due(const struct bst_recorder *r, const struct bst_status *s, double t)
{
    double every = fmin(fmax(t / LINES_A_DECADE, EVERY_LEAST), EVERY_MOST);
    return s->phase != r->phase || s->journal_seq != r->journal_seq || t >= r->at + every;
}

static json_t *to_json(const struct bst_status *s, bool with_layers)
{
    struct bst_sb text;
    bst_sb_init(&text, STATUS_CAP);
    bst_status_print(s, &text, with_layers);
    json_t *o = json_loads(text.data, 0, NULL);
    bst_sb_fini(&text);
    return o;
}

/* The keys of `now` that are new or others than in `before`. */
static json_t *difference(json_t *before, json_t *now)
{
    json_t *set = json_object(), *value;
    const char *key;
    json_object_foreach(now, key, value) if (!json_equal(json_object_get(before, key), value))
        json_object_set(set, key, value);
    return set;
}

static bool write_line(struct bst_recorder *r, const char *line)
{
    size_t n = strlen(line);
    off_t before = lseek(r->fd, 0, SEEK_END);
    ssize_t did = write(r->fd, line, n);
    if (did == (ssize_t)n)
        return true;
    /* Half a line would spoil the next. */
    int why = did < 0 ? errno : ENOSPC;
    if (did > 0 && ftruncate(r->fd, before))
        why = errno;
    if (!r->said)
        bst_log(BST_LOG_WARN, "%s: %s; the replay of this run will have a gap", r->path,
                strerror(why));
    r->said = true;
    return false;
}

void bst_recorder_add(struct bst_recorder *r, const struct bst_status *s)
{
    double t = s->elapsed_seconds.valid ? s->elapsed_seconds.value : 0;
    if (!is_due(r, s, t))
        return;
    r->at = t;
    r->phase = s->phase;
    r->journal_seq = s->journal_seq;
    json_t *now = to_json(s, r->lines++ % LAYERS_EVERY == 0);
    json_t *set = difference(r->last, now);
    json_t *line = json_pack("{s:f,s:b,s:o}", "t", t, "whole", r->last == NULL, "set", set);
    char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17));
    struct bst_sb out;
    bst_sb_init(&out, STATUS_CAP);
    bst_sb_add(&out, text ? text : "");
    bst_sb_addc(&out, '\n');
    if (text && write_line(r, out.data)) {
        /* The layers stay known from one line that has them to the next. */
        if (r->last)
            json_object_update(r->last, now);
        else
            r->last = json_incref(now);
    }
    bst_sb_fini(&out);
    free(text);
    json_decref(line);
    json_decref(now);
}

struct line {
    double t;
    json_t *set;
    bool whole;
};

struct bst_recording {
    struct line *lines;
    int n, room;
    int next;    /* first line not in `now` */
    json_t *now; /* the lines before it put together */
};

static void add_line(struct bst_recording *r, json_t *o)
{
    double t = bst_json_real(o, "t", NAN);
    json_t *set = json_object_get(o, "set");
    if (!json_is_object(set) || isnan(t))
        return;
    /* A resume went back in time: what came after that point was not to be. */
    while (r->n && r->lines[r->n - 1].t > t)
        json_decref(r->lines[--r->n].set);
    r->lines = bst_xgrow(r->lines, r->n, &r->room, sizeof *r->lines);
    r->lines[r->n++] =
        (struct line){t, json_incref(set), json_is_true(json_object_get(o, "whole"))};
}

enum bst_err bst_recording_open(const char *dir, struct bst_recording **out)
{
    char path[768], *text;
    size_t n;
    bst_run_path(dir, "recording.jsonl", path);
    if (!bst_io_exists(path))
        return bst_fail(BST_E_NOTFOUND, "%s: not there, so this run cannot be replayed", path);
    BST_TRY(bst_io_read_file(path, FILE_CAP, &text, &n));
    struct bst_recording *r = bst_xalloc(sizeof *r);
    for (const char *p = text, *end; (end = memchr(p, '\n', n - (size_t)(p - text))) != NULL;
         p = end + 1) {
        json_t *o = json_loadb(p, (size_t)(end - p), 0, NULL);
        add_line(r, o);
        json_decref(o);
    }
    bst_free(text);
    if (r->n) {
        *out = r;
        return BST_OK;
    }
    bst_recording_close(r);
    return bst_fail(BST_E_CORRUPT, "%s: has no line that can be read", path);
}

void bst_recording_close(struct bst_recording *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n; i++)
        json_decref(r->lines[i].set);
    json_decref(r->now);
    bst_free(r->lines);
    bst_free(r);
}

double bst_recording_end(const struct bst_recording *r)
{
    return r->lines[r->n - 1].t;
}

void bst_recording_at(struct bst_recording *r, double t, struct bst_status *out)
{
    if (r->next && r->lines[r->next - 1].t > t) {
        r->next = 0;
        json_decref(r->now);
        r->now = NULL;
    }
    while (r->next < r->n && (!r->next || r->lines[r->next].t <= t)) {
        const struct line *l = &r->lines[r->next++];
        if (!r->now || l->whole) {
            json_decref(r->now);
            r->now = json_object();
        }
        json_object_update(r->now, l->set);
    }
    bst_status_read(r->now, out);
}
