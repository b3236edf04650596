/* Work over whole blocks of parameters, gradients and momenta: a part of the block a thread. */
#include <string.h>

#include "core/backend/cpu/be.h"

enum { MAX_TEAM = 1024 };

static int team_of(const struct bst_be *be, size_t n)
{
    if (n < CPU_SMALL)
        return 1;
    return be->threads < MAX_TEAM ? be->threads : MAX_TEAM;
}

/* Parts begin at whole cache lines. */
static size_t cut(size_t n, int t, int team)
{
    size_t at = (n + 15) / 16 * (size_t)t / (size_t)team * 16;

    return at < n ? at : n;
}

enum bst_err cpu_sum(struct bst_be *be, void *dst, const void *const *srcs, int n_srcs,
                     size_t bytes)
{
    enum { AT_ONCE = 4096 }; /* reals that stay in the first-level cache between the terms */
    size_t n = bytes / sizeof(float);
    int team = team_of(be, n);
    float *out = dst;

#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++)
        for (size_t i = cut(n, t, team), end = cut(n, t + 1, team); i < end;) {
            size_t m = end - i < AT_ONCE ? end - i : AT_ONCE;
            float acc[AT_ONCE];

            memcpy(acc, (const float *)srcs[0] + i, m * sizeof *acc);
            for (int s = 1; s < n_srcs; s++)
                be->vec->add(acc, acc, (const float *)srcs[s] + i, m);
            memcpy(out + i, acc, m * sizeof *acc);
            i += m;
        }
    return BST_OK;
}

enum bst_err cpu_scale(struct bst_be *be, void *dst, double factor, size_t bytes)
{
    size_t n = bytes / sizeof(float);
    int team = team_of(be, n);

#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++) {
        size_t i = cut(n, t, team);

        be->vec->scale((float *)dst + i, (float)factor, cut(n, t + 1, team) - i);
    }
    return BST_OK;
}

enum bst_err cpu_copy(struct bst_be *be, void *dst, const void *src, size_t bytes)
{
    size_t n = bytes / sizeof(float);
    int team = team_of(be, n);

#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++) {
        size_t i = cut(n, t, team);

        memcpy((float *)dst + i, (const float *)src + i, (cut(n, t + 1, team) - i) * sizeof(float));
    }
    return BST_OK;
}

enum bst_err cpu_sum_squares(struct bst_be *be, const void *x, size_t bytes, double *out)
{
    size_t n = bytes / sizeof(float);
    int team = team_of(be, n);
    double sums[MAX_TEAM];

#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++) {
        size_t i = cut(n, t, team);

        sums[t] = be->vec->sum_squares((const float *)x + i, cut(n, t + 1, team) - i);
    }
    *out = 0;
    for (int t = 0; t < team; t++)
        *out += sums[t];
    return BST_OK;
}

enum bst_err cpu_sgd(struct bst_be *be, const struct bst_sgd *how, void *w, void *v, const void *g,
                     size_t bytes)
{
    const struct cpu_sgd_coef k = {
        (float)how->lr,          (float)how->momentum, (float)how->weight_decay,
        (float)how->grad_factor, how->nesterov,        how->first};
    size_t n = bytes / sizeof(float);
    int team = team_of(be, n);

#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++) {
        size_t i = cut(n, t, team);

        be->vec->sgd((float *)w + i, v ? (float *)v + i : NULL, (const float *)g + i,
                     cut(n, t + 1, team) - i, &k);
    }
    return BST_OK;
}
