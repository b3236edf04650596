/* Updates that are sent and taken later: nothing in one waits for a device, whatever comes of them
 * has the same bits as if each had been waited for, and the result is of the update it says. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/backend/cuda/cuda.h"
#include "tests/fakes/fake.h"
#include "tests/unit/train_support.h"

enum { UPDATES = 9, WARM = 3, CALLS = 192, LAYERS = 2, MOST_LAYERS = 32 };

static void machine(int devices, uint64_t seed)
{
    struct fake_settings s;

    fake_settings_env(&s);
    s.devices = devices;
    s.seed = seed;
    s.quiet = true;
    fake_reset(&s);
}

struct way {
    int ranks, micro_batches;
    enum bst_precision precision;
    enum bst_optimizer optimizer;
    bool noise;
};

static struct bst_update_req req_of(const struct way *w, int i)
{
    struct bst_update_req req = train_req((uint64_t)i * 24, 24, w->micro_batches);

    req.max_grad_norm = i % 3 ? 0.5 : 0;
    /* What comes of that overflows, and is skipped. */
    req.lr = w->precision == BST_PRECISION_FP16 && i == 4 ? 1e6 : 0.01;
    req.noise = w->noise;
    req.layers = i % LAYERS == 0;
    return req;
}

static struct bst_trainer *open_way(const struct way *w)
{
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "cuda");

    cfg.ranks = w->ranks;
    cfg.precision = w->precision;
    cfg.optim.kind = w->optimizer;
    cfg.wait_seconds = 20;
    return train_open(&cfg);
}

/* A name that outlives its trainer. */
static const char *kept(const char *name)
{
    static char names[32][32];
    int i = 0;

    while (name && names[i][0] && strcmp(names[i], name) != 0)
        i++;
    if (name)
        snprintf(names[i], sizeof names[i], "%s", name);
    return name ? names[i] : NULL;
}

/* The layers behind each update, as they were told when it was taken. */
struct layers {
    int n;
    double grad[MOST_LAYERS], weight[MOST_LAYERS];
};
static struct layers seen[UPDATES];

static void look_at_layers(struct bst_trainer *t, struct layers *out)
{
    const struct bst_layer_norm *l = bst_trainer_layers(t, &out->n);

    assert_in_range(out->n, 1, MOST_LAYERS);
    for (int i = 0; i < out->n; i++) {
        out->grad[i] = l[i].grad_norm;
        out->weight[i] = l[i].weight_norm;
    }
}

/* Takes what is on its way down to `most`, into its places. */
static void take_to(struct bst_trainer *t, int most, struct bst_update_result *res, int *n)
{
    while (bst_trainer_sent(t) > most) {
        ok(bst_trainer_take(t, &res[*n]));
        look_at_layers(t, &seen[*n]);
        res[*n].first_nonfinite = kept(res[*n].first_nonfinite);
        ++*n;
    }
}

static void run(const struct way *w, bool late, struct bst_update_result *res, uint32_t *hash)
{
    struct bst_trainer *t = open_way(w);
    int n = 0;

    for (int i = 0; i < UPDATES; i++) {
        struct bst_update_req req = req_of(w, i);

        if (!late) { /* asked by themselves */
            req.layers = false;
            ok(bst_trainer_update(t, &req, NULL, &res[n]));
            look_at_layers(t, &seen[n]);
            res[n].first_nonfinite = kept(res[n].first_nonfinite);
            n++;
            continue;
        }
        ok(bst_trainer_send(t, &req, NULL));
        take_to(t, bst_trainer_late(t), res, &n);
    }
    take_to(t, 0, res, &n);
    assert_int_equal(n, UPDATES);
    ok(bst_trainer_compare_ranks(t));
    *hash = train_hash(t);
    bst_trainer_close(t);
    assert_int_equal(fake_leaks(), 0);
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static const char *name_of(const struct bst_update_result *r)
{
    return r->first_nonfinite ? r->first_nonfinite : "none";
}

/* The numbers that an update is told by, one after the other. */
enum { NUMBERS = 14 };
static void numbers_of(const struct bst_update_result *r, double x[NUMBERS])
{
    const double all[NUMBERS] = {
        r->loss,
        r->grad_norm,
        r->accuracy,
        r->loss_scale,
        r->skipped,
        r->clipped,
        r->lr_used,
        (double)r->n_zero,
        (double)r->samples_used,
        r->micro_largest,
        (double)r->micro_used,
        (double)r->targets_used,
        r->noise.b_small,
        r->noise.g_small,
    };

    memcpy(x, all, sizeof all);
}

static void must_be_the_same(const struct bst_update_result *a, const struct bst_update_result *b,
                             const char *what, int i)
{
    double x[NUMBERS], y[NUMBERS];

    numbers_of(a, x);
    numbers_of(b, y);
    for (int k = 0; k < NUMBERS; k++)
        if (!same(x[k], y[k]))
            fail_msg("%s, update %d: number %d is %.17g, waited for %.17g", what, i, k, x[k], y[k]);
    if (strcmp(name_of(a), name_of(b)) != 0)
        fail_msg("%s, update %d: not finite first in %s, waited for %s", what, i, name_of(a),
                 name_of(b));
}

/* Of the updates that were to bring the weights' norms, the same; of the others the gradient's. */
static void layers_must_be_the_same(const struct layers *want, const char *what)
{
    for (int i = 0; i < UPDATES; i++)
        for (int k = 0; k < want[i].n; k++) {
            if (!same(seen[i].grad[k], want[i].grad[k]))
                fail_msg("%s, update %d: layer %d's gradient has norm %.17g, waited for %.17g",
                         what, i, k, seen[i].grad[k], want[i].grad[k]);
            if (i % LAYERS == 0 && !same(seen[i].weight[k], want[i].weight[k]))
                fail_msg("%s, update %d: layer %d's norm is %.17g, waited for %.17g", what, i, k,
                         seen[i].weight[k], want[i].weight[k]);
        }
}

static void check_way(const struct way *w, uint64_t orders)
{
    struct bst_update_result want[UPDATES], got[UPDATES];
    static struct layers want_layers[UPDATES];
    uint32_t want_hash, hash;
    char what[80];
    int n_skipped = 0;

    machine(w->ranks, 0);
    run(w, false, want, &want_hash);
    memcpy(want_layers, seen, sizeof seen);
    for (int i = 0; i < UPDATES; i++)
        n_skipped += want[i].skipped;
    assert_true((n_skipped > 0) == (w->precision == BST_PRECISION_FP16));
    for (uint64_t seed = 0; seed < orders; seed++) {
        machine(w->ranks, seed);
        run(w, true, got, &hash);
        snprintf(what, sizeof what, "%d ranks, %d micro-batches, order %d", w->ranks,
                 w->micro_batches, (int)seed);
        for (int i = 0; i < UPDATES; i++)
            must_be_the_same(&got[i], &want[i], what, i);
        layers_must_be_the_same(want_layers, what);
        if (hash != want_hash)
            fail_msg("%s: the state is another", what);
    }
}

static void the_same_bits_as_when_waited_for(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        for (int k = 1; k <= 3; k += 2)
            check_way(&(struct way){.ranks = ranks, .micro_batches = k, .noise = k == 3}, 6);
    check_way(&(struct way){.ranks = 8, .micro_batches = 1, .noise = true}, 2);
    /* Bias is corrected by the updates that were used, which only the device knows by then. */
    check_way(&(struct way){.ranks = 2,
                            .micro_batches = 2,
                            .precision = BST_PRECISION_FP16,
                            .optimizer = BST_OPTIMIZER_ADAMW},
              6);
}

/* --- what is called, and what is waited for --- */

static unsigned long calls_of(const struct fake_call_count *calls, int n, const char *name)
{
    unsigned long all = 0;

    for (int i = 0; i < n; i++)
        for (int d = 0; d < FAKE_DEVICES_MAX && !strcmp(calls[i].name, name); d++)
            all += calls[i].n[d];
    return all;
}

/* An update on devices that keep up: of what could wait there is one kind of call, that only looks.
 * At each micro-batch whether the last but one is done, and once whether the result is there. */
static void check_calls(int ranks, int micro_batches)
{
    static const char *const waits[] = {
        "cudaStreamSynchronize",
        "cudaEventSynchronize",
        "cudaDeviceSynchronize",
        "cudaStreamQuery",
        "cudaMemcpy",
        "cudaMemset",
        "cudaMalloc",
        "cudaFree",
        "cudaHostAlloc",
        "cudaFreeHost",
        "cudaMemGetInfo",
        "ncclCommGetAsyncError",
        FAKE_PAGEABLE_COPY,
    };
    static struct fake_call_count before[CALLS], after[CALLS];
    struct bst_update_result res[UPDATES];
    const struct way w = {.ranks = ranks, .micro_batches = micro_batches, .noise = true};
    int taken = 0, n = 0, m = 0;

    machine(ranks, 0);
    struct bst_trainer *t = open_way(&w);
    for (int i = 0; i < UPDATES; i++) {
        const struct bst_update_req req = req_of(&w, i);

        if (i == WARM)
            n = fake_calls_get(before, CALLS);
        ok(bst_trainer_send(t, &req, NULL));
        take_to(t, bst_trainer_late(t), res, &taken);
    }
    m = fake_calls_get(after, CALLS);
    for (size_t k = 0; k < sizeof waits / sizeof *waits; k++)
        if (calls_of(after, m, waits[k]) != calls_of(before, n, waits[k]))
            fail_msg("%d ranks: %lu calls of %s in %d updates", ranks,
                     calls_of(after, m, waits[k]) - calls_of(before, n, waits[k]), waits[k],
                     UPDATES - WARM);
    assert_int_equal(calls_of(after, m, "cudaEventQuery") - calls_of(before, n, "cudaEventQuery"),
                     (UPDATES - WARM) * ranks * (micro_batches + 1));
    take_to(t, 0, res, &taken);
    bst_trainer_close(t);
}

static void no_call_in_an_update_waits(void **state)
{
    (void)state;
    check_calls(1, 1);
    check_calls(1, 3);
    check_calls(4, 1);
    check_calls(8, 2);
}

/* As many updates as are sent ahead, on devices that do nothing at all meanwhile. */
static void devices_that_stand_still_are_not_waited_for(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        const struct way w = {.ranks = ranks, .micro_batches = 1, .noise = true};
        struct bst_update_result want[UPDATES], res[UPDATES];
        struct fake_counts before, after;
        uint32_t hash;
        int n = 0;

        machine(ranks, 0);
        run(&w, false, want, &hash);
        machine(ranks, 0);
        struct bst_trainer *t = open_way(&w);
        for (int i = 0; i < WARM; i++) {
            const struct bst_update_req req = req_of(&w, i);
            ok(bst_trainer_update(t, &req, NULL, &res[n++]));
        }
        fake_hold(true);
        fake_counts_get(&before);
        for (int i = WARM; i < WARM + bst_trainer_late(t); i++) {
            const struct bst_update_req req = req_of(&w, i);
            ok(bst_trainer_send(t, &req, NULL));
        }
        fake_counts_get(&after);
        assert_int_equal(after.ops, before.ops);
        assert_int_equal(bst_trainer_sent(t), bst_trainer_late(t));
        fake_hold(false);
        take_to(t, 0, res, &n);
        for (int i = 0; i < n; i++)
            must_be_the_same(&res[i], &want[i], "held", i);
        bst_trainer_close(t);
        assert_int_equal(fake_leaks(), 0);
    }
}

/* --- what may be asked meanwhile --- */

static void nothing_else_is_asked_meanwhile(void **state)
{
    const struct way w = {.ranks = 2, .micro_batches = 1};
    struct bst_update_req req = req_of(&w, 0);
    struct bst_update_result res;
    struct bst_eval_result eval;
    struct bst_kept *kept;
    uint32_t hash;
    char note[8];

    (void)state;
    machine(2, 0);
    struct bst_trainer *t = open_way(&w);
    ok(bst_trainer_send(t, &req, NULL));
    assert_int_equal(bst_trainer_hash(t, &hash), BST_E_STATE);
    assert_int_equal(bst_trainer_save(t, BST_STATE_WEIGHTS, "/nowhere"), BST_E_STATE);
    assert_int_equal(bst_trainer_load(t, BST_STATE_WEIGHTS, "/nowhere", false, note, sizeof note),
                     BST_E_STATE);
    assert_int_equal(bst_trainer_compare_ranks(t), BST_E_STATE);
    assert_int_equal(bst_trainer_hold(t), BST_E_STATE);
    assert_int_equal(bst_trainer_rewind(t), BST_E_STATE);
    assert_int_equal(bst_trainer_keep(t, &kept), BST_E_STATE);
    assert_int_equal(bst_trainer_eval(t, NULL, &eval), BST_E_STATE);
    assert_int_equal(bst_trainer_set_split(t, 12, 1, NULL), BST_E_STATE);
    assert_int_equal(bst_trainer_update(t, &req, NULL, &res), BST_E_STATE);
    req.batch = 12;
    assert_int_equal(bst_trainer_send(t, &req, NULL), BST_E_STATE);
    req = req_of(&w, 1);
    ok(bst_trainer_send(t, &req, NULL));
    req = req_of(&w, 2);
    ok(bst_trainer_send(t, &req, NULL));
    assert_int_equal(bst_trainer_send(t, &req, NULL), BST_E_STATE);
    for (int i = 0; i < 3; i++)
        ok(bst_trainer_take(t, &res));
    ok(bst_trainer_hash(t, &hash));
    /* Left on their way at the end. */
    ok(bst_trainer_send(t, &req, NULL));
    bst_trainer_close(t);
    assert_int_equal(fake_leaks(), 0);
}

/* A stop drops the update that it was meant for, not those that are on their way. */
static void a_stop_drops_one(void **state)
{
    const struct way w = {.ranks = 2, .micro_batches = 3};
    struct bst_update_result want[UPDATES], res[UPDATES];
    uint32_t hash;
    atomic_int stop = 1;
    int n = 0;

    (void)state;
    machine(2, 0);
    run(&w, false, want, &hash);
    for (uint64_t seed = 0; seed < 4; seed++) {
        machine(2, seed);
        struct bst_trainer *t = open_way(&w);
        n = 0;
        for (int i = 0; i < UPDATES; i++) {
            const struct bst_update_req req = req_of(&w, i);
            if (i == 4)
                assert_int_equal(bst_trainer_send(t, &req, &stop), BST_E_CANCELLED);
            ok(bst_trainer_send(t, &req, NULL));
            take_to(t, bst_trainer_late(t), res, &n);
        }
        take_to(t, 0, res, &n);
        for (int i = 0; i < n; i++)
            must_be_the_same(&res[i], &want[i], "behind a stop", i);
        assert_int_equal(train_hash(t), hash);
        bst_trainer_close(t);
    }
}

static void a_host_is_never_late(void **state)
{
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_update_result a, b;
    const struct bst_update_req req = train_req(0, 12, 1);

    (void)state;
    struct bst_trainer *t = train_open(&cfg), *u = train_open(&cfg);
    assert_int_equal(bst_trainer_late(t), 0);
    ok(bst_trainer_send(t, &req, NULL));
    ok(bst_trainer_take(t, &a));
    ok(bst_trainer_update(u, &req, NULL, &b));
    assert_true(a.loss == b.loss && a.grad_norm == b.grad_norm);
    assert_int_equal(train_hash(t), train_hash(u));
    bst_trainer_close(t);
    bst_trainer_close(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits_as_when_waited_for),
        cmocka_unit_test(no_call_in_an_update_waits),
        cmocka_unit_test(devices_that_stand_still_are_not_waited_for),
        cmocka_unit_test(nothing_else_is_asked_meanwhile),
        cmocka_unit_test(a_stop_drops_one),
        cmocka_unit_test(a_host_is_never_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
