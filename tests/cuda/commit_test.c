/* The end of an update on the device, on the fakes, beside the pieces it is made of, as ref64 has
 * them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda/commit_rig.h"

/* The same in ref64, one after the other, from a gradient that is `scale` times too large. */
static struct bst_commit_result piece_by_piece(struct rig *r, struct bst_commit *how, double scale,
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

static void near(const struct rig *got, const struct rig *want, int block, const char *what,
                 double allowed)
{
    double x[FLOATS], y[FLOATS];

    rig_get((struct rig *)got, got->block[block], x, FLOATS);
    rig_get((struct rig *)want, want->block[block], y, FLOATS);
    for (int i = 0; i < FLOATS; i++)
        if (!(fabs(x[i] - y[i]) <= allowed * fmax(1, fabs(y[i]))))
            fail_msg("%s: block %d, element %d is %.9g, not %.9g", what, block, i, x[i], y[i]);
}

struct way {
    enum bst_optimizer kind;
    bool nesterov, clips, frozen, no_momentum;
    enum bst_precision precision;
};

static void set(struct rig_update *w, const struct way *way, int update)
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
    struct rig got, want;
    struct rig_update w_got, w_want;
    float x[FLOATS], stats[STATS];
    double squares[2][N_PARAMS], y[2][STATS];

    rig_open(&got, "cuda", 0, way->precision);
    rig_open(&want, "ref64", 0, BST_PRECISION_FP32);
    ok(got.b->set_commit_state(got.be, &start));
    rig_numbers(x, 1, 1);
    rig_put(&got, got.block[WEIGHT], x, FLOATS);
    rig_put(&want, want.block[WEIGHT], x, FLOATS);
    for (int u = 0; u < 5; u++) {
        rig_numbers(x, 100 + (uint64_t)u, (float)scale);
        if (u == 3)
            memset(x + 64, 0, 5 * sizeof *x);
        rig_put(&got, got.block[GRAD], x, FLOATS);
        rig_put(&want, want.block[GRAD], x, FLOATS);
        for (int i = 0; i < STATS; i++)
            stats[i] = (float)(u * STATS + i);
        rig_put(&got, got.staged, stats, STATS);
        rig_put(&want, want.staged, stats, STATS);
        rig_describe(&w_got, &got, way->kind);
        rig_describe(&w_want, &want, way->kind);
        set(&w_got, way, u);
        set(&w_want, way, u);
        const struct bst_commit_result g = rig_commit(&got, &w_got.commit, squares[0]);
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
        rig_get(&got, got.stats, y[0], STATS);
        rig_get(&want, want.stats, y[1], STATS);
        assert_memory_equal(y[0], y[1], sizeof y[0]);
    }
    /* Five updates of some ten roundings each; lamb's and lars's rates are norms' ratios. */
    for (int b = 0; b < N_BLOCKS; b++)
        if (b != GRAD)
            near(&got, &want, b, bst_optimizer_info(way->kind)->name, 50 * 0x1p-24);
    rig_close(&got);
    rig_close(&want);
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
        struct rig r[2];
        struct rig_update w;
        float x[FLOATS];

        rig_open(&r[0], "cuda", 0, BST_PRECISION_FP32);
        rig_open(&r[1], "ref64", 0, BST_PRECISION_FP32);
        for (int u = 0; u < 20; u++) {
            for (int i = 0; i < 2; i++) {
                rig_numbers(x, u ? 100 + (uint64_t)u : 1, 1);
                rig_put(&r[i], r[i].block[u ? GRAD : WEIGHT], x, FLOATS);
                if (!u)
                    continue;
                rig_describe(&w, &r[i], (enum bst_optimizer)k);
                w.commit.optim.step = (uint64_t)u;
                w.commit.optim.grad_factor = u % 4 == 3 ? 0.5 : 1;
                ok(r[i].b->optimize(r[i].be, &w.commit.optim, w.spans, N_PARAMS, &w.commit.blocks));
            }
        }
        near(&r[0], &r[1], WEIGHT, bst_optimizer_info((enum bst_optimizer)k)->name, 200 * 0x1p-24);
        rig_close(&r[0]);
        rig_close(&r[1]);
    }
}

/* LARS: ‖w‖ 5, ‖g‖ 1, η 0.001, λ 5e-5 give 0.004998750312421895; not trusted, or with no gradient,
 * the rate is its own. */
static void a_known_layer_wise_rate(void **state)
{
    struct rig r;
    struct rig_update w;

    (void)state;
    for (int way = 0; way < 3; way++) {
        float x[FLOATS] = {3, 4}, g[FLOATS] = {way < 2 ? 1 : 0};
        const double local = way ? 1 : 0.004998750312421895;
        double y[2];

        rig_open(&r, "cuda", 0, BST_PRECISION_FP32);
        rig_put(&r, r.block[WEIGHT], x, FLOATS);
        rig_put(&r, r.block[GRAD], g, FLOATS);
        rig_describe(&w, &r, BST_OPTIMIZER_LARS);
        w.spans[0] = (struct bst_span){0, w.params[0].bytes, 1, 5e-5, way != 1};
        w.commit.optim.momentum = 0;
        w.commit.optim.trust = 0.001;
        w.commit.optim.grad_factor = 1;
        ok(r.b->optimize(r.be, &w.commit.optim, w.spans, 1, &w.commit.blocks));
        rig_get(&r, r.block[WEIGHT], y, 2);
        for (int i = 0; i < 2; i++) {
            const double want = (double)x[i] - local * ((double)g[i] + 5e-5 * (double)x[i]);

            assert_true(fabs(y[i] - want) <= 2 * 0x1p-24 * 4);
        }
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_is_what_its_pieces_are),
        cmocka_unit_test(optimizers_beside_ref64),
        cmocka_unit_test(a_known_layer_wise_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
