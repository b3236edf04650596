#include "train_support.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

static enum bst_err build_plain(const struct bst_net_cfg *cfg, struct bst_graph *g)
{
    int x = bst_graph_image(g, cfg->in_channels, cfg->height, cfg->width);
    x = bst_graph_conv2d(g, x, 8, (struct bst_window){3, 1, 1}, "conv1");
    x = bst_graph_relu(g, x, "relu1");
    x = bst_graph_conv2d(g, x, 8, (struct bst_window){3, 2, 1}, "conv2");
    x = bst_graph_relu(g, x, "relu2");
    x = bst_graph_global_avg_pool(g, x, "pool");
    bst_graph_softmax_ce(g, bst_graph_linear(g, x, cfg->classes, "fc"), "loss");
    return bst_graph_check(g);
}

static enum bst_err build_bn(const struct bst_net_cfg *cfg, struct bst_graph *g)
{
    int x = bst_graph_image(g, cfg->in_channels, cfg->height, cfg->width);
    x = bst_graph_conv2d(g, x, 8, (struct bst_window){3, 2, 1}, "conv1");
    x = bst_graph_relu(g, bst_graph_batch_norm(g, x, "bn1"), "relu1");
    int y = bst_graph_conv2d(g, x, 8, (struct bst_window){3, 1, 1}, "conv2");
    y = bst_graph_add(g, bst_graph_batch_norm(g, y, "bn2"), x, "add");
    y = bst_graph_global_avg_pool(g, bst_graph_relu(g, y, "relu2"), "pool");
    bst_graph_softmax_ce(g, bst_graph_linear(g, y, cfg->classes, "fc"), "loss");
    return bst_graph_check(g);
}

const struct bst_net train_plain_net = {"plain", "two convolutions", build_plain, BST_INPUT_IMAGES,
                                        NULL};
const struct bst_net train_bn_net = {"bn", "batch norm and a residual", build_bn, BST_INPUT_IMAGES,
                                     NULL};

void train_ok(enum bst_err err, const char *what, const char *file, int line)
{
    if (err) {
        print_error("%s: %s: %s\n", what, bst_err_name(err), bst_err_text());
        _fail(file, line);
    }
}

struct bst_train_cfg train_cfg(const struct bst_net *net, const char *backend)
{
    return (struct bst_train_cfg){
        .net = net,
        .net_cfg = {.name = net->name,
                    .classes = 4,
                    .in_channels = 1,
                    .height = 12,
                    .width = 12,
                    .mean = {0.3F},
                    .std = {0.25F}},
        .backend = backend ? bst_backend_find(backend) : train_faulty(),
        .ranks = 1,
        .threads = 1,
        .data = {.format = "shapes",
                 .image_size = 12,
                 .classes = 4,
                 .channels = 1,
                 .train_count = TRAIN_N,
                 .eval_count = EVAL_N,
                 .seed = 3},
        .shuffle = true,
        .seed = 3,
        .optim = {.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-6, .trust = 0.02},
    };
}

struct bst_update_req train_req(uint64_t first, int64_t batch, int micro_batches)
{
    return (struct bst_update_req){
        .first = first,
        .batch = batch,
        .micro_batches = micro_batches,
        .lr = 0.05,
        .momentum = 0.9,
        .weight_decay = 1e-3,
        .nesterov = true,
        .label_smoothing = 0.1,
        .update = first / (uint64_t)batch + 1,
    };
}

struct bst_trainer *train_open(const struct bst_train_cfg *cfg)
{
    struct bst_trainer *t = NULL;
    ok(bst_trainer_open(cfg, &t));
    return t;
}

uint32_t train_hash(struct bst_trainer *t)
{
    uint32_t h = 0;
    ok(bst_trainer_hash(t, &h));
    return h;
}

struct bst_update_result train_some(struct bst_trainer *t, int n, int64_t batch, int k)
{
    struct bst_update_result r = {0};
    for (int i = 0; i < n; i++) {
        struct bst_update_req req = train_req((uint64_t)i * (uint64_t)batch, batch, k);
        ok(bst_trainer_update(t, &req, NULL, &r));
    }
    return r;
}

static struct bst_backend faulty;
static struct bst_backend real;
static struct {
    enum fault_slot slot;
    atomic_int left; /* calls until the fault */
    enum bst_err err;
    atomic_bool poison;
    _Atomic(atomic_int *) stop;
    atomic_int stop_left;
} fault;

void train_fault(enum fault_slot slot, int at, enum bst_err err)
{
    fault.slot = slot;
    fault.err = err;
    atomic_store(&fault.left, at);
}

void train_poison(bool on)
{
    atomic_store(&fault.poison, on);
}

void train_stop_at(atomic_int *flag, int at)
{
    atomic_store(&fault.stop_left, at);
    atomic_store(&fault.stop, flag);
}

static enum bst_err trip(enum fault_slot slot)
{
    if (fault.slot != slot || atomic_fetch_sub(&fault.left, 1) != 1)
        return BST_OK;
    return bst_fail(fault.err, "injected");
}

static enum bst_err faulty_alloc(struct bst_be *be, size_t bytes, void **out)
{
    *out = NULL;
    enum bst_err err = trip(FAULT_ALLOC);
    return err ? err : real.alloc(be, bytes, out);
}

static enum bst_err faulty_run(struct bst_be *be, const struct bst_program *p,
                               const struct bst_instr *in, void *const *src, void *const *dst,
                               void *scratch, const struct bst_step *step)
{
    atomic_int *stop = atomic_load(&fault.stop);
    if (stop && atomic_fetch_sub(&fault.stop_left, 1) == 1)
        atomic_store(stop, 1);
    enum bst_err err = trip(FAULT_RUN);
    if (!err)
        err = real.run(be, p, in, src, dst, scratch, step);
    if (!err && atomic_load(&fault.poison) && in->op == BST_I_LINEAR_BWD_WEIGHT)
        *(float *)dst[0] = NAN;
    return err;
}

static enum bst_err faulty_sum(struct bst_be *be, void *dst, const void *const *srcs, int n_srcs,
                               size_t bytes)
{
    enum bst_err err = trip(FAULT_SUM);
    return err ? err : real.sum(be, dst, srcs, n_srcs, bytes);
}

static enum bst_err faulty_sgd(struct bst_be *be, const struct bst_sgd *how, void *w, void *v,
                               const void *g, size_t bytes)
{
    enum bst_err err = trip(FAULT_SGD);
    return err ? err : real.sgd(be, how, w, v, g, bytes);
}

static enum bst_err faulty_optimize(struct bst_be *be, const struct bst_optim *how,
                                    const struct bst_span *spans, int n_spans,
                                    const struct bst_optim_blocks *blocks)
{
    enum bst_err err = trip(FAULT_SGD);
    return err ? err : real.optimize(be, how, spans, n_spans, blocks);
}

static enum bst_err faulty_describe(struct bst_be *be, const struct bst_program *p,
                                    const struct bst_instr *in, bool accumulate,
                                    struct bst_wants *w)
{
    enum bst_err err = trip(FAULT_DESCRIBE);
    return err ? err : real.describe.describe(be, p, in, accumulate, w);
}

const struct bst_backend *train_faulty(void)
{
    if (!faulty.name) {
        real = *bst_backend_find("ref");
        faulty = real;
        faulty.name = "faulty";
        faulty.alloc = faulty_alloc;
        faulty.run = faulty_run;
        faulty.sum = faulty_sum;
        faulty.sgd = faulty_sgd;
        faulty.optimize = faulty_optimize;
        faulty.describe.describe = faulty_describe;
    }
    return &faulty;
}
