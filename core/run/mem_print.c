/* The report as JSON. */
#include "core/base/json.h"
#include "core/run/mem.h"

static void print_row(struct bst_json *j, const struct bst_mem_row *row)
{
    bst_json_open(j, NULL, '{');
    bst_json_uint(j, "global_batch_size", row->batch);
    bst_json_int(j, "micro_batch_size", row->micro);
    bst_json_int(j, "gradient_accumulation_steps", row->micro_batches);
    bst_json_str(j, "precision", row->precision);
    bst_json_str(j, "recompute", row->recompute);
    bst_json_bool(j, "fits", row->fits);
    if (row->known) {
        bst_json_uint(j, "parameters", row->parameters);
        bst_json_uint(j, "gradients", row->gradients);
        bst_json_uint(j, "optimizer", row->optimizer);
        bst_json_uint(j, "rewind", row->rewind);
        bst_json_uint(j, "activations", row->activations);
        bst_json_uint(j, "recomputation", row->recomputation);
        bst_json_uint(j, "data", row->data);
        bst_json_uint(j, "workspace", row->workspace);
        bst_json_uint(j, "scratch", row->scratch);
        bst_json_uint(j, "total", row->total);
        bst_json_uint(j, "host", row->host);
        bst_json_int(j, "recomputed_instructions", row->n_again);
        bst_json_num(j, "recompute_work", row->again_share);
    } else {
        bst_json_null(j, "total");
    }
    if (row->known && row->textbook > 0) {
        bst_json_num(j, "textbook", row->textbook);
        bst_json_num(j, "textbook_error", bst_memory_error(row->textbook, (double)row->total));
    }
    if (row->part) {
        bst_json_open(j, "accumulated", '{');
        bst_json_int(j, "micro_batch_size", row->part);
        bst_json_int(j, "gradient_accumulation_steps", row->n_parts);
        bst_json_uint(j, "total", row->part_total);
        bst_json_close(j, '}');
    }
    if (row->why[0])
        bst_json_str(j, "why", row->why);
    bst_json_close(j, '}');
}

static void print_textbook(struct bst_json *j, const struct bst_mem_report *r)
{
    bst_json_open(j, "textbook", '{');
    bst_json_num(j, "parameters", r->textbook.parameters);
    bst_json_num(j, "inputs", r->textbook.inputs);
    bst_json_num(j, "outputs", r->textbook.outputs);
    bst_json_num(j, "factor", r->textbook.factor);
    bst_json_open(j, "fitted_from", '[');
    for (int i = 0; i < 2 && r->fitted[0]; i++)
        bst_json_int(j, NULL, r->fitted[i]);
    bst_json_close(j, ']');
    bst_json_close(j, '}');
}

void bst_mem_print_json(const struct bst_mem_report *r, struct bst_sb *out)
{
    struct bst_json j;
    bst_json_init(&j, out);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "preset", r->preset);
    bst_json_str(&j, "net", r->net);
    bst_json_str(&j, "backend", r->backend);
    if (r->device[0]) {
        bst_json_str(&j, "device", r->device);
        bst_json_str(&j, "cudnn", r->cudnn);
    }
    bst_json_int(&j, "devices", r->devices);
    bst_json_uint(&j, "capacity", r->capacity);
    bst_json_bool(&j, "data_found", !r->generated);
    bst_json_open(&j, "planned", '[');
    for (int i = 0; i < r->n_rows; i++)
        print_row(&j, &r->rows[i]);
    bst_json_close(&j, ']');
    bst_json_open(&j, "largest", '[');
    for (int i = 0; i < r->n_largest; i++) {
        const struct bst_mem_largest *l = &r->largest[i];
        bst_json_open(&j, NULL, '{');
        bst_json_str(&j, "precision", l->precision);
        bst_json_str(&j, "recompute", l->recompute);
        bst_json_int(&j, "micro_batch_size", l->micro);
        bst_json_uint(&j, "global_batch_size", l->batch);
        bst_json_uint(&j, "total", l->total);
        bst_json_close(&j, '}');
    }
    bst_json_close(&j, ']');
    bst_json_uint(&j, "saving", r->saving);
    print_textbook(&j, r);
    bst_json_open(&j, "measured", '{');
    if (r->process)
        bst_json_uint(&j, "process_resident", r->process);
    else
        bst_json_null(&j, "process_resident");
    bst_json_close(&j, '}');
    bst_json_close(&j, '}');
}
