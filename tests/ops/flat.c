#include "tests/ops/flat.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "tests/ops/rig.h"
#include "tests/team.h"

#define N 1003

struct flat {
    const struct bst_backend *b;
    struct bst_be *be;
    double eps;
    int failures;
};

static void expect(struct flat *f, const char *what, const double *got, const double *want,
                   int64_t n, double allowed)
{
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(got[i] - want[i]);
        if (d <= allowed * fmax(1, fabs(want[i])) || (isnan(got[i]) && isnan(want[i])))
            continue;
        printf("%s: element %d is %.17g, not %.17g\n", what, (int)i, got[i], want[i]);
        f->failures++;
        return;
    }
}

static void randoms(double *x, int64_t n, uint64_t seed)
{
    struct bst_rng r;
    bst_rng_init(&r, seed, BST_RNG_TEST, 7);
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)(float)bst_rng_normal(&r);
}

static void *block(struct flat *f, const double *x, int64_t n)
{
    void *p;
    rig_must(f->b->alloc(f->be, (size_t)n * (size_t)f->b->elem_bytes, &p), "alloc");
    if (x)
        rig_store(f->b, f->be, p, x, n);
    return p;
}

static void drop(struct flat *f, void *p, int64_t n)
{
    f->b->free(f->be, p, (size_t)n * (size_t)f->b->elem_bytes);
}

static void check_sums(struct flat *f, int64_t n)
{
    double a[N], b[N], c[N], want[N], got[N], squares = 0, exact = 0;
    size_t bytes = (size_t)n * (size_t)f->b->elem_bytes;
    randoms(a, n, 1);
    randoms(b, n, 2);
    randoms(c, n, 3);
    void *pa = block(f, a, n), *pb = block(f, b, n), *pc = block(f, c, n);
    const void *srcs[3] = {pa, pb, pc};
    for (int64_t i = 0; i < n; i++) {
        /* in that order, rounded after each: the all-reduce must be the same on every rank */
        want[i] = f->b->elem_bytes == 4 ? (double)(((float)a[i] + (float)b[i]) + (float)c[i])
                                        : (a[i] + b[i]) + c[i];
    }
    rig_must(f->b->sum(f->be, pb, srcs, 3, bytes), "sum");
    rig_load(f->b, f->be, got, pb, n);
    expect(f, "sum", got, want, n, 0);
    for (int64_t i = 0; i < n; i++)
        exact += want[i] * want[i];
    rig_must(f->b->sum_squares(f->be, pb, bytes, &squares), "sum_squares");
    expect(f, "sum_squares", &squares, &exact, 1, 1e-14 * (double)n);
    rig_must(f->b->scale(f->be, pb, 0.3, bytes), "scale");
    rig_load(f->b, f->be, got, pb, n);
    for (int64_t i = 0; i < n; i++)
        want[i] *= 0.3;
    expect(f, "scale", got, want, n, 2 * f->eps);
    rig_must(f->b->copy(f->be, pc, pb, bytes), "copy");
    rig_load(f->b, f->be, want, pc, n);
    expect(f, "copy", got, want, n, 0);
    drop(f, pa, n);
    drop(f, pb, n);
    drop(f, pc, n);
}

/* Many tensors of odd sizes at once are what each is alone, to the bit. */
static void check_many_squares(struct flat *f)
{
    enum { TENSORS = 150 };
    const void *at[TENSORS];
    size_t bytes[TENSORS];
    double x[N], together[TENSORS], alone;
    if (!f->b->sum_squares_each)
        return;
    randoms(x, N, 9);
    char *p = block(f, x, N);
    for (int i = 0; i < TENSORS; i++) {
        at[i] = p + (size_t)i * (size_t)f->b->elem_bytes;
        bytes[i] = (size_t)(i * 37 % 800 + 1) * (size_t)f->b->elem_bytes;
    }
    rig_must(f->b->sum_squares_each(f->be, at, bytes, TENSORS, together), "sum_squares_each");
    for (int i = 0; i < TENSORS; i++) {
        rig_must(f->b->sum_squares(f->be, at[i], bytes[i], &alone), "sum_squares");
        if (alone == together[i])
            continue;
        printf("sum_squares_each: tensor %d is %.17g, not %.17g\n", i, together[i], alone);
        f->failures++;
        break;
    }
    drop(f, p, N);
}

static void check_not_finite(struct flat *f)
{
    static const double bad[] = {INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 3; i++) {
        double x[N], got = 0;
        randoms(x, N, 4);
        x[N - 1 - i] = bad[i];
        void *p = block(f, x, N);
        rig_must(f->b->sum_squares(f->be, p, N * (size_t)f->b->elem_bytes, &got), "sum_squares");
        if (isfinite(got)) {
            printf("sum_squares hides a %g\n", bad[i]);
            f->failures++;
        }
        drop(f, p, N);
    }
}

static void sgd_spec(const struct bst_sgd *how, double *w, double *v, double g)
{
    double d = how->grad_factor * g + how->weight_decay * *w;
    if (how->momentum != 0) {
        *v = how->first ? d : how->momentum * *v + d;
        d = how->nesterov ? d + how->momentum * *v : *v;
    }
    *w -= how->lr * d;
}

static void check_sgd(struct flat *f, const struct bst_sgd *how)
{
    double w[N], v[N], g[N], got[N];
    size_t bytes = N * (size_t)f->b->elem_bytes;
    randoms(w, N, 5);
    randoms(v, N, 6);
    randoms(g, N, 7);
    if (how->first)
        v[3] = NAN; /* what is there before the first update does not count */
    void *pw = block(f, w, N), *pv = block(f, v, N), *pg = block(f, g, N);
    for (int i = 0; i < N; i++)
        sgd_spec(how, &w[i], &v[i], g[i]);
    rig_must(f->b->sgd(f->be, how, pw, how->momentum != 0 ? pv : NULL, pg, bytes), "sgd");
    rig_load(f->b, f->be, got, pw, N);
    expect(f, "sgd: weight", got, w, N, 4 * f->eps);
    rig_load(f->b, f->be, got, pv, N);
    if (how->momentum != 0)
        expect(f, "sgd: momentum", got, v, N, 4 * f->eps);
    drop(f, pw, N);
    drop(f, pv, N);
    drop(f, pg, N);
}

/* A convolution's weight through the backend's own layout and back; its padding must count for
 * nothing. */
static void check_layout(struct flat *f, int ic, int oc, int k)
{
    struct rig r;
    struct bst_shape w = {4, {oc, ic, k, k}}, x = {4, {2, ic, 9, 9}}, y = {4, {2, oc, 9, 9}};
    int64_t n = bst_shape_count(&w);
    double *in = bst_xcalloc((size_t)n, sizeof *in), *out = bst_xcalloc((size_t)n, sizeof *out);
    double squares = 0, exact = 0;
    rig_open(&r, f->b, 2, 0);
    int weight = rig_param(&r, BST_PARAM_CONV_WEIGHT, &w);
    rig_start(&r, 2, 0);
    int vx = rig_input(&r, &x), vy = rig_value(&r, &y, false);
    struct bst_instr *i = bst_pass_add_instr(&r.pass, BST_I_CONV_FWD, "layout");
    i->window = (struct bst_window){k, 1, k / 2};
    bst_instr_read(i, vx);
    bst_instr_read(i, weight);
    bst_instr_write(i, vy);
    rig_finish(&r);
    rig_fill(f->b, r.be, r.mem.base[BST_MEM_WEIGHT], 0xff, r.table.slots[0].bytes);
    randoms(in, n, 8);
    rig_set_param(&r, weight, in);
    rig_get_param(&r, weight, out);
    expect(f, "import, export", out, in, n, 0);
    for (int64_t j = 0; j < n; j++)
        exact += in[j] * in[j];
    rig_must(f->b->sum_squares(r.be, r.mem.base[BST_MEM_WEIGHT], r.bytes[BST_MEM_WEIGHT], &squares),
             "sum_squares");
    expect(f, "padding is zero", &squares, &exact, 1, 1e-13 * (double)n);
    rig_close(&r);
    bst_free(in);
    bst_free(out);
}

int check_flat(const struct bst_backend *b)
{
    static const struct bst_sgd ways[] = {
        {.lr = 0.1, .grad_factor = 1},
        {.lr = 0.1, .grad_factor = 0.25, .weight_decay = 5e-4},
        {.lr = 0.1, .momentum = 0.9, .grad_factor = 1, .weight_decay = 1e-4},
        {.lr = 0.1, .momentum = 0.9, .grad_factor = 0.5, .weight_decay = 1e-4, .nesterov = true},
        {.lr = 0.1, .momentum = 0.9, .grad_factor = 1, .first = true},
        {.lr = 0.1, .momentum = 0.9, .grad_factor = 1, .first = true, .nesterov = true},
    };
    static const int sizes[] = {1, 3, 17, 64, 1000, N};
    struct bst_be_cfg cfg = {.threads = TEAM_OF(2)};
    struct flat f = {.b = b, .eps = b->elem_bytes == 4 ? 0x1p-24 : 0x1p-53};
    rig_must(b->open(&cfg, &f.be), b->name);
    for (int i = 0; i < 6; i++)
        check_sums(&f, sizes[i]);
    check_many_squares(&f);
    check_not_finite(&f);
    for (int i = 0; i < 6; i++)
        check_sgd(&f, &ways[i]);
    b->close(f.be);
    check_layout(&f, 3, 16, 3);
    check_layout(&f, 17, 33, 3);
    check_layout(&f, 1, 8, 7);
    check_layout(&f, 64, 64, 1);
    printf("%-24s %s\n", "blocks", f.failures ? "FAILED" : "ok");
    return f.failures;
}
