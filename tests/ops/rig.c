#include "tests/ops/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"

void rig_must(enum bst_err err, const char *what)
{
    if (!err)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, bst_err_text(), bst_err_name(err));
    exit(1);
}

static enum bst_precision precision;

void rig_use_precision(enum bst_precision p)
{
    precision = p;
}

enum bst_precision rig_precision(const struct bst_backend *b)
{
    return BST_HAS_PRECISION(b, precision) ? precision : BST_PRECISION_FP32;
}

void rig_open(struct rig *r, const struct bst_backend *b, int threads, unsigned variant)
{
    struct bst_be_cfg cfg = {.threads = threads, .precision = rig_precision(b)};
    *r = (struct rig){.b = b, .blocked = variant & RIG_BLOCKED};
    rig_must(b->open(&cfg, &r->be), b->name);
    r->table.slots = bst_xcalloc(RIG_MAX_VALUES, sizeof *r->table.slots);
}

int rig_param(struct rig *r, enum bst_param_kind kind, const struct bst_shape *s)
{
    char name[16];
    snprintf(name, sizeof name, "p%d", r->table.n_slots);
    r->table.slots[r->table.n_slots] = (struct bst_param_slot){
        .name = bst_xstrdup(name), .kind = kind, .shape = *s, .layout = BST_LAYOUT_ANY};
    r->table.n_trained += BST_PARAM_IS_TRAINED(kind);
    return r->table.n_slots++;
}

void rig_start(struct rig *r, int micro_batch, unsigned variant)
{
    struct bst_compile_opts o = {.training = true,
                                 .accumulate = variant & RIG_ACCUMULATE,
                                 .no_alias = variant & RIG_NO_ALIAS};
    for (int i = 0; i < r->table.n_slots && variant & RIG_PLAIN_WEIGHT; i++)
        r->table.slots[i].layout = BST_LAYOUT_PLAIN;
    rig_must(bst_pass_init(&r->pass, NULL, &r->b->describe, r->be, &r->table, &o), "init");
    r->p = r->pass.p;
    r->p->micro_batch = micro_batch;
    for (int i = 0; i < 4; i++)
        r->p->std[i] = 1;
    r->step = (struct bst_step){.n_valid = micro_batch, .grad_scale = 1, .result = &r->result};
}

int rig_value(struct rig *r, const struct bst_shape *s, bool raw)
{
    int v = bst_pass_add_value(&r->pass, s);
    r->p->values[v].raw = raw;
    return v;
}

/* The layout of a convolution's result of this shape. Asking takes a backend milliseconds, and one
 * shape is asked for many times on end. */
static uint32_t conv_layout(struct rig *r, const struct bst_shape *s)
{
    static struct bst_shape last;
    static const struct bst_backend *last_b;
    static uint32_t layout;
    if (r->b == last_b && bst_shape_equal(s, &last))
        return layout;
    struct rig probe;
    struct bst_shape w = {4, {s->d[1], s->d[1], 3, 3}};
    rig_open(&probe, r->b, 1, 0);
    int weight = rig_param(&probe, BST_PARAM_CONV_WEIGHT, &w);
    rig_start(&probe, (int)s->d[0], 0);
    int x = rig_input(&probe, s), y = rig_value(&probe, s, false);
    struct bst_instr *in = bst_pass_add_instr(&probe.pass, BST_I_CONV_FWD, "probe");
    in->window = (struct bst_window){3, 1, 1};
    bst_instr_read(in, x);
    bst_instr_read(in, weight);
    bst_instr_write(in, y);
    rig_finish(&probe);
    layout = probe.p->values[y].layout;
    last = *s;
    last_b = r->b;
    rig_close(&probe);
    return layout;
}

int rig_input(struct rig *r, const struct bst_shape *s)
{
    int v = rig_value(r, s, false);
    r->p->values[v].layout = BST_LAYOUT_PLAIN;
    r->pass.info[v].input = true;
    r->inputs[r->n_inputs++] = v;
    uint32_t layout = r->blocked && s->rank == 4 ? conv_layout(r, s) : BST_LAYOUT_PLAIN;
    if (layout == BST_LAYOUT_PLAIN)
        return v;
    int own = rig_value(r, s, false);
    r->p->values[own].layout = layout;
    struct bst_instr *in = bst_pass_add_instr(&r->pass, BST_I_REORDER, "input");
    bst_instr_read(in, v);
    bst_instr_write(in, own);
    return own;
}

void rig_output(struct rig *r, int value)
{
    r->outputs[r->n_outputs++] = value;
}

void rig_fill(const struct bst_backend *b, struct bst_be *be, void *to, int byte, size_t bytes)
{
    void *host;
    if (!bytes)
        return;
    rig_must(bst_alloc(bytes, &host), "alloc");
    memset(host, byte, bytes);
    rig_put(b, be, to, host, bytes);
    bst_alloc_free(host, bytes);
}

static void rig_alloc(struct rig *r)
{
    r->bytes[BST_MEM_WEIGHT] = r->table.trained_bytes + r->table.state_bytes;
    r->bytes[BST_MEM_GRAD] = r->table.trained_bytes;
    r->bytes[BST_MEM_STAGED] = r->table.state_bytes;
    r->bytes[BST_MEM_ARENA] = r->p->arena_bytes;
    for (int i = 0; i < BST_MEM_N; i++)
        rig_must(r->b->alloc(r->be, r->bytes[i], &r->mem.base[i]), "alloc");
    /* 0xff is a NaN: whoever reads what nobody wrote shows. Parameters have zero padding. */
    rig_fill(r->b, r->be, r->mem.base[BST_MEM_ARENA], 0xff, r->bytes[BST_MEM_ARENA]);
}

void rig_finish(struct rig *r)
{
    r->p->n_forward = r->p->n_instrs;
    rig_must(bst_pass_layout(&r->pass), "layout");
    for (int i = 0; i < r->n_outputs; i++) {
        r->outputs[i] = bst_pass_expose(&r->pass, r->outputs[i]);
        rig_must(r->outputs[i] < 0 ? BST_E_UNSUPPORTED : BST_OK, "reorder to the plain layout");
    }
    bst_pass_settle(&r->pass);
    bst_pass_plan(&r->pass);
    rig_alloc(r);
}

static void *address(struct rig *r, int value)
{
    const struct bst_value *v = &r->p->values[value];
    return (char *)r->mem.base[v->memory] + v->offset;
}

void rig_put(const struct bst_backend *b, struct bst_be *be, void *to, const void *from,
             size_t bytes)
{
    if (b->upload)
        rig_must(b->upload(be, to, from, bytes), "upload");
    else
        memcpy(to, from, bytes);
}

void rig_store(const struct bst_backend *b, struct bst_be *be, void *to, const double *from,
               int64_t n)
{
    const size_t bytes = (size_t)n * (size_t)b->elem_bytes;
    void *host = bst_xalloc(bytes);
    for (int64_t i = 0; i < n; i++) {
        if (b->elem_bytes == 8)
            ((double *)host)[i] = from[i];
        else
            ((float *)host)[i] = (float)from[i];
    }
    rig_put(b, be, to, host, bytes);
    bst_free(host);
}

void rig_load(const struct bst_backend *b, struct bst_be *be, double *to, const void *from,
              int64_t n)
{
    const size_t bytes = (size_t)n * (size_t)b->elem_bytes;
    void *host = bst_xalloc(bytes);
    if (b->download)
        rig_must(b->download(be, host, from, bytes), "download");
    else
        memcpy(host, from, bytes);
    for (int64_t i = 0; i < n; i++)
        to[i] = b->elem_bytes == 8 ? ((double *)host)[i] : (double)((float *)host)[i];
    bst_free(host);
}

void rig_set_input(struct rig *r, int nth, const double *x)
{
    int v = r->inputs[nth];
    rig_store(r->b, r->be, address(r, v), x, bst_shape_count(&r->p->values[v].shape));
}

void rig_set_param(struct rig *r, int value, const double *x)
{
    const struct bst_param_slot *slot = &r->table.slots[r->p->values[value].param];
    rig_must(r->b->import_plain(r->be, slot, x, address(r, value)), "import");
}

void rig_get_param(struct rig *r, int value, double *x)
{
    const struct bst_param_slot *slot = &r->table.slots[r->p->values[value].param];
    rig_must(r->b->export_plain(r->be, slot, address(r, value), x), "export");
}

void rig_get_output(struct rig *r, int nth, double *x)
{
    int v = r->outputs[nth];
    rig_load(r->b, r->be, x, address(r, v), bst_shape_count(&r->p->values[v].shape));
}

const struct bst_shape *rig_output_shape(const struct rig *r, int nth)
{
    return &r->p->values[r->outputs[nth]].shape;
}

void rig_run(struct rig *r)
{
    rig_must(bst_program_run(r->b, r->p, &r->mem, &r->step, 0, r->p->n_instrs, NULL), "run");
}

void rig_close(struct rig *r)
{
    for (int i = 0; i < BST_MEM_N; i++)
        r->b->free(r->be, r->mem.base[i], r->bytes[i]);
    bst_pass_fini(&r->pass);
    for (int i = 0; i < r->table.n_slots; i++)
        bst_free(r->table.slots[i].name);
    bst_free(r->table.slots);
    r->b->close(r->be);
}
