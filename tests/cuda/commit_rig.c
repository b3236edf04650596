#include "tests/cuda/commit_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/rng.h"

const int rig_sizes[N_PARAMS] = {35, 5, 17};

void rig_check(enum bst_err err, const char *what)
{
    if (err)
        fail_msg("%s: %s", what, bst_err_text());
}

void rig_use(const struct rig *r)
{
    if (r->device >= 0)
        assert_int_equal(cudaSetDevice(r->device), cudaSuccess);
}

void rig_open(struct rig *r, const char *backend, int rank, enum bst_precision p)
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

void rig_close(struct rig *r)
{
    const size_t real = (size_t)r->b->elem_bytes;

    rig_use(r);
    for (int i = 0; i < N_BLOCKS; i++)
        r->b->free(r->be, r->block[i], FLOATS * real);
    r->b->free(r->be, r->staged, STATS * real);
    r->b->free(r->be, r->stats, STATS * real);
    r->b->close(r->be);
}

void rig_put(struct rig *r, void *block, const float *x, int n)
{
    double wide[FLOATS];

    rig_use(r);
    for (int i = 0; i < n; i++)
        wide[i] = (double)x[i];
    if (r->b->elem_bytes == 8)
        memcpy(block, wide, (size_t)n * sizeof *wide);
    else
        ok(r->b->upload(r->be, block, x, (size_t)n * sizeof *x));
}

void rig_get(struct rig *r, const void *block, double *x, int n)
{
    float narrow[FLOATS];

    rig_use(r);
    if (r->b->elem_bytes == 8) {
        memcpy(x, block, (size_t)n * sizeof *x);
        return;
    }
    ok(r->b->download(r->be, narrow, block, (size_t)n * sizeof *narrow));
    for (int i = 0; i < n; i++)
        x[i] = (double)narrow[i];
}

void rig_numbers(float *x, uint64_t seed, float scale)
{
    struct bst_rng rng;

    bst_rng_init(&rng, seed, BST_RNG_TEST, 0);
    memset(x, 0, FLOATS * sizeof *x);
    for (int p = 0; p < N_PARAMS; p++)
        for (int i = 0; i < rig_sizes[p]; i++)
            x[64 * p + i] = scale * (float)bst_rng_normal(&rng);
}

void rig_describe(struct rig_update *w, struct rig *r, enum bst_optimizer kind)
{
    const size_t real = (size_t)r->b->elem_bytes;
    const bool adaptive = kind == BST_OPTIMIZER_ADAMW || kind == BST_OPTIMIZER_LAMB;

    *w = (struct rig_update){0};
    for (int p = 0; p < N_PARAMS; p++) {
        const size_t offset = 64 * (size_t)p * real, bytes = (size_t)rig_sizes[p] * real;

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

struct bst_commit_result rig_commit(struct rig *r, const struct bst_commit *how, double *squares)
{
    struct bst_commit_result out = {.sum_squares = squares};

    rig_use(r);
    ok(r->b->commit(r->be, how));
    ok(r->b->committed(r->be, &out));
    return out;
}
