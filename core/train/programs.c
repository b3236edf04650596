/* A rank's programs: the graph built for a micro-batch, compiled, kept for the next time. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/train/rank.h"

static enum bst_err build_graph(const struct rank *k, int micro, int length, struct bst_graph **out)
{
    const struct bst_train_cfg *cfg = &k->t->cfg;
    struct bst_graph *g = bst_graph_new(micro);
    struct bst_net_cfg net = cfg->net_cfg;
    for (int s = 0; length && s < BST_MAX_STREAMS && net.length[s]; s++) {
        g->whole_length = net.length[s];
        net.length[s] = length;
    }
    enum bst_err err = cfg->net->build(&net, g);
    if (!err)
        err = bst_graph_check(g);
    if (err) {
        bst_graph_free(g);
        g = NULL;
    }
    *out = g;
    return err;
}

/* The variance of one number is 0, and its normalised value its shift whatever the input: nothing
 * behind such a batch norm would learn. */
static enum bst_err check_batch_norms(const struct bst_program *p)
{
    for (int i = 0; i < p->n_instrs; i++) {
        const struct bst_instr *in = &p->instrs[i];
        if (in->op != BST_I_BN_TRAIN)
            continue;
        const struct bst_shape *s = &p->values[in->src[0]].shape;
        if (s->rank == 4 && s->d[0] * s->d[2] * s->d[3] == 1)
            return bst_fail(BST_E_SHAPE,
                            "%s: batch normalisation over one value a channel (a micro-batch of "
                            "1 at 1×1 pixels)",
                            in->name);
    }
    return BST_OK;
}

/* A program that recomputes nothing is what any limit gives that it keeps to. */
static bool serves(const struct rank_program *rp, const struct program_ask *ask)
{
    return rp->p && rp->p->micro_batch == ask->micro && rp->p->training == ask->training &&
           rp->accumulate == ask->accumulate && rp->length == ask->length &&
           (rp->arena_limit == ask->arena_limit ||
            (!rp->p->n_again && rp->p->arena_bytes <= ask->arena_limit));
}

/* As the compiler and the cache see it: what plays no part is always the same. */
static struct program_ask plain_ask(const struct rank *k, const struct program_ask *ask)
{
    struct program_ask a = *ask;
    a.accumulate = a.training && a.accumulate;
    if (!a.training || k->t->cfg.recompute.kind != BST_RECOMPUTE_AUTO)
        a.arena_limit = 0;
    return a;
}

static bool in_force(const struct rank *k, const struct rank_program *rp)
{
    const struct split_plan *s = &k->t->plan;
    for (int i = 0; s->split.batch && i < s->n_sizes; i++) {
        struct program_ask ask = bst_ask_training(s, s->sizes[i]);
        ask = plain_ask(k, &ask);
        if (serves(rp, &ask))
            return true;
    }
    return false;
}

/* A free place, or the one of the program that was not used for longest. */
static struct rank_program *make_room(struct rank *k)
{
    struct rank_program *oldest = NULL;
    for (int i = 0; i < PROGRAM_CACHE; i++) {
        struct rank_program *rp = &k->programs[i];
        if (!rp->p)
            return rp;
        if (!in_force(k, rp) && (!oldest || rp->used < oldest->used))
            oldest = rp;
    }
    BST_ASSERT(oldest);
    bst_program_free(oldest->p);
    oldest->p = NULL;
    return oldest;
}

enum bst_err bst_rank_program(struct rank *k, const struct program_ask *asked,
                              struct bst_program **out)
{
    const struct program_ask ask = plain_ask(k, asked);
    struct bst_compile_opts opts = {
        .training = ask.training, .accumulate = ask.accumulate, .recompute = k->t->cfg.recompute};
    opts.recompute.arena_limit = ask.arena_limit;
    *out = NULL;
    for (int i = 0; i < PROGRAM_CACHE; i++) {
        struct rank_program *rp = &k->programs[i];
        if (serves(rp, &ask)) {
            rp->used = ++k->program_clock;
            *out = rp->p;
            return BST_OK;
        }
    }
    struct bst_graph *g = NULL;
    struct bst_program *p = NULL;
    /* One that has to make room for it may still be on its way. */
    BST_TRY(bst_rank_take_back(k, 0));
    BST_TRY(build_graph(k, ask.micro, ask.length, &g));
    enum bst_err err = bst_compile(g, &k->t->cfg.backend->describe, k->be, k->params, &opts, &p);
    bst_graph_free(g);
    if (!err)
        err = check_batch_norms(p);
    if (err) {
        bst_program_free(p);
        return err;
    }
    struct rank_program *rp = make_room(k);
    *rp = (struct rank_program){.p = p,
                                .accumulate = ask.accumulate,
                                .length = ask.length,
                                .arena_limit = ask.arena_limit,
                                .used = ++k->program_clock};
    *out = p;
    return BST_OK;
}

/* Tokens of the longest row, rounded up. */
static int length_of(const struct bst_batch *b, int n_streams)
{
    int longest = 1, step = (b->length + LENGTHS - 1) / LENGTHS;
    for (int s = 0; s < n_streams; s++)
        for (int i = 0; i < b->n; i++)
            longest = b->lengths[s][i] > longest ? b->lengths[s][i] : longest;
    int length = (longest + step - 1) / step * step;
    return length < b->length ? length : b->length;
}

enum bst_err bst_rank_program_for(struct rank *k, struct bst_loader *l,
                                  const struct program_ask *ask, struct bst_batch *b,
                                  struct bst_program **out)
{
    const struct bst_data_info *info = bst_dataset_info(k->t->data);
    struct program_ask cut = *ask;
    if (info->padded)
        cut.length = length_of(b, info->streams);
    if (!info->padded || cut.length == b->length)
        return bst_rank_program(k, ask, out);
    cut.arena_limit = k->arena_bytes;
    BST_TRY(bst_rank_program(k, &cut, out));
    /* Less of everything takes less; a library's scratch need not. */
    if ((*out)->arena_bytes > k->arena_bytes)
        return bst_rank_program(k, ask, out);
    bst_loader_cut(l, b, cut.length);
    return BST_OK;
}

enum bst_err bst_rank_build(struct rank *k)
{
    struct bst_graph *g = NULL;
    struct bst_program *p = NULL;
    BST_TRY(build_graph(k, LAYOUT_MICRO, 0, &g));
    k->params = bst_param_table_new(g);
    bst_graph_free(g);
    const struct program_ask ask = {.micro = LAYOUT_MICRO, .training = true};
    BST_TRY(bst_rank_program(k, &ask, &p));
    /* It has settled the layouts; the library's memory behind it would only be in the way. */
    bst_rank_drop_programs(k);
    return BST_OK;
}

void bst_rank_drop_programs(struct rank *k)
{
    for (int i = 0; i < PROGRAM_CACHE; i++) {
        bst_program_free(k->programs[i].p);
        k->programs[i].p = NULL;
    }
}
