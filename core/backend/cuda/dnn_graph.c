#include "core/backend/cuda/dnn_make.h"

#include "core/base/alloc.h"

enum { MOST_CONFIGS = 96, MOST_NOTES = 32 };

/* The statuses of a family share their thousands. */
enum bst_err cuda_dnn_fail(cudnnStatus_t status, const char *what)
{
    char more[256] = "";
    enum bst_err kind = BST_E_LIBRARY;

    if (status == CUDNN_STATUS_SUCCESS)
        return BST_OK;
    cudnnGetLastErrorString(more, sizeof more);
    if (status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000)
        kind = BST_E_UNSUPPORTED;
    if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
        status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
        kind = BST_E_NOMEM;
    return bst_fail(kind, "cuDNN: %s: %s%s%s", what, cudnnGetErrorString(status), *more ? ": " : "",
                    more);
}

static void keep_failure(struct cuda_dnn_graph *g, cudnnStatus_t status, const char *what)
{
    if (status == CUDNN_STATUS_SUCCESS || g->first.err)
        return;
    g->first = bst_err_keep(cuda_dnn_fail(status, what));
}

static void push(cudnnBackendDescriptor_t **list, int *n, int *room, cudnnBackendDescriptor_t d)
{
    *list = bst_xgrow(*list, *n, room, sizeof **list);
    (*list)[(*n)++] = d;
}

cudnnBackendDescriptor_t cuda_dnn_make(struct cuda_dnn_graph *g, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;

    keep_failure(g, cudnnBackendCreateDescriptor(type, &d), "create");
    if (d)
        push(&g->made, &g->n_made, &g->room_made, d);
    return d;
}

void cuda_dnn_set(struct cuda_dnn_graph *g, cudnnBackendDescriptor_t d,
                  cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                  const void *values, const char *what)
{
    if (!g->first.err)
        keep_failure(g, cudnnBackendSetAttribute(d, name, type, n, values), what);
}

void cuda_dnn_set_tensor(struct cuda_dnn_graph *g, cudnnBackendDescriptor_t d,
                         cudnnBackendAttributeName_t name, int tensor, const char *what)
{
    cudnnBackendDescriptor_t value =
        tensor >= 0 && tensor < g->n_tensors ? g->tensors[tensor] : NULL;

    cuda_dnn_set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value, what);
}

void cuda_dnn_finish(struct cuda_dnn_graph *g, cudnnBackendDescriptor_t d, const char *what)
{
    if (!g->first.err)
        keep_failure(g, cudnnBackendFinalize(d), what);
}

void cuda_dnn_finish_op(struct cuda_dnn_graph *g, cudnnBackendDescriptor_t d, const char *what)
{
    cuda_dnn_finish(g, d, what);
    push(&g->ops, &g->n_ops, &g->room_ops, d);
}

struct cuda_dnn_graph *cuda_dnn_graph_new(void)
{
    return bst_xalloc(sizeof(struct cuda_dnn_graph));
}

void cuda_dnn_graph_free(struct cuda_dnn_graph *g)
{
    if (!g)
        return;
    while (g->n_made) /* users before what they use */
        cudnnBackendDestroyDescriptor(g->made[--g->n_made]);
    bst_free(g->made);
    bst_free(g->tensors);
    bst_free(g->ops);
    bst_free(g);
}

int cuda_dnn_strided(struct cuda_dnn_graph *g, cudnnDataType_t type, const int64_t dim[4],
                     const int64_t stride[4], enum cuda_dnn_role role)
{
    const int64_t id = g->n_tensors, alignment = 16;
    const bool yes = true;
    cudnnBackendDescriptor_t d = cuda_dnn_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    SET(d, TENSOR_UNIQUE_ID, INT64, 1, &id);
    SET(d, TENSOR_DATA_TYPE, DATA_TYPE, 1, &type);
    SET(d, TENSOR_DIMENSIONS, INT64, 4, dim);
    SET(d, TENSOR_STRIDES, INT64, 4, stride);
    SET(d, TENSOR_BYTE_ALIGNMENT, INT64, 1, &alignment);
    if (role == CUDA_DNN_VIRTUAL)
        SET(d, TENSOR_IS_VIRTUAL, BOOLEAN, 1, &yes);
    if (role == CUDA_DNN_VALUE)
        SET(d, TENSOR_IS_BY_VALUE, BOOLEAN, 1, &yes);
    cuda_dnn_finish(g, d, "tensor");
    push(&g->tensors, &g->n_tensors, &g->room_tensors, d);
    return g->first.err ? -1 : (int)id;
}

int cuda_dnn_nhwc(struct cuda_dnn_graph *g, cudnnDataType_t type, const int64_t dim[4],
                  enum cuda_dnn_role role)
{
    const int64_t stride[4] = {dim[1] * dim[2] * dim[3], 1, dim[3] * dim[1], dim[1]};

    return cuda_dnn_strided(g, type, dim, stride, role);
}

int cuda_dnn_channels(struct cuda_dnn_graph *g, cudnnDataType_t type, int64_t c,
                      enum cuda_dnn_role role)
{
    const int64_t dim[4] = {1, c, 1, 1};

    return cuda_dnn_nhwc(g, type, dim, role);
}

/* Notes are enumerators; as many as a list holds. */
static unsigned notes(cudnnBackendDescriptor_t engine, cudnnBackendAttributeName_t name,
                      cudnnBackendAttributeType_t type)
{
    int list[MOST_NOTES];
    int64_t n = 0;
    unsigned bits = 0;

    if (cudnnBackendGetAttribute(engine, name, type, MOST_NOTES, &n, list) != CUDNN_STATUS_SUCCESS)
        return 0;
    for (int64_t i = 0; i < n && i < MOST_NOTES; i++)
        bits |= 1u << list[i];
    return bits;
}

static enum bst_err workspace_of(struct cuda_dnn_plan *p)
{
    int64_t n = 0;

    return cuda_dnn_fail(cudnnBackendGetAttribute(p->desc, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                  CUDNN_TYPE_INT64, 1, &n, &p->workspace),
                         "workspace size");
}

/* Makes *p of a configuration. An engine may still find out here that it cannot do it. */
static enum bst_err make_plan(cudnnBackendDescriptor_t config, cudnnBackendDescriptor_t device,
                              struct cuda_dnn_plan *p)
{
    cudnnStatus_t s;

    BST_TRY(cuda_dnn_fail(
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p->desc), "plan"));
    s = cudnnBackendSetAttribute(p->desc, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendSetAttribute(p->desc, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendFinalize(p->desc);
    BST_TRY(cuda_dnn_fail(s, "plan"));
    return workspace_of(p);
}

static void look_at_engine(struct cuda_dnn_graph *g, cudnnBackendDescriptor_t config,
                           struct cuda_dnn_plan *p)
{
    cudnnBackendDescriptor_t engine = cuda_dnn_make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t n = 0;

    if (!engine ||
        cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 1, &n, &engine) != CUDNN_STATUS_SUCCESS)
        return;
    p->numerical = notes(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE);
    p->behaviour = notes(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE);
    cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n,
                             &p->engine);
}

struct search { /* for plans of one graph */
    cudnnBackendDescriptor_t graph, device;
    const struct cuda_dnn_wish *wish;
    struct cuda_dnn_plan *out;
    int most, n, n_configs;
    bool fallback; /* what is tried now */
};

static void try_config(struct cuda_dnn_graph *g, struct search *s, cudnnBackendDescriptor_t config)
{
    struct cuda_dnn_plan p = {.fallback = s->fallback};

    look_at_engine(g, config, &p);
    if (p.numerical & s->wish->refuse || p.behaviour & s->wish->refuse_behaviour)
        return;
    if (make_plan(config, s->device, &p) ||
        (s->wish->workspace_most >= 0 && p.workspace > s->wish->workspace_most)) {
        cuda_dnn_plan_fini(&p);
        return;
    }
    s->out[s->n++] = p;
}

static enum bst_err ask(struct cuda_dnn_graph *g, struct search *s, cudnnBackendHeurMode_t mode)
{
    cudnnBackendDescriptor_t configs[MOST_CONFIGS];
    cudnnBackendDescriptor_t heur = cuda_dnn_make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t n = 0, got = 0;

    SET(heur, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &s->graph);
    SET(heur, ENGINEHEUR_MODE, HEUR_MODE, 1, &mode);
    SET(heur, ENGINEHEUR_DEVICEPROP, BACKEND_DESCRIPTOR, 1, &s->device);
    cuda_dnn_finish(g, heur, "heuristics");
    BST_TRY(bst_err_restore(&g->first));
    BST_TRY(cuda_dnn_fail(cudnnBackendGetAttribute(heur, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &n, NULL),
                          "heuristics' number of results"));
    if (n > MOST_CONFIGS)
        n = MOST_CONFIGS;
    for (int64_t i = 0; i < n; i++)
        configs[i] = cuda_dnn_make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    BST_TRY(bst_err_restore(&g->first));
    if (n)
        BST_TRY(
            cuda_dnn_fail(cudnnBackendGetAttribute(heur, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, n, &got, configs),
                          "heuristics' results"));
    s->n_configs += (int)got;
    for (int64_t i = 0; i < got && i < n && s->n < s->most; i++)
        try_config(g, s, configs[i]);
    return BST_OK;
}

enum bst_err cuda_dnn_plans(struct cuda_dnn_graph *g, cudnnBackendDescriptor_t device,
                            const struct cuda_dnn_wish *wish, struct cuda_dnn_plan *out, int most,
                            int *n_out, int *n_configs)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    struct search s = {.device = device, .wish = wish, .out = out, .most = most};
    enum bst_err err = BST_OK;

    *n_out = 0;
    s.graph = cuda_dnn_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    SET(s.graph, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, g->n_ops, g->ops);
    cuda_dnn_finish(g, s.graph, "operation graph");
    BST_TRY(bst_err_restore(&g->first));
    for (int i = 0; i < 2 && !s.n; i++) {
        s.fallback = i > 0;
        err = ask(g, &s, modes[i]);
        g->first.err = BST_OK; /* a mode that has no answer does not spoil the graph */
    }
    *n_out = s.n;
    if (n_configs)
        *n_configs = s.n_configs;
    if (s.n)
        return BST_OK;
    if (err && err != BST_E_UNSUPPORTED)
        return err;
    return bst_fail(BST_E_UNSUPPORTED, "cuDNN: no plan for this graph; %d configurations proposed",
                    s.n_configs);
}

void cuda_dnn_plan_fini(struct cuda_dnn_plan *p)
{
    if (p->desc)
        cudnnBackendDestroyDescriptor(p->desc);
    *p = (struct cuda_dnn_plan){0};
}
