/* Engines, heuristics and plans. The engines differ in nothing but what a selector looks at. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/dnn.h"

/* Workspace in quarters of the graph's largest tensor; the time of an average graph. */
static const struct {
    int ws_quarters;
    unsigned cost_us;
    unsigned numerical_notes, behavior_notes;
    bool refuses; /* a configuration that no plan comes of */
} engines[DNN_ENGINES] = {
    {0, 61, 0, 1u << CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API, false},
    {1, 31, 0, 0, false},
    {4, 17, 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE | 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 0,
     false},
    {0, 1, 0, 0, true},
    {8, 23,
     1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE |
         1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
     1u << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION, false},
    {64, 199, 0, 0, false}, /* the fallback, im2col-like */
};

static int copy_list(const int *list, int n, int out[DNN_ENGINES])
{
    memcpy(out, list, (size_t)n * sizeof *list);
    return n;
}

int dnn_heuristics(int mode, int out[DNN_ENGINES])
{
    static const int best[] = {4, 2, 3, 1, 0};
    static const int instant[] = {1, 0};
    static const int fallback[] = {5};
    if (mode == CUDNN_HEUR_MODE_FALLBACK)
        return copy_list(fallback, 1, out);
    if (mode == CUDNN_HEUR_MODE_INSTANT)
        return copy_list(instant, 2, out);
    return copy_list(best, 5, out);
}

unsigned dnn_numerical_notes(int engine)
{
    return engines[engine].numerical_notes;
}

unsigned dnn_behavior_notes(int engine)
{
    return engines[engine].behavior_notes;
}

struct desc *dnn_plan_graph(const struct desc *plan)
{
    const struct desc *config = desc_child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0);
    const struct desc *engine = desc_child(config, CUDNN_ATTR_ENGINECFG_ENGINE, 0);
    return desc_child(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 0);
}

int dnn_plan_engine(const struct desc *plan)
{
    const struct desc *config = desc_child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0);
    const struct desc *engine = desc_child(config, CUDNN_ATTR_ENGINECFG_ENGINE, 0);
    return (int)desc_i64(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
}

struct scan {
    int64_t bytes; /* of the largest tensor that is not virtual */
    int64_t batch; /* its first dimension */
    uint64_t hash;
};

static void scan_tensor(struct scan *s, const struct desc *t)
{
    int64_t bytes = (int64_t)dnn_data_bytes(desc_int(t, CUDNN_ATTR_TENSOR_DATA_TYPE, 0));
    for (int i = 0; i < desc_count(t, CUDNN_ATTR_TENSOR_DIMENSIONS); i++) {
        int64_t d = desc_i64(t, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
        bytes *= d;
        s->hash = (s->hash ^ (uint64_t)d) * 0x100000001b3u;
    }
    if (!desc_bool(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL) && bytes > s->bytes) {
        s->bytes = bytes;
        s->batch = desc_i64(t, CUDNN_ATTR_TENSOR_DIMENSIONS, 0);
    }
}

static struct scan scan_graph(const struct desc *graph)
{
    struct scan s = {.hash = 0xcbf29ce484222325u};
    for (int i = 0; i < desc_count(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS); i++) {
        const struct desc *op = desc_child(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i);
        const struct operation *kind = dnn_operation(op->type);
        s.hash = (s.hash ^ (uint64_t)op->type) * 0x100000001b3u;
        for (int k = 0; k < kind->n_operands; k++) {
            const struct desc *t = desc_child(op, kind->operands[k].name, 0);
            if (t)
                scan_tensor(&s, t);
        }
    }
    return s;
}

/* A batch that is no multiple of 8 wants twice as much: less can need more, as on the real one. */
int64_t dnn_workspace(const struct desc *graph, int engine)
{
    struct scan s = scan_graph(graph);
    int64_t bytes = (s.bytes * engines[engine].ws_quarters + 3) / 4;
    if (s.batch % 8)
        bytes *= 2;
    return (bytes + 255) / 256 * 256;
}

/* Which engine is fastest depends on the graph, so that a tuner has something to find. */
uint64_t dnn_cost_ns(const struct desc *graph, int engine)
{
    uint64_t h = scan_graph(graph).hash * (uint64_t)(2 * engine + 3);
    return engines[engine].cost_us * (uint64_t)1000 * (2 + (h >> 40) % 5) / 4;
}

cudnnStatus_t dnn_check_plan(struct desc *plan)
{
    const struct attr *json = desc_find(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
    if (json) {
        struct desc *config = dnn_from_json(json->v, (size_t)json->n, "plan");
        if (!config || config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) {
            desc_unref(config);
            return dnn_fail(CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH,
                            "a plan's text of another version, or damaged");
        }
        desc_set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                 &config);
        desc_unref(config);
    }
    if (!dnn_plan_graph(plan) || dnn_plan_engine(plan) < 0 || dnn_plan_engine(plan) >= DNN_ENGINES)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "a plan without a configuration");
    if (!json && !desc_count(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE) &&
        !desc_count(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "a plan has neither a handle nor a device");
    if (engines[dnn_plan_engine(plan)].refuses)
        return dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "engine %d takes no graph",
                        dnn_plan_engine(plan));
    return CUDNN_STATUS_SUCCESS;
}

/* --- as text: a header, then the descriptor's bytes in hexadecimal digits --- */

struct bytes {
    unsigned char *p;
    size_t n, room;
    size_t at;   /* when reading */
    bool is_bad; /* read beyond the end, or nonsense */
};

static void put(struct bytes *b, const void *v, size_t n)
{
    if (b->n + n > b->room) {
        b->room = 2 * (b->n + n) + 256;
        b->p = realloc(b->p, b->room);
    }
    memcpy(b->p + b->n, v, n);
    b->n += n;
}

/* Handles and devices are the process's own and stay out. */
static bool is_kept(const struct attr *a)
{
    return a->type != CUDNN_TYPE_HANDLE && a->type != CUDNN_TYPE_VOID_PTR;
}

static void put_desc(struct bytes *b, const struct desc *d)
{
    int32_t n = 0;
    for (int i = 0; i < d->n; i++)
        n += is_kept(&d->attrs[i]);
    const int32_t head[2] = {d->type, n};
    put(b, head, sizeof head);
    for (int i = 0; i < d->n; i++) {
        const struct attr *a = &d->attrs[i];
        if (!is_kept(a))
            continue;
        const int32_t about[3] = {a->name, a->type, (int32_t)a->n};
        put(b, about, sizeof about);
        if (a->type != CUDNN_TYPE_BACKEND_DESCRIPTOR)
            put(b, a->v, (size_t)a->n * dnn_type_bytes(a->type));
        for (int64_t k = 0; a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR && k < a->n; k++)
            put_desc(b, ((struct desc **)a->v)[k]);
    }
}

static void take(struct bytes *b, void *v, size_t n)
{
    if (b->is_bad || n > b->n - b->at) {
        b->is_bad = true;
        memset(v, 0, n);
        return;
    }
    memcpy(v, b->p + b->at, n);
    b->at += n;
}

static struct desc *take_desc(struct bytes *b, int depth);

static void take_attr(struct bytes *b, struct desc *d, int depth)
{
    int32_t about[3];
    take(b, about, sizeof about);
    size_t each = dnn_type_bytes(about[1]);
    if (b->is_bad || !each || about[2] < 0 || (size_t)about[2] > b->n / (each > 8 ? 8 : each)) {
        b->is_bad = true;
        return;
    }
    size_t n = (size_t)about[2];
    void *v = calloc(n ? n : 1, each);
    if (about[1] == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        size_t got = 0;
        while (got < n && !b->is_bad) {
            ((struct desc **)v)[got] = take_desc(b, depth + 1);
            got += ((struct desc **)v)[got] != NULL;
        }
        desc_set(d, about[0], about[1], (int64_t)got, v);
        for (size_t i = 0; i < got; i++)
            desc_unref(((struct desc **)v)[i]);
    } else {
        take(b, v, n * each);
        desc_set(d, about[0], about[1], about[2], v);
    }
    free(v);
}

static struct desc *take_desc(struct bytes *b, int depth)
{
    int32_t head[2];
    take(b, head, sizeof head);
    if (depth > 8 || b->is_bad) {
        b->is_bad = true;
        return NULL;
    }
    struct desc *d = desc_new(head[0]);
    d->is_final = true;
    for (int i = 0; i < head[1] && !b->is_bad; i++)
        take_attr(b, d, depth);
    return d;
}

static const char format[] = "{\"fake_cudnn\":%d,\"kind\":\"%s\",\"hex\":\"";

char *dnn_to_json(const struct desc *d, const char *kind)
{
    struct bytes b = {0};
    put_desc(&b, d);
    char *text = malloc(sizeof format + 64 + 2 * b.n);
    int at = sprintf(text, format, CUDNN_VERSION, kind);
    for (size_t i = 0; i < b.n; i++)
        at += sprintf(text + at, "%02x", b.p[i]);
    memcpy(text + at, "\"}", 3);
    free(b.p);
    return text;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

struct desc *dnn_from_json(const char *text, size_t bytes, const char *kind)
{
    char head[sizeof format + 64];
    size_t n = (size_t)snprintf(head, sizeof head, format, CUDNN_VERSION, kind);
    if (bytes < n || memcmp(text, head, n))
        return NULL;
    struct bytes b = {.p = malloc(bytes / 2 + 1)};
    for (size_t i = n; i + 1 < bytes && digit(text[i]) >= 0 && digit(text[i + 1]) >= 0; i += 2)
        b.p[b.n++] = (unsigned char)(digit(text[i]) << 4 | digit(text[i + 1]));
    struct desc *d = take_desc(&b, 0);
    if (b.is_bad || b.at != b.n) {
        desc_unref(d);
        d = NULL;
    }
    free(b.p);
    return d;
}
