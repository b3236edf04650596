#include "core/backend/cpu/dnnl_shim.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "core/backend/cpu/dnnl_inner.h"
#include "core/base/alloc.h"

#define MAX_ARGS (SHIM_N_ROLES + 1)

struct lane {
    dnnl_exec_arg_t args[MAX_ARGS];
    void *at[MAX_ARGS]; /* addresses now in the memory objects */
};

struct shim_prim {
    struct shim *shim;
    dnnl_primitive_t prim;
    struct lane *lanes;
    int n_lanes;
    int role[MAX_ARGS]; /* SHIM_N_ROLES: scratch */
    int n_args;
    size_t scratch_bytes;
    char impl[48];
};

static enum bst_err failed(dnnl_status_t st, const char *what)
{
    if (st == dnnl_unimplemented)
        return bst_fail(BST_E_UNSUPPORTED, "oneDNN: %s: not implemented", what);
    if (st == dnnl_out_of_memory)
        return bst_fail(BST_E_NOMEM, "oneDNN: %s: out of memory", what);
    return bst_fail(BST_E_LIBRARY, "oneDNN: %s: status %d", what, (int)st);
}

#define DNNL_TRY(call, what)                                                                       \
    do {                                                                                           \
        dnnl_status_t st_ = (call);                                                                \
        if (st_ != dnnl_success)                                                                   \
            return failed(st_, what);                                                              \
    } while (0)

enum bst_err shim_open(int lanes, struct shim **out)
{
    struct shim *s = bst_xalloc(sizeof *s);
    dnnl_status_t st = dnnl_engine_create(&s->engine, dnnl_cpu, 0);

    s->streams = bst_xcalloc((size_t)lanes, sizeof *s->streams);
    s->n_lanes = lanes;
    for (int i = 0; i < lanes && st == dnnl_success; i++)
        st = dnnl_stream_create(&s->streams[i], s->engine, dnnl_stream_default_flags);
    if (st == dnnl_success)
        st = dnnl_primitive_attr_create(&s->attr);
    if (st == dnnl_success)
        st = dnnl_primitive_attr_set_scratchpad_mode(s->attr, dnnl_scratchpad_mode_user);
    if (st != dnnl_success) {
        shim_close(s);
        return failed(st, "engine");
    }
    *out = s;
    return BST_OK;
}

void shim_close(struct shim *s)
{
    if (!s)
        return;
    if (s->attr)
        dnnl_primitive_attr_destroy(s->attr);
    for (int i = 0; i < s->n_lanes; i++)
        if (s->streams[i])
            dnnl_stream_destroy(s->streams[i]);
    bst_free(s->streams);
    if (s->engine)
        dnnl_engine_destroy(s->engine);
    bst_free(s);
}

void shim_version(char *out, size_t room)
{
    const dnnl_version_t *v = dnnl_version();

    snprintf(out, room, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}

static bool same(md_ref md, const struct bst_shape *shape, uint32_t layout)
{
    struct md m;
    bool equal;

    memset(&m, 0, sizeof m);
    if (shim_md_make(&m, shape, layout) != dnnl_success)
        return false;
    equal = dnnl_memory_desc_equal(md, shim_md_of(&m));
    shim_md_drop(&m);
    return equal;
}

/* The number of a layout the library chose; ANY when no tag describes it. */
static uint32_t layout_of(struct shim *s, md_ref md, const struct bst_shape *shape, uint32_t now)
{
    if (now != BST_LAYOUT_ANY && same(md, shape, now))
        return now;
    if (same(md, shape, BST_LAYOUT_PLAIN))
        return BST_LAYOUT_PLAIN;
    for (int i = 0; i < s->n_known; i++)
        if (same(md, shape, s->known[i]))
            return s->known[i];
    for (uint32_t tag = dnnl_format_tag_any + 1; tag < dnnl_format_tag_last; tag++) {
        if (!same(md, shape, tag))
            continue;
        if (s->n_known < MAX_KNOWN)
            s->known[s->n_known++] = tag;
        return tag;
    }
    return BST_LAYOUT_ANY;
}

static bool has_role(const struct shim_op *op, enum shim_role r)
{
    if (op->kind == SHIM_REORDER)
        return r == SHIM_SRC || r == SHIM_DST;
    if (r == SHIM_BIAS && op->kind == SHIM_CONV_FWD)
        return op->t[r].shape.rank > 0;
    if (r == SHIM_BIAS)
        return op->kind == SHIM_LINEAR_FWD || op->kind == SHIM_LINEAR_BWD_WEIGHT;
    return true;
}

/* What to ask of a primitive descriptor for an argument, and its place in an execution. */
static void role_names(enum shim_kind kind, enum shim_role r, dnnl_query_t *query, int *arg)
{
    bool bwd_data = kind == SHIM_CONV_BWD_DATA || kind == SHIM_LINEAR_BWD_DATA;
    bool bwd_weight = kind == SHIM_CONV_BWD_WEIGHT || kind == SHIM_LINEAR_BWD_WEIGHT;

    switch (r) {
    case SHIM_SRC:
        *query = bwd_data ? dnnl_query_diff_src_md : dnnl_query_src_md;
        *arg = bwd_data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
        break;
    case SHIM_WEIGHT:
        *query = bwd_weight ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
        *arg = bwd_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
        break;
    case SHIM_BIAS:
        *query = bwd_weight ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
        *arg = bwd_weight ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS;
        break;
    default:
        *query = bwd_data || bwd_weight ? dnnl_query_diff_dst_md : dnnl_query_dst_md;
        *arg = bwd_data || bwd_weight ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST;
    }
}

static md_ref role_md(const struct choice *c, enum shim_kind kind, enum shim_role r)
{
    dnnl_query_t query;
    int arg;

    role_names(kind, r, &query, &arg);
    return dnnl_primitive_desc_query_md(c->pd, query, r == SHIM_BIAS);
}

/* Whether the CPU backend takes this implementation; the layouts it wants go to `got`. */
static bool acceptable(struct shim *s, const struct shim_op *op, const struct choice *c,
                       uint32_t got[SHIM_N_ROLES])
{
    const char *impl = NULL;

    if (dnnl_primitive_desc_query(c->pd, dnnl_query_impl_info_str, 0, &impl) != dnnl_success ||
        (op->kind != SHIM_REORDER && strncmp(impl, "ref", 3) == 0))
        return false;
    for (int r = 0; r < SHIM_N_ROLES; r++) {
        if (!has_role(op, r))
            continue;
        got[r] = layout_of(s, role_md(c, op->kind, r), &op->t[r].shape, op->t[r].now);
        if (got[r] == BST_LAYOUT_ANY)
            return false;
        if (op->kind != SHIM_REORDER && (r == SHIM_SRC || r == SHIM_DST) &&
            got[r] != op->t[r].now && !shim_layout_block(got[r]))
            return false;
    }
    return true;
}

static enum bst_err add_arg(struct shim_prim *p, md_ref md, int arg, int role)
{
    for (int i = 0; i < p->n_lanes; i++) {
        dnnl_exec_arg_t *a = &p->lanes[i].args[p->n_args];

        DNNL_TRY(dnnl_memory_create(&a->memory, md, p->shim->engine, DNNL_MEMORY_NONE), "memory");
        a->arg = arg;
    }
    p->role[p->n_args++] = role;
    return BST_OK;
}

static enum bst_err prim_fill(struct shim_prim *p, const struct shim_op *op, const struct choice *c)
{
    const char *impl = NULL;
    md_ref scratch = dnnl_primitive_desc_query_md(c->pd, dnnl_query_scratchpad_md, 0);
    dnnl_query_t query;
    int arg;

    DNNL_TRY(dnnl_primitive_desc_query(c->pd, dnnl_query_impl_info_str, 0, &impl), "name");
    snprintf(p->impl, sizeof p->impl, "%s", impl);
    DNNL_TRY(dnnl_primitive_create(&p->prim, c->pd), p->impl);
    for (int r = 0; r < SHIM_N_ROLES; r++) {
        if (!has_role(op, r))
            continue;
        role_names(op->kind, r, &query, &arg);
        BST_TRY(add_arg(p, role_md(c, op->kind, r), arg, r));
    }
    p->scratch_bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    if (p->scratch_bytes)
        BST_TRY(add_arg(p, scratch, DNNL_ARG_SCRATCHPAD, SHIM_N_ROLES));
    return BST_OK;
}

static enum bst_err prim_make(struct shim *s, struct shim_op *op, const struct md *m,
                              struct shim_prim **out)
{
    struct choice c = {0};
    uint32_t got[SHIM_N_ROLES];
    dnnl_status_t st = shim_choice_open(s, op, m, &c);
    bool found = st == dnnl_success && acceptable(s, op, &c, got);
    enum bst_err err;

    while (st == dnnl_success && !found && shim_choice_next(s, op, &c))
        found = acceptable(s, op, &c, got);
    if (!found) {
        shim_choice_close(&c);
        if (st != dnnl_success)
            return failed(st, "primitive");
        return bst_fail(BST_E_UNSUPPORTED, "oneDNN: nothing but a reference implementation");
    }
    *out = bst_xalloc(sizeof **out);
    (*out)->shim = s;
    (*out)->n_lanes = op->lanes ? op->lanes : 1;
    (*out)->lanes = bst_xcalloc((size_t)(*out)->n_lanes, sizeof *(*out)->lanes);
    BST_ASSERT((*out)->n_lanes <= s->n_lanes);
    err = prim_fill(*out, op, &c);
    shim_choice_close(&c);
    for (int r = 0; r < SHIM_N_ROLES; r++)
        if (has_role(op, r))
            op->t[r].layout = got[r];
    return err;
}

enum bst_err shim_prim_new(struct shim *s, struct shim_op *op, struct shim_prim **out)
{
    struct md m[SHIM_N_ROLES];
    int team = omp_get_max_threads();
    enum bst_err err = BST_OK;

    *out = NULL;
    memset(m, 0, sizeof m);
    if (op->lanes)
        omp_set_num_threads(1);
    for (int r = 0; r < SHIM_N_ROLES && !err; r++)
        if (has_role(op, r) &&
            shim_md_make(&m[r], &op->t[r].shape, op->t[r].layout) != dnnl_success)
            err = bst_fail(BST_E_SHAPE, "oneDNN: no descriptor for layout %u", op->t[r].layout);
    if (!err)
        err = prim_make(s, op, m, out);
    omp_set_num_threads(team);
    for (int r = 0; r < SHIM_N_ROLES; r++)
        shim_md_drop(&m[r]);
    if (err) {
        shim_prim_free(*out);
        *out = NULL;
    }
    return err;
}

void shim_prim_free(struct shim_prim *p)
{
    if (!p)
        return;
    for (int l = 0; l < p->n_lanes; l++)
        for (int i = 0; i < MAX_ARGS; i++)
            if (p->lanes[l].args[i].memory)
                dnnl_memory_destroy(p->lanes[l].args[i].memory);
    bst_free(p->lanes);
    if (p->prim)
        dnnl_primitive_destroy(p->prim);
    bst_free(p);
}

const char *shim_prim_impl(const struct shim_prim *p)
{
    return p->impl;
}

size_t shim_prim_scratch(const struct shim_prim *p)
{
    return p->scratch_bytes;
}

enum bst_err shim_prim_run_lane(struct shim_prim *p, int lane, void *const at[SHIM_N_ROLES],
                                void *scratch)
{
    struct lane *l = &p->lanes[lane];

    for (int i = 0; i < p->n_args; i++) {
        void *a = p->role[i] == SHIM_N_ROLES ? scratch : at[p->role[i]];

        /* Major 2 zeroes a blocked tensor's padding whenever it is told an address. */
        if (a == l->at[i])
            continue;
        DNNL_TRY(dnnl_memory_set_data_handle(l->args[i].memory, a), p->impl);
        l->at[i] = a;
    }
    DNNL_TRY(dnnl_primitive_execute(p->prim, p->shim->streams[lane], p->n_args, l->args), p->impl);
    DNNL_TRY(dnnl_stream_wait(p->shim->streams[lane]), p->impl);
    return BST_OK;
}

enum bst_err shim_prim_run(struct shim_prim *p, void *const at[SHIM_N_ROLES], void *scratch)
{
    return shim_prim_run_lane(p, 0, at, scratch);
}

enum bst_err shim_rows_new(struct shim *s, const struct shim_rows *how, struct shim_prim **out,
                           uint32_t *packed)
{
    struct shim_op op = {
        .kind = SHIM_CONV_FWD,
        .window = {1, 1, 0},
        .lanes = how->lanes,
        .t = {[SHIM_SRC] = {{4, {1, how->in, how->rows, 1}}, dnnl_nhwc, dnnl_nhwc},
              [SHIM_WEIGHT] = {{4, {how->out, how->in, 1, 1}}, BST_LAYOUT_ANY, BST_LAYOUT_ANY},
              [SHIM_DST] = {{4, {1, how->out, how->rows, 1}}, dnnl_nhwc, dnnl_nhwc}}};

    if (how->bias)
        op.t[SHIM_BIAS].shape = (struct bst_shape){1, {how->out}};
    BST_TRY(shim_prim_new(s, &op, out));
    *packed = op.t[SHIM_WEIGHT].layout;
    /* What is left is made of the plain matrix product. */
    if (!strstr((*out)->impl, "gemm"))
        return BST_OK;
    shim_prim_free(*out);
    *out = NULL;
    return bst_fail(BST_E_UNSUPPORTED, "oneDNN: no kernel for rows");
}

enum bst_err shim_rows_pack_new(struct shim *s, const struct shim_rows *how, bool in_out,
                                uint32_t packed, struct shim_prim **out)
{
    const struct bst_shape w = {4, {how->out, how->in, 1, 1}};
    uint32_t plain = in_out ? dnnl_iohw : dnnl_oihw;
    struct shim_op op = {.kind = SHIM_REORDER,
                         .t = {[SHIM_SRC] = {w, plain, plain}, [SHIM_DST] = {w, packed, packed}}};

    return shim_prim_new(s, &op, out);
}

enum bst_err shim_gemm(const struct shim_gemm *g)
{
    DNNL_TRY(dnnl_sgemm(g->turn_a ? 'T' : 'N', g->turn_b ? 'T' : 'N', g->m, g->n, g->k, 1.0f, g->a,
                        g->lda, g->b, g->ldb, g->add ? 1.0f : 0.0f, g->c, g->ldc),
             "sgemm");
    return BST_OK;
}

size_t shim_layout_bytes(uint32_t layout, const struct bst_shape *s)
{
    struct md m;
    size_t bytes;

    memset(&m, 0, sizeof m);
    if (shim_md_make(&m, s, layout) != dnnl_success)
        return 0;
    bytes = dnnl_memory_desc_get_size(shim_md_of(&m));
    shim_md_drop(&m);
    return bytes;
}

int shim_layout_block(uint32_t layout)
{
    switch (layout) {
    case BST_LAYOUT_PLAIN:
        return 1;
    case dnnl_nChw8c:
        return 8;
    case dnnl_nChw16c:
        return 16;
    default:
        return 0;
    }
}

uint32_t shim_layout_of_block(int block)
{
    return block == 8 ? dnnl_nChw8c : block == 16 ? dnnl_nChw16c : BST_LAYOUT_PLAIN;
}

uint32_t shim_layout_of_grey_filter(int block)
{
    return block == 8 ? dnnl_Abcd8a : dnnl_Abcd16a;
}
