/* Where every value lies. A block is a chain of values that take over one another's bytes in place,
 * alive from the first write to the last read. Blocks that are alive at the same time must not
 * overlap: this is dynamic storage allocation, NP-hard in general, where placing the largest first
 * at the lowest offset that is free comes within a few per cent on nets. Several orders are tried
 * and the best is kept; all are deterministic. */
#include "core/graph/passes.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"

struct block {
    size_t bytes, offset; /* bytes rounded up to the alignment */
    int first, last;
    int root; /* first value of the chain: breaks ties */
};

struct plan {
    struct bst_pass *c;
    int *block_of; /* value → block, or -1 */
    struct block *blocks;
    int n_blocks;
    struct block **order, **placed;
    size_t align;
};

static size_t round_up(size_t n, size_t align)
{
    return (n + align - 1) & ~(align - 1);
}

/* Largest first; ties by time, then by number, so that the order is total. */
static int by_bytes(const void *a, const void *b)
{
    const struct block *x = *(struct block *const *)a, *y = *(struct block *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return (x->root > y->root) - (x->root < y->root);
}

static int by_life(const void *a, const void *b)
{
    const struct block *x = *(struct block *const *)a, *y = *(struct block *const *)b;
    int p = x->last - x->first, q = y->last - y->first;
    return p != q ? (p > q ? -1 : 1) : by_bytes(a, b);
}

static int by_area(const void *a, const void *b)
{
    const struct block *x = *(struct block *const *)a, *y = *(struct block *const *)b;
    double p = (double)x->bytes * (x->last - x->first + 1);
    double q = (double)y->bytes * (y->last - y->first + 1);
    return p != q ? (p > q ? -1 : 1) : by_bytes(a, b);
}

static int by_time(const void *a, const void *b)
{
    const struct block *x = *(struct block *const *)a, *y = *(struct block *const *)b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : by_bytes(a, b);
}

static void find_lives(struct bst_pass *c)
{
    struct bst_program *p = c->p;
    for (int i = 0; i < p->n_instrs; i++) {
        const struct bst_instr *in = &p->instrs[i];
        for (int k = 0; k < in->n_src; k++)
            p->values[in->src[k]].last = i;
        for (int k = 0; k < in->n_dst; k++) {
            struct bst_value *v = &p->values[in->dst[k]];
            v->first = v->first < 0 ? i : v->first;
            v->last = i;
        }
        if (in->scratch >= 0)
            p->values[in->scratch].first = p->values[in->scratch].last = i;
    }
    for (int v = 0; v < p->n_values; v++) {
        if (c->info[v].input)
            p->values[v].first = 0;
        if (c->info[v].output)
            p->values[v].last = p->n_instrs;
    }
}

static bool in_arena(const struct bst_value *v)
{
    return v->memory == BST_MEM_ARENA && v->first >= 0 && v->bytes;
}

/* Whether source k of instruction i dies there and nothing else of the instruction touches its
 * bytes. */
static bool dies(const struct bst_pass *c, int i, int k)
{
    const struct bst_instr *in = &c->p->instrs[i];
    const struct bst_value *v = &c->p->values[in->src[k]];
    for (int j = 0; j < in->n_src; j++) {
        if (j != k && in->src[j] == in->src[k])
            return false;
    }
    return in_arena(v) && v->last == i;
}

/* A sum may overwrite its first source; where only the second one dies, they change places. */
static void turn_add(struct bst_pass *c, int i)
{
    struct bst_instr *in = &c->p->instrs[i];
    if (in->op != BST_I_ADD || c->inplace[i][0] != 0 || dies(c, i, 0) || !dies(c, i, 1) ||
        c->p->values[in->src[0]].layout != c->p->values[in->src[1]].layout)
        return;
    int v = in->src[0];
    in->src[0] = in->src[1];
    in->src[1] = v;
}

/* The source whose bytes result k takes over, or -1. */
static int takes_over(struct plan *pl, int i, int k)
{
    const struct bst_pass *c = pl->c;
    const struct bst_program *p = c->p;
    const struct bst_instr *in = &p->instrs[i];
    const struct bst_value *d = &p->values[in->dst[k]];
    int s = c->inplace[i][k];
    if (c->o.no_alias || s < 0 || s >= in->n_src || d->first != i || !dies(c, i, s))
        return -1;
    for (int j = 0; j < k; j++) {
        if (p->values[in->dst[j]].alias == in->src[s])
            return -1;
    }
    if (round_up(d->bytes, pl->align) > pl->blocks[pl->block_of[in->src[s]]].bytes)
        return -1;
    return in->src[s];
}

static void add_block(struct plan *pl, int v)
{
    const struct bst_value *x = &pl->c->p->values[v];
    pl->block_of[v] = pl->n_blocks;
    pl->blocks[pl->n_blocks++] = (struct block){
        .bytes = round_up(x->bytes, pl->align),
        .first = x->first,
        .last = x->last,
        .root = v,
    };
}

static void make_blocks(struct plan *pl)
{
    struct bst_program *p = pl->c->p;
    for (int v = 0; v < p->n_values; v++) {
        pl->block_of[v] = -1;
        if (pl->c->info[v].input && in_arena(&p->values[v]))
            add_block(pl, v);
    }
    for (int i = 0; i < p->n_instrs; i++) {
        const struct bst_instr *in = &p->instrs[i];
        turn_add(pl->c, i);
        for (int k = 0; k < in->n_dst; k++) {
            struct bst_value *d = &p->values[in->dst[k]];
            if (!in_arena(d) || pl->block_of[in->dst[k]] >= 0)
                continue;
            d->alias = takes_over(pl, i, k);
            if (d->alias < 0) {
                add_block(pl, in->dst[k]);
                continue;
            }
            struct block *b = &pl->blocks[pl->block_of[d->alias]];
            pl->block_of[in->dst[k]] = pl->block_of[d->alias];
            b->last = d->last;
        }
        if (in->scratch >= 0)
            add_block(pl, in->scratch);
    }
}

/* Lowest gap that holds b among the blocks placed already, which are sorted by offset; where
 * `tight`, the smallest such gap. Puts b into the sorted list. */
static void place(struct plan *pl, struct block *b, int n_placed, bool tight)
{
    size_t at = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (int i = 0; i < n_placed; i++) {
        const struct block *o = pl->placed[i];
        if (o->last < b->first || o->first > b->last)
            continue;
        if (o->offset >= at + b->bytes && o->offset - at < best_gap) {
            best = at;
            best_gap = o->offset - at;
            if (!tight)
                break;
        }
        if (o->offset + o->bytes > at)
            at = o->offset + o->bytes;
    }
    b->offset = best == SIZE_MAX ? at : best;
    int i = n_placed;
    for (; i > 0 && pl->placed[i - 1]->offset > b->offset; i--)
        pl->placed[i] = pl->placed[i - 1];
    pl->placed[i] = b;
}

static size_t try_order(struct plan *pl, int (*cmp)(const void *, const void *), bool tight)
{
    size_t peak = 0;
    for (int i = 0; i < pl->n_blocks; i++)
        pl->order[i] = &pl->blocks[i];
    qsort(pl->order, (size_t)pl->n_blocks, sizeof *pl->order, cmp);
    for (int i = 0; i < pl->n_blocks; i++) {
        struct block *b = pl->order[i];
        place(pl, b, i, tight);
        if (b->offset + b->bytes > peak)
            peak = b->offset + b->bytes;
    }
    return peak;
}

static void place_all(struct plan *pl)
{
    static int (*const orders[])(const void *, const void *) = {by_bytes, by_area, by_life,
                                                                by_time};
    struct bst_program *p = pl->c->p;
    size_t *kept = bst_xcalloc((size_t)pl->n_blocks + 1, sizeof *kept);
    p->arena_bytes = SIZE_MAX;
    for (size_t t = 0; t < 8 && p->arena_bytes > pl->c->lower_bound; t++) {
        size_t peak = try_order(pl, orders[t / 2], t % 2);
        if (peak >= p->arena_bytes)
            continue;
        p->arena_bytes = peak;
        for (int i = 0; i < pl->n_blocks; i++)
            kept[i] = pl->blocks[i].offset;
    }
    for (int v = 0; v < p->n_values; v++) {
        if (pl->block_of[v] >= 0)
            p->values[v].offset = kept[pl->block_of[v]];
    }
    bst_free(kept);
}

/* Bytes alive at each instruction, and after the last one; returns where most are. */
static int count_alive(const struct plan *pl, size_t *curve)
{
    const struct bst_program *p = pl->c->p;
    int most = 0;
    memset(curve, 0, ((size_t)p->n_instrs + 2) * sizeof *curve);
    for (int i = 0; i < pl->n_blocks; i++) {
        curve[pl->blocks[i].first] += pl->blocks[i].bytes;
        curve[pl->blocks[i].last + 1] -= pl->blocks[i].bytes; /* below 0 only until summed up */
    }
    for (int i = 1; i <= p->n_instrs; i++) {
        curve[i] += curve[i - 1];
        if (curve[i] > curve[most])
            most = i;
    }
    return most;
}

static size_t *class_of(const struct bst_pass *c, int v, struct bst_peak *peak)
{
    const struct bst_value *x = &c->p->values[v];
    if (c->info[v].scratch)
        return &peak->scratch;
    if (c->info[v].again)
        return &peak->recomputed;
    if (c->info[v].forward >= 0 || x->first >= c->p->n_forward)
        return &peak->gradients;
    return &peak->activations;
}

/* A block counts as what first took its room, whatever is written over that in place: so the logits
 * are activations at every batch, and not gradients at those where most is alive one instruction
 * later. */
static void count_peak(const struct plan *pl, int at)
{
    for (int i = 0; i < pl->n_blocks; i++) {
        const struct block *b = &pl->blocks[i];
        if (b->first <= at && b->last >= at)
            *class_of(pl->c, b->root, &pl->c->p->peak) += b->bytes;
    }
}

static void count_memory(struct plan *pl)
{
    struct bst_program *p = pl->c->p;
    size_t *curve = bst_xcalloc((size_t)p->n_instrs + 2, sizeof *curve);
    int most = count_alive(pl, curve);
    pl->c->lower_bound = curve[most];
    count_peak(pl, most);
    bst_free(curve);
    for (int i = 0; i < p->n_instrs; i++) {
        int s = p->instrs[i].scratch;
        if (s >= 0 && p->values[s].bytes > p->scratch_bytes)
            p->scratch_bytes = p->values[s].bytes;
    }
    for (int i = 0; i < pl->n_blocks; i++) {
        const struct block *b = &pl->blocks[i];
        if (b->first < p->n_forward && b->last >= p->n_forward)
            p->activation_bytes += b->bytes;
    }
}

static void open_plan(struct plan *pl, struct bst_pass *c)
{
    size_t n = (size_t)c->p->n_values + 1;
    *pl = (struct plan){
        .c = c,
        .block_of = bst_xcalloc(n, sizeof *pl->block_of),
        .blocks = bst_xcalloc(n, sizeof *pl->blocks),
        .align = c->d->alignment,
    };
    BST_ASSERT(pl->align && !(pl->align & (pl->align - 1)));
    find_lives(c);
    make_blocks(pl);
}

static void close_plan(struct plan *pl)
{
    bst_free(pl->block_of);
    bst_free(pl->blocks);
    bst_free(pl->order);
    bst_free(pl->placed);
}

void bst_pass_plan(struct bst_pass *c)
{
    struct plan pl;
    open_plan(&pl, c);
    pl.order = bst_xcalloc((size_t)pl.n_blocks + 1, sizeof(struct block *));
    pl.placed = bst_xcalloc((size_t)pl.n_blocks + 1, sizeof(struct block *));
    count_memory(&pl);
    place_all(&pl);
    c->p->peak.gaps = c->p->arena_bytes - c->lower_bound;
    close_plan(&pl);
}

size_t bst_pass_alive(struct bst_pass *c, size_t *curve)
{
    struct plan pl;
    open_plan(&pl, c);
    size_t most = curve[count_alive(&pl, curve)];
    close_plan(&pl);
    return most;
}

void bst_pass_settle(struct bst_pass *c)
{
    struct bst_param_table *t = c->p->params;
    size_t at = 0;
    for (int i = 0; i < t->n_slots; i++) {
        struct bst_param_slot *s = &t->slots[i];
        struct bst_value *w = &c->p->values[i], *second = &c->p->values[bst_pass_second(c, i)];
        if (!t->fixed) {
            s->layout = c->slot_layout[i];
            s->bytes = w->bytes;
            s->offset = at;
            at = round_up(at + s->bytes, c->d->alignment);
            if (i < t->n_trained)
                t->trained_bytes = at;
            t->state_bytes = at - t->trained_bytes;
        }
        w->offset = s->offset;
        second->offset = i < t->n_trained ? s->offset : s->offset - t->trained_bytes;
    }
    t->fixed = true;
}
