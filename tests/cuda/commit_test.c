/* The end of an update on the device, on the fakes: beside the pieces it is made of, as ref64 has
 * them, and the loss scale beside GradScaler's rules, on 1 to 8 devices, eager and captured. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/backend/cuda/be.h"
#include "core/base/rng.h"
#include "tests/fakes/fake.h"

/* Three parameters with padding between them, as a table lays them out; then statistics. */
enum { N_PARAMS = 3, FLOATS = 192, STATS = 8, DEVICES = 8 };
static const int sizes[N_PARAMS] = {35, 5, 17};

enum { WEIGHT, GRAD, FIRST, SECOND, N_BLOCKS };

struct rank {
    const struct bst_backend *b;
    struct bst_be *be;
    int device; /* -1: none */
    void *block[N_BLOCKS];
    void *staged, *stats;
};

#define ok(expr) check((expr), #expr)
static void check(enum bst_err err, const char *what)
{
    if (err)
        fail_msg("%s: %s", what, bst_err_text());
}

/* One thread plays all ranks. */
static void use(const struct rank *r)
{
    if (r->device >= 0)
        assert_int_equal(cudaSetDevice(r->device), cudaSuccess);
}

static void open_rank(struct rank *r, const char *backend, int rank, enum bst_precision p)
{
    const struct bst_be_cfg cfg = {.rank = rank, .threads = 1, .precision = p};

    r->b = bst_backend_find(backend);
    r->device = strcmp(backend, "cuda") ? -1 : rank;
    const size_t real = (size_t)r->b->elem_bytes;
    ok(r->b->open(&cfg, &r->be));
    for (int i = 0; i < N_BLOCKS; i++)
        ok(r->b->alloc(r->be, FLOATS * real, &r->block[i]));
    ok(r->b->alloc(r->be, STATS * real, &r->staged));
    ok(r->b->alloc(r->be, STATS * real, &r->stats));
}

static void close_rank(struct rank *r)
{
    const size_t real = (size_t)r->b->elem_bytes;

    use(r);
    for (int i = 0; i < N_BLOCKS; i++)
        r->b->free(r->be, r->block[i], FLOATS * real);
    r->b->free(r->be, r->staged, STATS * real);
    r->b->free(r->be, r->stats, STATS * real);
    r->b->close(r->be);
}

static void put(struct rank *r, void *block, const float *x, int n)
{
    double wide[FLOATS];

    use(r);
    for (int i = 0; i < n; i++)
        wide[i] = (double)x[i];
    if (r->b->elem_bytes == 8)
        memcpy(block, wide, (size_t)n * sizeof *wide);
    else
        ok(r->b->upload(r->be, block, x, (size_t)n * sizeof *x));
}

static void get(struct rank *r, const void *block, double *x, int n)
{
    float narrow[FLOATS];

    use(r);
    if (r->b->elem_bytes == 8) {
        memcpy(x, block, (size_t)n * sizeof *x);
        return;
    }
    ok(r->b->download(r->be, narrow, block, (size_t)n * sizeof *narrow));
    for (int i = 0; i < n; i++)
        x[i] = (double)narrow[i];
}

static void numbers(float *x, uint64_t seed, float scale)
{
    struct bst_rng rng;

    bst_rng_init(&rng, seed, BST_RNG_TEST, 0);
    memset(x, 0, FLOATS * sizeof *x);
    for (int p = 0; p < N_PARAMS; p++)
        for (int i = 0; i < sizes[p]; i++)
            x[64 * p + i] = scale * (float)bst_rng_normal(&rng);
}

/* What is done is the same on a backend of floats and one of doubles. */
struct what {
    struct bst_param_slot params[N_PARAMS];
    struct bst_span spans[N_PARAMS];
    double factor[N_PARAMS];
    int n_spans;
    struct bst_commit commit;
};

static void describe(struct what *w, struct rank *r, enum bst_optimizer kind)
{
    const size_t real = (size_t)r->b->elem_bytes;
    const bool adaptive = kind == BST_OPTIMIZER_ADAMW || kind == BST_OPTIMIZER_LAMB;

    *w = (struct what){0};
    for (int p = 0; p < N_PARAMS; p++) {
        const size_t offset = 64 * (size_t)p * real, bytes = (size_t)sizes[p] * real;

        w->params[p].offset = offset;
        w->params[p].bytes = bytes;
        w->factor[p] = p ? 0.5 * p : 1;
        w->spans[p] =
            (struct bst_span){offset, bytes, 0.03 * w->factor[p], p == 1 ? 0 : 0.01, p != 1};
    }
    w->commit = (struct bst_commit){
        .params = w->params,
        .factor = w->factor,
        .n_params = N_PARAMS,
        .spans = w->spans,
        .n_spans = N_PARAMS,
        .optim = {.kind = kind,
                  .beta1 = 0.9,
                  .beta2 = 0.99,
                  .epsilon = 1e-6,
                  .momentum = adaptive ? 0 : 0.9,
                  .trust = 0.02},
        .blocks = {.weight = r->block[WEIGHT],
                   .grad = r->block[GRAD],
                   .state = {r->block[FIRST], adaptive ? r->block[SECOND] : NULL}},
        .momentum_factor = 1,
        .staged = r->staged,
        .statistics = r->stats,
        .state_bytes = STATS * real,
    };
}

static struct bst_commit_result commit(struct rank *r, const struct bst_commit *how,
                                       double *squares)
{
    struct bst_commit_result out = {.sum_squares = squares};

    use(r);
    ok(r->b->commit(r->be, how));
    ok(r->b->committed(r->be, &out));
    return out;
}

/* --- beside the pieces --- */

/* The same in ref64, one after the other, from a gradient that is `scale` times too large. */
static struct bst_commit_result piece_by_piece(struct rank *r, struct bst_commit *how, double scale,
                                               uint64_t step, double *squares)
{
    struct bst_commit_result out = {.first_nonfinite = -1, .last_nonfinite = -1};
    double total = 0, coefficient = 1;

    for (int p = 0; p < N_PARAMS; p++) {
        ok(r->b->sum_squares(r->be, (char *)r->block[GRAD] + how->params[p].offset,
                             how->params[p].bytes, &squares[p]));
        squares[p] /= scale * scale;
        total += how->factor[p] > 0 ? squares[p] : 0;
        out.n_zero += how->factor[p] > 0 && squares[p] == 0;
    }
    out.grad_norm = sqrt(total);
    if (how->max_grad_norm > 0 && how->max_grad_norm / (out.grad_norm + 1e-6) < 1) {
        coefficient = how->max_grad_norm / (out.grad_norm + 1e-6);
        out.clipped = true;
    }
    how->optim.grad_factor = coefficient / scale;
    how->optim.step = step;
    if (how->momentum_factor != 1)
        ok(r->b->scale(r->be, r->block[FIRST], how->momentum_factor, FLOATS * sizeof(double)));
    if (how->optim.kind != BST_OPTIMIZER_SGD) {
        ok(r->b->optimize(r->be, &how->optim, how->spans, how->n_spans, &how->blocks));
    } else {
        for (int i = 0; i < how->n_spans; i++) {
            const struct bst_span *s = &how->spans[i];
            const struct bst_sgd sgd = {s->lr,
                                        how->optim.momentum,
                                        s->weight_decay,
                                        how->optim.grad_factor,
                                        how->optim.nesterov,
                                        false};
            char *v = how->blocks.state[0];
            ok(r->b->sgd(r->be, &sgd, (char *)r->block[WEIGHT] + s->offset,
                         v ? v + s->offset : NULL, (char *)r->block[GRAD] + s->offset, s->bytes));
        }
    }
    ok(r->b->copy(r->be, r->stats, r->staged, how->state_bytes));
    return out;
}

static void near(const struct rank *got, const struct rank *want, int block, const char *what,
                 double allowed)
{
    double x[FLOATS], y[FLOATS];

    get((struct rank *)got, got->block[block], x, FLOATS);
    get((struct rank *)want, want->block[block], y, FLOATS);
    for (int i = 0; i < FLOATS; i++)
        if (!(fabs(x[i] - y[i]) <= allowed * fmax(1, fabs(y[i]))))
            fail_msg("%s: block %d, element %d is %.9g, not %.9g", what, block, i, x[i], y[i]);
}

struct way {
    enum bst_optimizer kind;
    bool nesterov, clips, frozen, no_momentum;
    enum bst_precision precision;
};

static void set(struct what *w, const struct way *way, int update)
{
    w->commit.optim.nesterov = way->nesterov;
    w->commit.max_grad_norm = way->clips ? 1.5 : 0;
    if (way->no_momentum) {
        w->commit.optim.momentum = 0;
        w->commit.blocks.state[0] = NULL;
    } else if (!w->commit.blocks.state[1] && update == 2) {
        w->commit.momentum_factor = 1.25;
    }
    if (way->frozen) { /* the first, which has no span */
        w->factor[0] = 0;
        memmove(w->spans, w->spans + 1, 2 * sizeof *w->spans);
        w->commit.n_spans = 2;
    }
}

static void check_way(const struct way *way)
{
    const double scale = way->precision == BST_PRECISION_FP16 ? 1024 : 1;
    const struct bst_commit_state start = {.loss_scale = scale, .steps = 0};
    struct rank got, want;
    struct what w_got, w_want;
    float x[FLOATS], stats[STATS];
    double squares[2][N_PARAMS], y[2][STATS];

    open_rank(&got, "cuda", 0, way->precision);
    open_rank(&want, "ref64", 0, BST_PRECISION_FP32);
    ok(got.b->set_commit_state(got.be, &start));
    numbers(x, 1, 1);
    put(&got, got.block[WEIGHT], x, FLOATS);
    put(&want, want.block[WEIGHT], x, FLOATS);
    for (int u = 0; u < 5; u++) {
        numbers(x, 100 + (uint64_t)u, (float)scale);
        if (u == 3)
            memset(x + 64, 0, 5 * sizeof *x);
        put(&got, got.block[GRAD], x, FLOATS);
        put(&want, want.block[GRAD], x, FLOATS);
        for (int i = 0; i < STATS; i++)
            stats[i] = (float)(u * STATS + i);
        put(&got, got.staged, stats, STATS);
        put(&want, want.staged, stats, STATS);
        describe(&w_got, &got, way->kind);
        describe(&w_want, &want, way->kind);
        set(&w_got, way, u);
        set(&w_want, way, u);
        const struct bst_commit_result g = commit(&got, &w_got.commit, squares[0]);
        const struct bst_commit_result r =
            piece_by_piece(&want, &w_want.commit, scale, (uint64_t)u + 1, squares[1]);
        assert_true(fabs(g.grad_norm - r.grad_norm) <= 1e-12 * r.grad_norm);
        for (int p = 0; p < N_PARAMS; p++)
            assert_true(fabs(squares[0][p] - squares[1][p]) <= 1e-12 * squares[1][p]);
        assert_int_equal(g.clipped, r.clipped);
        assert_int_equal(g.n_zero, r.n_zero);
        assert_int_equal(g.first_nonfinite, -1);
        assert_int_equal(g.last_nonfinite, -1);
        assert_false(g.skipped);
        assert_true(g.loss_scale == scale && g.after.loss_scale == scale);
        assert_int_equal(g.after.steps, u + 1);
        get(&got, got.stats, y[0], STATS);
        get(&want, want.stats, y[1], STATS);
        assert_memory_equal(y[0], y[1], sizeof y[0]);
    }
    /* Five updates of some ten roundings each; lamb's and lars's rates are norms' ratios. */
    for (int b = 0; b < N_BLOCKS; b++)
        if (b != GRAD)
            near(&got, &want, b, bst_optimizer_info(way->kind)->name, 50 * 0x1p-24);
    close_rank(&got);
    close_rank(&want);
}

static void a_commit_is_what_its_pieces_are(void **state)
{
    (void)state;
    for (int k = 0; k < BST_N_OPTIMIZERS; k++) {
        const enum bst_optimizer kind = (enum bst_optimizer)k;

        check_way(&(struct way){.kind = kind});
        check_way(&(struct way){.kind = kind, .clips = true});
        check_way(&(struct way){.kind = kind, .frozen = true});
        check_way(&(struct way){.kind = kind, .clips = true, .precision = BST_PRECISION_FP16});
        if (bst_optimizer_info(kind)->momentum)
            check_way(&(struct way){.kind = kind, .nesterov = true});
    }
    check_way(&(struct way){.kind = BST_OPTIMIZER_SGD, .no_momentum = true});
}

/* The slot that is called by itself, with the count of steps and the factor given. */
static void optimizers_beside_ref64(void **state)
{
    (void)state;
    for (int k = BST_OPTIMIZER_ADAMW; k < BST_N_OPTIMIZERS; k++) {
        struct rank r[2];
        struct what w;
        float x[FLOATS];

        open_rank(&r[0], "cuda", 0, BST_PRECISION_FP32);
        open_rank(&r[1], "ref64", 0, BST_PRECISION_FP32);
        for (int u = 0; u < 20; u++) {
            for (int i = 0; i < 2; i++) {
                numbers(x, u ? 100 + (uint64_t)u : 1, 1);
                put(&r[i], r[i].block[u ? GRAD : WEIGHT], x, FLOATS);
                if (!u)
                    continue;
                describe(&w, &r[i], (enum bst_optimizer)k);
                w.commit.optim.step = (uint64_t)u;
                w.commit.optim.grad_factor = u % 4 == 3 ? 0.5 : 1;
                ok(r[i].b->optimize(r[i].be, &w.commit.optim, w.spans, N_PARAMS, &w.commit.blocks));
            }
        }
        near(&r[0], &r[1], WEIGHT, bst_optimizer_info((enum bst_optimizer)k)->name, 200 * 0x1p-24);
        close_rank(&r[0]);
        close_rank(&r[1]);
    }
}

/* LARS: ‖w‖ 5, ‖g‖ 1, η 0.001, λ 5e-5 give 0.004998750312421895; not trusted, or with no gradient,
 * the rate is its own. */
static void a_known_layer_wise_rate(void **state)
{
    struct rank r;
    struct what w;

    (void)state;
    for (int way = 0; way < 3; way++) {
        float x[FLOATS] = {3, 4}, g[FLOATS] = {way < 2 ? 1 : 0};
        const double local = way ? 1 : 0.004998750312421895;
        double y[2];

        open_rank(&r, "cuda", 0, BST_PRECISION_FP32);
        put(&r, r.block[WEIGHT], x, FLOATS);
        put(&r, r.block[GRAD], g, FLOATS);
        describe(&w, &r, BST_OPTIMIZER_LARS);
        w.spans[0] = (struct bst_span){0, w.params[0].bytes, 1, 5e-5, way != 1};
        w.commit.optim.momentum = 0;
        w.commit.optim.trust = 0.001;
        w.commit.optim.grad_factor = 1;
        ok(r.b->optimize(r.be, &w.commit.optim, w.spans, 1, &w.commit.blocks));
        get(&r, r.block[WEIGHT], y, 2);
        for (int i = 0; i < 2; i++) {
            const double want = (double)x[i] - local * ((double)g[i] + 5e-5 * (double)x[i]);

            assert_true(fabs(y[i] - want) <= 2 * 0x1p-24 * 4);
        }
        close_rank(&r);
    }
}

/* --- the loss scale --- */

/* Everything that an update may move. */
struct snapshot {
    double block[N_BLOCKS][FLOATS], stats[STATS];
};

static void look(struct rank *r, struct snapshot *s)
{
    memset(s, 0, sizeof *s);
    for (int i = 0; i < N_BLOCKS; i++)
        if (i != GRAD)
            get(r, r->block[i], s->block[i], FLOATS);
    get(r, r->stats, s->stats, STATS);
}

static void skipped_updates_move_nothing_and_say_where(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct rank r;
    struct what w;
    struct snapshot before, after;
    float x[FLOATS];
    double squares[N_PARAMS];

    (void)state;
    for (int i = 0; i < 3 * BST_N_OPTIMIZERS * N_PARAMS; i++) {
        const int p = i % 3, kind = i / 9;
        const struct bst_commit_state start = {.loss_scale = 65536, .good = 7, .steps = 41};

        open_rank(&r, "cuda", 0, BST_PRECISION_FP16);
        ok(r.b->set_commit_state(r.be, &start));
        for (int b = 0; b < N_BLOCKS; b++) {
            numbers(x, (uint64_t)b + 9, 1);
            for (int k = 0; k < FLOATS; k++)
                x[k] = b == SECOND ? fabsf(x[k]) : x[k];
            if (b == GRAD)
                x[64 * p + sizes[p] - 1] = bad[i / 3 % 3];
            put(&r, r.block[b], x, FLOATS);
        }
        put(&r, r.staged, x, STATS);
        describe(&w, &r, (enum bst_optimizer)kind);
        look(&r, &before);
        struct bst_commit_result c = commit(&r, &w.commit, squares);
        look(&r, &after);
        assert_memory_equal(&before, &after, sizeof before);
        assert_true(c.skipped && !isfinite(c.grad_norm) && !isfinite(squares[p]));
        assert_true(isfinite(squares[(p + 1) % 3]));
        assert_int_equal(c.first_nonfinite, p);
        assert_int_equal(c.last_nonfinite, p);
        assert_true(c.loss_scale == 65536 && c.after.loss_scale == 32768);
        assert_int_equal(c.after.good, 0);
        assert_int_equal(c.after.steps, 41);
        /* A frozen one's gradient is no part of the update. */
        w.factor[p] = 0;
        c = commit(&r, &w.commit, squares);
        assert_false(c.skipped);
        assert_int_equal(c.first_nonfinite, -1);
        assert_int_equal(c.after.steps, 42);
        close_rank(&r);
    }
}

/* From a loss that is no number everything is; both ends are told. */
static void the_first_and_the_last_are_told(void **state)
{
    struct rank r;
    struct what w;
    float x[FLOATS];
    double squares[N_PARAMS];

    (void)state;
    open_rank(&r, "cuda", 0, BST_PRECISION_FP32);
    numbers(x, 3, 1);
    x[0] = x[64] = NAN;
    put(&r, r.block[GRAD], x, FLOATS);
    describe(&w, &r, BST_OPTIMIZER_SGD);
    const struct bst_commit_result c = commit(&r, &w.commit, squares);
    assert_int_equal(c.first_nonfinite, 0);
    assert_int_equal(c.last_nonfinite, 1);
    assert_true(c.skipped && c.loss_scale == 1 && c.after.loss_scale == 1);
    close_rank(&r);
}

static void what_is_dropped_leaves_the_scale(void **state)
{
    const struct bst_commit_state start = {.loss_scale = 4096, .good = 12, .steps = 3};
    struct rank r;
    struct what w;
    struct snapshot before, after;
    float x[FLOATS];
    double squares[N_PARAMS];

    (void)state;
    open_rank(&r, "cuda", 0, BST_PRECISION_FP16);
    ok(r.b->set_commit_state(r.be, &start));
    numbers(x, 3, 1);
    put(&r, r.block[WEIGHT], x, FLOATS);
    put(&r, r.block[GRAD], x, FLOATS);
    put(&r, r.staged, (const float[STATS]){[STATS - 1] = INFINITY}, STATS);
    describe(&w, &r, BST_OPTIMIZER_SGD);
    look(&r, &before);
    const struct bst_commit_result c = commit(&r, &w.commit, squares);
    look(&r, &after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_true(c.skipped && isfinite(c.grad_norm));
    assert_true(c.after.loss_scale == 4096);
    assert_int_equal(c.after.good, 12);
    assert_int_equal(c.after.steps, 3);
    close_rank(&r);
}

/* GradScaler in its own words: growth_factor 2, backoff_factor 0.5, growth_interval 2000. */
struct oracle {
    double scale;
    int tracker;
    uint64_t steps;
};

static void oracle_update(struct oracle *o, bool found_inf)
{
    if (found_inf) {
        o->scale *= 0.5;
        o->tracker = 0;
        return;
    }
    o->steps++;
    if (++o->tracker == 2000) {
        o->scale *= 2.0;
        o->tracker = 0;
    }
}

/* Two at first, one in the middle of a count, one at its very end, and one that is the 2000th. */
static bool overflows(int update)
{
    return update == 1 || update == 2 || update == 777 || update == 4778 || update == 6778;
}

/* Every rank is given the same reduced gradient and comes to the same, update by update. */
static void check_ranks(int n, int updates, bool bad)
{
    const struct bst_commit_state start = {.loss_scale = 65536};
    struct oracle o = {.scale = 65536};
    struct rank r[DEVICES];
    struct what w[DEVICES];
    struct snapshot all[2];
    float good[FLOATS], broken[FLOATS];
    double squares[N_PARAMS];
    int held = -1; /* what the gradient block holds: 1 broken */

    numbers(good, 5, 100);
    memcpy(broken, good, sizeof good);
    broken[130] = INFINITY;
    for (int k = 0; k < n; k++) {
        open_rank(&r[k], "cuda", k, BST_PRECISION_FP16);
        ok(r[k].b->set_commit_state(r[k].be, &start));
        describe(&w[k], &r[k], BST_OPTIMIZER_SGD);
    }
    for (int u = 1; u <= updates; u++) {
        const bool now = bad && overflows(u);
        const double scale = o.scale;

        for (int k = 0; k < n && held != now; k++)
            put(&r[k], r[k].block[GRAD], now ? broken : good, FLOATS);
        held = now;
        oracle_update(&o, now);
        for (int k = 0; k < n; k++) {
            const struct bst_commit_result c = commit(&r[k], &w[k].commit, squares);

            if (c.skipped != now || c.loss_scale != scale || c.after.loss_scale != o.scale ||
                (int)c.after.good != o.tracker || c.after.steps != o.steps)
                fail_msg("%d ranks, update %d, rank %d: skipped %d, scale %g, then %g after %u "
                         "good ones, %llu steps; not %d, %g, %g, %d, %llu",
                         n, u, k, c.skipped, c.loss_scale, c.after.loss_scale, c.after.good,
                         (unsigned long long)c.after.steps, now, scale, o.scale, o.tracker,
                         (unsigned long long)o.steps);
        }
    }
    look(&r[0], &all[0]);
    for (int k = 1; k < n; k++) {
        look(&r[k], &all[1]);
        assert_memory_equal(&all[0], &all[1], sizeof all[0]);
    }
    for (int k = 0; k < n; k++)
        close_rank(&r[k]);
}

static void the_scale_follows_its_rules_on_every_rank(void **state)
{
    (void)state;
    check_ranks(1, 4001, false); /* doubled after 2000 and 4000 */
    check_ranks(1, 8800, true);
    for (int n = 2; n <= DEVICES; n++)
        check_ranks(n, n == 2 ? 2779 : 300, true);
}

/* The norm of a gradient does not know the scale that it came with, to the bit. */
static void norms_are_unscaled(void **state)
{
    struct rank r;
    struct what w;
    float x[FLOATS];
    double squares[2][N_PARAMS], norm[2];

    (void)state;
    open_rank(&r, "cuda", 0, BST_PRECISION_FP16);
    describe(&w, &r, BST_OPTIMIZER_SGD);
    for (int i = 0; i < 2; i++) {
        const struct bst_commit_state s = {.loss_scale = i ? 8192 : 1};

        numbers(x, 11, (float)s.loss_scale);
        put(&r, r.block[GRAD], x, FLOATS);
        ok(r.b->set_commit_state(r.be, &s));
        norm[i] = commit(&r, &w.commit, squares[i]).grad_norm;
    }
    assert_true(norm[0] > 1 && norm[0] == norm[1]);
    assert_memory_equal(squares[0], squares[1], sizeof squares[0]);
    close_rank(&r);
}

/* One commit captured and played again and again is as many commits. */
static void a_captured_commit_decides_at_each_replay(void **state)
{
    const struct bst_commit_state start = {.loss_scale = 65536, .good = 1990};
    struct rank r[2];
    struct what w[2];
    struct snapshot s[2];
    struct bst_commit_result c[2];
    float x[FLOATS];
    double squares[N_PARAMS];
    cudaGraph_t graph;
    cudaGraphExec_t play;

    (void)state;
    for (int i = 0; i < 2; i++) {
        open_rank(&r[i], "cuda", i, BST_PRECISION_FP16);
        ok(r[i].b->set_commit_state(r[i].be, &start));
        numbers(x, 2, 1);
        put(&r[i], r[i].block[WEIGHT], x, FLOATS);
        put(&r[i], r[i].block[GRAD], x, FLOATS);
        describe(&w[i], &r[i], BST_OPTIMIZER_LAMB);
        c[i] = commit(&r[i], &w[i].commit, squares); /* also makes what it needs */
    }
    for (int u = 0; u < 20; u++)
        c[0] = commit(&r[0], &w[0].commit, squares);
    use(&r[1]);
    assert_int_equal(cudaStreamBeginCapture(r[1].be->stream, cudaStreamCaptureModeThreadLocal),
                     cudaSuccess);
    ok(r[1].b->commit(r[1].be, &w[1].commit));
    assert_int_equal(cudaStreamEndCapture(r[1].be->stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphInstantiate(&play, graph, 0), cudaSuccess);
    for (int u = 0; u < 20; u++)
        assert_int_equal(cudaGraphLaunch(play, r[1].be->stream), cudaSuccess);
    c[1].sum_squares = squares;
    ok(r[1].b->committed(r[1].be, &c[1]));
    assert_true(c[0].after.loss_scale == 131072 && c[1].after.loss_scale == 131072);
    assert_int_equal(c[0].after.good, 11);
    assert_int_equal(c[1].after.good, 11);
    assert_int_equal(c[1].after.steps, 21);
    for (int i = 0; i < 2; i++)
        look(&r[i], &s[i]);
    assert_memory_equal(&s[0], &s[1], sizeof s[0]);
    cudaGraphExecDestroy(play);
    cudaGraphDestroy(graph);
    close_rank(&r[1]);
    close_rank(&r[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_is_what_its_pieces_are),
        cmocka_unit_test(optimizers_beside_ref64),
        cmocka_unit_test(a_known_layer_wise_rate),
        cmocka_unit_test(skipped_updates_move_nothing_and_say_where),
        cmocka_unit_test(the_first_and_the_last_are_told),
        cmocka_unit_test(what_is_dropped_leaves_the_scale),
        cmocka_unit_test(the_scale_follows_its_rules_on_every_rank),
        cmocka_unit_test(norms_are_unscaled),
        cmocka_unit_test(a_captured_commit_decides_at_each_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
