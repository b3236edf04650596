/* Attention: which way an instruction goes, and what a call works on. */
#include "core/backend/cuda/attention.h"

#include "core/backend/cuda/plan.h"
#include "core/backend/drop.h"
#include "core/base/alloc.h"
#include "core/base/philox.h"

void cuda_attn_free(struct bst_be *be, struct cuda_attn *at)
{
    if (!at)
        return;
    if (at->is_fused) {
        cuda_shared_give(be, at->by.fused.plan);
    } else {
        cuda_product_fini(&at->by.tiles.scores);
        cuda_product_fini(&at->by.tiles.by_row);
        cuda_product_fini(&at->by.tiles.by_key);
    }
    bst_free(at);
}

/* What cuDNN refuses, or has no plan for, goes by tiles. */
static enum bst_err choose(struct bst_be *be, const struct bst_instr *in, struct cuda_attn *at,
                           struct cuda_attn_room *room)
{
    const struct cuda_attn_room before = *room;
    enum bst_err err = cuda_attn_fused_describe(be, in, at, room);

    at->is_fused = !err;
    if (err != BST_E_UNSUPPORTED)
        return err;
    *room = before;
    at->by.tiles = (struct cuda_attn_tiles){0};
    return cuda_attn_tiles_describe(be, in->op == BST_I_ATTN_BWD, at, room);
}

static enum bst_err describe(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                             struct cuda_handle *h)
{
    struct cuda_attn *at = h->attn = bst_xalloc(sizeof *at);
    struct cuda_attn_room room = {0};

    (void)accumulate;
    at->a = bst_attn_of(p, in);
    at->type = be->type;
    cuda_seq_layouts(be, p, in, w);
    at->keys = cuda_attn_take(&room, (size_t)at->a.n * sizeof(int32_t));
    BST_TRY(choose(be, in, at, &room));
    if (in->op == BST_I_ATTN_FWD)
        w->raw_bytes[1] = (size_t)(at->a.n * at->a.heads * at->a.q.length) * sizeof(float);
    /* cuDNN writes gradients while it reads what they are of; tiles do not. */
    for (int i = 0; in->op == BST_I_ATTN_BWD && !at->is_fused && i < in->n_dst; i++)
        w->inplace[i] = 1 + i;
    w->scratch_bytes = room.bytes;
    return BST_OK;
}

static enum bst_err ready_keys(const struct cuda_attn_call *c)
{
    const struct bst_attn *a = &c->at->a;
    const struct bst_step *step = c->c->step;
    const int32_t *lengths = a->key_stream < 0 ? NULL : step->lengths[a->key_stream];
    int32_t *keys = cuda_attn_at(c, c->at->keys);
    const int64_t n_valid = step->n_valid < a->n ? step->n_valid : a->n;
    struct kern_attn_keys k = {.lengths = lengths ? keys : NULL,
                               .keys = keys,
                               .n = a->n,
                               .n_valid = n_valid,
                               .tq = (int)a->q.length,
                               .tk = (int)a->k.length};

    if (c->at->is_fused) {
        k.given_queries = cuda_attn_at(c, c->at->by.fused.given_queries);
        k.given_keys = cuda_attn_at(c, c->at->by.fused.given_keys);
        k.run = c->at->by.fused.ask.n;
        k.step = c->at->by.fused.step;
    }
    if (lengths)
        BST_TRY(cuda_fail(cudaMemcpyAsync(keys, lengths, (size_t)n_valid * sizeof *keys,
                                          cudaMemcpyHostToDevice, c->be->stream),
                          "lengths to the device"));
    return cuda_fail(kern_run_attn_keys(c->be->stream, KERN_F32, &k), "lengths");
}

static enum bst_err ready_drop(struct cuda_attn_call *c)
{
    const struct bst_attn *a = &c->at->a;
    const struct bst_attr *attr = &c->c->in->attr;
    const int64_t whole = attr->whole_length;

    c->drop = (struct kern_attn_drop){.factor = 1};
    if (!(attr->drop > 0))
        return BST_OK;
    c->drop = (struct kern_attn_drop){
        .draw = c->be->draw,
        .place = (uint64_t)attr->site << 40,
        .queries = whole ? whole : a->q.length,
        .blocks = bst_drop_row_blocks(whole ? whole : a->k.length),
        .threshold = bst_drop_threshold(attr->drop),
        .factor = (float)bst_drop_scale(attr->drop),
    };
    return cuda_draw_ready(c->be, c->c->step);
}

static enum bst_err run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *call)
{
    const bool backward = call->in->op == BST_I_ATTN_BWD;
    void *const *src = call->src + (backward ? 1 : 0);
    void *const *dst = call->dst;
    const bool packed = h->attn->a.packed;
    struct cuda_attn_call c = {.be = be,
                               .at = h->attn,
                               .c = call,
                               .q = src[0],
                               .k = src[packed ? 0 : 1],
                               .v = src[packed ? 0 : 2]};

    c.keys = cuda_attn_at(&c, h->attn->keys);
    if (backward) {
        c.dy = call->src[0];
        c.y_read = call->src[call->in->n_src - 2];
        c.lse_read = call->src[call->in->n_src - 1];
        c.dq = dst[0];
        c.dk = dst[packed ? 0 : 1];
        c.dv = dst[packed ? 0 : 2];
    } else {
        c.y = dst[0];
        c.lse = call->in->n_dst > 1 ? dst[1] : NULL;
    }
    BST_TRY(ready_keys(&c));
    BST_TRY(ready_drop(&c));
    return h->attn->is_fused ? cuda_attn_fused_run(&c) : cuda_attn_tiles_run(&c, backward);
}

const struct cuda_op cuda_op_attn_fwd = {describe, run};
const struct cuda_op cuda_op_attn_bwd = {describe, run};
