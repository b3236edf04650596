/* Gradients of whole random nets on ref64 against central differences of the loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "tests/net/net_rig.h"
#include "tests/net/random_net.h"

#define SAMPLES 3

static double loss_with(struct net_rig *r, const struct net_batch *b, int slot, double *w,
                        int64_t at, double value)
{
    double was = w[at];
    w[at] = value;
    net_set(r, BST_MEM_WEIGHT, slot, w);
    net_run(r, b, &(struct net_pass){0, 0, false, 1.0 / b->n, 0.1});
    w[at] = was;
    net_set(r, BST_MEM_WEIGHT, slot, w);
    return r->result.loss_sum / b->n;
}

static bool near(double slope, double gradient)
{
    return fabs(slope - gradient) <= 1e-7 + 1e-5 * fabs(gradient);
}

/* A step over the kink of a ReLU or a change of a maximum spoils a difference; a smaller step
 * avoids it. */
static double slope(struct net_rig *r, const struct net_batch *b, int slot, double *w, int64_t at,
                    double expected)
{
    double best = INFINITY;
    for (double h = 1e-5; h > 1e-9 && !near(best, expected); h /= 10) {
        double d =
            (loss_with(r, b, slot, w, at, w[at] + h) - loss_with(r, b, slot, w, at, w[at] - h)) /
            (2 * h);
        if (fabs(d - expected) < fabs(best - expected))
            best = d;
    }
    return best;
}

static void check_slot(struct net_rig *r, const struct net_batch *b, int slot, uint64_t seed)
{
    int64_t n = bst_shape_count(&r->table->slots[slot].shape);
    double *w = bst_xcalloc((size_t)n, sizeof *w), *g = bst_xcalloc((size_t)n, sizeof *g);
    struct bst_rng rng;
    bst_rng_init(&rng, seed, BST_RNG_TEST, 99 + (uint64_t)slot);
    net_get(r, BST_MEM_WEIGHT, slot, w);
    net_run(r, b, &(struct net_pass){0, 0, false, 1.0 / b->n, 0.1});
    net_get(r, BST_MEM_GRAD, slot, g);
    for (int k = 0; k < 2; k++) {
        int64_t at = bst_rng_below(&rng, (uint32_t)n);
        double d = slope(r, b, slot, w, at, g[at]);
        if (!near(d, g[at]))
            fail_msg("net %d, %s[%d]: gradient %.9g, difference %.9g", (int)seed,
                     r->table->slots[slot].name, (int)at, g[at], d);
    }
    bst_free(w);
    bst_free(g);
}

static void against_differences(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct random_net net = {seed, 1 + (int)(seed % 3), 7 + (int)(seed % 2), true};
        struct bst_compile_opts o = {.training = true, .no_fuse = seed % 2};
        struct net_batch batch;
        struct net_rig r;
        net_batch_make(&batch, SAMPLES, net.channels, net.size, RANDOM_NET_CLASSES, seed);
        net_open(&r, bst_backend_find("ref64"), 1);
        net_compile(&r, random_net_build(&net, SAMPLES), &o);
        net_alloc(&r);
        net_fill(&r, seed);
        for (int s = 0; s < r.table->n_trained; s++)
            check_slot(&r, &batch, s, seed);
        net_close(&r);
        net_batch_free(&batch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(against_differences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
