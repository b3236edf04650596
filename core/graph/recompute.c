/* Which forward instructions run again.
 *
 * For `auto` the set is grown one instruction at a time. What is too much is the number of bytes
 * above the budget, summed over all instructions of the program that the set gives (its exact
 * liveness, in-place rights and scratch included); the one to add is that which takes most away
 * for the work of its second run. So batch norms go first, whose second run is a pass over memory,
 * and convolutions last. Gains change as the set grows: the best of the last round is weighed
 * again, and taken while it stays the best (lazy greedy; Minoux 1978). Where that ends above the
 * budget, it starts again from sets of whole blocks. From what fits, everything that is not needed
 * after all is taken out again, the dearest first. All of it is a function of program and limit
 * alone, so that ranks, and a run and its resumption, agree. */
#include <fnmatch.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/graph/passes.h"

/* Arithmetic operations in the time of one byte to or from memory. On two AVX2 cores it is about
 * 10, on GPUs more; the order of gains hardly depends on it. */
#define OPS_PER_BYTE 10.0

/* Sets of every n-th block that are grown on from, where growing from nothing was not enough. */
#define BLOCK_TRIES 4

/* Rounds in which the budget is lowered by what packing loses. */
#define PACKING_TRIES 6

struct chooser {
    struct bst_pass *c;
    struct bst_pass trial;
    int n;       /* forward instructions */
    bool *again; /* the set */
    bool *least; /* the one seen that needs least, for a budget that cannot be met */
    size_t least_bytes;
    bool *can;     /* instruction → may be in it */
    double *work;  /* instruction → of its second run, in bytes */
    double *gain;  /* instruction → when it was last weighed; < 0: is in the set or cannot be */
    size_t *curve; /* of the trial */
    int room_curve;
    size_t budget;
};

static double elements(const struct bst_program *p, int v)
{
    return (double)bst_shape_count(&p->values[v].shape);
}

/* Each feature of x meets each of y. */
static double linear_operations(const struct bst_program *p, int x, int y)
{
    const struct bst_shape *s = &p->values[y].shape;
    return 2 * elements(p, x) * (double)s->d[s->rank - 1];
}

/* Of `products` products over all pairs of query and key; sources from `at` on. A causal mask
 * spares half. */
static double attention_operations(const struct bst_program *p, const struct bst_instr *in, int at,
                                   int products)
{
    const struct bst_shape *q = &p->values[in->src[at]].shape;
    bool packed = bst_instr_is_packed(in);
    const struct bst_shape *k = packed ? q : &p->values[in->src[at + 1]].shape;
    double width = (double)q->d[2] / (packed ? 3 : 1);
    double ops = 2.0 * products * (double)q->d[0] * (double)q->d[1] * (double)k->d[1] * width;
    return in->attr.causal ? ops / 2 : ops;
}

/* Multiplications and additions of one pass over a matrix product. */
static double operations(const struct bst_program *p, const struct bst_instr *in)
{
    switch (in->op) {
    case BST_I_LINEAR_FWD:
        return linear_operations(p, in->src[0], in->dst[0]);
    case BST_I_LINEAR_BWD_DATA:
        return linear_operations(p, in->dst[0], in->src[0]);
    case BST_I_LINEAR_BWD_WEIGHT:
        return linear_operations(p, in->src[0], in->src[1]);
    case BST_I_ATTN_FWD:
        return attention_operations(p, in, 0, 2);
    case BST_I_ATTN_BWD:
        return attention_operations(p, in, 1, 5);
    case BST_I_CONV_FWD: /* each result: a row of the weight */
        return 2 * elements(p, in->dst[0]) * elements(p, in->src[1]) /
               (double)p->values[in->src[1]].shape.d[0];
    case BST_I_CONV_BWD_DATA:
        return 2 * elements(p, in->src[0]) * elements(p, in->src[1]) /
               (double)p->values[in->src[1]].shape.d[0];
    case BST_I_CONV_BWD_WEIGHT:
        return 2 * elements(p, in->src[1]) * elements(p, in->dst[0]) /
               (double)p->values[in->dst[0]].shape.d[0];
    default:
        return 0;
    }
}

/* Bytes that take as long: what is moved, or what is calculated when that takes longer. */
static double work_of(const struct bst_program *p, const struct bst_instr *in)
{
    double bytes = 0, ops = operations(p, in) / OPS_PER_BYTE;
    for (int k = 0; k < in->n_src; k++)
        bytes += (double)p->values[in->src[k]].bytes;
    for (int k = 0; k < in->n_dst; k++)
        bytes += (double)p->values[in->dst[k]].bytes;
    if (in->op == BST_I_BN_TRAIN && !(in->flags & (BST_IF_AGAIN | BST_IF_STATS)))
        bytes += (double)p->values[in->src[0]].bytes; /* read for the sums first */
    return ops > bytes ? ops : bytes;
}

static bool may_run_again(const struct bst_pass *c, const struct bst_instr *in)
{
    if (in->op == BST_I_SOFTMAX_CE) /* its result is added up */
        return false;
    for (int k = 0; k < in->n_dst; k++) {
        int v = in->dst[k];
        if (c->p->values[v].memory != BST_MEM_ARENA || c->info[v].input || c->info[v].output)
            return false;
    }
    return in->n_dst > 0;
}

static void open_chooser(struct chooser *ch, struct bst_pass *c)
{
    const struct bst_program *p = c->p;
    size_t n = (size_t)p->n_forward + 1;
    *ch = (struct chooser){
        .c = c,
        .n = p->n_forward,
        .again = bst_xcalloc(n, sizeof *ch->again),
        .least = bst_xcalloc(n, sizeof *ch->least),
        .can = bst_xcalloc(n, sizeof *ch->can),
        .work = bst_xcalloc(n, sizeof *ch->work),
        .gain = bst_xcalloc(n, sizeof *ch->gain),
    };
    bst_again_init(&ch->trial, c);
    for (int i = 0; i < ch->n; i++) {
        struct bst_instr in = p->instrs[i];
        if (in.op == BST_I_BN_TRAIN)
            in.flags |= BST_IF_AGAIN;
        ch->can[i] = may_run_again(c, &in);
        ch->work[i] = work_of(p, &in);
    }
}

static void close_chooser(struct chooser *ch)
{
    bst_again_fini(&ch->trial);
    bst_free(ch->again);
    bst_free(ch->least);
    bst_free(ch->can);
    bst_free(ch->work);
    bst_free(ch->gain);
    bst_free(ch->curve);
}

/* Most bytes alive with the set as it is; *excess: those above the budget, summed up. */
static size_t weigh(struct chooser *ch, const bool *again, double *excess)
{
    bst_again_make(&ch->trial, ch->c, again);
    int n = ch->trial.p->n_instrs + 2;
    if (n > ch->room_curve) {
        ch->room_curve = 2 * n;
        ch->curve = bst_xrealloc(ch->curve, (size_t)ch->room_curve, sizeof *ch->curve);
    }
    size_t most = bst_pass_alive(&ch->trial, ch->curve);
    *excess = 0;
    for (int i = 0; i < n - 1; i++)
        if (ch->curve[i] > ch->budget)
            *excess += (double)(ch->curve[i] - ch->budget);
    if (most < ch->least_bytes) {
        ch->least_bytes = most;
        memcpy(ch->least, again, (size_t)ch->n * sizeof *again);
    }
    return most;
}

/* What adding i takes off `excess`, for its work. */
static double gain_of(struct chooser *ch, int i, double excess)
{
    double less;
    ch->again[i] = true;
    weigh(ch, ch->again, &less);
    ch->again[i] = false;
    return (excess - less) / ch->work[i];
}

static int best_of(const struct chooser *ch)
{
    int best = -1;
    for (int i = 0; i < ch->n; i++)
        if (ch->can[i] && !ch->again[i] && (best < 0 || ch->gain[i] > ch->gain[best]))
            best = i;
    return best;
}

static void weigh_all(struct chooser *ch, double excess)
{
    for (int i = 0; i < ch->n; i++)
        if (ch->can[i] && !ch->again[i])
            ch->gain[i] = gain_of(ch, i, excess);
}

/* Whether the set came to keep to the budget. */
static bool grow_set(struct chooser *ch)
{
    double excess;
    bool fresh = true; /* every gain was weighed against the set as it is */
    weigh(ch, ch->again, &excess);
    weigh_all(ch, excess);
    while (excess > 0) {
        int i = best_of(ch);
        if (i >= 0 && !fresh) {
            ch->gain[i] = gain_of(ch, i, excess);
            if (best_of(ch) != i)
                continue;
        }
        if (i < 0 || ch->gain[i] <= 0) {
            if (i < 0 || fresh)
                return false;
            weigh_all(ch, excess);
            fresh = true;
            continue;
        }
        ch->again[i] = true;
        fresh = false;
        weigh(ch, ch->again, &excess);
    }
    return true;
}

/* Takes out what the budget allows to stay in memory after all. */
static void prune_set(struct chooser *ch)
{
    bool *tried = bst_xcalloc((size_t)ch->n + 1, sizeof *tried);
    for (;;) {
        int dearest = -1;
        double excess;
        for (int i = 0; i < ch->n; i++)
            if (ch->again[i] && !tried[i] && (dearest < 0 || ch->work[i] > ch->work[dearest]))
                dearest = i;
        if (dearest < 0)
            break;
        tried[dearest] = true;
        ch->again[dearest] = false;
        weigh(ch, ch->again, &excess);
        ch->again[dearest] = excess > 0;
    }
    bst_free(tried);
}

static bool is_matmul(const struct bst_instr *in)
{
    return in->op == BST_I_CONV_FWD || in->op == BST_I_LINEAR_FWD;
}

/* What a block may begin with; in a Transformer that normalises first, the layer norm. */
static bool may_begin(const struct bst_instr *in)
{
    return is_matmul(in) || in->op == BST_I_LN_FWD;
}

/* Tensors made before instruction `at` and read from there on; *only is one of them. */
static int n_crossing(const struct bst_pass *c, int at, int *only)
{
    const struct bst_program *p = c->p;
    bool *seen = bst_xcalloc((size_t)p->n_values + 1, sizeof *seen);
    bool *counted = bst_xcalloc((size_t)p->n_values + 1, sizeof *counted);
    int n = 0;
    for (int i = 0; i < at; i++)
        for (int k = 0; k < p->instrs[i].n_dst; k++)
            seen[p->instrs[i].dst[k]] = true;
    for (int i = at; i < p->n_forward; i++) {
        for (int k = 0; k < p->instrs[i].n_src; k++) {
            int v = p->instrs[i].src[k];
            if (!seen[v] || counted[v])
                continue;
            counted[v] = true;
            *only = v;
            n++;
        }
    }
    bst_free(seen);
    bst_free(counted);
    return n;
}

/* out[i]: the number of the block that instruction i lies in. Returns the number of blocks. */
static int find_blocks(const struct bst_pass *c, int *out)
{
    const struct bst_program *p = c->p;
    int n = 0, v = -1;
    bool has_matmul = false;
    for (int i = 0; i < p->n_forward; i++) {
        int next = i;
        while (next < p->n_forward && p->instrs[next].op == BST_I_REORDER)
            next++; /* belongs to what reads it */
        if (has_matmul && next < p->n_forward && may_begin(&p->instrs[next]) &&
            n_crossing(c, i, &v) == 1) {
            n++;
            has_matmul = false;
        }
        has_matmul |= is_matmul(&p->instrs[i]);
        out[i] = n;
    }
    return n + 1;
}

/* All but what makes the tensor that enters every n-th block. */
static void mark_every(struct chooser *ch, const int *block, int every, bool *again)
{
    const struct bst_program *p = ch->c->p;
    for (int i = 0; i < ch->n; i++)
        again[i] = ch->can[i];
    for (int i = 1; i < ch->n; i++) {
        int v = -1;
        if (block[i] == block[i - 1] || block[i] % every != 0 || n_crossing(ch->c, i, &v) != 1)
            continue;
        for (int j = 0; j < i; j++)
            for (int k = 0; k < p->instrs[j].n_dst; k++)
                if (p->instrs[j].dst[k] == v)
                    again[j] = false;
    }
}

static void mark_layers(struct chooser *ch, const struct bst_recompute *r)
{
    for (int i = 0; i < ch->n; i++)
        for (int k = 0; k < r->n_layers; k++)
            if (fnmatch(r->layers[k], ch->c->p->instrs[i].name, 0) == 0)
                ch->again[i] = ch->can[i];
}

/* Work of a program's second runs, as a part of all the rest. */
static double again_share(const struct bst_program *p)
{
    double again = 0, rest = 0;
    for (int i = 0; i < p->n_instrs; i++)
        *(p->instrs[i].again ? &again : &rest) += work_of(p, &p->instrs[i]);
    return rest > 0 ? again / rest : 0;
}

/* From sets of whole blocks on: the cheapest that came to keep to the budget; false when none did.
 */
static bool choose_blocks(struct chooser *ch)
{
    bool *again = bst_xcalloc((size_t)ch->n + 1, sizeof *again);
    int *block = bst_xcalloc((size_t)ch->n + 1, sizeof *block);
    double cheapest = -1;
    find_blocks(ch->c, block);
    for (int every = 1; every <= BLOCK_TRIES; every++) {
        mark_every(ch, block, every, ch->again);
        if (!grow_set(ch))
            continue;
        double share = again_share(ch->trial.p);
        if (cheapest >= 0 && share >= cheapest)
            continue;
        cheapest = share;
        memcpy(again, ch->again, (size_t)ch->n * sizeof *again);
    }
    memcpy(ch->again, again, (size_t)ch->n * sizeof *again);
    bst_free(again);
    bst_free(block);
    return cheapest >= 0;
}

static void choose(struct chooser *ch, size_t budget)
{
    ch->budget = budget;
    ch->least_bytes = SIZE_MAX;
    memset(ch->again, 0, (size_t)ch->n * sizeof *ch->again);
    if (grow_set(ch) || choose_blocks(ch))
        prune_set(ch);
    else
        memcpy(ch->again, ch->least, (size_t)ch->n * sizeof *ch->again);
}

/* What is alive at one time is not all that an arena needs: it is packed, and may have gaps. */
static void choose_within(struct chooser *ch, size_t limit)
{
    bool *best = bst_xcalloc((size_t)ch->n + 1, sizeof *best);
    size_t least = SIZE_MAX, budget = limit;
    for (int t = 0; t < PACKING_TRIES; t++) {
        choose(ch, budget);
        bst_again_make(&ch->trial, ch->c, ch->again);
        bst_pass_plan(&ch->trial);
        size_t arena = ch->trial.p->arena_bytes;
        if (arena < least) {
            least = arena;
            memcpy(best, ch->again, (size_t)ch->n * sizeof *best);
        }
        if (arena <= limit || ch->trial.lower_bound > budget || arena - limit >= budget)
            break;
        budget -= arena - limit;
    }
    memcpy(ch->again, best, (size_t)ch->n * sizeof *best);
    bst_free(best);
}

static void choose_every(struct chooser *ch, int every)
{
    int *block = bst_xcalloc((size_t)ch->n + 1, sizeof *block);
    find_blocks(ch->c, block);
    mark_every(ch, block, every, ch->again);
    bst_free(block);
}

void bst_pass_recompute(struct bst_pass *c)
{
    const struct bst_recompute *r = &c->o.recompute;
    struct chooser ch;
    if (r->kind == BST_RECOMPUTE_NONE)
        return;
    open_chooser(&ch, c);
    if (r->kind == BST_RECOMPUTE_AUTO)
        choose_within(&ch, r->arena_limit);
    else if (r->kind == BST_RECOMPUTE_EVERY)
        choose_every(&ch, r->every);
    else
        mark_layers(&ch, r);
    bst_again_make(&ch.trial, c, ch.again);
    bst_again_take(c, &ch.trial);
    c->p->again_share = again_share(c->p);
    close_chooser(&ch);
}

enum bst_err bst_recompute_check(const struct bst_graph *g, const struct bst_recompute *r)
{
    if (r->kind == BST_RECOMPUTE_EVERY && r->every < 1)
        return bst_fail(BST_E_RANGE, "recompute: every %d blocks", r->every);
    for (int k = 0; r->kind == BST_RECOMPUTE_LAYERS && k < r->n_layers; k++) {
        bool any = false;
        for (int i = 0; i < g->n_nodes; i++)
            any |= fnmatch(r->layers[k], g->nodes[i].name, 0) == 0;
        if (!any)
            return bst_fail(BST_E_ARG, "recompute: no layer is called '%s'", r->layers[k]);
    }
    return BST_OK;
}
