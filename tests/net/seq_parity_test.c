/* Nets over sequences beside PyTorch's, by numbers that seq_parity.py wrote.   test_net_seq_parity
 * BACKEND
 *
 * ref64: loss and gradients are those of PyTorch in float64. ref, cpu: each gradient's error
 * against ref64 is at most twice that of PyTorch in float32. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "nets/nets.h"
#include "tests/net/net_rig.h"

struct known {
    const char *name;
    uint64_t seed;
    double norm, own; /* of the gradient; its relative error in PyTorch's float32 */
    int64_t at[4];
    double element[4];
};

struct net {
    const char *name, *net;
    int length[BST_MAX_STREAMS], hidden;
    bool norm_first;
    double loss;
    int targets;
    const struct known *known;
    int n_known;
};

#include "tests/net/seq_parity.inc"

#define MOST_POSITIONS (SAMPLES * 128)

/* As in seq_parity.py. */
static uint32_t mix(uint64_t seed, uint64_t i)
{
    uint64_t x = ((seed << 32) + i) * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((x ^ (x >> 31)) >> 32);
}

static double start_value(const char *name, uint64_t seed, int64_t i)
{
    double v = ((double)(mix(seed, (uint64_t)i) >> 16) / 32768 - 1) / 4;
    const char *end = strstr(name, ".weight");
    bool is_norm = strstr(name, ".ln_") || strstr(name, "norm") || strstr(name, "Norm");
    return is_norm && end && !end[strlen(".weight")] ? 1 + v : v;
}

static double *read_slot(struct net_rig *r, enum bst_memory m, int slot, int64_t *n)
{
    *n = bst_shape_count(&r->table->slots[slot].shape);
    double *x = bst_xcalloc((size_t)*n, sizeof *x);
    net_get(r, m, slot, x);
    return x;
}

static int slot_of(const struct net_rig *r, const struct known *k)
{
    int slot = bst_param_table_find(r->table, k->name);
    if (slot < 0)
        printf("no parameter is called %s\n", k->name);
    return slot;
}

static int fill(struct net_rig *r, const struct net *net)
{
    for (int i = 0; i < net->n_known; i++) {
        const struct known *k = &net->known[i];
        int slot = slot_of(r, k);
        if (slot < 0)
            return 1;
        int64_t n = bst_shape_count(&r->table->slots[slot].shape);
        double *x = bst_xcalloc((size_t)n, sizeof *x);
        for (int64_t j = 0; j < n; j++)
            x[j] = start_value(k->name, k->seed, j);
        net_set(r, BST_MEM_WEIGHT, slot, x);
        bst_free(x);
    }
    if (r->table->n_slots == net->n_known)
        return 0;
    printf("%d parameters, PyTorch has %d\n", r->table->n_slots, net->n_known);
    return 1;
}

/* One pass over the whole batch; r holds the gradients then. */
static int run(struct net_rig *r, const struct net *net, const char *backend)
{
    static int32_t tokens[BST_MAX_STREAMS][MOST_POSITIONS], labels[MOST_POSITIONS];
    static int32_t lengths[SAMPLES], pair[SAMPLES];
    bool bert = !strcmp(net->net, "bert");
    const struct bst_net_cfg cfg = {.name = net->net,
                                    .classes = VOCABULARY,
                                    .base_width = WIDTH,
                                    .layers = LAYERS,
                                    .heads = HEADS,
                                    .hidden = net->hidden,
                                    .norm_first = net->norm_first,
                                    .positions = strcmp(net->net, "transformer") ? POSITIONS : 0,
                                    .length = {net->length[0], net->length[1]}};
    const struct bst_compile_opts o = {.training = true};
    struct bst_graph *g = bst_graph_new(SAMPLES);
    net_must(bst_net_find(&net_table, net->net)->build(&cfg, g), net->net);
    net_open(r, bst_backend_find(backend), 2);
    net_compile(r, g, &o);
    net_alloc(r);
    if (fill(r, net))
        return 1;
    for (int s = 0; s < BST_MAX_STREAMS; s++) {
        /* BERT's first row is padding's, which Hugging Face's class does not train. */
        uint32_t from = bert && !s, rows = bert && s ? 2 : VOCABULARY - from;
        for (int i = 0; i < SAMPLES * net->length[s]; i++)
            tokens[s][i] = (int32_t)(from + mix(10 + (uint64_t)s, (uint64_t)i) % rows);
    }
    for (uint64_t i = 0; i < SAMPLES; i++) {
        lengths[i] = 1 + (int32_t)(mix(20, i) % (uint32_t)net->length[0]);
        pair[i] = (int32_t)(mix(4, i) % 2);
    }
    for (uint64_t i = 0; i < MOST_POSITIONS; i++)
        labels[i] = mix(3, i) % 5 ? (int32_t)(mix(2, i) % VOCABULARY) : BST_LABEL_IGNORED;
    struct bst_step step = {.tokens = {tokens[0], tokens[1]},
                            .lengths = {lengths},
                            .labels = labels,
                            .pair = pair,
                            .pair_scale = 1.0 / SAMPLES,
                            .n_valid = SAMPLES,
                            .grad_scale = 1.0 / net->targets,
                            .label_smoothing = SMOOTHING};
    net_run_step(r, 0, &step);
    return 0;
}

static bool near(double got, double want, double scale, const char *what)
{
    if (fabs(got - want) <= 1e-11 * scale)
        return true;
    printf("%s: %.15g, PyTorch has %.15g\n", what, got, want);
    return false;
}

static double loss_of(const struct net_rig *r, const struct net *net)
{
    return r->result.loss_sum / net->targets + r->result.pair_loss_sum / SAMPLES;
}

/* Of all gradients together: one that is 0 but for rounding, as that of a bias of keys, which moves
 * all scores of a query alike, is measured by this. */
static double whole_norm(const struct net *net)
{
    double sum = 0;
    for (int i = 0; i < net->n_known; i++)
        sum += net->known[i].norm * net->known[i].norm;
    return sqrt(sum);
}

static int against_pytorch(struct net_rig *r, const struct net *net)
{
    int failures = r->result.targets != net->targets;
    double all = whole_norm(net);
    failures += !near(loss_of(r, net), net->loss, net->loss, "loss");
    for (int i = 0; i < net->n_known; i++) {
        const struct known *k = &net->known[i];
        int64_t n;
        double *g = read_slot(r, BST_MEM_GRAD, slot_of(r, k), &n), norm = 0;
        double scale = fmax(k->norm, 1e-3 * all);
        for (int64_t j = 0; j < n; j++)
            norm += g[j] * g[j];
        failures += !near(sqrt(norm), k->norm, scale, k->name);
        for (int j = 0; j < 4; j++)
            failures += !near(g[k->at[j]], k->element[j], scale, k->name);
        bst_free(g);
    }
    return failures;
}

static int against_ref64(struct net_rig *r, struct net_rig *exact, const struct net *net)
{
    double off = fabs(loss_of(r, net) / loss_of(exact, net) - 1), worst = 0;
    double all = whole_norm(net);
    int failures = !(off <= 1e-5);
    for (int i = 0; i < net->n_known; i++) {
        const struct known *k = &net->known[i];
        int64_t n;
        double *got = read_slot(r, BST_MEM_GRAD, slot_of(r, k), &n);
        double *want = read_slot(exact, BST_MEM_GRAD, slot_of(r, k), &n), d = 0;
        for (int64_t j = 0; j < n; j++)
            d += (got[j] - want[j]) * (got[j] - want[j]);
        double times = sqrt(d) / fmax(k->norm * k->own, 1e-8 * all);
        if (!(times <= 2)) {
            printf("%s: its gradient is off by %.2f times PyTorch's error\n", k->name, times);
            failures++;
        }
        worst = fmax(worst, times);
        bst_free(got);
        bst_free(want);
    }
    printf("loss off by %.2g, gradients by %.2f times PyTorch's error at most (2 allowed)\n", off,
           worst);
    return failures;
}

static int check(const struct net *net, const char *backend)
{
    struct net_rig exact, r;
    printf("%s\n", net->name);
    if (run(&exact, net, "ref64"))
        return 1;
    int failures = against_pytorch(&exact, net);
    if (strcmp(backend, "ref64")) {
        if (run(&r, net, backend))
            return 1;
        failures += against_ref64(&r, &exact, net);
        net_close(&r);
    }
    net_close(&exact);
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
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
        failures += check(&nets[i], backend);
    printf("%d failures\n", failures);
    return failures ? 1 : 0;
}
