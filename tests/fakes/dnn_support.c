#include "tests/fakes/dnn_support.h"

void graph_init(struct graph *g)
{
    *g = (struct graph){.n_ops = 0};
    ok(cudnnCreate(&g->handle));
}

void graph_fini(struct graph *g)
{
    for (int i = 0; i < g->n_descs; i++)
        ok(cudnnBackendDestroyDescriptor(g->descs[i]));
    for (int i = 0; i < g->n_vals; i++) {
        cudaFree(g->vals[i].p); /* frees on a dead device, too, and returns its error */
        free(g->vals[i].v);
    }
    ok(cudnnDestroy(g->handle));
}

cudnnBackendDescriptor_t graph_desc(struct graph *g, cudnnBackendDescriptorType_t type, int n,
                                    const struct set *sets)
{
    cudnnBackendDescriptor_t d;
    ok(cudnnBackendCreateDescriptor(type, &d));
    g->descs[g->n_descs++] = d;
    for (int i = 0; i < n; i++) {
        bool left_out = sets[i].type == CUDNN_TYPE_BACKEND_DESCRIPTOR && sets[i].n == 1 &&
                        !*(cudnnBackendDescriptor_t const *)sets[i].v;
        if (!left_out)
            ok(cudnnBackendSetAttribute(d, sets[i].name, sets[i].type, sets[i].n, sets[i].v));
    }
    cudnnStatus_t s = cudnnBackendFinalize(d);
    if (s) {
        char text[256];
        cudnnGetLastErrorString(text, sizeof text);
        fail_msg("descriptor type %d: %s", (int)type, text);
    }
    return d;
}

enum test_type graph_type(cudnnDataType_t t)
{
    return t == CUDNN_DATA_HALF ? TEST_F16 : t == CUDNN_DATA_BFLOAT16 ? TEST_BF16 : TEST_F32;
}

size_t at4(const struct val *t, int64_t n, int64_t c, int64_t h, int64_t w)
{
    return (size_t)(((n * t->dim[1] + c) * t->dim[2] + h) * t->dim[3] + w);
}

static size_t slot(const struct val *t, size_t i)
{
    int64_t left = (int64_t)i;
    int64_t off = 0;
    for (int k = DIMS - 1; k >= 0; k--) {
        off += left % t->dim[k] * t->stride[k];
        left /= t->dim[k];
    }
    return (size_t)off;
}

static size_t slot_bytes(const struct val *t)
{
    return t->type == CUDNN_DATA_INT64                                   ? 8
           : t->type == CUDNN_DATA_BOOLEAN || t->type == CUDNN_DATA_INT8 ? 1
           : t->type == CUDNN_DATA_INT32                                 ? 4
                                         : test_bytes(graph_type(t->type));
}

void graph_put(struct val *t, const float *v)
{
    for (size_t i = 0; i < t->n; i++)
        t->v[i] = test_round(v[i], graph_type(t->type));
    if (t->place != REAL)
        return;
    float *in_order = calloc(t->slots, sizeof *in_order);
    for (size_t i = 0; i < t->n; i++)
        in_order[slot(t, i)] = t->v[i];
    void *fresh = test_up(in_order, t->slots, graph_type(t->type));
    ok(cudaMemcpy(t->p, fresh, t->slots * test_bytes(graph_type(t->type)),
                  cudaMemcpyDeviceToDevice));
    ok(cudaFree(fresh));
    free(in_order);
}

void graph_get(struct val *t)
{
    size_t bytes = t->slots * slot_bytes(t);
    unsigned char *raw = malloc(bytes);
    ok(cudaMemcpy(raw, t->p, bytes, cudaMemcpyDeviceToHost));
    float *in_order = malloc(t->slots * sizeof *in_order);
    if (slot_bytes(t) == 1) {
        for (size_t i = 0; i < t->slots; i++)
            in_order[i] = (float)(signed char)raw[i];
    } else {
        test_down(in_order, t->p, t->slots, graph_type(t->type));
    }
    for (size_t i = 0; i < t->n; i++)
        t->v[i] = in_order[slot(t, i)];
    free(in_order);
    free(raw);
}

struct val *graph_strided(struct graph *g, cudnnDataType_t type, const int64_t dim[DIMS],
                          const int64_t stride[DIMS], enum place place)
{
    struct val *t = &g->vals[g->n_vals++];
    *t = (struct val){.uid = g->n_vals, .type = type, .place = place, .n = 1, .slots = 1};
    for (int i = 0; i < DIMS; i++) {
        t->dim[i] = dim[i];
        t->stride[i] = stride[i];
        t->n *= (size_t)dim[i];
        t->slots += (size_t)((dim[i] - 1) * stride[i]);
    }
    t->v = calloc(t->n, sizeof *t->v);
    if (place == REAL)
        ok(cudaMalloc(&t->p, t->slots * slot_bytes(t)));
    if (place == REAL && slot_bytes(t) == test_bytes(graph_type(type)) &&
        type != CUDNN_DATA_INT32) {
        float *v = malloc(t->n * sizeof *v);
        test_fill(v, t->n, (uint64_t)t->uid, graph_type(type));
        graph_put(t, v);
        free(v);
    }
    int64_t align = 16;
    bool yes = true;
    struct set sets[] = {
        {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &t->uid},
        {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t->type},
        {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, DIMS, t->dim},
        {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, DIMS, t->stride},
        {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align},
        {place == VIRTUAL ? CUDNN_ATTR_TENSOR_IS_VIRTUAL : CUDNN_ATTR_TENSOR_IS_BY_VALUE,
         CUDNN_TYPE_BOOLEAN, 1, &yes}};
    t->desc = graph_desc(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, place == REAL ? 5 : 6, sets);
    return t;
}

struct val *graph_tensor(struct graph *g, cudnnDataType_t type, const int64_t dim[DIMS],
                         enum layout layout, enum place place)
{
    const int64_t c = dim[1], h = dim[2], w = dim[3];
    const int64_t nhwc[DIMS] = {c * h * w, 1, w * c, c};
    const int64_t nchw[DIMS] = {c * h * w, h * w, w, 1};
    return graph_strided(g, type, dim, layout == NHWC ? nhwc : nchw, place);
}

struct val *graph_channels(struct graph *g, int64_t c, enum place place)
{
    return graph_tensor(g, CUDNN_DATA_FLOAT, (int64_t[]){1, c, 1, 1}, NHWC, place);
}

struct val *graph_scalar(struct graph *g, float v)
{
    struct val *t = graph_tensor(g, CUDNN_DATA_FLOAT, (int64_t[]){1, 1, 1, 1}, NHWC, VALUE);
    t->v[0] = v;
    return t;
}

/* --- operations --- */

static cudnnBackendDescriptor_t of(const struct val *t)
{
    return t ? t->desc : NULL;
}

void graph_conv(struct graph *g, cudnnBackendDescriptorType_t kind, struct val *x, struct val *w,
                struct val *y, const struct window *win, float alpha, float beta)
{
    cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t two = 2;
    cudnnBackendDescriptor_t c =
        DESC(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
             {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32},
             {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode},
             {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &two},
             {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, win->pad},
             {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, win->pad},
             {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, win->stride},
             {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, win->dilation});
    if (kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
        OP(g, kind, SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x->desc),
           SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w->desc),
           SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y->desc),
           SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, c),
           {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &alpha},
           {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &beta});
    else if (kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
        OP(g, kind, SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, x->desc),
           SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w->desc),
           SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, y->desc),
           SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, c),
           {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, 1, &alpha},
           {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, 1, &beta});
    else
        OP(g, kind, SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x->desc),
           SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, w->desc),
           SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, y->desc),
           SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, c),
           {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT, 1, &alpha},
           {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT, 1, &beta});
}

static cudnnBackendDescriptor_t mode_desc(struct graph *g, cudnnPointwiseMode_t mode)
{
    cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    return DESC(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
                {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode},
                {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &f32});
}

void graph_pointwise(struct graph *g, cudnnPointwiseMode_t mode, struct val *x, struct val *b,
                     struct val *y)
{
    cudnnBackendDescriptor_t m = mode_desc(g, mode), bd = of(b);
    OP(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       SET_D(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, m),
       SET_D(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x->desc),
       SET_D(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bd),
       SET_D(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y->desc));
}

void graph_pointwise_bwd(struct graph *g, cudnnPointwiseMode_t mode, struct val *dy, struct val *x,
                         struct val *dx)
{
    cudnnBackendDescriptor_t m = mode_desc(g, mode);
    OP(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       SET_D(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, m),
       SET_D(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, dy->desc),
       SET_D(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x->desc),
       SET_D(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx->desc));
}

void graph_genstats(struct graph *g, struct val *x, struct val *sum, struct val *squares)
{
    cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    OP(g, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1, &mode},
       {CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &f32},
       SET_D(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, x->desc),
       SET_D(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum->desc),
       SET_D(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares->desc));
}

void graph_reduce(struct graph *g, cudnnReduceTensorOp_t op, struct val *x, struct val *y)
{
    cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t d =
        DESC(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
             {CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op},
             {CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32});
    OP(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
       SET_D(CUDNN_ATTR_OPERATION_REDUCTION_DESC, d),
       SET_D(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x->desc),
       SET_D(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y->desc));
}

void graph_matmul(struct graph *g, struct val *a, struct val *b, struct val *c)
{
    cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t d = DESC(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR,
                                      {CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32});
    OP(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, SET_D(CUDNN_ATTR_OPERATION_MATMUL_DESC, d),
       SET_D(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a->desc),
       SET_D(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b->desc),
       SET_D(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c->desc));
}

void graph_reshape(struct graph *g, struct val *x, struct val *y)
{
    OP(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
       SET_D(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x->desc),
       SET_D(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y->desc));
}

/* --- plans --- */

cudnnBackendDescriptor_t graph_plan(struct graph *g, int engine)
{
    cudnnBackendDescriptor_t gr =
        DESC(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
             {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops, g->ops},
             {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle});
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    cudnnBackendDescriptor_t heur = DESC(
        g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, SET_D(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, gr),
        {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode});
    cudnnBackendDescriptor_t configs[8];
    for (int i = 0; i <= engine; i++) {
        ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]));
        g->descs[g->n_descs++] = configs[i];
    }
    int64_t n;
    ok(cudnnBackendGetAttribute(heur, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                engine + 1, &n, configs));
    assert_int_equal(n, engine + 1);
    return DESC(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
                SET_D(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[engine]),
                {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle});
}

int64_t graph_workspace(cudnnBackendDescriptor_t plan)
{
    int64_t bytes = -1, n;
    ok(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                &n, &bytes));
    return bytes;
}

cudnnStatus_t graph_execute(struct graph *g, cudnnBackendDescriptor_t plan, void *workspace)
{
    int64_t uids[MOST];
    void *pointers[MOST];
    int n = 0;
    for (int i = 0; i < g->n_vals; i++) {
        struct val *t = &g->vals[i];
        if (t->place == VIRTUAL)
            continue;
        uids[n] = t->uid;
        pointers[n++] = t->place == VALUE ? (void *)t->v : t->p;
    }
    cudnnBackendDescriptor_t pack =
        DESC(g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
             {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, uids},
             {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, pointers},
             {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace});
    return cudnnBackendExecute(g->handle, plan, pack);
}

void graph_run(struct graph *g, cudnnBackendDescriptor_t plan)
{
    int64_t bytes = graph_workspace(plan);
    void *workspace;
    ok(cudaMalloc(&workspace, (size_t)bytes));
    cudnnStatus_t s = graph_execute(g, plan, workspace);
    if (s) {
        char text[256];
        cudnnGetLastErrorString(text, sizeof text);
        fail_msg("not executed: %s", text);
    }
    if (cudaDeviceSynchronize())
        fail_msg("%s", fake_last_report());
    ok(cudaFree(workspace));
    for (int i = 0; i < g->n_vals; i++) {
        if (g->vals[i].place == REAL && g->vals[i].type != CUDNN_DATA_INT64 &&
            g->vals[i].type != CUDNN_DATA_INT32)
            graph_get(&g->vals[i]);
    }
}
