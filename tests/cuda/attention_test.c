/* Attention on the fakes: which way it goes, what it takes, what it asks for. Its numbers are
 * ops.all.cuda's. */
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/backend/cuda/attention.h"
#include "core/backend/cuda/cuda.h"
#include "core/base/alloc.h"
#include "core/graph/graph_seq.h"
#include "tests/fakes/fake.h"

#define ok(expr) check((expr), #expr)
static void check(enum bst_err err, const char *what)
{
    if (err)
        fail_msg("%s: %s", what, bst_err_text());
}

struct net {
    int length, heads, dim, layers;
    double drop;
    bool causal, padded;
};

enum { ROWS = 8 };

/* Layers of nothing but attention. */
static struct bst_graph *graph(const struct net *n, int micro_batch)
{
    struct bst_graph *g = bst_graph_new(micro_batch);
    const int width = n->heads * n->dim;
    const struct bst_embedding e = {
        .length = n->length, .rows = ROWS, .width = width, .deviation = 0.5};
    const struct bst_attention a = {
        .heads = n->heads, .causal = n->causal, .key_stream = n->padded ? 0 : -1, .drop = n->drop};
    const struct bst_linear three = {
        .out = 3 * width, .no_bias = true, .init = BST_INIT_XAVIER_UNIFORM};
    const struct bst_linear head = {.out = ROWS, .no_bias = true, .init = BST_INIT_XAVIER_UNIFORM};
    int x = bst_graph_embedding(g, &e, "embedding");

    for (int i = 0; i < n->layers; i++) {
        char name[32];

        snprintf(name, sizeof name, "qkv.%d", i);
        x = bst_graph_linear_as(g, x, &three, name);
        snprintf(name, sizeof name, "attention.%d", i);
        x = bst_graph_attention(g, (const int[3]){x, -1, -1}, &a, name);
    }
    bst_graph_softmax_ce(g, bst_graph_linear_as(g, x, &head, "head"), "loss");
    ok(bst_graph_check(g));
    return g;
}

struct made {
    struct bst_graph *g;
    struct bst_be *be;
    struct bst_param_table *params;
    struct bst_program *p;
};

static void make(struct made *m, const struct bst_be_cfg *cfg, const struct net *n, int micro_batch)
{
    const struct bst_compile_opts o = {.training = true};

    *m = (struct made){.g = graph(n, micro_batch)};
    ok(bst_backend_cuda.open(cfg, &m->be));
    m->params = bst_param_table_new(m->g);
    ok(bst_compile(m->g, &bst_backend_cuda.describe, m->be, m->params, &o, &m->p));
}

static void unmake(struct made *m)
{
    bst_program_free(m->p);
    bst_param_table_free(m->params);
    bst_graph_free(m->g);
    bst_backend_cuda.close(m->be);
}

static const struct cuda_attn *nth(const struct made *m, enum bst_instr_op op, int n)
{
    for (int i = 0; i < m->p->n_instrs; i++) {
        const struct cuda_handle *h = m->p->instrs[i].handle;

        if (m->p->instrs[i].op == op && !n--)
            return h->attn;
    }
    fail_msg("the program has no such instruction");
    return NULL;
}

static size_t scratch_of(const struct made *m, enum bst_instr_op op)
{
    for (int i = 0; i < m->p->n_instrs; i++)
        if (m->p->instrs[i].op == op)
            return m->p->values[m->p->instrs[i].scratch].bytes;
    return 0;
}

/* --- which way --- */

static bool is_fused(enum bst_precision precision, const struct net *n, enum bst_instr_op op)
{
    const struct bst_be_cfg cfg = {.threads = 1, .precision = precision};
    struct made m;

    make(&m, &cfg, n, 2);
    const bool fused = nth(&m, op, 0)->is_fused;
    unmake(&m);
    return fused;
}

static void machine(int sm_major, int sm_minor)
{
    struct fake_settings s;

    fake_settings_env(&s);
    s.sm_major = sm_major;
    s.sm_minor = sm_minor;
    fake_reset(&s);
}

/* By cuDNN in 16 bits where it takes the size of a head and the device; else by tiles. */
static void the_way_goes_by_size_and_device(void **state)
{
    const struct net usual = {.length = 17, .heads = 2, .dim = 64, .layers = 1, .causal = true};
    const struct net wide = {.length = 17, .heads = 1, .dim = 128, .layers = 1, .padded = true};
    const struct net odd = {.length = 17, .heads = 2, .dim = 17, .layers = 1};
    const struct net wider = {.length = 17, .heads = 1, .dim = 136, .layers = 1};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const enum bst_instr_op op = i ? BST_I_ATTN_BWD : BST_I_ATTN_FWD;

        assert_true(is_fused(BST_PRECISION_BF16, &usual, op));
        assert_true(is_fused(BST_PRECISION_FP16, &usual, op));
        assert_true(is_fused(BST_PRECISION_FP16, &wide, op));
        assert_int_equal(is_fused(BST_PRECISION_BF16, &wider, op), !i);
        assert_false(is_fused(BST_PRECISION_BF16, &odd, op));
        assert_false(is_fused(BST_PRECISION_FP32, &usual, op));
        assert_false(is_fused(BST_PRECISION_TF32, &usual, op));
        machine(7, 5);
        assert_false(is_fused(BST_PRECISION_FP16, &usual, op));
        machine(9, 0);
    }
}

/* --- what it takes --- */

/* Some arrays as large as the operands are, and what is bounded. A matrix of all pairs in fp32
 * would take 1 GiB at the longest. */
static void memory_is_linear_in_the_length(void **state)
{
    static const enum bst_instr_op ops[] = {BST_I_ATTN_FWD, BST_I_ATTN_BWD};
    enum { MICRO = 2, ARRAYS = 16, TILES = 64 };
    struct net n = {.heads = 2, .dim = 64, .layers = 1, .causal = true, .drop = 0.1};
    const size_t most = cuda_attn_tile_most;

    (void)state;
    cuda_attn_tile_most = 1 << 20;
    for (int precision = 0; precision < BST_N_PRECISIONS; precision++) {
        const struct bst_be_cfg cfg = {.threads = 1, .precision = (enum bst_precision)precision};

        for (n.length = 512; n.length <= 8192; n.length *= 4) {
            const size_t array = (size_t)(MICRO * n.heads * n.dim * n.length) * sizeof(float);
            struct made m;

            make(&m, &cfg, &n, MICRO);
            for (int i = 0; i < 2; i++) {
                const size_t bytes = scratch_of(&m, ops[i]);

                if (bytes > ARRAYS * array + TILES * cuda_attn_tile_most)
                    fail_msg("%s at %d: %zu bytes", bst_precision_name(cfg.precision), n.length,
                             bytes);
            }
            unmake(&m);
        }
    }
    cuda_attn_tile_most = most;
}

/* The parts of the scratch lie behind each other, and chunks and tiles cover all there is. */
static void tiles_cover_all(void **state)
{
    static const int lengths[] = {1, 15, 16, 17, 100, 257};
    const size_t most = cuda_attn_tile_most;
    const struct bst_be_cfg cfg = {.threads = 1};

    (void)state;
    for (size_t bound = 1 << 10; bound <= 1 << 20; bound *= 8) {
        cuda_attn_tile_most = bound;
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            const struct net n = {.length = lengths[i], .heads = 3, .dim = 8, .layers = 1};
            struct made m;

            make(&m, &cfg, &n, 5);
            const struct cuda_attn_tiles *t = &nth(&m, BST_I_ATTN_FWD, 0)->by.tiles;
            const int64_t row = t->width * (int64_t)sizeof(float);
            assert_true(t->n_rows >= n.length && t->n_rows % t->rows == 0 && t->rows % 16 == 0);
            assert_true(t->heads >= 1 && t->heads <= 15);
            assert_true(t->heads == 1 || t->rows == t->n_rows);
            /* No more than the bound, but for the least a tile can be; and not half of it where
             * there is more to do. */
            assert_true(t->heads * t->rows * row <= (int64_t)bound || t->rows == 16);
            unmake(&m);
        }
    }
    cuda_attn_tile_most = most;
}

/* --- what it asks for --- */

static unsigned long calls(const char *name)
{
    static struct fake_call_count list[512];
    const int n = fake_calls_get(list, 512);
    unsigned long all = 0;

    for (int i = 0; i < n; i++)
        for (int d = 0; !strcmp(list[i].name, name) && d < FAKE_DEVICES_MAX; d++)
            all += list[i].n[d];
    return all;
}

/* cuDNN compiles a plan for seconds. */
static void layers_share_their_plans(void **state)
{
    static const char plan[] = "cudnnBackendFinalize.plan";
    const struct bst_be_cfg cfg = {.threads = 1, .precision = BST_PRECISION_BF16};
    struct net n = {.length = 17, .heads = 2, .dim = 64, .causal = true, .drop = 0.1};
    unsigned long made[2];
    struct made m;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const unsigned long before = calls(plan);

        n.layers = i ? 5 : 1;
        make(&m, &cfg, &n, 3);
        made[i] = calls(plan) - before;
        if (i)
            assert_ptr_equal(nth(&m, BST_I_ATTN_FWD, 0)->by.fused.plan,
                             nth(&m, BST_I_ATTN_FWD, 4)->by.fused.plan);
        unmake(&m);
    }
    assert_true(made[0] > 0);
    assert_int_equal(made[0], made[1]);
}

struct memory {
    struct bst_bindings at;
    size_t bytes[BST_MEM_N];
};

static void memory_init(struct memory *mem, const struct made *m)
{
    *mem = (struct memory){
        .bytes = {[BST_MEM_WEIGHT] = m->params->trained_bytes + m->params->state_bytes,
                  [BST_MEM_GRAD] = m->params->trained_bytes,
                  [BST_MEM_STAGED] = m->params->state_bytes,
                  [BST_MEM_ARENA] = m->p->arena_bytes}};
    for (int i = 0; i < BST_MEM_N; i++)
        ok(bst_backend_cuda.alloc(m->be, mem->bytes[i], &mem->at.base[i]));
}

static void memory_fini(struct memory *mem, const struct made *m)
{
    for (int i = 0; i < BST_MEM_N; i++)
        bst_backend_cuda.free(m->be, mem->at.base[i], mem->bytes[i]);
}

static void run(const struct made *m, const struct memory *mem, const struct bst_step *step)
{
    for (int i = 0; i < m->p->n_instrs; i++) {
        const struct bst_instr *in = &m->p->instrs[i];
        void *src[BST_MAX_SRC], *dst[BST_MAX_DST];

        for (int k = 0; k < in->n_src; k++)
            src[k] = bst_program_address(m->p, &mem->at, in->src[k]);
        for (int k = 0; k < in->n_dst; k++)
            dst[k] = bst_program_address(m->p, &mem->at, in->dst[k]);
        ok(bst_backend_cuda.run(
            m->be, m->p, in, src, dst,
            in->scratch < 0 ? NULL : bst_program_address(m->p, &mem->at, in->scratch), step));
    }
}

enum { SAMPLES = 4, LENGTH = 33 };
static const struct net padded = {
    .length = LENGTH, .heads = 2, .dim = 64, .layers = 2, .drop = 0.1, .padded = true};

/* One sample is cut short, one has nothing at all. */
static struct bst_step step_of(struct bst_step_result *result)
{
    static int32_t tokens[SAMPLES * LENGTH], lengths[SAMPLES] = {LENGTH, 5, 0, 17};

    for (int i = 0; i < SAMPLES * LENGTH; i++)
        tokens[i] = i * 5 % ROWS;
    return (struct bst_step){.tokens = {tokens},
                             .labels = tokens,
                             .lengths = {lengths},
                             .n_valid = SAMPLES,
                             .grad_scale = 1,
                             .result = result};
}

/* Nothing in an instruction waits for the device. */
static void nothing_waits(void **state)
{
    static const char *const waits[] = {"cudaStreamSynchronize", "cudaDeviceSynchronize",
                                        "cudaEventSynchronize", "cudaStreamQuery", "cudaMemcpy"};

    (void)state;
    for (int precision = 0; precision < BST_N_PRECISIONS; precision++) {
        const struct bst_be_cfg cfg = {.threads = 1, .precision = (enum bst_precision)precision};
        struct bst_step_result result = {0};
        const struct bst_step step = step_of(&result);
        struct memory mem;
        struct made m;
        unsigned long before = 0, after = 0;

        make(&m, &cfg, &padded, SAMPLES);
        memory_init(&mem, &m);
        for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++)
            before += calls(waits[i]);
        run(&m, &mem, &step);
        for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++)
            after += calls(waits[i]);
        assert_int_equal(before, after);
        ok(bst_backend_cuda.finish(m.be, &step));
        memory_fini(&mem, &m);
        unmake(&m);
    }
}

static float *gradients(const struct made *m, const struct memory *mem, const struct bst_step *step)
{
    float *x = bst_xalloc(mem->bytes[BST_MEM_GRAD]);
    const int64_t n = (int64_t)(mem->bytes[BST_MEM_WEIGHT] / sizeof *x);
    float *w = bst_xcalloc((size_t)n, sizeof *w);

    for (int64_t i = 0; i < n; i++)
        w[i] = (float)(i * 7 % 13 - 6) / 8;
    ok(bst_backend_cuda.upload(m->be, mem->at.base[BST_MEM_WEIGHT], w, (size_t)n * sizeof *w));
    run(m, mem, step);
    ok(bst_backend_cuda.finish(m->be, step));
    ok(bst_backend_cuda.download(m->be, x, mem->at.base[BST_MEM_GRAD], mem->bytes[BST_MEM_GRAD]));
    bst_free(w);
    return x;
}

/* What a bf16 context of these settings makes of the step; `samples`: of one run of cuDNN's plan.
 */
static float *gradients_with(struct bst_be_cfg cfg, size_t tile_most, size_t *bytes, int samples)
{
    const size_t most = cuda_attn_tile_most;
    struct bst_step_result result = {0};
    const struct bst_step step = step_of(&result);
    struct memory mem;
    struct made m;
    double sum = 0;

    cfg.threads = 1;
    cfg.precision = BST_PRECISION_BF16;
    cuda_attn_tile_most = tile_most;
    make(&m, &cfg, &padded, SAMPLES);
    cuda_attn_tile_most = most;
    const struct cuda_attn *at = nth(&m, BST_I_ATTN_BWD, 0);
    assert_true(at->is_fused);
    assert_int_equal(at->by.fused.ask.steady, !cfg.autotune);
    assert_int_equal(at->by.fused.ask.n, samples);
    memory_init(&mem, &m);
    *bytes = mem.bytes[BST_MEM_GRAD];
    float *x = gradients(&m, &mem, &step);
    for (size_t i = 0; i < *bytes / sizeof *x; i++)
        sum += (double)(x[i] * x[i]);
    assert_true(sum > 0);
    memory_fini(&mem, &m);
    unmake(&m);
    return x;
}

/* Where the order of a sum is left to cuDNN another graph is asked for, whose sums are in memory;
 * where memory is short a plan runs for some of the samples at a time. On the fakes all of it comes
 * to the same bits. */
static void all_runs_backward_are_the_same(void **state)
{
    const struct bst_be_cfg steady = {0}, any = {.autotune = true};
    size_t bytes = 0;
    float *want = gradients_with(steady, 1 << 20, &bytes, SAMPLES);
    float *got[] = {gradients_with(any, 1 << 20, &bytes, SAMPLES),
                    gradients_with(steady, 4 << 10, &bytes, 2),
                    gradients_with(any, 1 << 10, &bytes, 2)};

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(got[i], want, bytes);
        bst_free(got[i]);
    }
    bst_free(want);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_way_goes_by_size_and_device),
        cmocka_unit_test(memory_is_linear_in_the_length),
        cmocka_unit_test(tiles_cover_all),
        cmocka_unit_test(layers_share_their_plans),
        cmocka_unit_test(nothing_waits),
        cmocka_unit_test(all_runs_backward_are_the_same),
    };

    (void)argc;
    (void)argv;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
