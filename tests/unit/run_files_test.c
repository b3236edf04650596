#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/run/history.h"
#include "core/run/journal.h"
#include "core/run/metrics.h"
#include "core/run/run_dir.h"

static char dir[512];

static int setup(void **state)
{
    (void)state;
    /* In memory where there is some: the tests sync thousands of times. */
    strcpy(dir, access("/dev/shm", W_OK) ? "/tmp/bst-files-XXXXXX" : "/dev/shm/bst-files-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return bst_io_remove_tree(dir) ? -1 : 0;
}

static void put(const char *file, const void *data, size_t n)
{
    char path[768];
    bst_run_path(dir, file, path);
    FILE *f = fopen(path, "w"); /* thousands of times: without the fsync of the real thing */
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static char *get(const char *file, size_t *n)
{
    char path[768], *data;
    bst_run_path(dir, file, path);
    assert_int_equal(bst_io_read_file(path, 1 << 24, &data, n), BST_OK);
    return data;
}

static struct bst_live live(uint64_t batch)
{
    struct bst_live l = {
        .batch = batch,
        .split = {batch, 1, 1, batch},
        .rule = BST_LR_RULE_SQRT,
        .clip_interval = 1,
        .momentum = 0.9,
        .weight_decay = 1e-4,
        .schedule = {.kind = BST_SCHEDULE_MULTISTEP,
                     .curve = BST_WARMUP_COSINE,
                     .peak = 0.1 + 1e-17 * (double)batch,
                     .start_lr = 0.001,
                     .gamma = 0.1,
                     .warmup = 1000.5,
                     .total = 600000,
                     .n_milestones = 2,
                     .milestones = {100, 1ull << 52},
                     .s0 = 0.1,
                     .x0 = 1.0 / 3},
    };
    strcpy(l.preset, "resnet50-256");
    return l;
}

static struct bst_journal_entry entry(int i)
{
    struct bst_journal_entry e = {
        .wall = 1.7e9 + i,
        .samples = (uint64_t)i * 256,
        .update = (uint64_t)i + 1,
        .n_changes = 2,
        .has_live = i % 3 != 0,
        .live = live((uint64_t)i + 1),
        .changes = {{"global_batch_size", "256", "307"}, {"lr_scheduler", "cosine", "\"odd\"\n"}},
    };
    snprintf(e.command, sizeof e.command, "batch +%d%%", i + 1);
    strcpy(e.source, "ctl ann@gpu7");
    strcpy(e.outcome, "applied");
    strcpy(e.text, "batch 256 → 307");
    return e;
}

static void write_journal(int n)
{
    struct bst_journal *j;
    struct bst_sb notes;
    bst_sb_init(&notes, 4096);
    assert_int_equal(bst_journal_open(dir, &notes, &j), BST_OK);
    for (int i = 0; i < n; i++) {
        struct bst_journal_entry e = entry(i);
        assert_int_equal(bst_journal_append(j, &e), BST_OK);
        assert_int_equal(e.seq, i + 1);
    }
    bst_journal_close(j);
    assert_string_equal(notes.data, "");
    bst_sb_fini(&notes);
}

/* Entries read, or -1 with the error in *err. */
static int read_back(enum bst_err *err, bool *noted)
{
    struct bst_journal *j;
    struct bst_sb notes;
    int n = -1;
    bst_sb_init(&notes, 4096);
    *err = bst_journal_open(dir, &notes, &j);
    *noted = notes.len > 0;
    if (!*err) {
        n = bst_journal_count(j);
        for (int i = 0; i < n; i++) {
            const struct bst_journal_entry *e = bst_journal_at(j, i);
            struct bst_journal_entry want = entry(i);
            assert_int_equal(e->seq, i + 1);
            assert_int_equal(e->samples, want.samples);
            assert_string_equal(e->command, want.command);
            assert_string_equal(e->source, want.source);
            assert_int_equal(e->n_changes, 2);
            assert_string_equal(e->changes[0].key, "global_batch_size");
            assert_string_equal(e->changes[0].after, "307");
            assert_int_equal(e->has_live, want.has_live);
            if (want.has_live)
                assert_memory_equal(&e->live, &want.live, sizeof want.live);
        }
        bst_journal_close(j);
    }
    bst_sb_fini(&notes);
    return n;
}

static void journal_comes_back_exactly(void **state)
{
    enum bst_err err;
    bool noted;
    (void)state;
    write_journal(50);
    assert_int_equal(read_back(&err, &noted), 50);
    assert_false(noted);
}

/* Cut at every byte: the whole lines before the cut, and nothing else. A line that lacks no more
 * than its end is whole. */
static void journal_cut_anywhere_loads_to_a_prefix(void **state)
{
    size_t n;
    enum bst_err err;
    bool noted;
    (void)state;
    write_journal(4);
    char *whole = get("journal.jsonl", &n);
    for (size_t cut = 0; cut <= n; cut++) {
        int lines = 0;
        size_t last = 0, kept;
        bool but_its_end = cut < n && whole[cut] == '\n';
        for (size_t i = 0; i < cut + but_its_end; i++)
            if (whole[i] == '\n') {
                lines++;
                last = i + 1;
            }
        put("journal.jsonl", whole, cut);
        assert_int_equal(read_back(&err, &noted), lines);
        assert_int_equal(noted, last < cut);
        char *mended = get("journal.jsonl", &kept);
        assert_int_equal(kept, last);
        assert_memory_equal(mended, whole, kept);
        bst_free(mended);
    }
    bst_free(whole);
}

/* One bit of any byte is noticed, and the file left as it is: what is damaged may have been
 * acknowledged. */
static void journal_flipped_anywhere_is_refused(void **state)
{
    size_t n, kept;
    enum bst_err err;
    bool noted;
    (void)state;
    write_journal(3);
    char *whole = get("journal.jsonl", &n);
    for (size_t at = 0; at < n; at++) {
        whole[at] = (char)(whole[at] ^ 0x04);
        put("journal.jsonl", whole, n);
        assert_int_equal(read_back(&err, &noted), -1);
        assert_int_equal(err, BST_E_CORRUPT);
        char *now = get("journal.jsonl", &kept);
        assert_int_equal(kept, n);
        assert_memory_equal(now, whole, n);
        bst_free(now);
        whole[at] = (char)(whole[at] ^ 0x04);
    }
    bst_free(whole);
}

static void journal_lines_out_of_order_are_refused(void **state)
{
    size_t n;
    enum bst_err err;
    bool noted;
    (void)state;
    write_journal(3);
    char *whole = get("journal.jsonl", &n);
    char *second = strchr(whole, '\n') + 1;
    put("journal.jsonl", second, n - (size_t)(second - whole));
    assert_int_equal(read_back(&err, &noted), -1);
    assert_int_equal(err, BST_E_CORRUPT);
    bst_free(whole);
}

static void add_update(struct bst_metrics *m, int i)
{
    char line[200];
    snprintf(line, sizeof line,
             "{\"type\":\"update\",\"update\":%d,\"samples\":%d,\"epoch\":%g,\"loss\":%s,\"global_"
             "batch_size\":10}",
             i, 10 * i, 0.1 * i, i % 5 ? "1.5" : "null,\"nonfinite\":\"nan\"");
    bst_metrics_add(m, line);
}

static void metrics_go_back_to_a_length(void **state)
{
    struct bst_metrics *m;
    struct bst_sb notes;
    uint64_t at = 0, now;
    size_t n;
    (void)state;
    bst_sb_init(&notes, 4096);
    assert_int_equal(bst_metrics_open(dir, 0, &notes, &m), BST_OK);
    for (int i = 1; i <= 10; i++) {
        add_update(m, i);
        if (i == 6)
            assert_int_equal(bst_metrics_sync(m, &at), BST_OK);
    }
    bst_metrics_close(m);
    assert_int_equal(bst_metrics_open(dir, at, &notes, &m), BST_OK);
    assert_int_equal(bst_metrics_bytes(m), at);
    add_update(m, 7);
    assert_int_equal(bst_metrics_back(m, at), BST_OK);
    add_update(m, 7);
    assert_int_equal(bst_metrics_sync(m, &now), BST_OK);
    bst_metrics_close(m);
    char *all = get("metrics.jsonl", &n);
    assert_int_equal(n, now);
    int lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += all[i] == '\n';
    assert_int_equal(lines, 7);
    bst_free(all);
    assert_string_equal(notes.data, "");
    /* A file shorter than the checkpoint says is said, and kept. */
    assert_int_equal(bst_metrics_open(dir, now + 1000, &notes, &m), BST_OK);
    assert_int_equal(bst_metrics_bytes(m), now);
    assert_true(notes.len > 0);
    bst_metrics_close(m);
    bst_sb_fini(&notes);
}

static void history_follows_and_goes_back(void **state)
{
    struct bst_metrics *m;
    struct bst_history *h;
    struct bst_sb notes;
    uint64_t at = 0;
    (void)state;
    bst_sb_init(&notes, 4096);
    assert_int_equal(bst_history_open(dir, &h), BST_OK);
    assert_false(bst_history_poll(h));
    assert_int_equal(bst_metrics_open(dir, 0, &notes, &m), BST_OK);
    for (int i = 1; i <= 10; i++) {
        add_update(m, i);
        if (i == 4) {
            assert_int_equal(bst_metrics_sync(m, &at), BST_OK);
            assert_true(bst_history_poll(h));
            assert_int_equal(h->n_updates, 4);
        }
    }
    bst_metrics_add(m, "{\"type\":\"eval\",\"samples\":100,\"loss\":2.5,\"accuracy_top1\":0.5}");
    bst_metrics_add(m, "{\"type\":\"noise\",\"samples\":100,\"noise_scale\":null,\"low\":2,"
                       "\"high\":50,\"efficiency\":null,\"state\":\"\"}");
    bst_metrics_add(m, "{\"type\":\"note\",\"samples\":100,\"update\":10,\"wall\":5,\"code\":\"BST-"
                       "101\",\"text\":\"a\\u001bb\"}");
    assert_true(bst_history_poll(h));
    assert_int_equal(h->n_updates, 10);
    assert_true(h->updates[4].nonfinite && h->updates[4].loss != h->updates[4].loss);
    assert_int_equal(h->n_evals, 1);
    assert_int_equal(h->n_noise, 1);
    assert_true(h->noise[0].scale != h->noise[0].scale && h->noise[0].high == 50);
    assert_int_equal(h->n_events, 1);
    assert_null(strchr(h->events[0].text, '\x1b'));
    /* The run went back to update 4 and has gone on past where the reader was. */
    assert_int_equal(bst_metrics_back(m, at), BST_OK);
    for (int i = 5; i <= 30; i++)
        add_update(m, i);
    write_journal(2);
    assert_true(bst_history_poll(h));
    assert_int_equal(h->n_updates, 30);
    for (int i = 0; i < 30; i++)
        assert_int_equal(h->updates[i].update, i + 1);
    assert_int_equal(h->n_evals, 0);
    assert_int_equal(h->n_noise, 0);
    assert_int_equal(h->n_events, 2);
    assert_string_equal(h->events[1].source, "ctl");
    assert_false(bst_history_poll(h));
    bst_metrics_close(m);
    bst_history_close(h);
    bst_sb_fini(&notes);
}

/* A line that is being written is read once it is whole. */
static void history_waits_for_the_rest_of_a_line(void **state)
{
    static const char line[] = "{\"type\":\"update\",\"update\":1,\"samples\":10}\n";
    struct bst_history *h;
    char path[768];
    (void)state;
    assert_int_equal(bst_history_open(dir, &h), BST_OK);
    bst_run_path(dir, "metrics.jsonl", path);
    FILE *f = fopen(path, "w");
    for (size_t i = 0; line[i]; i++) {
        assert_int_equal(bst_history_poll(h), false);
        assert_int_equal(h->n_updates, 0);
        fputc(line[i], f);
        fflush(f);
    }
    assert_true(bst_history_poll(h));
    assert_int_equal(h->n_updates, 1);
    fclose(f);
    bst_history_close(h);
}

static void a_removed_journal_is_written_again(void **state)
{
    struct bst_journal *j;
    struct bst_sb notes;
    char path[768], *before, *after;
    size_t n_before, n_after;
    (void)state;
    bst_run_path(dir, "journal.jsonl", path);
    bst_sb_init(&notes, 4096);
    assert_int_equal(bst_journal_open(dir, &notes, &j), BST_OK);
    for (int i = 0; i < 12; i++) {
        struct bst_journal_entry e = entry(i);
        assert_int_equal(bst_journal_append(j, &e), BST_OK);
    }
    assert_true(bst_journal_is_there(j));
    before = get("journal.jsonl", &n_before);
    struct bst_journal_entry more = entry(12);
    assert_int_equal(unlink(path), 0);
    assert_false(bst_journal_is_there(j));
    assert_int_equal(bst_journal_append(j, &more), BST_E_IO);
    put("journal.jsonl", "other\n", 6);
    assert_false(bst_journal_is_there(j));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(bst_journal_again(j), BST_OK);
    assert_true(bst_journal_is_there(j));
    after = get("journal.jsonl", &n_after);
    assert_int_equal(n_before, n_after);
    assert_memory_equal(before, after, n_before);
    assert_int_equal(bst_journal_append(j, &more), BST_OK);
    bst_journal_close(j);
    enum bst_err err;
    bool noted;
    assert_int_equal(read_back(&err, &noted), 13);
    assert_false(noted);
    bst_free(before);
    bst_free(after);
    bst_sb_fini(&notes);
}

static void removed_metrics_begin_anew(void **state)
{
    struct bst_metrics *m;
    struct bst_sb notes;
    char path[768];
    size_t n;
    (void)state;
    bst_run_path(dir, "metrics.jsonl", path);
    bst_sb_init(&notes, 4096);
    assert_int_equal(bst_metrics_open(dir, 0, &notes, &m), BST_OK);
    bst_metrics_add(m, "{\"a\":1}");
    assert_true(bst_metrics_is_there(m));
    assert_int_equal(unlink(path), 0);
    assert_false(bst_metrics_is_there(m));
    assert_int_equal(bst_metrics_again(m), BST_OK);
    assert_int_equal(bst_metrics_bytes(m), 0);
    bst_metrics_add(m, "{\"a\":2}");
    char *text = get("metrics.jsonl", &n);
    assert_string_equal(text, "{\"a\":2}\n");
    bst_free(text);
    bst_metrics_close(m);
    bst_sb_fini(&notes);
}

/* Its owner has lost the run then, and another can have it. */
static void a_removed_lock_holds_nothing(void **state)
{
    int fd, other;
    char path[768];
    (void)state;
    bst_run_path(dir, "lock", path);
    assert_int_equal(bst_run_lock(dir, &fd), BST_OK);
    assert_true(bst_run_lock_is_there(dir, fd));
    assert_int_equal(unlink(path), 0);
    assert_false(bst_run_lock_is_there(dir, fd));
    assert_false(bst_run_is_live(dir));
    assert_int_equal(bst_run_lock(dir, &other), BST_OK);
    assert_true(bst_run_lock_is_there(dir, other));
    assert_false(bst_run_lock_is_there(dir, fd));
    bst_run_unlock(fd);
    assert_true(bst_run_is_live(dir));
    bst_run_unlock(other);
}

static void one_process_holds_a_run(void **state)
{
    int fd, other, status;
    (void)state;
    assert_false(bst_run_is_live(dir));
    assert_int_equal(bst_run_lock(dir, &fd), BST_OK);
    assert_true(bst_run_is_live(dir));
    assert_int_equal(bst_run_lock(dir, &other), BST_E_EXISTS);
    /* Asking, from another process too, takes nothing away; and a child does not inherit it. */
    pid_t pid = fork();
    if (!pid) {
        bool right = bst_run_is_live(dir) && bst_run_lock(dir, &other) == BST_E_EXISTS;
        _exit(right ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    bst_run_unlock(fd);
    assert_false(bst_run_is_live(dir));
    assert_int_equal(bst_run_lock(dir, &fd), BST_OK);
    bst_run_unlock(fd);
}

static void runs_are_named_and_found(void **state)
{
    char root[600], a[512], b[512], found[512];
    int made;
    struct bst_run_info info = {.name = "quick-1", .state = "running", .host = "here", .pid = 1};
    (void)state;
    /* The runs that live on this machine are found too: none but those of this folder. */
    setenv("BSTUNE_SOCKET_DIR", dir, 1);
    snprintf(root, sizeof root, "%s/runs", dir);
    setenv("BSTUNE_SOCKET_DIR", dir, 1); /* not the runs that live on this machine */
    assert_int_equal(bst_run_find(root, NULL, BST_RUN_STATE, found), BST_E_NOTFOUND);
    assert_int_equal(bst_run_dir_new(root, "quick", a, &made), BST_OK);
    assert_int_equal(bst_run_dir_new(root, "quick", b, &made), BST_OK);
    assert_string_equal(strrchr(a, '/'), "/quick-1");
    assert_string_equal(strrchr(b, '/'), "/quick-2");
    strcpy(info.dir, a);
    assert_int_equal(bst_run_info_write(&info), BST_OK);
    assert_int_equal(bst_run_find(root, NULL, BST_RUN_STATE, found), BST_OK);
    assert_string_equal(found, a);
    strcpy(info.dir, b);
    strcpy(info.name, "quick-2");
    assert_int_equal(bst_run_info_write(&info), BST_OK);
    assert_int_equal(bst_run_find(root, NULL, BST_RUN_STATE, found), BST_E_NOTFOUND);
    assert_int_equal(bst_run_find(root, "quick-2", BST_RUN_STATE, found), BST_OK);
    assert_string_equal(found, b);
    assert_int_equal(bst_run_find(root, a, BST_RUN_STATE, found), BST_OK);
    assert_int_equal(bst_run_find(root, "quick-3", BST_RUN_STATE, found), BST_E_NOTFOUND);
    /* Of records the newest, since none lives. */
    info.started = 2;
    assert_int_equal(bst_run_info_write(&info), BST_OK);
    assert_int_equal(bst_run_find(root, NULL, BST_RUN_RECORD, found), BST_OK);
    assert_string_equal(found, b);
    assert_int_equal(bst_run_find(root, NULL, BST_RUN_CHANGE, found), BST_E_NOTFOUND);
    /* Of two, the one that lives. */
    int fd;
    assert_int_equal(bst_run_lock(a, &fd), BST_OK);
    assert_int_equal(bst_run_find(root, NULL, BST_RUN_STATE, found), BST_OK);
    assert_string_equal(found, a);
    assert_int_equal(bst_run_find(root, NULL, BST_RUN_RECORD, found), BST_OK);
    assert_string_equal(found, a);
    assert_int_equal(bst_run_find(root, NULL, BST_RUN_CHANGE, found), BST_OK);
    assert_string_equal(found, a);
    bst_run_unlock(fd);
    assert_int_equal(bst_run_info_read(a, &info), BST_OK);
    assert_string_equal(info.state, "killed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(journal_comes_back_exactly),
        T(journal_cut_anywhere_loads_to_a_prefix),
        T(journal_flipped_anywhere_is_refused),
        T(journal_lines_out_of_order_are_refused),
        T(metrics_go_back_to_a_length),
        T(history_follows_and_goes_back),
        T(history_waits_for_the_rest_of_a_line),
        T(a_removed_journal_is_written_again),
        T(removed_metrics_begin_anew),
        T(a_removed_lock_holds_nothing),
        T(one_process_holds_a_run),
        T(runs_are_named_and_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
