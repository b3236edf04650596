/* The trainer beside PyTorch, by numbers that parity.py or seq_runs.py wrote.
 *    test_net_parity BACKEND, test_net_parity_ranks BACKEND, test_net_seq_runs BACKEND
 *
 * ref64: follows PyTorch's float64 for a whole run. ref, cpu, cuda: one update at a time from the
 * states of that run (which ref64 walks through again), loss and gradients against ref64 from the
 * same state, and no worse than PyTorch's float32 is against its own float64. Where ranks share the
 * batch, all four have it in the same parts. */
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
    const int *at;            /* [points]: updates whose gradients are compared */
    const double *rows;       /* [updates][2]: loss and gradient norm */
    const double *spread;     /* [updates][2]: what float64 moves when its weights are jittered */
    const char *const *names; /* [tensors], in PyTorch's order */
    const double
        *own;  /* [tensors]: error of PyTorch's float32 gradients, a quantile of the points */
    int ranks; /* that share the batch */
    double quantile;
};

#include PARITY_KNOWN

#define N_KNOWN (int)(sizeof known / sizeof known[0])
#define LOSS_ALLOWED 1e-5
/* Twice what PyTorch's are off by where a map is a single pixel (narrow ResNet-50, 16 a rank). */
#define STATISTICS_ALLOWED 2e-5
#define MAX_POINTS 20

static int follow(const struct known *k)
{
    struct parity p;
    double worst = 0;
    parity_open(&p, &k->c, "ref64", k->ranks);
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
    /* A save waits for the disk, and there are a thousand. */
    snprintf(f->folder, sizeof f->folder, "%s/bstune-parity-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(f->folder)) {
        perror(f->folder);
        exit(1);
    }
    char *paths[] = {f->w, f->m, f->w32, f->m32, f->g32, f->g64};
    for (int i = 0; i < 6; i++)
        snprintf(paths[i], sizeof f->w, "%s/%d.safetensors", f->folder, i);
}

/* ‖a - b‖ of tensor i of two files written by the same net; *norm becomes ‖b‖. */
static double distance(struct bst_tensors *a, struct bst_tensors *b, int i, double *norm)
{
    const struct bst_tensor *ta = bst_tensors_at(a, i), *tb = bst_tensors_at(b, i);
    size_t n = (size_t)tb->count;
    double *x = bst_xcalloc(n, sizeof *x), *y = bst_xcalloc(n, sizeof *y), d = 0, sum = 0;
    if (strcmp(ta->name, tb->name)) {
        printf("%s where %s should be\n", ta->name, tb->name);
        exit(1);
    }
    parity_must(bst_tensors_read(a, ta, x), ta->name);
    parity_must(bst_tensors_read(b, tb, y), tb->name);
    for (size_t k = 0; k < n; k++) {
        d += (x[k] - y[k]) * (x[k] - y[k]);
        sum += y[k] * y[k];
    }
    bst_free(x);
    bst_free(y);
    *norm = sqrt(sum);
    return sqrt(d);
}

/* Which of PyTorch's parameters a tensor belongs to; -1: it is a statistic. */
static int parameter_of(const struct known *k, const struct bst_tensor *t)
{
    const char *name = strncmp(t->name, "momentum.", 9) ? t->name : t->name + 9;
    for (int i = 0; i < k->tensors; i++)
        if (!strcmp(k->names[i], name))
            return i;
    return -1;
}

/* The gradients' errors, by parameter. One that is 0 but for rounding is measured by all together.
 */
static void compare_gradients(const struct known *k, const struct files *f, double *errors)
{
    struct bst_tensors *a, *b;
    int n = k->tensors;
    double *norm = bst_xcalloc((size_t)n, sizeof *norm), sum = 0;
    parity_must(bst_tensors_open(f->g32, &a), f->g32);
    parity_must(bst_tensors_open(f->g64, &b), f->g64);
    if (bst_tensors_count(b) != n) {
        printf("%d gradients, not %d\n", bst_tensors_count(b), n);
        exit(1);
    }
    for (int i = 0; i < n; i++) {
        int p = parameter_of(k, bst_tensors_at(b, i));
        if (p < 0) {
            printf("PyTorch has no %s\n", bst_tensors_at(b, i)->name);
            exit(1);
        }
        errors[p] = distance(a, b, i, &norm[p]);
        sum += norm[p] * norm[p];
    }
    for (int i = 0; i < n; i++)
        errors[i] /= fmax(norm[i], 1e-6 * sqrt(sum));
    bst_tensors_close(a);
    bst_tensors_close(b);
    bst_free(norm);
}

/* Largest error of a state after an update, in units of what its gradient's error explains, and
 * that of the norm, which clipping hands to every tensor. */
static double compare_states(const struct known *k, const char *got, const char *want,
                             const double *gradients, double norm_error)
{
    struct bst_tensors *a, *b;
    double worst = 0;
    parity_must(bst_tensors_open(got, &a), got);
    parity_must(bst_tensors_open(want, &b), want);
    for (int i = 0; i < bst_tensors_count(b); i++) {
        int p = parameter_of(k, bst_tensors_at(b, i));
        double norm, off = distance(a, b, i, &norm);
        off /= norm > 0 ? norm : 1;
        double e = off / (p >= 0 ? 1e-6 + 10 * (gradients[p] + norm_error) : STATISTICS_ALLOWED);
        if (!(e <= 1))
            printf("%s after an update: off by %.3g, its gradient by %.3g\n",
                   bst_tensors_at(b, i)->name, off, p >= 0 ? gradients[p] : 0);
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

/* The whole update, from w32 and m32. What an adaptive optimizer makes of a gradient that is 0 but
 * for rounding is a step as large as any: unit.optim compares those, from one gradient. */
static void one_update(const struct known *k, struct parity *single, struct parity *exact,
                       const struct files *f, int u, struct tally *t, const double *errors)
{
    if (bst_optimizer_info(single->c.seq.optimizer)->adaptive)
        return;
    parity_load(single, f->w32, f->m32);
    parity_load(exact, f->w32, f->m32);
    struct bst_update_result got = parity_update(single, u), want = parity_update(exact, u);
    parity_must(bst_trainer_compare_ranks(single->t), k->c.name);
    double norm_error = fabs(got.grad_norm - want.grad_norm) / want.grad_norm;
    t->loss = fmax(t->loss, fabs(got.loss - want.loss) / fabs(want.loss));
    parity_save(single, f->w32, f->m32);
    parity_save(exact, f->w, f->m);
    t->state = fmax(t->state, compare_states(k, f->w32, f->w, errors, norm_error));
    t->state = fmax(t->state, compare_states(k, f->m32, f->m, errors, norm_error));
}

/* From the files w and m: rounded to floats first, so that both sides start from the same numbers.
 */
static void one_point(const struct known *k, struct parity *single, struct parity *exact,
                      const struct files *f, int u, struct tally *t, double *errors)
{
    parity_load(single, f->w, f->m);
    parity_save(single, f->w32, f->m32);
    parity_load(exact, f->w32, f->m32);
    double got = parity_gradient(single, u).loss, want = parity_gradient(exact, u).loss;
    t->loss = fmax(t->loss, fabs(got - want) / fabs(want));
    parity_save_gradient(single, f->g32);
    parity_save_gradient(exact, f->g64);
    compare_gradients(k, f, errors);
    one_update(k, single, exact, f, u, t, errors);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of tensor i over the points: where the input of a ReLU is 0 but for rounding, an error is a
 * hundred times the usual one, with PyTorch as here, by chance; in a deep net at half of the points
 * and more. */
static double typical(const struct known *k, const double *errors, int i)
{
    double e[MAX_POINTS], at = k->quantile * (k->points - 1);
    int low = (int)at, high = low + (low + 1 < k->points);
    BST_ASSERT(k->points <= MAX_POINTS);
    for (int p = 0; p < k->points; p++)
        e[p] = errors[p * k->tensors + i];
    qsort(e, (size_t)k->points, sizeof *e, by_size);
    return e[low] + (at - low) * (e[high] - e[low]);
}

static int judge(const struct known *k, const struct tally *t)
{
    double worst = 0;
    int at = 0;
    for (int i = 0; i < k->tensors; i++) {
        double times = typical(k, t->errors, i) / k->own[i];
        if (times > worst) {
            worst = times;
            at = i;
        }
    }
    printf("%s: loss off by %.2g (%.0g allowed), gradients %.2f times PyTorch's error at worst, in "
           "%s (2 allowed)",
           k->c.name, t->loss, LOSS_ALLOWED, worst, k->names[at]);
    if (t->state > 0)
        printf(", state after an update off by %.2g of what that explains", t->state);
    putchar('\n');
    return !(t->loss <= LOSS_ALLOWED) + !(worst <= 2) + !(t->state <= 1);
}

static int one_at_a_time(const struct known *k, const char *backend)
{
    struct parity walk, exact, single;
    struct files f;
    struct tally t = {0};
    t.errors = bst_xcalloc((size_t)k->points * (size_t)k->tensors, sizeof *t.errors);
    name_files(&f);
    parity_open(&walk, &k->c, "ref64", k->ranks);
    parity_open(&exact, &k->c, "ref64", k->ranks);
    parity_open(&single, &k->c, backend, k->ranks);
    for (int u = 0, point = 0; point < k->points; u++) {
        if (k->at[point] == u) {
            parity_save(&walk, f.w, f.m);
            one_point(k, &single, &exact, &f, u, &t, t.errors + point * k->tensors);
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

/* The next one has the same net, and more of everything. */
static bool is_in_the_next(int i)
{
    const struct parity_case *c = &known[i].c;
    return !c->seq.length && c->smoothing == 0 && i + 1 < N_KNOWN &&
           !strcmp(c->net, known[i + 1].c.net);
}

int main(int argc, char **argv)
{
    const char *backend = argc > 1 ? argv[1] : "ref64";
    int failures = 0;
    if (!bst_backend_find(backend)) {
        printf("this build has no backend %s\n", backend);
        return 77;
    }
    if (!known[0].c.seq.length &&
        access("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz", R_OK)) {
        printf("Fashion-MNIST is not there (dataset-fashion-mnist)\n");
        return 77;
    }
    for (int i = 0; i < N_KNOWN; i++) {
        if (!strcmp(backend, "ref64"))
            failures += follow(&known[i]);
        else if (!is_in_the_next(i))
            failures += one_at_a_time(&known[i], backend);
    }
    return failures ? 1 : 0;
}
