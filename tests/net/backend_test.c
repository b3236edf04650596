/* Whole nets on a backend: the same numbers to the bit whether values share bytes in place or not,
 * and near ref64's in every form.
 * test_net_backend BACKEND [PRECISION] */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "tests/net/net_rig.h"
#include "tests/net/random_net.h"
#include "tests/net/rounded.h"

#define N_NETS 16
#define SAMPLES 4
/* Through a dozen layers, batch norms over as few as 16 values among them, whose small deviations
 * make what comes out of them hundreds of roundings large. In 16 bits against ref64 with the same
 * roundings: a sum that comes to the other side of one is a unit off, 2⁻¹⁰ or 2⁻⁷ of it, and where
 * that decides a tie of a maximum or the sign before a ReLU, a gradient takes another way: of the
 * few values of nets this small, some per cent. */
static const double allowed_by[] = {
    [BST_PRECISION_FP32] = 2e-4,
    [BST_PRECISION_TF32] = 0.12,
    [BST_PRECISION_FP16] = 0.12,
    [BST_PRECISION_BF16] = 0.2,
};
static double allowed, worst_seen;

struct run {
    double *x; /* per slot in order: gradient or staged statistic; then the loss */
    int64_t n;
    int n_slots;
    int64_t *start; /* [n_slots + 1] */
};

static struct run run_net(const struct bst_backend *b, const struct random_net *net,
                          const struct net_batch *batch, const struct bst_compile_opts *how)
{
    struct net_rig r;
    struct run out = {0};
    struct bst_compile_opts o = *how;
    o.training = o.accumulate = true;
    net_open(&r, b, 2);
    net_compile(&r, random_net_build(net, SAMPLES), &o);
    net_alloc(&r);
    net_fill(&r, net->seed);
    net_run(&r, batch, &(struct net_pass){0, 0, false, 0.5 / SAMPLES, 0.1});
    net_run(&r, batch, &(struct net_pass){0, SAMPLES, true, 0.5 / SAMPLES, 0.1});
    out.n_slots = r.table->n_slots;
    out.start = bst_xcalloc((size_t)out.n_slots + 1, sizeof *out.start);
    for (int s = 0; s < out.n_slots; s++)
        out.start[s + 1] = out.start[s] + bst_shape_count(&r.table->slots[s].shape);
    out.n = out.start[out.n_slots] + 1;
    out.x = bst_xcalloc((size_t)out.n, sizeof *out.x);
    for (int s = 0; s < out.n_slots; s++)
        net_get(&r, s < r.table->n_trained ? BST_MEM_GRAD : BST_MEM_STAGED, s,
                out.x + out.start[s]);
    out.x[out.n - 1] = r.result.loss_sum;
    net_close(&r);
    return out;
}

static void drop(struct run *r)
{
    bst_free(r->x);
    bst_free(r->start);
}

/* Largest over the tensors of ‖got - want‖ / ‖want‖; NaN when there is one. A gradient that is 0
 * but for rounding (of a convolution's bias-like direction in front of a batch norm) is measured by
 * the net's. */
static double distance(const struct run *got, const struct run *want)
{
    double worst = 0, all = 0;
    for (int64_t i = 0; i < want->n; i++)
        all += want->x[i] * want->x[i];
    for (int s = 0; s < want->n_slots; s++) {
        double d = 0, n = 0;
        for (int64_t i = want->start[s]; i < want->start[s + 1]; i++) {
            d += (got->x[i] - want->x[i]) * (got->x[i] - want->x[i]);
            n += want->x[i] * want->x[i];
        }
        double e = sqrt(d / fmax(n, 1e-6 * all));
        if (!(e <= worst))
            worst = e;
    }
    double loss = fabs(got->x[got->n - 1] - want->x[want->n - 1]) / fabs(want->x[want->n - 1]);
    return loss <= worst ? worst : loss;
}

static int check_net(const struct bst_backend *b, enum bst_precision precision,
                     const struct random_net *net)
{
    static const struct bst_compile_opts ways[] = {
        {0}, {.no_alias = true}, {.no_fuse = true}, {.no_fuse = true, .no_alias = true}};
    struct net_batch batch;
    struct run r[4], exact[4];
    int failures = 0;
    net_batch_make(&batch, 2 * SAMPLES, net->channels, net->size, RANDOM_NET_CLASSES, net->seed);
    for (int i = 0; i < 4; i++) { /* what is fused is rounded less often */
        exact[i] = run_net(rounded_ref64(precision), net, &batch, &ways[i]);
        r[i] = run_net(b, net, &batch, &ways[i]);
        double d = distance(&r[i], &exact[i]);
        worst_seen = d <= worst_seen ? worst_seen : d;
        if (d <= allowed)
            continue;
        printf("net %d, way %d: off by %.3g of ref64\n", (int)net->seed, i, d);
        failures++;
    }
    for (int i = 0; i < 4; i += 2) {
        if (!memcmp(r[i].x, r[i + 1].x, (size_t)r[i].n * sizeof *r[i].x))
            continue;
        printf("net %d, %s: what is done in place changes a number\n", (int)net->seed,
               i ? "unfused" : "fused");
        failures++;
    }
    for (int i = 0; i < 4; i++) {
        drop(&r[i]);
        drop(&exact[i]);
    }
    net_batch_free(&batch);
    return failures;
}

int main(int argc, char **argv)
{
    const char *backend = argc > 1 ? argv[1] : "ref";
    int failures = 0, p = 0;
    while (argc > 2 && p < BST_N_PRECISIONS &&
           strcmp(argv[2], bst_precision_name((enum bst_precision)p)))
        p++;
    if (p == BST_N_PRECISIONS) {
        fprintf(stderr, "usage: test_net_backend BACKEND [PRECISION]\n");
        return 2;
    }
    if (!bst_backend_find(backend)) {
        printf("this build has no backend %s\n", backend);
        return 77;
    }
    net_use_precision((enum bst_precision)p);
    allowed = allowed_by[p];
    for (uint64_t seed = 1; seed <= N_NETS; seed++) {
        struct random_net net = {seed, 1 + (int)(seed % 3), 9 + (int)(seed % 4), seed % 6 != 5};
        failures += check_net(bst_backend_find(backend), (enum bst_precision)p, &net);
    }
    printf("%d nets, %d failures, worst %.3g of %.3g\n", N_NETS, failures, worst_seen, allowed);
    return failures ? 1 : 0;
}
