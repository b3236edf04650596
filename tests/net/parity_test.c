/* The trainer beside PyTorch, by numbers that parity.py wrote.   test_net_parity_… BACKEND
 *
 * ref64: follows PyTorch's float64 for a whole run. ref, cpu: one update at a time from the states
 * of that run (which ref64 walks through again), loss and gradients against ref64 from the same
 * state, and no worse than PyTorch's float32 is against its own float64. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/safetensors.h"
#include "tests/net/parity.h"

struct known {
    struct parity_case c;
    int updates, points, tensors;
    const int *at;        /* [points]: updates whose gradients are compared */
    const double *rows;   /* [updates][2]: loss and gradient norm */
    const double *spread; /* [updates][2]: what float64 moves when its weights are jittered */
    const double *own; /* [tensors]: error of PyTorch's float32 gradients, median of the points */
};

#include "tests/net/parity.inc"

#define N_KNOWN (int)(sizeof known / sizeof known[0])
#define LOSS_ALLOWED 1e-5
#define MAX_POINTS 20

static int follow(const struct known *k)
{
    struct parity p;
    double worst = 0;
    parity_open(&p, &k->c, "ref64", 1);
    for (int u = 0; u < k->updates; u++) {
        struct bst_update_result r = parity_update(&p, u);
        double off[2] = {fabs(r.loss - k->rows[2 * u]), fabs(r.grad_norm - k->rows[2 * u + 1])};
        for (int i = 0; i < 2; i++) {
            /* a few jittered runs may all round to the same number: a unit in the last place at
             * least */
            double moved = fmax(k->spread[2 * u + i], 0x1p-52 * fabs(k->rows[2 * u + i]));
            double times = off[i] / moved;
            if (!(times <= worst))
                worst = times;
        }
    }
    parity_close(&p);
    printf("%s: %d updates, at most %.2f times float64's own jitter off (10 allowed)\n", k->c.name,
           k->updates, worst);
    return !(worst <= 10);
}

struct files {
    char folder[64], w[96], m[96], w32[96], m32[96], g32[96], g64[96];
};

static void name_files(struct files *f)
{
    snprintf(f->folder, sizeof f->folder, "/tmp/bstune-parity-XXXXXX");
    if (!mkdtemp(f->folder)) {
        perror(f->folder);
        exit(1);
    }
    char *paths[] = {f->w, f->m, f->w32, f->m32, f->g32, f->g64};
    for (int i = 0; i < 6; i++)
        snprintf(paths[i], sizeof f->w, "%s/%d.safetensors", f->folder, i);
}

/* ‖a - b‖ / ‖b‖ of tensor i of two files written by the same net. */
static double error(struct bst_tensors *a, struct bst_tensors *b, int i)
{
    const struct bst_tensor *ta = bst_tensors_at(a, i), *tb = bst_tensors_at(b, i);
    size_t n = (size_t)tb->count;
    double *x = bst_xcalloc(n, sizeof *x), *y = bst_xcalloc(n, sizeof *y), d = 0, norm = 0;
    if (strcmp(ta->name, tb->name)) {
        printf("%s where %s should be\n", ta->name, tb->name);
        exit(1);
    }
    parity_must(bst_tensors_read(a, ta, x), ta->name);
    parity_must(bst_tensors_read(b, tb, y), tb->name);
    for (size_t k = 0; k < n; k++) {
        d += (x[k] - y[k]) * (x[k] - y[k]);
        norm += y[k] * y[k];
    }
    bst_free(x);
    bst_free(y);
    return norm > 0 ? sqrt(d / norm) : sqrt(d);
}

/* The gradients' errors, [n]. */
static void compare_gradients(const struct files *f, double *errors, int n)
{
    struct bst_tensors *a, *b;
    parity_must(bst_tensors_open(f->g32, &a), f->g32);
    parity_must(bst_tensors_open(f->g64, &b), f->g64);
    if (bst_tensors_count(b) != n) {
        printf("%d gradients, not %d\n", bst_tensors_count(b), n);
        exit(1);
    }
    for (int i = 0; i < n; i++)
        errors[i] = error(a, b, i);
    bst_tensors_close(a);
    bst_tensors_close(b);
}

/* Largest error of a state after an update, in units of what its gradient's error explains, and
 * that of the norm, which clipping hands to every tensor. The trained tensors come first in a file,
 * then the statistics. */
static double compare_states(const char *got, const char *want, const double *gradients,
                             double norm_error, int n)
{
    struct bst_tensors *a, *b;
    double worst = 0;
    parity_must(bst_tensors_open(got, &a), got);
    parity_must(bst_tensors_open(want, &b), want);
    for (int i = 0; i < bst_tensors_count(b); i++) {
        double e = error(a, b, i) / (i < n ? 1e-6 + 10 * (gradients[i] + norm_error) : 1e-5);
        if (!(e <= 1))
            printf("%s after an update: off by %.3g, its gradient by %.3g\n",
                   bst_tensors_at(b, i)->name, error(a, b, i), i < n ? gradients[i] : 0);
        worst = e <= worst ? worst : e;
    }
    bst_tensors_close(a);
    bst_tensors_close(b);
    return worst;
}

struct tally {
    double loss, state; /* largest error of an update's loss, of the state after it */
    double *errors;     /* [points][tensors] of the gradients */
};

/* From the files w and m: rounded to floats first, so that both sides start from the same numbers.
 */
static void one_point(struct parity *single, struct parity *exact, const struct files *f, int u,
                      struct tally *t, double *errors, int n)
{
    parity_load(single, f->w, f->m);
    parity_save(single, f->w32, f->m32);
    parity_load(exact, f->w32, f->m32);
    parity_gradient(single, u);
    parity_gradient(exact, u);
    parity_save(single, NULL, f->g32);
    parity_save(exact, NULL, f->g64);
    compare_gradients(f, errors, n);

    parity_load(single, f->w32, f->m32);
    parity_load(exact, f->w32, f->m32);
    struct bst_update_result got = parity_update(single, u), want = parity_update(exact, u);
    double norm_error = fabs(got.grad_norm - want.grad_norm) / want.grad_norm;
    t->loss = fmax(t->loss, fabs(got.loss - want.loss) / fabs(want.loss));
    parity_save(single, f->w32, f->m32);
    parity_save(exact, f->w, f->m);
    t->state = fmax(t->state, compare_states(f->w32, f->w, errors, norm_error, n));
    t->state = fmax(t->state, compare_states(f->m32, f->m, errors, norm_error, n));
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of tensor i over the points: where the input of a ReLU is 0 but for rounding, an error is a
 * hundred times the usual one, with PyTorch as here, by chance. */
static double median(const struct known *k, const double *errors, int i)
{
    double e[MAX_POINTS];
    BST_ASSERT(k->points <= MAX_POINTS);
    for (int p = 0; p < k->points; p++)
        e[p] = errors[p * k->tensors + i];
    qsort(e, (size_t)k->points, sizeof *e, by_size);
    return (e[(k->points - 1) / 2] + e[k->points / 2]) / 2;
}

static int judge(const struct known *k, const struct tally *t)
{
    double worst = 0;
    int at = 0;
    for (int i = 0; i < k->tensors; i++) {
        double times = median(k, t->errors, i) / k->own[i];
        if (times > worst) {
            worst = times;
            at = i;
        }
    }
    printf("%s: loss off by %.2g (%.0g allowed), gradients %.2f times PyTorch's error at worst, in "
           "tensor %d (2 allowed), state after an update off by %.2g of what that explains\n",
           k->c.name, t->loss, LOSS_ALLOWED, worst, at, t->state);
    return !(t->loss <= LOSS_ALLOWED) + !(worst <= 2) + !(t->state <= 1);
}

static int one_at_a_time(const struct known *k, const char *backend)
{
    struct parity walk, exact, single;
    struct files f;
    struct tally t = {0};
    t.errors = bst_xcalloc((size_t)k->points * (size_t)k->tensors, sizeof *t.errors);
    name_files(&f);
    parity_open(&walk, &k->c, "ref64", 1);
    parity_open(&exact, &k->c, "ref64", 1);
    parity_open(&single, &k->c, backend, 1);
    for (int u = 0, point = 0; point < k->points; u++) {
        if (k->at[point] == u) {
            parity_save(&walk, f.w, f.m);
            one_point(&single, &exact, &f, u, &t, t.errors + point * k->tensors, k->tensors);
            point++;
        }
        parity_update(&walk, u);
    }
    parity_close(&walk);
    parity_close(&exact);
    parity_close(&single);
    int failures = judge(k, &t);
    bst_free(t.errors);
    parity_must(bst_io_remove_tree(f.folder), f.folder);
    return failures;
}

int main(int argc, char **argv)
{
    const char *backend = argc > 1 ? argv[1] : "ref64";
    int failures = 0;
    if (!bst_backend_find(backend)) {
        printf("this build has no backend %s\n", backend);
        return 77;
    }
    if (access("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz", R_OK)) {
        printf("Fashion-MNIST is not there (dataset-fashion-mnist)\n");
        return 77;
    }
    for (int i = 0; i < N_KNOWN; i++) {
        if (!strcmp(backend, "ref64"))
            failures += follow(&known[i]);
        else if (i) /* the first has nothing that the second has not */
            failures += one_at_a_time(&known[i], backend);
    }
    return failures ? 1 : 0;
}
