#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/safetensors.h"
#include "core/train/host.h"
#include "train_support.h"

static char dir[] = "/tmp/bst-state-XXXXXX";
static char weights[64], momenta[64], other[64];

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(weights, sizeof weights, "%s/weights", dir);
    snprintf(momenta, sizeof momenta, "%s/momenta", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return bst_io_remove_tree(dir);
}

static void a_state_survives_its_files(void **state)
{
    (void)state;
    static const char *const backends[] = {"ref", "ref64", "cpu"};
    for (int b = 0; b < 3; b++) {
        if (!bst_backend_find(backends[b]))
            continue;
        struct bst_train_cfg cfg = train_cfg(&train_bn_net, backends[b]);
        struct bst_trainer *t = train_open(&cfg);
        train_some(t, 3, 12, 2);
        uint32_t saved = train_hash(t);
        ok(bst_trainer_save(t, BST_STATE_WEIGHTS, weights));
        ok(bst_trainer_save(t, BST_STATE_OPTIMIZER, momenta));
        bst_trainer_close(t);
        cfg.ranks = 2;
        cfg.seed = 77;
        t = train_open(&cfg);
        ok(bst_trainer_set_split(t, 45, 2, NULL)); /* other programs, the same layouts */
        assert_int_not_equal(train_hash(t), saved);
        ok(bst_trainer_load(t, BST_STATE_WEIGHTS, weights, false, NULL, 0));
        assert_int_not_equal(train_hash(t), saved);
        ok(bst_trainer_load(t, BST_STATE_OPTIMIZER, momenta, false, NULL, 0));
        assert_int_equal(train_hash(t), saved);
        ok(bst_trainer_compare_ranks(t));
        bst_trainer_close(t);
    }
}

static void names_and_shapes_are_pytorchs(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int rank;
        int64_t d[4];
    } want[] = {
        {"conv1.weight", 4, {8, 1, 3, 3}},
        {"bn1.weight", 1, {8}},
        {"bn1.bias", 1, {8}},
        {"bn1.running_mean", 1, {8}},
        {"bn1.running_var", 1, {8}},
        {"fc.weight", 2, {4, 8}},
        {"fc.bias", 1, {4}},
    };
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    struct bst_tensors *r = NULL;
    ok(bst_trainer_save(t, BST_STATE_WEIGHTS, weights));
    ok(bst_tensors_open(weights, &r));
    assert_int_equal(bst_tensors_count(r), 12);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct bst_tensor *x = bst_tensors_find(r, want[i].name);
        if (!x)
            fail_msg("no %s", want[i].name);
        assert_int_equal(x->dtype, BST_DT_F32);
        assert_int_equal(x->rank, want[i].rank);
        assert_memory_equal(x->d, want[i].d, (size_t)x->rank * sizeof *x->d);
    }
    double mean[8], var[8];
    ok(bst_tensors_read(r, bst_tensors_find(r, "bn1.running_mean"), mean));
    ok(bst_tensors_read(r, bst_tensors_find(r, "bn1.running_var"), var));
    for (int i = 0; i < 8; i++)
        assert_true(mean[i] == 0 && var[i] == 1);
    bst_tensors_close(r);
    ok(bst_trainer_save(t, BST_STATE_OPTIMIZER, momenta));
    ok(bst_tensors_open(momenta, &r));
    assert_int_equal(bst_tensors_count(r), 8);
    assert_non_null(bst_tensors_find(r, "momentum.conv1.weight"));
    bst_tensors_close(r);
    bst_trainer_close(t);
}

/* Kaiming normal over fan-out for convolutions, ±1/√fan-in for the linear layer: their deviations.
 */
static void starting_values_are_what_they_should_be(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref64");
    struct bst_tensors *r = NULL;
    double w[8 * 8 * 9], sum = 0, sum2 = 0;
    int n = 0;
    for (uint64_t seed = 0; seed < 12; seed++) {
        cfg.seed = seed;
        struct bst_trainer *t = train_open(&cfg);
        ok(bst_trainer_save(t, BST_STATE_WEIGHTS, weights));
        ok(bst_tensors_open(weights, &r));
        ok(bst_tensors_read(r, bst_tensors_find(r, "conv2.weight"), w));
        for (int i = 0; i < 576; i++, n++) {
            sum += w[i];
            sum2 += w[i] * w[i];
        }
        ok(bst_tensors_read(r, bst_tensors_find(r, "fc.weight"), w));
        for (int i = 0; i < 32; i++)
            assert_true(fabs(w[i]) <= 1 / sqrt(8));
        ok(bst_tensors_read(r, bst_tensors_find(r, "fc.bias"), w));
        for (int i = 0; i < 4; i++)
            assert_true(fabs(w[i]) <= 1 / sqrt(8) && w[i] != 0);
        bst_tensors_close(r);
        bst_trainer_close(t);
    }
    double want = 2.0 / (8 * 9); /* variance; its estimate deviates by √(2/n) of it */
    assert_true(fabs(sum2 / n - want) < 5 * want * sqrt(2.0 / n));
    assert_true(fabs(sum / n) < 5 * sqrt(want / n));
}

/* The same numbers for every backend, rank count and thread count. */
static void a_seed_means_one_start(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    uint32_t want = train_hash(t);
    bst_trainer_close(t);
    for (int ranks = 1; ranks <= 3; ranks++) {
        cfg = train_cfg(&train_bn_net, bst_backend_find("cpu") ? "cpu" : "ref");
        cfg.ranks = ranks;
        cfg.threads = 3 - ranks > 0 ? 3 - ranks : 1;
        t = train_open(&cfg);
        assert_int_equal(train_hash(t), want);
        ok(bst_trainer_compare_ranks(t));
        bst_trainer_close(t);
    }
}

static void a_new_head_starts_anew_and_says_so(void **state)
{
    (void)state;
    char note[300];
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    train_some(t, 1, 12, 1);
    ok(bst_trainer_save(t, BST_STATE_WEIGHTS, weights));
    ok(bst_trainer_load(t, BST_STATE_WEIGHTS, weights, true, note, sizeof note));
    assert_string_equal(note, "");
    bst_trainer_close(t);
    cfg.net_cfg.classes = 6;
    t = train_open(&cfg);
    uint32_t before = train_hash(t);
    assert_int_equal(bst_trainer_load(t, BST_STATE_WEIGHTS, weights, false, NULL, 0), BST_E_SHAPE);
    assert_non_null(strstr(bst_err_text(), "\"fc.weight\" is [4, 8], the net has [6, 8]"));
    assert_int_equal(train_hash(t), before);
    ok(bst_trainer_load(t, BST_STATE_WEIGHTS, weights, true, note, sizeof note));
    assert_string_equal(note,
                        "fc.weight starts anew (the file has [4, 8], the net [6, 8]), fc.bias "
                        "starts anew (the file has [4], the net [6])");
    bst_trainer_close(t);
}

/* A file made by hand: names as given, [8] unless it is one of the others'. */
static void write_file(const char *const *names, int n)
{
    struct bst_tensors_writer *w = bst_tensors_writer_new(BST_DT_F32);
    double zeros[8 * 8 * 9] = {0};
    for (int i = 0; i < n; i++)
        bst_tensors_writer_add(w, names[i], 1, (int64_t[]){8});
    ok(bst_tensors_writer_start(w, other));
    for (int i = 0; i < n; i++)
        ok(bst_tensors_writer_put(w, zeros, 8));
    ok(bst_tensors_writer_finish(w));
    bst_tensors_writer_free(w);
}

static void what_does_not_belong_is_named(void **state)
{
    (void)state;
    static const char *const unknown[] = {"bn1.num_batches_tracked", "layer7.\x1b[31mweight"};
    static const char *const missing[] = {"bn1.num_batches_tracked", "bn1.weight"};
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    uint32_t before = train_hash(t);
    write_file(unknown, 2);
    assert_int_equal(bst_trainer_load(t, BST_STATE_WEIGHTS, other, true, NULL, 0), BST_E_NOTFOUND);
    assert_non_null(strstr(bst_err_text(), "layer7."));
    assert_null(strchr(bst_err_text(), 27));
    write_file(missing, 2);
    assert_int_equal(bst_trainer_load(t, BST_STATE_WEIGHTS, other, false, NULL, 0), BST_E_NOTFOUND);
    assert_non_null(strstr(bst_err_text(), "no tensor \"conv1.weight\""));
    assert_int_equal(bst_trainer_load(t, BST_STATE_OPTIMIZER, other, false, NULL, 0),
                     BST_E_NOTFOUND);
    assert_int_equal(bst_trainer_load(t, BST_STATE_WEIGHTS, "/nonexistent", false, NULL, 0),
                     BST_E_NOTFOUND);
    ok(bst_trainer_save(t, BST_STATE_WEIGHTS, weights));
    assert_int_equal(truncate(weights, 3000), 0);
    assert_int_equal(bst_trainer_load(t, BST_STATE_WEIGHTS, weights, false, NULL, 0),
                     BST_E_CORRUPT);
    assert_int_equal(train_hash(t), before);
    bst_trainer_close(t);
}

static void a_rewind_is_exact(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    cfg.ranks = 2;
    struct bst_trainer *t = train_open(&cfg);
    assert_int_equal(bst_trainer_rewind(t), BST_E_STATE);
    train_some(t, 2, 12, 1);
    uint32_t held = train_hash(t);
    ok(bst_trainer_hold(t));
    train_some(t, 2, 17, 2);
    uint32_t later = train_hash(t);
    ok(bst_trainer_rewind(t));
    assert_int_equal(train_hash(t), held);
    ok(bst_trainer_compare_ranks(t));
    train_some(t, 2, 17, 2);
    assert_int_equal(train_hash(t), later);
    ok(bst_trainer_hold(t));
    train_some(t, 1, 12, 1);
    ok(bst_trainer_rewind(t));
    assert_int_equal(train_hash(t), later);
    bst_trainer_close(t);
}

static double some_norm(struct bst_trainer *t)
{
    int n;
    return bst_trainer_layers(t, &n)[0].grad_norm;
}

/* Set aside, put back several times, and the hold is another matter. */
static void what_is_kept_comes_back(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_kept *kept = NULL;
    cfg.ranks = 2;
    struct bst_trainer *t = train_open(&cfg);
    train_some(t, 1, 12, 1);
    uint32_t held = train_hash(t);
    ok(bst_trainer_hold(t));
    train_some(t, 2, 12, 1);
    uint32_t before = train_hash(t);
    double norm = some_norm(t);
    ok(bst_trainer_keep(t, &kept));
    for (int i = 0; i < 2; i++) {
        train_some(t, 2, 17, 2);
        assert_int_not_equal(train_hash(t), before);
        assert_true(some_norm(t) != norm);
        ok(bst_trainer_restore(kept));
        assert_int_equal(train_hash(t), before);
        assert_true(some_norm(t) == norm);
        ok(bst_trainer_compare_ranks(t));
    }
    bst_trainer_kept_free(kept);
    bst_trainer_kept_free(NULL);
    ok(bst_trainer_rewind(t));
    assert_int_equal(train_hash(t), held);
    bst_trainer_close(t);
}

/* One batch a rank of the evaluation part, which has 21 samples. */
static void some_of_an_evaluation(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_eval_result all, some;
    cfg.eval_batch = 4;
    cfg.ranks = 2;
    struct bst_trainer *t = train_open(&cfg);
    train_some(t, 1, 12, 1);
    uint32_t before = train_hash(t);
    ok(bst_trainer_eval(t, NULL, &all));
    ok(bst_trainer_eval_some(t, NULL, &some));
    assert_int_equal(all.samples, EVAL_N);
    assert_int_equal(some.samples, 8);
    assert_true(isfinite(some.loss) && some.loss != all.loss);
    assert_int_equal(train_hash(t), before);
    bst_trainer_close(t);
}

static void put_text(const char *name, const char *text)
{
    char path[200], *slash;
    int fd = -1;
    snprintf(path, sizeof path, "%s/root/%s", dir, name);
    slash = strrchr(path, '/');
    *slash = '\0';
    ok(bst_io_make_dirs(path, 0777));
    *slash = '/';
    ok(bst_io_open_write(path, O_TRUNC, 0666, &fd));
    ok(bst_io_write_full(fd, text, strlen(text), path));
    close(fd);
}

static void limits_of_the_machine_are_read(void **state)
{
    (void)state;
    char root[100];
    snprintf(root, sizeof root, "%s/root", dir);
    assert_int_equal(bst_host_memory_at(root), 0);
    assert_int_equal(bst_host_cores_at(root, 6), 6);
    put_text("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:    2000 kB\n");
    assert_int_equal(bst_host_memory_at(root), 2000 * 1024);

    put_text("proc/self/cgroup", "0::/user.slice/job\n");
    put_text("sys/fs/cgroup/user.slice/job/memory.max", "max\n");
    put_text("sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
    assert_int_equal(bst_host_memory_at(root), 2000 * 1024);
    assert_int_equal(bst_host_cores_at(root, 6), 6);
    put_text("sys/fs/cgroup/user.slice/memory.max", "1000000\n"); /* the parent's binds */
    put_text("sys/fs/cgroup/user.slice/cpu.max", "350000 100000\n");
    assert_int_equal(bst_host_memory_at(root), 1000000);
    assert_int_equal(bst_host_cores_at(root, 6), 3);
    assert_int_equal(bst_host_cores_at(root, 2), 2);
    put_text("sys/fs/cgroup/user.slice/job/cpu.max", "20000 100000\n");
    assert_int_equal(bst_host_cores_at(root, 6), 1);

    put_text("proc/self/cgroup", "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n0::/\n");
    put_text("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "9223372036854771712\n");
    put_text("sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "-1\n");
    put_text("sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n");
    assert_int_equal(bst_host_memory_at(root), 2000 * 1024);
    assert_int_equal(bst_host_cores_at(root, 6), 6);
    put_text("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "777777\n");
    put_text("sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "200000\n");
    assert_int_equal(bst_host_memory_at(root), 777777);
    assert_int_equal(bst_host_cores_at(root, 6), 2);
    assert_true(bst_host_cores() >= 1);
    assert_true(bst_trainer_memory_default(1) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_survives_its_files),
        cmocka_unit_test(names_and_shapes_are_pytorchs),
        cmocka_unit_test(starting_values_are_what_they_should_be),
        cmocka_unit_test(a_seed_means_one_start),
        cmocka_unit_test(a_new_head_starts_anew_and_says_so),
        cmocka_unit_test(what_does_not_belong_is_named),
        cmocka_unit_test(a_rewind_is_exact),
        cmocka_unit_test(what_is_kept_comes_back),
        cmocka_unit_test(some_of_an_evaluation),
        cmocka_unit_test(limits_of_the_machine_are_read),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
