#include "core/tune/noise.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/err.h"
#include "core/base/order.h"
#include "core/base/rng.h"

enum {
    DRAWS = 800,
    LEAST_BLOCKS = 8, /* fewer say little about their own spread */
};
static const double least_effective = 6; /* of them, by (Σw)²/Σw²: the rest is too old to count */
static const double widest = 10;         /* high / low of an answer */

const char *bst_noise_state_text(enum bst_noise_state s)
{
    static const char *const texts[] = {
#define X(name, text) text,
        BST_NOISE_STATES(X)
#undef X
    };
    return texts[s];
}

bool bst_noise_estimate(const struct bst_noise_pair *p, double *grad_sq, double *trace)
{
    if (!(p->b_small > 0) || !(p->b_big > p->b_small) || !isfinite(p->g_small) ||
        !isfinite(p->g_big))
        return false;
    *grad_sq = (p->b_big * p->g_big - p->b_small * p->g_small) / (p->b_big - p->b_small);
    *trace = (p->g_small - p->g_big) / (1 / p->b_small - 1 / p->b_big);
    return isfinite(*grad_sq) && isfinite(*trace);
}

void bst_noise_init(struct bst_noise *n, double span)
{
    BST_ASSERT(span >= 1);
    *n = (struct bst_noise){.keep = exp(-1 / span)};
}

static void merge(struct bst_noise_block *to, const struct bst_noise_block *from)
{
    to->weight += from->weight;
    to->grad_sq += from->grad_sq;
    to->trace += from->trace;
}

static struct bst_noise_block *new_block(struct bst_noise *n)
{
    if (n->n_blocks == BST_NOISE_BLOCKS) {
        merge(&n->blocks[1], &n->blocks[0]);
        n->n_blocks--;
        for (int i = 0; i < n->n_blocks; i++)
            n->blocks[i] = n->blocks[i + 1];
    }
    n->blocks[n->n_blocks] = (struct bst_noise_block){0};
    n->n_newest = 0;
    return &n->blocks[n->n_blocks++];
}

bool bst_noise_add(struct bst_noise *n, const struct bst_noise_pair *p)
{
    double grad_sq, trace;
    for (int i = 0; i < n->n_blocks; i++) {
        n->blocks[i].weight *= n->keep;
        n->blocks[i].grad_sq *= n->keep;
        n->blocks[i].trace *= n->keep;
    }
    if (!bst_noise_estimate(p, &grad_sq, &trace))
        return false;
    bool full = !n->n_blocks || n->n_newest == BST_NOISE_BLOCK;
    struct bst_noise_block *b = full ? new_block(n) : &n->blocks[n->n_blocks - 1];
    merge(b, &(struct bst_noise_block){1, grad_sq, trace});
    n->n_pairs++;
    return ++n->n_newest == BST_NOISE_BLOCK;
}

static double ratio_of(const struct bst_noise_block *sum)
{
    /* No gradient beyond the noise: any batch would do. */
    return sum->grad_sq > 0 ? fmax(sum->trace, 0) / sum->grad_sq : INFINITY;
}

/* Blocks of the same weight that would tell as much; 0: there is nothing. */
static double effective_blocks(const struct bst_noise *n)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < n->n_blocks; i++) {
        sum += n->blocks[i].weight;
        squares += n->blocks[i].weight * n->blocks[i].weight;
    }
    return squares > 0 ? sum * sum / squares : 0;
}

/* The share of draws on each side that makes the interval of n blocks as wide as Student's: a draw
 * of n varies by √((n-1)/n) of what it should, and knows its own spread from n blocks only
 * (Hesterberg 2015, "What teachers should know about the bootstrap", expanded percentiles). */
static double tail_of(double n)
{
    const double z = 1.959963984540054, f = n - 1, z3 = z * z * z, z5 = z3 * z * z;
    /* Student's t from the normal (Abramowitz and Stegun 26.7.5): four digits from 5 degrees on. */
    double t = z + (z3 + z) / (4 * f) + (5 * z5 + 16 * z3 + 3 * z) / (96 * f * f) +
               (3 * z5 * z * z + 19 * z5 + 17 * z3 - 15 * z) / (384 * f * f * f);
    return erfc(t * sqrt(n / f) / sqrt(2)) / 2;
}

/* Percentiles of the ratio over blocks drawn with replacement (Künsch 1989, for weighted sums: a
 * block brings its weight along, so that the spread is that of the moving averages). */
static void bootstrap(const struct bst_noise *n, double effective, double *low, double *high)
{
    double drawn[DRAWS];
    struct bst_rng rng;
    bst_rng_init(&rng, 0, BST_RNG_BOOTSTRAP, n->n_pairs);
    for (int d = 0; d < DRAWS; d++) {
        struct bst_noise_block sum = {0};
        for (int i = 0; i < n->n_blocks; i++)
            merge(&sum, &n->blocks[bst_rng_below(&rng, (uint32_t)n->n_blocks)]);
        drawn[d] = ratio_of(&sum);
    }
    bst_order(drawn, DRAWS);
    int cut = (int)(tail_of(effective) * DRAWS);
    *low = drawn[cut];
    *high = drawn[DRAWS - 1 - cut];
}

void bst_noise_ask(const struct bst_noise *n, struct bst_noise_answer *out)
{
    struct bst_noise_block sum = {0};
    *out = (struct bst_noise_answer){.state = BST_NOISE_FEW, .n_pairs = n->n_pairs};
    for (int i = 0; i < n->n_blocks; i++)
        merge(&sum, &n->blocks[i]);
    if (sum.weight > 0) {
        out->grad_sq = sum.grad_sq / sum.weight;
        out->trace = sum.trace / sum.weight;
    }
    /* A negative |G|² is the oracle's "unknown", however few updates it comes from. */
    if (sum.weight > 0 && !(sum.grad_sq > 0)) {
        out->state = BST_NOISE_NO_GRADIENT;
        return;
    }
    double effective = effective_blocks(n);
    if (n->n_blocks < LEAST_BLOCKS || effective < least_effective)
        return;
    out->scale = ratio_of(&sum);
    bootstrap(n, effective, &out->low, &out->high);
    bool narrow = out->low > 0 && out->high <= widest * out->low;
    out->state = narrow ? BST_NOISE_KNOWN : BST_NOISE_WIDE;
}

double bst_noise_efficiency(double scale, double b0, double b)
{
    return (scale + b0) / (scale + b);
}

void bst_noise_range(double scale, double *least, double *most)
{
    *least = fmax(scale / 2, 1);
    *most = fmax(scale * 2, 1);
}
