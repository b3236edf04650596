/* The optimizers of every backend beside PyTorch's and timm's, and what a backend owes its callers:
 * the same bits for any number of threads and any instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/backend/backend.h"
#include "core/backend/cpu/vec_optim.h"
#include "core/base/alloc.h"
#include "core/base/rng.h"

enum { UPDATES = 20, SIZE_0 = 35, SIZE_1 = 5, SIZE_2 = 17, SIZE = SIZE_0 + SIZE_1 + SIZE_2 };

struct known {
    double fp32_error; /* of the same optimizer in single precision, the largest of all updates */
    double first[SIZE], last[SIZE];
};
#include "tests/unit/optim_pytorch.inc"
#include "tests/team.h"

static double weight(int i)
{
    return (i * 53 % 97 - 48) / 64.0;
}

static double gradient(int t, int i)
{
    return (i * 37 % 59 * (t * 101 % 17 + 1) % 113 - 56) / 64.0;
}

#define ADAM(kind_, b1, b2, eps)                                                                   \
    {                                                                                              \
        .kind = (kind_), .beta1 = (b1), .beta2 = (b2), .epsilon = (eps)                            \
    }
static const struct {
    const char *name;
    struct bst_optim how;
    const struct known *known;
} cases[] = {
    {"adamw", ADAM(BST_OPTIMIZER_ADAMW, 0.9, 0.999, 1e-8), &known_adamw},
    {"adamw, short means", ADAM(BST_OPTIMIZER_ADAMW, 0.8, 0.95, 1e-3), &known_adamw_short},
    {"lamb", ADAM(BST_OPTIMIZER_LAMB, 0.9, 0.999, 1e-6), &known_lamb},
    {"lars", {.kind = BST_OPTIMIZER_LARS, .momentum = 0.9, .trust = 0.02}, &known_lars},
    {"lars, nesterov",
     {.kind = BST_OPTIMIZER_LARS, .momentum = 0.9, .trust = 0.02, .nesterov = true},
     &known_lars_nesterov},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* Blocks of a backend's reals, as doubles to look at. */
struct blocks {
    const struct bst_backend *b;
    struct bst_be *be;
    size_t n;
    struct bst_optim_blocks at;
    void *grad;
};

static void must(enum bst_err err)
{
    if (err)
        fail_msg("%s", bst_err_text());
}

static void put(const struct blocks *k, void *block, size_t i, double x)
{
    if (k->b->elem_bytes == 8)
        ((double *)block)[i] = x;
    else
        ((float *)block)[i] = (float)x;
}

static double get(const struct blocks *k, const void *block, size_t i)
{
    return k->b->elem_bytes == 8 ? ((const double *)block)[i] : (double)((const float *)block)[i];
}

static void open_blocks(struct blocks *k, const char *backend, int threads, size_t n)
{
    struct bst_be_cfg cfg = {.threads = threads};
    *k = (struct blocks){.b = bst_backend_find(backend), .n = n};
    size_t bytes = n * (size_t)k->b->elem_bytes;
    must(k->b->open(&cfg, &k->be));
    must(k->b->alloc(k->be, bytes, &k->at.weight));
    must(k->b->alloc(k->be, bytes, &k->grad));
    must(k->b->alloc(k->be, bytes, &k->at.state[0]));
    must(k->b->alloc(k->be, bytes, &k->at.state[1]));
    k->at.grad = k->grad;
}

static void close_blocks(struct blocks *k)
{
    size_t bytes = k->n * (size_t)k->b->elem_bytes;
    k->b->free(k->be, k->at.weight, bytes);
    k->b->free(k->be, k->grad, bytes);
    k->b->free(k->be, k->at.state[0], bytes);
    k->b->free(k->be, k->at.state[1], bytes);
    k->b->close(k->be);
}

static double worst(const struct blocks *k, const double *want)
{
    double most = 0;
    for (size_t i = 0; i < SIZE; i++)
        most = fmax(most, fabs(get(k, k->at.weight, i) - want[i]));
    return most;
}

static void check_case(const char *backend, int c)
{
    struct blocks k;
    const struct known *known = cases[c].known;
    open_blocks(&k, backend, 2, SIZE);
    size_t e = (size_t)k.b->elem_bytes;
    double allowed = k.b->elem_bytes == 8 ? 1e-13 : 2 * known->fp32_error;
    for (int i = 0; i < SIZE; i++)
        put(&k, k.at.weight, (size_t)i, weight(i));
    for (int t = 0; t < UPDATES; t++) {
        struct bst_optim how = cases[c].how;
        double lr = 0.01 * (1 + t / 16.0);
        const struct bst_span spans[] = {
            {0, SIZE_0 * e, lr, 0.01, true},
            {SIZE_0 * e, SIZE_1 * e, lr, 0, false},
            {(SIZE_0 + SIZE_1) * e, SIZE_2 * e, lr, 0.01, true},
        };
        how.step = (uint64_t)t + 1;
        how.grad_factor = t % 4 == 3 ? 0.5 : 1;
        for (int i = 0; i < SIZE; i++)
            put(&k, k.grad, (size_t)i, gradient(t, i));
        must(k.b->optimize(k.be, &how, spans, 3, &k.at));
        double error = t == 0 ? worst(&k, known->first) : 0;
        if (t == UPDATES - 1)
            error = worst(&k, known->last);
        if (!(error <= allowed))
            fail_msg("%s on %s: %g off after update %d, %g allowed", cases[c].name, backend, error,
                     t + 1, allowed);
    }
    close_blocks(&k);
}

static void twenty_updates_beside_pytorch(void **state)
{
    static const char *const backends[] = {"ref64", "ref", "cpu"};
    (void)state;
    for (int b = 0; b < 3; b++)
        for (int c = 0; c < N_CASES && bst_backend_find(backends[b]); c++)
            check_case(backends[b], c);
}

/* oracles.md: ‖w‖ 5, ‖g‖ 1, η 0.001, λ 5e-5. */
static void the_ratio_of_the_papers(void **state)
{
    const struct bst_optim lars = {.kind = BST_OPTIMIZER_LARS, .trust = 0.001};
    const struct bst_optim lamb = {.kind = BST_OPTIMIZER_LAMB};
    struct bst_span s = {.weight_decay = 5e-5, .trusted = true};
    (void)state;
    assert_true(fabs(bst_optim_ratio(&lars, &s, 25, 1) - 0.004998750312421895) < 1e-18);
    assert_true(bst_optim_ratio(&lamb, &s, 25, 4) == 2.5);
    for (int i = 0; i < 2; i++) {
        const struct bst_optim *how = i ? &lars : &lamb;
        assert_true(bst_optim_ratio(how, &s, 0, 1) == 1);
        assert_true(bst_optim_ratio(how, &s, 25, 0) == 1);
    }
    s.trusted = false;
    assert_true(bst_optim_ratio(&lars, &s, 25, 1) == 1);
    assert_true(bst_optim_ratio(&lamb, &s, 25, 4) == 1);
}

/* Spans of all lengths about a piece's; the first and the last one long. */
static void any_number_of_threads_gives_the_same_bits(void **state)
{
    static const size_t sizes[] = {50000, 1, 3, 17, 16384, 16385, 64, 70001};
    enum { N = sizeof sizes / sizeof *sizes };
    struct bst_span spans[N];
    struct bst_rng r;
    size_t n = 0;
    (void)state;
    if (!bst_backend_find("cpu"))
        return;
    for (int i = 0; i < N; n += sizes[i++])
        spans[i] = (struct bst_span){n * 4, sizes[i] * 4, 0.01, i % 2 ? 0.1 : 0, i % 2};
    float *one = bst_xcalloc(n, sizeof *one);
    for (int c = 0; c < N_CASES; c++)
        for (int threads = 1; threads <= TEAM_OF(3); threads++) {
            struct blocks k;
            struct bst_optim how = cases[c].how;
            open_blocks(&k, "cpu", threads, n);
            bst_rng_init(&r, 1, BST_RNG_TEST, 0);
            for (size_t i = 0; i < n; i++) {
                put(&k, k.at.weight, i, bst_rng_uniform(&r) - 0.5);
                put(&k, k.grad, i, bst_rng_uniform(&r) - 0.5);
            }
            how.grad_factor = 0.7;
            for (how.step = 1; how.step <= 3; how.step++)
                must(k.b->optimize(k.be, &how, spans, N, &k.at));
            if (threads == 1)
                memcpy(one, k.at.weight, n * sizeof *one);
            assert_memory_equal(one, k.at.weight, n * sizeof *one);
            close_blocks(&k);
        }
    bst_free(one);
}

static void any_instruction_set_gives_the_same_bits(void **state)
{
    static const size_t lengths[] = {1, 3, 8, 17, 100};
    const struct cpu_vec_optim *vec[2] = {cpu_vec_optim_plain(), cpu_vec_optim_best()};
    const struct cpu_adam_coef k = {0.7f, 0.1f, 0.001f, 2.5f, 11.0f, 1e-6f, 0.01f, 0.05f};
    struct bst_rng r;
    (void)state;
    bst_rng_init(&r, 2, BST_RNG_TEST, 0);
    for (int l = 0; l < 5; l++) {
        size_t n = lengths[l];
        float start[4][100], x[2][4][100];
        double q[2][2] = {{0, 0}, {0, 0}};
        for (int b = 0; b < 4; b++)
            for (size_t i = 0; i < n; i++)
                start[b][i] = (float)(bst_rng_uniform(&r) - (b == 2 ? 0 : 0.5));
        start[3][0] = l == 4 ? NAN : start[3][0];
        for (int s = 0; s < 2; s++) {
            memcpy(x[s], start, sizeof start);
            vec[s]->adamw(x[s][0], x[s][1], x[s][2], x[s][3], n, &k);
            vec[s]->lamb_moments(x[s][0], x[s][1], x[s][2], x[s][3], n, &k, q[s]);
            vec[s]->lamb_apply(x[s][0], x[s][1], x[s][2], n, &k);
        }
        for (int b = 0; b < 4; b++)
            assert_memory_equal(x[0][b], x[1][b], n * sizeof(float));
        assert_memory_equal(q[0], q[1], sizeof q[0]);
        assert_int_equal(isnan(x[0][0][0]), l == 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twenty_updates_beside_pytorch),
        cmocka_unit_test(the_ratio_of_the_papers),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(any_instruction_set_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
