/* bench_gpu NET SIZE CLASSES BATCH PRECISION [BACKEND]: the trainer on one device, on command, for
 * tests/bench/gpu.py and tests/gpu/check. A line on standard input, and its answer, one line of
 * JSON:
 *
 *     full N      N whole updates, loader and optimizer included
 *     kinds N     seconds, bytes and arithmetic of each instruction, over N updates
 *     split B K   to a batch of B in K micro-batches; the time it takes, or why not
 *     memory      bytes planned, and by how much less is free since the device was opened */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/train/train.h"
#include "nets/nets.h"

enum { ROWS_MOST = 4096, REPEATS = 5 };

struct row { /* an instruction of the program that trains */
    const struct bst_instr *in;
    char name[64], op[24];
    double seconds, bytes, flops;
    int n;
};

static struct bst_backend timed;
static const struct bst_backend *real;
static struct row rows[ROWS_MOST];
static int n_rows;
static bool by_kind;
static uint64_t free_at_start, free_last;

static enum bst_err timed_open(const struct bst_be_cfg *cfg, struct bst_be **out)
{
    BST_TRY(real->open(cfg, out));
    return real->memory ? real->memory(*out, &free_at_start) : BST_OK;
}

static struct row *row_of(const struct bst_instr *in)
{
    for (int i = 0; i < n_rows; i++)
        if (rows[i].in == in)
            return &rows[i];
    if (n_rows == ROWS_MOST)
        return NULL;
    struct row *r = &rows[n_rows++];
    *r = (struct row){.in = in};
    snprintf(r->name, sizeof r->name, "%s", in->name);
    snprintf(r->op, sizeof r->op, "%s", bst_instr_op_name(in->op));
    return r;
}

/* A multiplication and an addition are two; the same for a convolution's three directions. */
static double flops_of(const struct bst_program *p, const struct bst_instr *in)
{
    const struct bst_shape *y = NULL, *w = NULL;
    switch (in->op) {
    case BST_I_CONV_FWD:
    case BST_I_LINEAR_FWD:
        y = &p->values[in->dst[0]].shape;
        w = &p->values[in->src[1]].shape;
        break;
    case BST_I_CONV_BWD_DATA:
    case BST_I_LINEAR_BWD_DATA:
        y = &p->values[in->src[0]].shape;
        w = &p->values[in->src[1]].shape;
        break;
    case BST_I_CONV_BWD_WEIGHT:
    case BST_I_LINEAR_BWD_WEIGHT:
        y = &p->values[in->src[1]].shape;
        w = &p->values[in->dst[0]].shape;
        break;
    default:
        return 0;
    }
    return 2.0 * (double)bst_shape_count(y) * (double)bst_shape_count(w) / (double)w->d[0];
}

static double bytes_of(const struct bst_program *p, const struct bst_instr *in)
{
    double sum = 0;
    for (int k = 0; k < in->n_src; k++)
        sum += (double)p->values[in->src[k]].bytes;
    for (int k = 0; k < in->n_dst; k++)
        sum += (double)p->values[in->dst[k]].bytes;
    return sum;
}

/* Several runs behind each other, so that the wait at their end weighs little; what an instruction
 * that works in place makes of its numbers the second time does not matter here. */
static enum bst_err timed_run(struct bst_be *be, const struct bst_program *p,
                              const struct bst_instr *in, void *const *src, void *const *dst,
                              void *scratch, const struct bst_step *step)
{
    struct bst_step_result dropped = {0};
    struct bst_step apart = *step;
    struct row *r = by_kind && p->training ? row_of(in) : NULL;
    if (!r)
        return real->run(be, p, in, src, dst, scratch, step);
    apart.result = &dropped;
    BST_TRY(real->run(be, p, in, src, dst, scratch, &apart));
    if (real->finish)
        BST_TRY(real->finish(be, &apart));
    const double start = bst_clock_now();
    for (int i = 0; i < REPEATS; i++)
        BST_TRY(real->run(be, p, in, src, dst, scratch, &apart));
    if (real->finish)
        BST_TRY(real->finish(be, &apart));
    r->seconds += (bst_clock_now() - start) / REPEATS;
    r->bytes = bytes_of(p, in);
    r->flops = flops_of(p, in);
    r->n++;
    return BST_OK;
}

static enum bst_err timed_copy(struct bst_be *be, void *dst, const void *src, size_t bytes)
{
    BST_TRY(real->memory ? real->memory(be, &free_last) : BST_OK);
    return real->copy(be, dst, src, bytes);
}

static enum bst_err updates(struct bst_trainer *t, int64_t batch, int micro_batches, int n)
{
    static uint64_t first;
    struct bst_update_result r;
    struct bst_update_req req = {.first = first,
                                 .batch = batch,
                                 .micro_batches = micro_batches,
                                 .lr = 0.01,
                                 .momentum = 0.9,
                                 .weight_decay = 1e-4};
    /* As a run does it. */
    for (int i = 0; i < n; i++, req.first += (uint64_t)batch) {
        BST_TRY(bst_trainer_send(t, &req, NULL));
        if (bst_trainer_sent(t) > bst_trainer_late(t))
            BST_TRY(bst_trainer_take(t, &r));
    }
    while (bst_trainer_sent(t))
        BST_TRY(bst_trainer_take(t, &r));
    first = req.first;
    return BST_OK;
}

struct state {
    struct bst_trainer *t;
    int64_t batch;
    int micro_batches;
};

static void print_rows(struct bst_json *j, int n_updates)
{
    bst_json_open(j, "instructions", '[');
    for (int i = 0; i < n_rows; i++) {
        const struct row *r = &rows[i];
        bst_json_open(j, NULL, '{');
        bst_json_str(j, "name", r->name);
        bst_json_str(j, "op", r->op);
        bst_json_num(j, "ms", r->seconds * 1e3 / n_updates);
        bst_json_num(j, "mbytes", r->bytes / 1e6);
        bst_json_num(j, "gflop", r->flops / 1e9);
        bst_json_close(j, '}');
    }
    bst_json_close(j, ']');
}

static enum bst_err do_split(struct state *s, const char *line, struct bst_json *j)
{
    int64_t batch = 0;
    int k = 0;
    double seconds = 0;
    if (sscanf(line, "split %" SCNd64 " %d", &batch, &k) != 2)
        return bst_fail(BST_E_ARG, "not a command: %s", line);
    const double start = bst_clock_now();
    enum bst_err err = bst_trainer_set_split(s->t, batch, k, &seconds);
    if (err == BST_E_NOMEM) { /* an answer */
        bst_json_str(j, "refused", bst_err_text());
        return BST_OK;
    }
    BST_TRY(err);
    bst_json_num(j, "seconds", bst_clock_now() - start);
    bst_json_num(j, "replan_seconds", seconds);
    s->batch = batch;
    s->micro_batches = k;
    return BST_OK;
}

static enum bst_err do_memory(struct state *s, struct bst_json *j)
{
    struct bst_rank_memory m;
    BST_TRY(bst_trainer_hold(s->t)); /* by copies on the rank's thread: free_last is of now */
    bst_trainer_memory(s->t, 0, &m);
    bst_json_uint(j, "planned", m.total);
    if (real->memory && free_last <= free_at_start)
        bst_json_uint(j, "taken", free_at_start - free_last);
    return BST_OK;
}

static enum bst_err answer(struct state *s, const char *line, struct bst_json *j)
{
    const double start = bst_clock_now();
    int n = 0;
    if (sscanf(line, "full %d", &n) == 1) {
        BST_TRY(updates(s->t, s->batch, s->micro_batches, n));
        bst_json_num(j, "seconds", bst_clock_now() - start);
        return BST_OK;
    }
    if (sscanf(line, "kinds %d", &n) == 1 && n > 0) {
        n_rows = 0;
        by_kind = true;
        timed.run_some = NULL; /* one by one */
        enum bst_err err = updates(s->t, s->batch, s->micro_batches, n);
        by_kind = false;
        timed.run_some = real->run_some;
        print_rows(j, n);
        return err;
    }
    if (!strncmp(line, "split", 5))
        return do_split(s, line, j);
    if (!strncmp(line, "memory", 6))
        return do_memory(s, j);
    return bst_fail(BST_E_ARG, "not a command: %s", line);
}

static bool find_precision(const char *word, enum bst_precision *out)
{
    for (int i = 0; i < BST_N_PRECISIONS; i++) {
        *out = (enum bst_precision)i;
        if (!strcmp(word, bst_precision_name(*out)))
            return true;
    }
    return false;
}

static enum bst_err serve(struct state *s)
{
    char line[128];
    struct bst_device_info info;
    bst_trainer_device(s->t, 0, &info);
    printf("ready %s, %s, %s\n", info.name, info.isa, info.library);
    while (fgets(line, sizeof line, stdin)) {
        struct bst_sb text;
        struct bst_json j;
        bst_sb_init(&text, 8 << 20);
        bst_json_init(&j, &text);
        bst_json_open(&j, NULL, '{');
        enum bst_err err = answer(s, line, &j);
        bst_json_close(&j, '}');
        if (!err)
            printf("%s\n", text.data);
        bst_sb_fini(&text);
        BST_TRY(err);
    }
    return BST_OK;
}

static enum bst_err start(char **argv, const char *backend, struct state *s)
{
    const int size = atoi(argv[2]);
    struct bst_train_cfg cfg = {
        .net = bst_net_find(&net_table, argv[1]),
        .net_cfg = {.name = argv[1],
                    .in_channels = 3,
                    .height = size,
                    .width = size,
                    .classes = atoi(argv[3]),
                    .mean = {0.5F, 0.5F, 0.5F},
                    .std = {0.25F, 0.25F, 0.25F}},
        .backend = &timed,
        .ranks = 1,
        .data = {.format = "shapes",
                 .image_size = size,
                 .channels = 3,
                 .classes = 10,
                 .train_count = 1024,
                 .eval_count = 16},
        .shuffle = true,
        .autotune = true,
        .capture = true,
    };
    BST_TRY(bst_backend_get(backend, &real));
    timed = *real;
    timed.open = timed_open;
    timed.run = timed_run;
    timed.copy = timed_copy;
    if (!cfg.net || !find_precision(argv[5], &cfg.precision))
        return bst_fail(BST_E_ARG, "no net %s, or no precision %s", argv[1], argv[5]);
    s->batch = atoi(argv[4]);
    s->micro_batches = 1;
    BST_TRY(bst_trainer_open(&cfg, &s->t));
    return updates(s->t, s->batch, 1, 1);
}

int main(int argc, char **argv)
{
    struct state s = {0};
    if (argc < 6) {
        fprintf(stderr, "usage: bench_gpu NET SIZE CLASSES BATCH PRECISION [BACKEND]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    enum bst_err err = start(argv, argc > 6 ? argv[6] : "cuda", &s);
    if (!err)
        err = serve(&s);
    if (err)
        fprintf(stderr, "bench_gpu: %s\n", bst_err_text());
    bst_trainer_close(s.t);
    return err ? 1 : 0;
}
