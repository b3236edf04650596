#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "core/train/checkpoint.h"
#include "train_folders.h"
#include "train_iofault.h"
#include "train_support.h"

static char root[] = "/tmp/bst-checkpoint-XXXXXX";
static char dir[256];

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return bst_io_remove_tree(root);
}

/* A folder of its own for every test. */
static int fresh(void **state)
{
    static int n;
    (void)state;
    snprintf(dir, sizeof dir, "%s/run%d/checkpoints", root, n++);
    return 0;
}

static struct bst_checkpoint save(struct bst_trainer *t, uint64_t update, int keep)
{
    struct bst_checkpoint c;
    char text[64];
    snprintf(text, sizeof text, "{\"update\": %llu}", (unsigned long long)update);
    struct bst_checkpoint_req req = {
        .dir = dir, .update = update, .samples = update * 12, .state = text, .keep = keep};
    ok(bst_checkpoint_save(t, &req, &c));
    return c;
}

static const char *const files[] = {"weights.safetensors", "optimizer.safetensors", "state.json",
                                    "MANIFEST"};

static void a_run_goes_on_bit_for_bit(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    cfg.ranks = 2;
    struct bst_trainer *a = train_open(&cfg);
    struct bst_update_result r;
    struct bst_update_req req = train_req(24, 13, 2);
    train_some(a, 2, 12, 2);
    struct bst_checkpoint c = save(a, 2, 2), back;
    uint32_t saved = train_hash(a);
    ok(bst_trainer_update(a, &req, NULL, &r));
    uint32_t after = train_hash(a);
    assert_int_equal(c.seq, 1);
    assert_int_equal(c.update, 2);
    assert_int_equal(c.samples, 24);

    char *text = NULL;
    cfg.seed = 99; /* the starting values must not show */
    struct bst_trainer *b = train_open(&cfg);
    ok(bst_trainer_set_split(b, 31, 1, NULL));
    ok(bst_checkpoint_load(b, dir, NULL, NULL, &back, &text, NULL));
    assert_string_equal(text, "{\"update\": 2}");
    assert_int_equal(back.samples, 24);
    assert_int_equal(back.bytes, c.bytes);
    assert_int_equal(train_hash(b), saved);
    ok(bst_trainer_compare_ranks(b));
    bst_trainer_close(b);

    cfg.seed = 3; /* data order again */
    b = train_open(&cfg);
    ok(bst_checkpoint_load(b, dir, NULL, NULL, NULL, NULL, NULL));
    ok(bst_trainer_update(b, &req, NULL, &r));
    assert_int_equal(train_hash(b), after);
    bst_free(text);
    bst_trainer_close(a);
    bst_trainer_close(b);
}

/* The newest of two must be taken, or, once anything is wrong with it, the older one; and the
 * folder of the damaged one is kept. */
static void expect_fallback(const char *what)
{
    struct bst_checkpoint c;
    struct bst_sb notes;
    char *text = NULL;
    bst_sb_init(&notes, 4096);
    enum bst_err err = bst_checkpoint_peek(dir, &c, &text, &notes);
    if (err)
        fail_msg("%s: %s", what, bst_err_text());
    if (c.update != 1)
        fail_msg("%s: the damaged checkpoint was taken", what);
    assert_non_null(strstr(notes.data, "2-update-2"));
    assert_string_equal(text, "{\"update\": 1}");
    assert_int_equal(folder_count(dir, ".bad"), 1);
    bst_free(text);
    bst_sb_fini(&notes);
}

static void restore(const char *whole, const char *newest)
{
    DIR *d = opendir(dir);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char path[1500];
        if (e->d_name[0] == '.' || !strcmp(e->d_name, "1-update-1"))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        ok(bst_io_remove_tree(path));
    }
    closedir(d);
    folder_copy(whole, newest);
}

static void damage(const char *path, off_t at, off_t cut)
{
    unsigned char byte = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    if (cut >= 0) {
        assert_int_equal(ftruncate(fd, cut), 0);
    } else {
        assert_in_range(pread(fd, &byte, 1, at), 0, 1);
        byte ^= (unsigned char)(1 << at % 8);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
}

static void any_damage_is_found(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    char whole[300], newest[300], path[400], what[64];
    train_some(t, 1, 12, 1);
    save(t, 1, 2);
    train_some(t, 1, 12, 1);
    save(t, 2, 2);
    bst_trainer_close(t);
    snprintf(whole, sizeof whole, "%s-whole", dir);
    snprintf(newest, sizeof newest, "%s/2-update-2", dir);
    folder_copy(newest, whole);
    for (int f = 0; f < 4; f++) {
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", newest, files[f]);
        assert_int_equal(stat(path, &st), 0);
        /* Every byte of the small files, a sample of the large ones; one too many; cut; gone. */
        off_t step = st.st_size > 400 ? st.st_size / 60 : 1;
        for (off_t at = 0; at <= st.st_size; at += step) {
            snprintf(what, sizeof what, "%s, byte %lld", files[f], (long long)at);
            damage(path, at, -1);
            expect_fallback(what);
            restore(whole, newest);
            if (at == st.st_size)
                break;
            snprintf(what, sizeof what, "%s cut at %lld", files[f], (long long)at);
            damage(path, 0, at);
            expect_fallback(what);
            restore(whole, newest);
        }
        unlink(path);
        expect_fallback(files[f]);
        restore(whole, newest);
        unlink(path);
        assert_int_equal(mkdir(path, 0700), 0);
        expect_fallback(files[f]);
        restore(whole, newest);
        unlink(path);
        assert_int_equal(symlink("/dev/zero", path), 0);
        expect_fallback(files[f]);
        restore(whole, newest);
    }
    /* A file of another generation, whole in itself. */
    for (int f = 0; f < 4; f++) {
        char from[400], to[400];
        snprintf(from, sizeof from, "%s/1-update-1/%s", dir, files[f]);
        snprintf(to, sizeof to, "%s/%s", newest, files[f]);
        unlink(to);
        assert_int_equal(link(from, to), 0);
        expect_fallback(files[f]);
        restore(whole, newest);
    }
    struct bst_checkpoint c;
    ok(bst_checkpoint_peek(dir, &c, NULL, NULL));
    assert_int_equal(c.update, 2);
}

static void nothing_good_is_not_a_fresh_start(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    struct bst_checkpoint c;
    char path[1200];
    assert_int_equal(bst_checkpoint_load(t, dir, NULL, NULL, NULL, NULL, NULL), BST_E_NOTFOUND);
    ok(bst_io_make_dirs(dir, 0777));
    snprintf(path, sizeof path, "%s/1-update-1.tmp-1", dir);
    ok(bst_io_make_dirs(path, 0777));
    assert_int_equal(bst_checkpoint_peek(dir, &c, NULL, NULL), BST_E_NOTFOUND);
    ok(bst_checkpoint_sweep(dir));
    assert_int_equal(folder_count(dir, "update"), 0);
    c = save(t, 1, 2);
    snprintf(path, sizeof path, "%s/MANIFEST", c.path);
    damage(path, 3, -1);
    for (int i = 0; i < 3; i++) /* also when nothing but .bad is left */
        assert_int_equal(bst_checkpoint_load(t, dir, NULL, NULL, NULL, NULL, NULL), BST_E_CORRUPT);
    assert_int_equal(folder_count(dir, ".bad"), 1);
    /* And the next one gets a number of its own. */
    c = save(t, 1, 2);
    assert_int_equal(c.seq, 2);
    ok(bst_checkpoint_load(t, dir, NULL, NULL, &c, NULL, NULL));
    assert_int_equal(c.seq, 2);
    bst_trainer_close(t);
}

static void another_net_is_an_error_and_no_damage(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    save(t, 1, 2);
    bst_trainer_close(t);
    cfg = train_cfg(&train_bn_net, "ref");
    t = train_open(&cfg);
    uint32_t before = train_hash(t);
    assert_int_equal(bst_checkpoint_load(t, dir, NULL, NULL, NULL, NULL, NULL), BST_E_SHAPE);
    assert_int_equal(train_hash(t), before);
    assert_int_equal(folder_count(dir, ".bad"), 0);
    bst_trainer_close(t);
}

static enum bst_err accept_first(void *arg, const struct bst_checkpoint *c, const char *state)
{
    int *asked = arg;
    (void)state;
    ++*asked;
    return c->update == 1 ? BST_OK : bst_fail(BST_E_PARSE, "not mine");
}

static enum bst_err accept_none(void *arg, const struct bst_checkpoint *c, const char *state)
{
    (void)arg;
    (void)c;
    (void)state;
    return bst_fail(BST_E_UNSUPPORTED, "of a later version");
}

static void the_session_is_asked(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    struct bst_checkpoint c;
    int asked = 0;
    save(t, 1, 2);
    save(t, 2, 2);
    assert_int_equal(bst_checkpoint_load(t, dir, accept_none, NULL, &c, NULL, NULL),
                     BST_E_UNSUPPORTED);
    assert_int_equal(folder_count(dir, ".bad"), 0);
    ok(bst_checkpoint_load(t, dir, accept_first, &asked, &c, NULL, NULL));
    assert_int_equal(c.update, 1);
    assert_int_equal(asked, 2);
    assert_int_equal(folder_count(dir, ".bad"), 1);
    bst_trainer_close(t);
}

/* Order is by number, the newest commit wins even where a rewind made its update the smaller one,
 * and the pinned one stays. */
static void retention_keeps_the_newest(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    struct bst_checkpoint c, *all = NULL;
    int n = 0;
    for (uint64_t i = 1; i <= 12; i++)
        save(t, 100 - i, 1);
    ok(bst_checkpoint_list(dir, &all, &n));
    assert_int_equal(n, 2);
    assert_int_equal(all[0].seq, 12);
    assert_int_equal(all[1].seq, 11);
    assert_int_equal(all[0].update, 88);
    assert_int_equal(all[0].samples, 88 * 12);
    bst_free(all);
    struct bst_checkpoint_req req = {.dir = dir, .update = 1, .state = "{}", .pinned = 11};
    for (int i = 0; i < 4; i++)
        ok(bst_checkpoint_save(t, &req, &c));
    ok(bst_checkpoint_list(dir, &all, &n));
    assert_int_equal(n, 3);
    assert_int_equal(all[0].seq, 16);
    assert_int_equal(all[2].seq, 11);
    bst_free(all);
    bst_trainer_close(t);
}

/* Saves that work, saves that fail, damage to the newest: one can always be loaded. */
static void there_is_always_one_to_load(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, NULL);
    struct bst_trainer *t = train_open(&cfg);
    struct bst_rng r;
    struct bst_checkpoint c;
    bst_rng_init(&r, 11, BST_RNG_TEST, 0);
    save(t, 1, 2);
    bool newest_good = true;
    for (uint64_t i = 2; i < 60; i++) {
        struct bst_checkpoint_req req = {.dir = dir, .update = i, .state = "{}", .keep = 2};
        char path[1200];
        switch (bst_rng_below(&r, 3)) {
        case 0:
            save(t, i, 2 + (int)bst_rng_below(&r, 2));
            newest_good = true;
            break;
        case 1: /* the disk fills up somewhere on the way */
            iofault_arm(root, IOFAULT_FAIL_ALL, 1 + (int)bst_rng_below(&r, 20), POWER_KEEPS);
            assert_int_equal(bst_checkpoint_save(t, &req, &c), BST_E_IO);
            iofault_disarm();
            break;
        default:
            if (!newest_good)
                break;
            ok(bst_checkpoint_peek(dir, &c, NULL, NULL));
            snprintf(path, sizeof path, "%s/%s", c.path, files[bst_rng_below(&r, 4)]);
            damage(path, bst_rng_below(&r, 40), -1);
            newest_good = false;
        }
        ok(bst_checkpoint_peek(dir, &c, NULL, NULL));
        if (!newest_good)
            save(t, i, 2);
        newest_good = true;
        assert_int_equal(folder_count(dir, ".tmp"), 0);
    }
    bst_trainer_close(t);
}

static void a_diverged_state_is_not_saved(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    struct bst_update_req req = train_req(0, 12, 1);
    struct bst_update_result r;
    struct bst_checkpoint c;
    save(t, 1, 2);
    req.lr = 3e38;
    req.weight_decay = 1e30;
    ok(bst_trainer_update(t, &req, NULL, &r));
    struct bst_checkpoint_req save_req = {.dir = dir, .update = 2, .state = "{}"};
    assert_int_equal(bst_checkpoint_save(t, &save_req, &c), BST_E_DIVERGED);
    assert_non_null(strstr(bst_err_text(), "not finite"));
    assert_int_equal(folder_count(dir, "update"), 1);
    ok(bst_checkpoint_load(t, dir, NULL, NULL, &c, NULL, NULL));
    bst_trainer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_run_goes_on_bit_for_bit, fresh),
        cmocka_unit_test_setup(any_damage_is_found, fresh),
        cmocka_unit_test_setup(nothing_good_is_not_a_fresh_start, fresh),
        cmocka_unit_test_setup(another_net_is_an_error_and_no_damage, fresh),
        cmocka_unit_test_setup(the_session_is_asked, fresh),
        cmocka_unit_test_setup(retention_keeps_the_newest, fresh),
        cmocka_unit_test_setup(there_is_always_one_to_load, fresh),
        cmocka_unit_test_setup(a_diverged_state_is_not_saved, fresh),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
