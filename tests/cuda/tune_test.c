/* Plans chosen by measured time: on the fakes, whose engines have costs that are made up and known,
 * told by the device's own clock. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/backend/cuda/tune.h"
#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/sb.h"
#include "tests/fakes/dnn.h"
#include "tests/fakes/fake.h"
#include "tests/unit/train_support.h"

static char folder[] = "/tmp/bst-tune-XXXXXX";

enum { N_SIZES = 12 };

/* A convolution's three tensors and workspace on the device. */
struct conv {
    struct cuda_conv_ask ask;
    struct cuda_conv_places places;
    struct cuda_dnn_plan plan;
};

static struct bst_be *open_be(bool autotune)
{
    const struct bst_backend *b = bst_backend_find("cuda");
    const struct bst_be_cfg cfg = {.threads = 1, .autotune = autotune};
    struct bst_be *be = NULL;

    ok(b->open(&cfg, &be));
    return be;
}

static void close_be(struct bst_be *be)
{
    bst_backend_find("cuda")->close(be);
}

/* Of a size that is one of N_SIZES; planned as describe() does it. */
static void open_conv(struct bst_be *be, int size, struct conv *c)
{
    int n = 0;

    *c = (struct conv){.ask = {.way = (enum cuda_conv_way)(size % 3),
                               .type = CUDNN_DATA_FLOAT,
                               .n = 2 + size,
                               .c = 4,
                               .h = 9,
                               .w = 9,
                               .k = 4 + 4 * (size % 2),
                               .kernel = 3,
                               .stride = 1,
                               .pad = 1}};
    ok(cuda_conv_plans(&c->ask, be->device_props, &c->plan, 1, &n));
    c->places.room = (size_t)c->plan.workspace;
    c->places.n = 3;
    for (int i = 0; i < 3; i++)
        ok(cuda_alloc(be, 64 << 10, &c->places.at[i]));
    ok(cuda_alloc(be, c->places.room, &c->places.workspace));
}

static void close_conv(struct bst_be *be, struct conv *c)
{
    for (int i = 0; i < 3; i++)
        cuda_free(be, c->places.at[i], 64 << 10);
    cuda_free(be, c->places.workspace, c->places.room);
    cuda_dnn_plan_fini(&c->plan);
}

/* The plan's text names the engine: two of one graph are the same plan when the texts are. */
static char *text_of(const struct cuda_dnn_plan *p)
{
    char *text = NULL;
    size_t n;

    ok(cuda_dnn_plan_json(p, &text, &n));
    return text;
}

static uint64_t cost_of(const struct cuda_dnn_plan *p)
{
    const struct desc *d = p->desc;

    return dnn_cost_ns(dnn_plan_graph(d), dnn_plan_engine(d));
}

/* What is allowed, found here by the fakes' own list of costs. */
static uint64_t least_cost(struct bst_be *be, const struct conv *c)
{
    struct cuda_dnn_plan p[16];
    uint64_t least = UINT64_MAX;
    int n = 0;

    ok(cuda_conv_plans(&c->ask, be->device_props, p, 16, &n));
    for (int i = 0; i < n; i++) {
        if ((size_t)p[i].workspace <= c->places.room && cost_of(&p[i]) < least)
            least = cost_of(&p[i]);
        cuda_dnn_plan_fini(&p[i]);
    }
    return least;
}

static void the_fastest_that_fits_is_taken(void **state)
{
    int changed = 0;

    (void)state;
    struct bst_be *be = open_be(true);
    for (int size = 0; size < N_SIZES; size++) {
        struct conv c;

        open_conv(be, size, &c);
        const uint64_t first = cost_of(&c.plan);
        ok(cuda_tune(be, &c.ask, &c.places, &c.plan));
        assert_true(cost_of(&c.plan) == least_cost(be, &c));
        assert_true((size_t)c.plan.workspace <= c.places.room);
        changed += cost_of(&c.plan) < first;
        close_conv(be, &c);
    }
    assert_true(changed > 0 && changed < N_SIZES); /* sometimes, not always, the first is best */
    close_be(be);
}

/* The file that the choices are in. */
static char *kept_path(void)
{
    char *pattern = bst_xasprintf("%s/bstune/tuned-*.txt", folder);
    glob_t found;

    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    char *path = bst_xstrdup(found.gl_pathv[0]);
    globfree(&found);
    bst_free(pattern);
    return path;
}

/* A size whose first plan is not its fastest. */
static int improving_size(struct bst_be *be)
{
    for (int size = 0; size < N_SIZES; size++) {
        struct conv c;

        open_conv(be, size, &c);
        const bool improves = cost_of(&c.plan) > least_cost(be, &c);
        close_conv(be, &c);
        if (improves)
            return size;
    }
    fail_msg("no size is improved");
    return -1;
}

static uint64_t operations(void)
{
    struct fake_counts n;

    fake_counts_get(&n);
    return n.ops;
}

/* Whether `size` is settled without a run, and by which plan. */
static bool settles_quietly(struct bst_be *be, int size, uint64_t *cost)
{
    struct conv c;

    open_conv(be, size, &c);
    const uint64_t before = operations();
    ok(cuda_tune(be, &c.ask, &c.places, &c.plan));
    const bool quiet = operations() == before;
    *cost = cost_of(&c.plan);
    assert_true(*cost == least_cost(be, &c));
    close_conv(be, &c);
    return quiet;
}

static void what_was_measured_is_kept(void **state)
{
    uint64_t cost = 0;

    (void)state;
    assert_int_equal(bst_io_remove_tree(folder), BST_OK);
    struct bst_be *be = open_be(true);
    const int size = improving_size(be);
    assert_false(settles_quietly(be, size, &cost));
    assert_true(settles_quietly(be, size, &cost)); /* in the process */
    close_be(be);
    be = open_be(true);
    assert_true(settles_quietly(be, size, &cost)); /* from disk */
    close_be(be);
}

/* Whatever was done to the file, the fastest is found, by measuring again where it has to be. */
static void a_spoilt_file_costs_time_only(void **state)
{
    char *text = NULL;
    uint64_t cost = 0;
    size_t n;

    (void)state;
    assert_int_equal(bst_io_remove_tree(folder), BST_OK);
    struct bst_be *be = open_be(true);
    const int size = improving_size(be);
    settles_quietly(be, size, &cost);
    close_be(be);
    char *path = kept_path();
    assert_int_equal(bst_io_read_file(path, 1 << 20, &text, &n), BST_OK);
    char *line = strchr(text, '\n') + 1;
    for (int way = 0; way < 6; way++) {
        char *bad = bst_xstrdup(text);
        size_t length = n;

        if (way == 0)
            bad[line - text + 40] ^= 1; /* a bit, in what the line's checksum is over */
        else if (way == 1)
            bad[n - 2] ^= 1; /* in the checksum */
        else if (way == 2)
            length = n / 2; /* torn */
        else if (way == 3)
            bad[strlen("bstune tuned ")] = '9'; /* of another form */
        else if (way == 4)
            *strchr(bad, '.') = '8'; /* of another cuDNN */
        else
            length = 0;
        assert_int_equal(bst_io_replace_file(path, bad, length), BST_OK);
        be = open_be(true);
        if (settles_quietly(be, size, &cost))
            fail_msg("way %d: taken from a file that is not to be trusted", way);
        close_be(be);
        be = open_be(true); /* and what was measured has taken the place of what was spoilt */
        assert_true(settles_quietly(be, size, &cost));
        close_be(be);
        bst_free(bad);
    }
    bst_free(text);
    bst_free(path);
}

/* A line that is whole, of a plan that cuDNN does not take. */
static void a_plan_that_cudnn_refuses_is_measured_anew(void **state)
{
    char key[CUDA_CONV_KEY];
    uint64_t cost = 0;

    (void)state;
    assert_int_equal(bst_io_remove_tree(folder), BST_OK);
    struct bst_be *be = open_be(true);
    const int size = improving_size(be);
    struct conv c;
    struct bst_sb text;
    open_conv(be, size, &c);
    cuda_conv_key(&c.ask, key);
    close_conv(be, &c);
    bst_sb_init(&text, 1 << 16);
    cuda_tuned_print(be->tuned, &text); /* the heading */
    bst_sb_addf(&text, "%s = no plan of anybody's\n", key);
    cuda_tuned_take(be->tuned, text.data);
    bst_sb_fini(&text);
    assert_false(settles_quietly(be, size, &cost));
    assert_true(settles_quietly(be, size, &cost));
    close_be(be);
}

static void a_folder_that_cannot_be_written_is_no_failure(void **state)
{
    uint64_t cost = 0;

    (void)state;
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    struct bst_be *be = open_be(true);
    const int size = improving_size(be);
    assert_false(settles_quietly(be, size, &cost));
    cuda_tuned_write(be->tuned);
    assert_true(settles_quietly(be, size, &cost));
    close_be(be);
    be = open_be(true);
    assert_false(settles_quietly(be, size, &cost));
    close_be(be);
    setenv("XDG_CACHE_HOME", folder, 1);
}

/* A checkpoint's choices hold before those on disk, which may be others by then. */
static void choices_travel_as_text(void **state)
{
    uint64_t cost = 0;
    struct bst_sb text;

    (void)state;
    assert_int_equal(bst_io_remove_tree(folder), BST_OK);
    struct bst_be *be = open_be(true);
    const int size = improving_size(be);
    bst_sb_init(&text, 1 << 16);
    settles_quietly(be, size, &cost);
    bst_backend_find("cuda")->choices(be, &text);
    close_be(be);
    assert_int_equal(bst_io_remove_tree(folder), BST_OK);
    for (int other = 0; other < 2; other++) {
        char *given = bst_xstrdup(text.data);

        if (other)
            *strchr(given, '.') = '8'; /* of another cuDNN: nothing is taken */
        be = open_be(true);
        bst_backend_find("cuda")->take_choices(be, given);
        assert_true(settles_quietly(be, size, &cost) == !other);
        close_be(be);
        bst_free(given);
    }
    bst_sb_fini(&text);
}

/* Two contexts of a process come to the same plan, also where both would measure. */
static void contexts_agree(void **state)
{
    struct conv a, b;
    struct bst_be *one, *two;

    (void)state;
    assert_int_equal(bst_io_remove_tree(folder), BST_OK);
    one = open_be(true);
    two = open_be(true);
    const int size = improving_size(one);
    open_conv(one, size, &a);
    open_conv(two, size, &b);
    ok(cuda_tune(one, &a.ask, &a.places, &a.plan));
    const uint64_t before = operations();
    ok(cuda_tune(two, &b.ask, &b.places, &b.plan));
    assert_true(operations() == before);
    char *x = text_of(&a.plan), *y = text_of(&b.plan);
    assert_string_equal(x, y);
    bst_free(x);
    bst_free(y);
    close_conv(one, &a);
    close_conv(two, &b);
    close_be(one);
    close_be(two);
}

/* The trainer's updates: where nothing may be measured, nothing is kept; where it may, the numbers
 * are those of the plan that was chosen, from the first update on. */
static void a_run_tunes_only_when_it_may(void **state)
{
    char *pattern = bst_xasprintf("%s/bstune/tuned-*.txt", folder);
    double loss[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct bst_train_cfg cfg = train_cfg(&train_bn_net, "cuda");
        glob_t found;

        if (i < 2)
            assert_int_equal(bst_io_remove_tree(folder), BST_OK);
        cfg.autotune = i > 0;
        cfg.memory_per_rank = 32 << 20;
        struct bst_trainer *t = train_open(&cfg);
        loss[i] = train_some(t, 2, 12, 1).loss;
        bst_trainer_close(t);
        assert_int_equal(glob(pattern, 0, NULL, &found) == 0, i > 0);
        globfree(&found);
    }
    /* The engines of the fakes give the same bits. */
    assert_true(loss[0] == loss[1] && loss[1] == loss[2]);
    bst_free(pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_that_fits_is_taken),
        cmocka_unit_test(what_was_measured_is_kept),
        cmocka_unit_test(a_spoilt_file_costs_time_only),
        cmocka_unit_test(a_plan_that_cudnn_refuses_is_measured_anew),
        cmocka_unit_test(a_folder_that_cannot_be_written_is_no_failure),
        cmocka_unit_test(choices_travel_as_text),
        cmocka_unit_test(contexts_agree),
        cmocka_unit_test(a_run_tunes_only_when_it_may),
    };
    if (!mkdtemp(folder))
        return 1;
    setenv("XDG_CACHE_HOME", folder, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (bst_io_remove_tree(folder))
        failed++;
    return failed;
}
