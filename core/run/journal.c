#include "core/run/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/crc32c.h"
#include "core/base/io.h"
#include "core/run/field.h"
#include "core/run/live.h"
#include "core/run/run_dir.h"

enum { LINE_CAP = 32 << 10, FILE_CAP = 256 << 20 };

/* ,"crc":"1a2b3c4d"} */
enum { CRC_TAIL = 18 };

struct bst_journal {
    int fd;
    char path[768];
    off_t good; /* bytes of the file that are whole lines */
    bool broken;
    struct bst_journal_entry *entries;
    int n, room;
};

#define E(kind, name) BST_FIELD(struct bst_journal_entry, kind, name)
static const struct bst_field head_fields[] = {
    E(U64, seq), E(F64, wall), E(U64, samples), E(U64, update), E(STR, command),
};
static const struct bst_field tail_fields[] = {
    E(STR, source),
    E(STR, outcome),
    E(STR, text),
};
#undef E
enum {
    N_HEAD = sizeof head_fields / sizeof *head_fields,
    N_TAIL = sizeof tail_fields / sizeof *tail_fields,
};

static void print_entry(const struct bst_journal_entry *e, struct bst_sb *out)
{
    struct bst_json j;
    char iso[32];
    size_t from = out->len;
    bst_clock_iso(e->wall, iso);
    bst_json_init(&j, out);
    bst_json_open(&j, NULL, '{');
    bst_fields_print(head_fields, N_HEAD, e, &j);
    bst_json_str(&j, "time", iso);
    bst_changes_print(e->changes, e->n_changes, &j);
    bst_fields_print(tail_fields, N_TAIL, e, &j);
    bst_json_str(&j, "code", e->code[0] ? e->code : NULL);
    if (e->rewind)
        bst_json_bool(&j, "rewind", true);
    if (e->has_live)
        bst_live_print(&e->live, "live", &j);
    uint32_t crc = bst_crc32c(0, out->data + from, out->len - from);
    bst_sb_addf(out, ",\"crc\":\"%08x\"}", (unsigned)crc);
}

static bool crc_is_right(const char *line, size_t n)
{
    char want[CRC_TAIL + 1];
    if (n <= CRC_TAIL)
        return false;
    snprintf(want, sizeof want, ",\"crc\":\"%08x\"}", (unsigned)bst_crc32c(0, line, n - CRC_TAIL));
    return !memcmp(want, line + n - CRC_TAIL, CRC_TAIL);
}

static void read_changes(const json_t *from, struct bst_journal_entry *out)
{
    size_t i;
    json_t *o;
    json_array_foreach(from, i, o)
    {
        if (i == BST_CHANGES_MAX)
            break;
        struct bst_change *c = &out->changes[i];
        bst_copy_clean(out->keys[i], sizeof out->keys[i], bst_json_text(o, "key"));
        c->key = out->keys[i];
        bst_value_text(json_object_get(o, "old"), c->before, sizeof c->before);
        bst_value_text(json_object_get(o, "new"), c->after, sizeof c->after);
        out->n_changes++;
    }
}

static enum bst_err parse_object(const json_t *o, struct bst_journal_entry *out)
{
    const json_t *live = json_object_get(o, "live");
    bst_fields_read(head_fields, N_HEAD, o, out);
    bst_fields_read(tail_fields, N_TAIL, o, out);
    bst_copy_clean(out->code, sizeof out->code, bst_json_text(o, "code"));
    out->rewind = json_is_true(json_object_get(o, "rewind"));
    read_changes(json_object_get(o, "changes"), out);
    if (!out->seq || !out->command[0])
        return bst_fail(BST_E_PARSE, "not a journal entry");
    if (!live)
        return BST_OK;
    out->has_live = true;
    return bst_live_read(live, &out->live);
}

enum bst_err bst_journal_parse(const char *line, size_t n, struct bst_journal_entry *out)
{
    *out = (struct bst_journal_entry){0};
    if (!crc_is_right(line, n))
        return bst_fail(BST_E_CORRUPT, "checksum does not match");
    json_t *o = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(o)) {
        json_decref(o);
        return bst_fail(BST_E_CORRUPT, "not JSON");
    }
    enum bst_err err = parse_object(o, out);
    json_decref(o);
    return err;
}

/* The keys lie within the entry itself, so that one that was copied or moved points at its own. */
static void own_keys(struct bst_journal_entry *e)
{
    for (int i = 0; i < e->n_changes; i++)
        e->changes[i].key = e->keys[i];
}

static void make_room(struct bst_journal *j)
{
    if (j->n < j->room)
        return;
    j->entries = bst_xgrow(j->entries, j->n, &j->room, sizeof *j->entries);
    for (int i = 0; i < j->n; i++)
        own_keys(&j->entries[i]);
}

static void add_entry(struct bst_journal *j, const struct bst_journal_entry *e)
{
    make_room(j);
    struct bst_journal_entry *own = &j->entries[j->n++];
    *own = *e;
    for (int i = 0; i < e->n_changes; i++)
        bst_copy_text(own->keys[i], sizeof own->keys[i], e->changes[i].key);
    own_keys(own);
}

/* A record ends with its checksum, and no string in it can look like one: its quotes are escaped.
 */
static bool holds_whole_record(const char *tail, size_t n)
{
    static const char mark[] = ",\"crc\":\"";
    const char *at = memmem(tail, n, mark, sizeof mark - 1);
    return at && n - (size_t)(at - tail) >= CRC_TAIL;
}

/* A write that the end of a process cut short leaves the beginning of one line. Whatever else does
 * not fit its checksum was whole once, and maybe acknowledged. */
static enum bst_err judge_tail(const struct bst_journal *j, const char *tail, size_t n, bool ended)
{
    if (!ended && !holds_whole_record(tail, n))
        return BST_OK;
    return bst_fail(BST_E_CORRUPT, "BST-606: %s: line %d is damaged", j->path, j->n + 1);
}

/* *good: bytes of lines that were read. */
static enum bst_err read_lines(struct bst_journal *j, const char *text, size_t n, size_t *good)
{
    struct bst_journal_entry *e = bst_xalloc(sizeof *e);
    enum bst_err err = BST_OK;
    for (*good = 0; *good < n && !err;) {
        const char *line = text + *good, *end = memchr(line, '\n', n - *good);
        size_t len = end ? (size_t)(end - line) : n - *good;
        if (bst_journal_parse(line, len, e)) {
            err = judge_tail(j, line, len, end != NULL);
            break;
        }
        if (e->seq != (uint64_t)j->n + 1) {
            err = bst_fail(BST_E_CORRUPT, "BST-606: %s: entry %llu follows entry %d", j->path,
                           (unsigned long long)e->seq, j->n);
            break;
        }
        add_entry(j, e);
        *good += len + (end != NULL);
    }
    bst_free(e);
    return err;
}

static enum bst_err cut_tail(struct bst_journal *j, const char *text, size_t n, size_t good,
                             struct bst_sb *notes)
{
    char keep[800];
    snprintf(keep, sizeof keep, "%s.torn", j->path);
    BST_TRY(bst_io_replace_file(keep, text + good, n - good));
    if (ftruncate(j->fd, (off_t)good) || fsync(j->fd))
        return bst_fail(BST_E_IO, "%s: %s", j->path, strerror(errno));
    bst_sb_addf(notes, "BST-605: the journal's last %zu bytes were cut short and are now in %s\n",
                n - good, keep);
    return BST_OK;
}

static enum bst_err read_journal(struct bst_journal *j, struct bst_sb *notes)
{
    char *text;
    size_t n, good;
    BST_TRY(bst_io_read_file(j->path, FILE_CAP, &text, &n));
    enum bst_err err = read_lines(j, text, n, &good);
    if (!err && good < n)
        err = cut_tail(j, text, n, good, notes);
    /* All but the line's end was written. */
    if (!err && good == n && n && text[n - 1] != '\n') {
        err = bst_io_write_full(j->fd, "\n", 1, j->path);
        good++;
    }
    j->good = (off_t)good;
    bst_free(text);
    return err;
}

enum bst_err bst_journal_open(const char *dir, struct bst_sb *notes, struct bst_journal **out)
{
    struct bst_journal *j = bst_xalloc(sizeof *j);
    j->fd = -1;
    bst_run_path(dir, "journal.jsonl", j->path);
    bool made = !bst_io_exists(j->path);
    enum bst_err err = bst_io_open_write(j->path, O_APPEND, 0600, &j->fd);
    if (!err && made)
        err = bst_io_sync_dir(dir);
    if (!err)
        err = read_journal(j, notes);
    if (err) {
        bst_journal_close(j);
        return err;
    }
    *out = j;
    return BST_OK;
}

enum bst_err bst_journal_view(const char *path, struct bst_journal **out)
{
    struct bst_journal *j = bst_xalloc(sizeof *j);
    char *text = NULL;
    size_t n = 0, good;
    j->fd = -1;
    j->broken = true;
    snprintf(j->path, sizeof j->path, "%s", path);
    enum bst_err err = bst_io_read_file(path, FILE_CAP, &text, &n);
    if (!err)
        err = read_lines(j, text, n, &good);
    bst_free(text);
    if (err) {
        bst_journal_close(j);
        return err;
    }
    *out = j;
    return BST_OK;
}

void bst_journal_close(struct bst_journal *j)
{
    if (!j)
        return;
    if (j->fd >= 0)
        close(j->fd);
    bst_free(j->entries);
    bst_free(j);
}

static enum bst_err write_line(struct bst_journal *j, const struct bst_sb *line)
{
    ssize_t n;
    do
        n = write(j->fd, line->data, line->len);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)line->len && !fsync(j->fd)) {
        j->good += n;
        return BST_OK;
    }
    int why = n >= 0 && n < (ssize_t)line->len ? ENOSPC : errno;
    /* What is there of the line must not stand before the next one; and after a failed fsync nobody
     * knows what is there (reliability rule 9), so this file takes no more. */
    if (n == (ssize_t)line->len || ftruncate(j->fd, j->good))
        j->broken = true;
    return bst_fail(BST_E_IO, "%s: %s", j->path, strerror(why));
}

bool bst_journal_is_there(const struct bst_journal *j)
{
    return bst_io_is_at(j->fd, j->path);
}

enum bst_err bst_journal_again(struct bst_journal *j)
{
    struct bst_sb all;
    int fd = -1;
    bst_sb_init(&all, FILE_CAP);
    for (int i = 0; i < j->n; i++) {
        print_entry(&j->entries[i], &all);
        bst_sb_addc(&all, '\n');
    }
    enum bst_err err = bst_io_replace_file(j->path, all.data, all.len);
    if (!err)
        err = bst_io_open_write(j->path, O_APPEND, 0600, &fd);
    if (!err) {
        close(j->fd);
        j->fd = fd;
        j->good = (off_t)all.len;
        j->broken = false;
    }
    bst_sb_fini(&all);
    return err;
}

enum bst_err bst_journal_append(struct bst_journal *j, struct bst_journal_entry *e)
{
    struct bst_sb line;
    if (j->broken)
        return bst_fail(BST_E_IO, "%s: failed before and takes no more changes", j->path);
    if (!bst_journal_is_there(j))
        return bst_fail(BST_E_IO, "%s: was removed, so no change can be written down", j->path);
    e->seq = bst_journal_seq(j) + 1;
    bst_sb_init(&line, LINE_CAP);
    print_entry(e, &line);
    bst_sb_addc(&line, '\n');
    enum bst_err err = line.full ? bst_fail(BST_E_RANGE, "a journal entry of more than 32 KiB")
                                 : write_line(j, &line);
    bst_sb_fini(&line);
    if (!err)
        add_entry(j, e);
    return err;
}

uint64_t bst_journal_seq(const struct bst_journal *j)
{
    return (uint64_t)j->n;
}

int bst_journal_count(const struct bst_journal *j)
{
    return j->n;
}

const struct bst_journal_entry *bst_journal_at(const struct bst_journal *j, int i)
{
    return &j->entries[i];
}
