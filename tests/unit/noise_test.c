/* The noise scale against its oracle, and against problems whose noise is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/rng.h"
#include "core/tune/noise.h"

static void near_rel(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        fail_msg("%.17g instead of %.17g", got, want);
}

/* B 32 and 256, g 35.25 and 7.90625 → |G|² 4, S 1000, φ 250. */
static void one_pair_gives_the_oracle(void **state)
{
    (void)state;
    struct bst_noise_pair p = {32, 35.25, 256, 7.90625};
    double grad_sq, trace;
    assert_true(bst_noise_estimate(&p, &grad_sq, &trace));
    near_rel(grad_sq, 4, 1e-12);
    near_rel(trace, 1000, 1e-12);
    struct bst_noise n;
    struct bst_noise_answer a;
    bst_noise_init(&n, BST_NOISE_SPAN);
    for (int i = 0; i < 200; i++)
        bst_noise_add(&n, &p);
    bst_noise_ask(&n, &a);
    assert_int_equal(a.state, BST_NOISE_KNOWN);
    near_rel(a.scale, 250, 1e-12);
    near_rel(a.low, 250, 1e-12);
    near_rel(a.high, 250, 1e-12);
    near_rel(a.grad_sq, 4, 1e-12);
    near_rel(a.trace, 1000, 1e-12);
}

static void efficiency_and_range(void **state)
{
    (void)state;
    near_rel(bst_noise_efficiency(250, 32, 64), 0.898089, 1e-6);
    near_rel(bst_noise_efficiency(250, 32, 256), 0.557312, 1e-6);
    near_rel(bst_noise_efficiency(250, 32, 1024), 0.221350, 1e-6);
    double least, most;
    bst_noise_range(250, &least, &most);
    near_rel(bst_noise_efficiency(250, 0, least), 2.0 / 3, 1e-12);
    near_rel(bst_noise_efficiency(250, 0, most), 1.0 / 3, 1e-12);
    bst_noise_range(0.1, &least, &most);
    assert_true(least == 1 && most == 1);
}

/* Micro-gradients g and -g: the mean of both is 0. */
static void opposite_halves_are_unknown(void **state)
{
    (void)state;
    struct bst_noise n;
    struct bst_noise_answer a;
    bst_noise_init(&n, BST_NOISE_SPAN);
    for (int i = 0; i < 100; i++) {
        bst_noise_add(&n, &(struct bst_noise_pair){64, 3, 128, 0});
        bst_noise_ask(&n, &a);
        assert_int_equal(a.state, BST_NOISE_NO_GRADIENT);
        assert_string_equal(bst_noise_state_text(a.state), "no gradient beyond the noise");
        assert_true(a.grad_sq < 0);
    }
}

static void what_says_nothing_is_left_out(void **state)
{
    (void)state;
    static const struct bst_noise_pair bad[] = {
        {64, 1, 64, 1},    {128, 1, 64, 1},        {0, 1, 64, 1},
        {64, NAN, 128, 1}, {64, 1, 128, INFINITY}, {64, 1e308, 64.0000001, 1},
    };
    struct bst_noise n;
    struct bst_noise_answer a;
    bst_noise_init(&n, 10);
    bst_noise_ask(&n, &a);
    assert_int_equal(a.state, BST_NOISE_FEW);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(bst_noise_add(&n, &bad[i]));
    assert_int_equal(n.n_pairs, 0);
}

/* An average of ratios would give 0.5 · (100 + 1) or worse; the ratio of averages is 200 / 101. */
static void ratio_of_averages(void **state)
{
    (void)state;
    struct bst_noise n;
    struct bst_noise_answer a;
    bst_noise_init(&n, 1e9);
    for (int i = 0; i < 800; i++) {
        double grad_sq = i % 2 ? 1 : 100, trace = 100;
        bst_noise_add(&n, &(struct bst_noise_pair){1, grad_sq + trace, 2, grad_sq + trace / 2});
    }
    bst_noise_ask(&n, &a);
    near_rel(a.scale, 200.0 / 101, 1e-6);
}

/* Blocks are bounded, and what they drop from the list stays in the averages. */
static void averages_are_exponential(void **state)
{
    (void)state;
    const double span = 500;
    struct bst_noise n;
    struct bst_noise_answer a;
    double keep = exp(-1 / span), weight = 0, grad_sq = 0, trace = 0;
    bst_noise_init(&n, span);
    for (int i = 0; i < 3000; i++) {
        double g = 1 + i % 7, s = 50 + i % 11;
        bst_noise_add(&n, &(struct bst_noise_pair){1, g + s, 2, g + s / 2});
        weight = weight * keep + 1;
        grad_sq = grad_sq * keep + g;
        trace = trace * keep + s;
    }
    bst_noise_ask(&n, &a);
    assert_int_equal(n.n_blocks, BST_NOISE_BLOCKS);
    assert_int_equal(a.n_pairs, 3000);
    near_rel(a.grad_sq, grad_sq / weight, 1e-9);
    near_rel(a.trace, trace / weight, 1e-9);
    near_rel(a.scale, trace / grad_sq, 1e-9);
}

/* A run that had no parts for long has none of what it knew left when it has them again. */
static void what_is_old_is_no_answer(void **state)
{
    (void)state;
    static const struct bst_noise_pair none = {0};
    struct bst_noise n;
    struct bst_noise_answer a;
    bst_noise_init(&n, BST_NOISE_SPAN);
    for (int i = 0; i < 600; i++)
        bst_noise_add(&n, &(struct bst_noise_pair){1, 101, 2, 51}); /* 1, 100 */
    for (int i = 0; i < 4000; i++)
        assert_false(bst_noise_add(&n, &none));
    bst_noise_ask(&n, &a);
    assert_int_equal(a.state, BST_NOISE_KNOWN);
    near_rel(a.scale, 100, 1e-9);
    for (int i = 0; i < 96; i++) {
        bst_noise_add(&n, &(struct bst_noise_pair){1, 11, 2, 6}); /* 1, 10 */
        bst_noise_ask(&n, &a);
        assert_int_equal(a.state, i < 48 ? BST_NOISE_FEW : BST_NOISE_KNOWN);
    }
    near_rel(a.scale, 10, 1e-4);
    near_rel(a.high, 10, 1e-4);
    assert_int_equal(a.n_pairs, 696);
}

/* ½ Σ hᵢ wᵢ², every sample's gradient with its own normal noise: what SGD sees on its way down is
 * known exactly. Curvatures and noises span a factor of ten, so that few directions carry most. */
enum { DIM = 16 };
struct quadratic {
    double h[DIM], w[DIM], variance[DIM], trace;
    struct bst_rng rng;
};

static void quadratic_init(struct quadratic *q, uint64_t seed)
{
    q->trace = 0;
    bst_rng_init(&q->rng, seed, BST_RNG_TEST, 0);
    for (int i = 0; i < DIM; i++) {
        q->h[i] = pow(10, -(double)i / (DIM - 1));
        q->w[i] = bst_rng_normal(&q->rng);
        q->variance[i] = 60 * q->h[i];
        q->trace += q->variance[i];
    }
}

/* The mean gradient over b samples. */
static void draw(struct quadratic *q, double b, double *g)
{
    for (int i = 0; i < DIM; i++)
        g[i] = q->h[i] * q->w[i] + sqrt(q->variance[i] / b) * bst_rng_normal(&q->rng);
}

static double squares(const double *x)
{
    double q = 0;
    for (int i = 0; i < DIM; i++)
        q += x[i] * x[i];
    return q;
}

/* One update of `parts` micro-batches of b samples; measured as the trainer does it. */
static struct bst_noise_pair update(struct quadratic *q, int parts, double b, bool all, double rate)
{
    double sum[DIM] = {0}, g[DIM];
    struct bst_noise_pair p = {b, 0, parts * b, 0};
    for (int k = 0; k < parts; k++) {
        draw(q, b, g);
        if (k == 0 || all)
            p.g_small += squares(g) / (all ? parts : 1);
        for (int i = 0; i < DIM; i++)
            sum[i] += g[i] / parts;
    }
    p.g_big = squares(sum);
    for (int i = 0; i < DIM; i++)
        q->w[i] -= rate * sum[i];
    return p;
}

static void cover(int parts, double b, bool all, int updates, int *covered, int *answered,
                  int *narrow)
{
    *covered = *answered = *narrow = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct quadratic q;
        struct bst_noise n;
        struct bst_noise_answer a;
        double truth = 0, weight = 0;
        quadratic_init(&q, seed);
        bst_noise_init(&n, BST_NOISE_SPAN);
        for (int i = 0; i < updates; i++) {
            double at[DIM];
            for (int k = 0; k < DIM; k++)
                at[k] = q.h[k] * q.w[k];
            truth = truth * n.keep + squares(at);
            weight = weight * n.keep + 1;
            struct bst_noise_pair p = update(&q, parts, b, all, 1e-4);
            bst_noise_add(&n, &p);
        }
        bst_noise_ask(&n, &a);
        double scale = q.trace / (truth / weight);
        *answered += a.state == BST_NOISE_KNOWN;
        *narrow += a.state == BST_NOISE_KNOWN && a.high <= 4 * a.low;
        *covered += a.low <= scale && scale <= a.high;
    }
}

static void interval_covers_the_truth(void **state)
{
    (void)state;
    static const struct {
        int parts;
        double b;
        bool all;
    } ways[] = {
        {2, 64, true},  /* two ranks */
        {8, 32, true},  /* eight ranks */
        {2, 64, false}, /* a batch split in two */
        {8, 32, false}, /* accumulation */
    };
    int few = 0;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int covered, answered, narrow;
        /* Nine blocks: their own spread is known badly, which has to show. */
        cover(ways[i].parts, ways[i].b, ways[i].all, 72, &covered, &answered, &narrow);
        print_message("after 72 updates: covered %d\n", covered);
        few += covered;
        cover(ways[i].parts, ways[i].b, ways[i].all, 500, &covered, &answered, &narrow);
        print_message("%d × %g, %s measured: covered %d, answered %d, narrow %d of 200\n",
                      ways[i].parts, ways[i].b, ways[i].all ? "all" : "the first", covered,
                      answered, narrow);
        assert_true(covered >= 180);
        assert_true(answered >= 160);
        assert_true(narrow >= 160);
    }
    assert_true(few >= 740); /* of 800; plain percentiles come to 710 */
}

/* Noise alone: an answer would be one that nothing stands behind. */
static void pure_noise_is_unknown(void **state)
{
    (void)state;
    int known = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct quadratic q;
        struct bst_noise n;
        struct bst_noise_answer a;
        quadratic_init(&q, seed);
        memset(q.w, 0, sizeof q.w);
        bst_noise_init(&n, BST_NOISE_SPAN);
        for (int i = 0; i < 300; i++) {
            struct bst_noise_pair p = update(&q, 2, 64, true, 0);
            bst_noise_add(&n, &p);
        }
        bst_noise_ask(&n, &a);
        known += a.state == BST_NOISE_KNOWN;
    }
    print_message("answered %d of 200 without a gradient\n", known);
    assert_true(known <= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_pair_gives_the_oracle),
        cmocka_unit_test(efficiency_and_range),
        cmocka_unit_test(opposite_halves_are_unknown),
        cmocka_unit_test(what_says_nothing_is_left_out),
        cmocka_unit_test(ratio_of_averages),
        cmocka_unit_test(averages_are_exponential),
        cmocka_unit_test(what_is_old_is_no_answer),
        cmocka_unit_test(interval_covers_the_truth),
        cmocka_unit_test(pure_noise_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
