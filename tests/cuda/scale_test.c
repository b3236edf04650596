/* Runs in 16 bits on the fakes: 1 to 8 ranks that scale their loss, with gradients that are not
 * finite put in on one of them, through holds, trials and files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend/cuda/be.h"
#include "core/backend/cuda/cuda.h"
#include "core/base/alloc.h"
#include "core/base/io.h"
#include "tests/unit/train_support.h"

static char dir[] = "/tmp/bst-scale-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return bst_io_remove_tree(dir);
}

/* --- cuda, with something put into a gradient --- */

static struct {
    const char *param; /* NULL: nothing */
    int rank;
    float value;
} poison;

static const char *overflow; /* layer out of whose backward half an infinity comes */

static enum bst_err put_in(struct bst_be *be, const struct bst_program *p,
                           const struct bst_instr *in, void *const *dst)
{
    for (int k = 0; k < in->n_dst; k++) {
        const struct bst_value *v = &p->values[in->dst[k]];
        if (v->param >= 0 && v->memory == BST_MEM_GRAD &&
            !strcmp(p->params->slots[v->param].name, poison.param))
            BST_TRY(cuda_upload(be, dst[k], &poison.value, sizeof poison.value));
    }
    return BST_OK;
}

static enum bst_err run(struct bst_be *be, const struct bst_program *p, const struct bst_instr *in,
                        void *const *src, void *const *dst, void *scratch,
                        const struct bst_step *step)
{
    BST_TRY(bst_backend_cuda.run(be, p, in, src, dst, scratch, step));
    if (overflow && in->op == BST_I_BN_BWD && !strcmp(in->name, overflow)) {
        static const uint16_t infinity = 0x7c00;
        BST_TRY(cuda_upload(be, dst[0], &infinity, sizeof infinity));
    }
    return poison.param && be->device == poison.rank ? put_in(be, p, in, dst) : BST_OK;
}

static struct bst_trainer *open_on(int ranks, enum bst_precision precision,
                                   enum bst_optimizer optimizer)
{
    static struct bst_backend b;
    b = bst_backend_cuda;
    b.run = run;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "cuda");
    cfg.backend = &b;
    cfg.ranks = ranks;
    cfg.precision = precision;
    cfg.optim.kind = optimizer;
    return train_open(&cfg);
}

static struct bst_update_result update_at(struct bst_trainer *t, int i, double rate)
{
    struct bst_update_result r = {0};
    struct bst_update_req req = train_req((uint64_t)i * 24, 24, 1);
    req.lr = rate;
    ok(bst_trainer_update(t, &req, NULL, &r));
    return r;
}

static struct bst_update_result update(struct bst_trainer *t, int i)
{
    return update_at(t, i, 0.01);
}

static struct bst_update_result poisoned(struct bst_trainer *t, int i, const char *param, int rank,
                                         float value)
{
    poison.param = param;
    poison.rank = rank;
    poison.value = value;
    struct bst_update_result r = update(t, i);
    poison.param = NULL;
    return r;
}

/* The weights' file, whose bytes are equal where they are. */
static char *weights(struct bst_trainer *t, size_t *n)
{
    static int count;
    char path[96], *data = NULL;
    snprintf(path, sizeof path, "%s/weights-%d", dir, count++);
    ok(bst_trainer_save(t, BST_STATE_WEIGHTS, path));
    ok(bst_io_read_file(path, 1u << 20, &data, n));
    return data;
}

static void check_ranks(int ranks)
{
    static const char *const params[] = {"conv1.weight", "bn2.bias", "fc.weight"};
    struct bst_trainer *t = open_on(ranks, BST_PRECISION_FP16, BST_OPTIMIZER_ADAMW);
    double scale = 65536;
    uint64_t steps = 0;
    int i = 0;
    struct bst_update_result r = update(t, i++);
    assert_true(isfinite(r.loss) && !r.skipped && r.loss_scale == scale);
    steps++;
    for (int k = 0; k < 3; k++) {
        size_t n[2];
        char *before = weights(t, &n[0]);
        r = poisoned(t, i++, params[k], (k + ranks - 1) % ranks, k == 1 ? NAN : INFINITY);
        char *after = weights(t, &n[1]);
        assert_true(r.skipped && r.nonfinite && r.loss_scale == scale && r.lr_used == 0);
        assert_true(r.overflowed);
        assert_non_null(r.first_nonfinite);
        assert_string_equal(r.first_nonfinite, params[k]);
        assert_int_equal(n[0], n[1]);
        assert_memory_equal(before, after, n[0]);
        assert_int_equal(bst_trainer_optim_steps(t), steps);
        bst_free(before);
        bst_free(after);
        scale /= 2;
        r = update(t, i++);
        assert_true(!r.skipped && r.loss_scale == scale);
        assert_null(r.first_nonfinite);
        assert_int_equal(bst_trainer_optim_steps(t), ++steps);
        ok(bst_trainer_compare_ranks(t));
    }
    bst_trainer_close(t);
}

static void a_bad_gradient_on_one_rank_stops_all(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 8; ranks *= 2)
        check_ranks(ranks);
}

/* What overflows on its way back spoils all that lies before it: named is where it began. */
static void an_overflow_is_named_where_it_began(void **state)
{
    struct bst_trainer *t = open_on(2, BST_PRECISION_FP16, BST_OPTIMIZER_SGD);
    int n;
    (void)state;
    update(t, 0);
    overflow = "bn2";
    const struct bst_update_result r = update(t, 1);
    overflow = NULL;
    assert_true(r.skipped && isfinite(r.loss));
    assert_string_equal(r.first_nonfinite, "conv2.weight");
    const struct bst_layer_norm *layer = bst_trainer_layers(t, &n);
    assert_string_equal(layer[0].name, "conv1.weight");
    assert_false(isfinite(layer[0].grad_norm));
    assert_true(isfinite(layer[n - 1].grad_norm));
    bst_trainer_close(t);
}

/* What is reported is the gradient's own norm, whatever it was scaled by; near that of fp32, whose
 * net it is but for roundings. */
static void norms_are_those_of_fp32(void **state)
{
    static const double allowed[] = {
        [BST_PRECISION_TF32] = 1e-6, [BST_PRECISION_FP16] = 0.01, [BST_PRECISION_BF16] = 0.08};
    struct bst_trainer *plain = open_on(2, BST_PRECISION_FP32, BST_OPTIMIZER_SGD);
    const struct bst_update_result want = update(plain, 0);
    int n;
    const struct bst_layer_norm *layer = bst_trainer_layers(plain, &n);
    (void)state;
    assert_true(want.loss_scale == 1);
    for (int p = BST_PRECISION_TF32; p < BST_N_PRECISIONS; p++) {
        struct bst_trainer *t = open_on(2, (enum bst_precision)p, BST_OPTIMIZER_SGD);
        const struct bst_update_result got = update(t, 0);
        const struct bst_layer_norm *mine = bst_trainer_layers(t, &n);
        assert_true(got.loss_scale == (p == BST_PRECISION_FP16 ? 65536 : 1));
        if (!(fabs(got.grad_norm / want.grad_norm - 1) <= allowed[p]) ||
            !(fabs(got.loss / want.loss - 1) <= allowed[p]))
            fail_msg("%s: loss %g, norm %g; in fp32 %g, %g",
                     bst_precision_name((enum bst_precision)p), got.loss, got.grad_norm, want.loss,
                     want.grad_norm);
        for (int i = 0; i < n; i++)
            assert_true(fabs(mine[i].grad_norm - layer[i].grad_norm) <=
                        allowed[p] * want.grad_norm);
        bst_trainer_close(t);
    }
    bst_trainer_close(plain);
}

/* A hold and what is set aside for a trial bring the scale and its count back with the weights. */
static void the_scale_goes_back_with_the_rest(void **state)
{
    struct bst_trainer *t = open_on(2, BST_PRECISION_FP16, BST_OPTIMIZER_SGD);
    struct bst_kept *kept = NULL;
    (void)state;
    update(t, 0);
    ok(bst_trainer_hold(t));
    const uint32_t before = train_hash(t);
    poisoned(t, 1, "fc.bias", 1, INFINITY);
    assert_int_not_equal(train_hash(t), before); /* nothing moved but the scale */
    ok(bst_trainer_rewind(t));
    assert_int_equal(train_hash(t), before);
    assert_true(update(t, 1).loss_scale == 65536);
    const uint32_t later = train_hash(t);
    ok(bst_trainer_keep(t, &kept));
    poisoned(t, 2, "fc.bias", 0, NAN);
    assert_true(update(t, 3).loss_scale == 32768);
    ok(bst_trainer_restore(kept));
    assert_int_equal(train_hash(t), later);
    assert_true(update(t, 2).loss_scale == 65536);
    bst_trainer_kept_free(kept);
    bst_trainer_close(t);
}

/* The two numbers of a state file, as they stand there next to each other. */
static void rewrite_count(const char *path, float scale, float good, float as)
{
    const float was[2] = {scale, good};
    char *data = NULL;
    size_t n = 0, at = 0, found = 0;
    ok(bst_io_read_file(path, 1u << 20, &data, &n));
    for (size_t i = 0; i + sizeof was <= n; i++)
        if (!memcmp(data + i, was, sizeof was)) {
            at = i;
            found++;
        }
    assert_int_equal(found, 1);
    memcpy(data + at + sizeof(float), &as, sizeof as);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    bst_free(data);
}

static void a_file_brings_the_scale_and_its_count(void **state)
{
    char path[2][96];
    struct bst_trainer *t = open_on(4, BST_PRECISION_FP16, BST_OPTIMIZER_LAMB);
    (void)state;
    snprintf(path[0], sizeof path[0], "%s/w", dir);
    snprintf(path[1], sizeof path[1], "%s/o", dir);
    update(t, 0);
    poisoned(t, 1, "conv2.weight", 3, NAN);
    for (int i = 2; i < 5; i++)
        update(t, i);
    ok(bst_trainer_save(t, BST_STATE_WEIGHTS, path[0]));
    ok(bst_trainer_save(t, BST_STATE_OPTIMIZER, path[1]));
    struct bst_trainer *again = open_on(4, BST_PRECISION_FP16, BST_OPTIMIZER_LAMB);
    for (int k = 0; k < 2; k++)
        ok(bst_trainer_load(again, (enum bst_state)k, path[k], false, NULL, 0));
    assert_int_equal(train_hash(again), train_hash(t));
    assert_true(update(again, 5).loss_scale == 32768);
    update(t, 5);
    assert_int_equal(train_hash(again), train_hash(t));
    ok(bst_trainer_compare_ranks(again));
    /* 1998 good ones: the second update from here on is the 2000th, the third has the double. */
    rewrite_count(path[1], 32768, 3, 1998);
    ok(bst_trainer_load(again, BST_STATE_OPTIMIZER, path[1], false, NULL, 0));
    assert_true(update(again, 6).loss_scale == 32768);
    assert_true(update(again, 7).loss_scale == 32768);
    assert_true(update(again, 8).loss_scale == 65536);
    rewrite_count(path[1], 32768, 1998, 2000);
    assert_int_equal(bst_trainer_load(again, BST_STATE_OPTIMIZER, path[1], false, NULL, 0),
                     BST_E_CORRUPT);
    bst_trainer_close(again);
    /* A run in another precision has no place for it. */
    again = open_on(4, BST_PRECISION_BF16, BST_OPTIMIZER_LAMB);
    assert_int_equal(bst_trainer_load(again, BST_STATE_OPTIMIZER, path[1], false, NULL, 0),
                     BST_E_NOTFOUND);
    bst_trainer_close(again);
    bst_trainer_close(t);
}

/* Fifty free updates in each precision bring the loss down as far. */
static void every_precision_learns(void **state)
{
    double first = 0, last[BST_N_PRECISIONS];
    (void)state;
    for (int p = 0; p < BST_N_PRECISIONS; p++) {
        struct bst_trainer *t = open_on(2, (enum bst_precision)p, BST_OPTIMIZER_SGD);
        for (int i = 0; i < 50; i++) {
            const struct bst_update_result r = update_at(t, i, 0.05);
            assert_false(r.skipped);
            first = i ? first : r.loss;
            last[p] = r.loss;
        }
        ok(bst_trainer_compare_ranks(t));
        bst_trainer_close(t);
        if (!(last[p] < 0.9 * first) || !(fabs(last[p] - last[0]) < 0.1 * first))
            fail_msg("%s: from %g to %g; in fp32 to %g", bst_precision_name((enum bst_precision)p),
                     first, last[p], last[0]);
    }
}

static void what_a_backend_has_not_is_refused(void **state)
{
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_trainer *t = NULL;
    (void)state;
    cfg.precision = BST_PRECISION_BF16;
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_UNSUPPORTED);
    assert_string_equal(bst_err_text(), "precision: the ref backend computes in fp32, not in bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_gradient_on_one_rank_stops_all),
        cmocka_unit_test(an_overflow_is_named_where_it_began),
        cmocka_unit_test(norms_are_those_of_fp32),
        cmocka_unit_test(the_scale_goes_back_with_the_rest),
        cmocka_unit_test(a_file_brings_the_scale_and_its_count),
        cmocka_unit_test(every_precision_learns),
        cmocka_unit_test(what_a_backend_has_not_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
