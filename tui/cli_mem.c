#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/run/mem.h"
#include "tui/verbs.h"

#define MIB (1024.0 * 1024.0)

/* Columns of the tables that have all in them. */
enum { WIDE = 151, WIDE_GPU = 178 };

/* What the options say, and the storage for it. */
struct ask {
    struct bst_mem_cfg cfg;
    const char *sets[TUI_ARGS_MAX + 1];
    char devices[64];
    uint64_t batches[BST_MEM_LIST];
    char *precisions[BST_MEM_LIST], *recomputes[BST_MEM_LIST];
    char *gpus[BST_MEM_LIST];
    int n_gpus; /* 0: this machine */
};

/* Items of a,b,c, none of them empty; -1 when there are too many, or one is. Freed by the caller.
 */
static int split_list(const char *list, char *items[BST_MEM_LIST])
{
    int n = 0;
    for (const char *at = list;; at++) {
        size_t len = strcspn(at, ",");
        if (!len || n == BST_MEM_LIST)
            return -1;
        items[n] = bst_xasprintf("%.*s", (int)len, at);
        n++;
        at += len;
        if (!*at)
            return n;
    }
}

static void free_list(char *items[BST_MEM_LIST])
{
    for (int i = 0; i < BST_MEM_LIST; i++)
        bst_free(items[i]);
}

static int read_batches(const struct tui_call *c, struct ask *a)
{
    const char *list = tui_value(c, TUI_OPTION_BATCH);
    char *items[BST_MEM_LIST] = {NULL};
    int n = list ? split_list(list, items) : 0, code = n < 0 ? -1 : 0;
    const struct bst_param_info *key = bst_param_at(BST_PARAM_global_batch_size);
    for (int i = 0; i < n && !code; i++) {
        int64_t batch = 0;
        if (!bst_int_parse(items[i], &batch) || (double)batch < key->least ||
            (double)batch > key->most)
            code = -1;
        a->batches[i] = (uint64_t)batch;
    }
    free_list(items);
    a->cfg.batches = a->batches;
    a->cfg.n_batches = n;
    return code ? tui_usage(c,
                            "--batch: %s is not a list of up to %d sizes from %.0f to %.0f such as "
                            "64,128,256",
                            list, BST_MEM_LIST, key->least, key->most)
                : 0;
}

/* The bounds of devices.memory, which a run would be given. */
static int read_capacity(const struct tui_call *c, struct ask *a)
{
    const char *text = tui_value(c, TUI_OPTION_CAPACITY);
    const struct bst_param_info *key = bst_param_at(BST_PARAM_devices_memory);
    char least[32], most[32];
    if (!text || (bst_text_parse_bytes(text, &a->cfg.capacity) &&
                  (double)a->cfg.capacity >= key->least && (double)a->cfg.capacity <= key->most))
        return 0;
    bst_text_bytes((uint64_t)key->least, least);
    bst_text_bytes((uint64_t)key->most, most);
    return tui_usage(c, "--capacity: %s is not a size from %s to %s such as 80GiB", text, least,
                     most);
}

/* "every:2" → "{every: 2}", as it would stand in a preset. */
static char *as_in_file(char *item)
{
    const char *colon = strchr(item, ':');
    if (!colon)
        return item;
    bool layers = strncmp(item, "layers:", 7) == 0;
    char *out = bst_xasprintf(layers ? "{%.*s: [\"%s\"]}" : "{%.*s: %s}", (int)(colon - item), item,
                              colon + 1);
    bst_free(item);
    return out;
}

static int read_lists(const struct tui_call *c, struct ask *a)
{
    const char *precision = tui_value(c, TUI_OPTION_PRECISION);
    const char *recompute = tui_value(c, TUI_OPTION_RECOMPUTE);
    const char *gpus = tui_value(c, TUI_OPTION_DEVICE);
    int n = precision ? split_list(precision, a->precisions) : 0;
    if (n < 0)
        return tui_usage(c, "--precision: %s is not a list such as fp32", precision);
    a->cfg.n_precisions = n;
    n = recompute ? split_list(recompute, a->recomputes) : 0;
    if (n < 0)
        return tui_usage(c, "--recompute: %s is not a list such as none,every:1,auto", recompute);
    a->cfg.n_recomputes = n;
    for (int i = 0; i < n; i++)
        a->recomputes[i] = as_in_file(a->recomputes[i]);
    a->n_gpus = gpus ? split_list(gpus, a->gpus) : 0;
    if (a->n_gpus < 0)
        return tui_usage(c, "--device: %s is not a list such as a100,h100", gpus);
    a->cfg.precisions = (const char *const *)a->precisions;
    a->cfg.recomputes = (const char *const *)a->recomputes;
    return 0;
}

static int read_options(const struct tui_call *c, struct ask *a)
{
    const char *devices = tui_value(c, TUI_OPTION_DEVICES);
    a->cfg.preset = c->cli->operands[0];
    for (int i = 0; i < c->cli->n_sets; i++)
        a->sets[a->cfg.n_sets++] = c->cli->sets[i];
    if (devices) {
        snprintf(a->devices, sizeof a->devices, "devices.count=%s", devices);
        a->sets[a->cfg.n_sets++] = a->devices;
    }
    a->cfg.sets = a->sets;
    int code = read_capacity(c, a);
    if (!code)
        code = read_batches(c, a);
    return code ? code : read_lists(c, a);
}

static void print_bytes(FILE *out, uint64_t bytes, int width)
{
    fprintf(out, " %*.1f", width, (double)bytes / MIB);
}

/* Bytes that are the same whatever the batch. */
static bool have_same_state(const struct bst_mem_row *a, const struct bst_mem_row *b)
{
    return a->parameters == b->parameters && a->gradients == b->gradients &&
           a->optimizer == b->optimizer && a->rewind == b->rewind;
}

static const char *why_not(const struct bst_mem_row *row)
{
    return row->why[0] ? row->why : row->known ? NULL : "does not fit, by far";
}

/* Past the last row of those that `from` begins: of one precision and one way of recomputing. */
static int group_end(const struct bst_mem_report *r, int from)
{
    const struct bst_mem_row *first = &r->rows[from];
    int to = from;
    while (to < r->n_rows && !strcmp(r->rows[to].recompute, first->recompute) &&
           !strcmp(r->rows[to].precision, first->precision))
        to++;
    return to;
}

static void print_batch(FILE *out, const struct bst_mem_row *row, int width)
{
    char micro[32];
    if (row->micro_batches > 1)
        snprintf(micro, sizeof micro, "%dx%d", row->micro_batches, row->micro);
    else
        snprintf(micro, sizeof micro, "%d", row->micro);
    fprintf(out, "%*" PRIu64 " %*s", width, row->batch, width, micro);
}

static void print_wide_row(FILE *out, const struct bst_mem_report *report,
                           const struct bst_mem_row *row)
{
    bool gpu = report->device[0] != '\0';
    print_batch(out, row, 8);
    fprintf(out, "  ");
    if (gpu)
        fprintf(out, "%-5s ", row->precision);
    fprintf(out, "%-12s", row->recompute);
    if (why_not(row)) {
        fprintf(out, "  %s\n", why_not(row));
        return;
    }
    print_bytes(out, row->parameters, 11);
    print_bytes(out, row->gradients, 9);
    print_bytes(out, row->optimizer, 9);
    print_bytes(out, row->rewind, 8);
    print_bytes(out, row->activations, 11);
    print_bytes(out, row->recomputation, 13);
    print_bytes(out, row->data, gpu ? 6 : 7);
    if (gpu) {
        print_bytes(out, row->workspace - row->scratch, 10);
        print_bytes(out, row->scratch, 8);
    } else {
        print_bytes(out, row->workspace, 9);
    }
    print_bytes(out, row->total, 9);
    fprintf(out, "  %-4s %+6.1f%%", row->fits ? "yes" : "no", 100 * row->again_share);
    if (row->textbook > 0)
        fprintf(out, " %9.1f %+6.1f%%", row->textbook / MIB,
                100 * bst_memory_error(row->textbook, (double)row->total));
    fprintf(out, "\n");
}

static void print_wide(FILE *out, const struct bst_mem_report *r)
{
    bool gpu = r->device[0] != '\0';
    fprintf(
        out,
        "   batch    micro  %srecompute     parameters gradients optimizer   rewind activations "
        "recomputation%s     total  fits    work  textbook   error\n",
        gpu ? "type  " : "", gpu ? "   data transients  scratch" : "    data workspace");
    for (int i = 0; i < r->n_rows; i++)
        print_wide_row(out, r, &r->rows[i]);
}

static void print_narrow_row(FILE *out, const struct bst_mem_report *r,
                             const struct bst_mem_row *row, int columns)
{
    bool gpu = r->device[0] != '\0';
    int width = gpu ? 7 : 8;
    print_batch(out, row, width);
    if (why_not(row)) {
        tui_print_wrapped(out, columns, why_not(row), 2 * width + 3, 2 * width + 1);
        return;
    }
    print_bytes(out, row->activations, gpu ? 8 : 11);
    print_bytes(out, row->recomputation, gpu ? 8 : 10);
    print_bytes(out, row->data, 6);
    if (gpu) {
        print_bytes(out, row->workspace - row->scratch, 8);
        print_bytes(out, row->scratch, 7);
    } else {
        print_bytes(out, row->workspace, 9);
    }
    print_bytes(out, row->total, gpu ? 8 : 9);
    fprintf(out, " %-3s %+6.1f%%\n", row->fits ? "yes" : "no", 100 * row->again_share);
}

/* Of the rows `from` to below `to`. */
static void print_textbook(FILE *out, const struct bst_mem_report *r, int from, int to)
{
    enum { A_LINE = 3 };
    int n = 0;
    for (int i = from; i < to; i++) {
        const struct bst_mem_row *row = &r->rows[i];
        if (why_not(row) || !(row->textbook > 0))
            continue;
        if (!n)
            fprintf(out, "  textbook's estimate and its error, by batch:");
        fprintf(out, "%s%8" PRIu64 " %8.1f %+6.1f%%", n % A_LINE ? " " : "\n", row->batch,
                row->textbook / MIB, 100 * bst_memory_error(row->textbook, (double)row->total));
        n++;
    }
    if (n)
        fputc('\n', out);
}

/* What the rows of a group have in common stands above them, where it is not what stood there. */
static void print_state(FILE *out, const struct bst_mem_report *r, int from, int to,
                        const struct bst_mem_row **shown)
{
    int i = from;
    while (i < to && why_not(&r->rows[i]))
        i++;
    const struct bst_mem_row *row = &r->rows[i];
    if (i == to || (*shown && have_same_state(*shown, row)))
        return;
    *shown = row;
    fprintf(out, "  parameters %.1f  gradients %.1f  optimizer %.1f  rewind %.1f, at any batch\n",
            (double)row->parameters / MIB, (double)row->gradients / MIB,
            (double)row->optimizer / MIB, (double)row->rewind / MIB);
}

static void print_narrow(FILE *out, const struct bst_mem_report *r, int columns)
{
    bool gpu = r->device[0] != '\0';
    const struct bst_mem_row *shown = NULL;
    fprintf(
        out,
        gpu ? "  batch   micro   activ.  recomp.   data  transi. scratch    total fit    work\n"
            : "   batch    micro activations recomputed   data workspace     total fit    work\n");
    for (int i = 0, next; i < r->n_rows; i = next) {
        next = group_end(r, i);
        if (gpu)
            fprintf(out, "%s, ", r->rows[i].precision);
        fprintf(out, "recompute %s\n", r->rows[i].recompute);
        print_state(out, r, i, next, &shown);
        for (int k = i; k < next; k++)
            print_narrow_row(out, r, &r->rows[k], columns);
        print_textbook(out, r, i, next);
    }
}

static void print_largest(FILE *out, const struct bst_mem_report *r,
                          const struct bst_mem_largest *l)
{
    char total[32], capacity[32];
    bst_text_bytes(l->total, total);
    bst_text_bytes(r->capacity, capacity);
    fprintf(out, "largest in %s, ", capacity);
    if (r->device[0])
        fprintf(out, "%s, ", l->precision);
    fprintf(out, "recompute %s:\n  ", l->recompute);
    if (l->micro)
        fprintf(out, "%d samples a device in one pass, a batch of %" PRIu64 " (%s)\n", l->micro,
                l->batch, total);
    else
        fprintf(out, "not one sample fits\n");
}

static void print_note(FILE *out, int columns, const char *fmt, ...) BST_PRINTF(3, 4);
static void print_note(FILE *out, int columns, const char *fmt, ...)
{
    struct bst_sb text;
    va_list ap;
    bst_sb_init(&text, 8192);
    va_start(ap, fmt);
    bst_sb_addv(&text, fmt, ap);
    va_end(ap);
    tui_print_wrapped(out, columns, text.data, 0, 0);
    bst_sb_fini(&text);
}

/* Of what does not fit in one pass, how a run would do it all the same. */
static void print_parts(FILE *out, const struct bst_mem_report *r, int columns)
{
    for (int from = 0, to; from < r->n_rows; from = to) {
        const struct bst_mem_row *first = &r->rows[from];
        struct bst_sb text;
        char total[32];
        int n = 0;
        bst_sb_init(&text, 8192);
        to = group_end(r, from);
        for (int i = from; i < to; i++) {
            const struct bst_mem_row *row = &r->rows[i];
            if (!row->part)
                continue;
            bst_text_bytes(row->part_total, total);
            bst_sb_addf(&text, "%s%" PRIu64 " as %dx%d (%s)", n++ ? ", " : "", row->batch,
                        row->n_parts, row->part, total);
        }
        if (n)
            print_note(out, columns,
                       "what does not fit in one pass a run trains by accumulation%s%s%s%s: %s",
                       r->device[0] ? ", " : "", r->device[0] ? first->precision : "",
                       r->n_largest > 1 ? ", recompute " : "",
                       r->n_largest > 1 ? first->recompute : "", text.data);
        bst_sb_fini(&text);
    }
}

/* What is exact, what is estimated, and what nobody can plan are kept apart. */
static void print_gpu_notes(FILE *out, const struct bst_mem_report *r, int columns)
{
    char host[32] = "n/a";
    if (r->n_rows)
        bst_text_bytes(r->rows[r->n_rows - 1].host, host);
    print_note(
        out, columns,
        "exact, as a run would ask for it: all columns up to total. scratch is what the "
        "instruction needs at which most is in use: cuDNN's workspace for the plan it puts "
        "first, asked of cuDNN for each convolution and, in 16 bits, each attention, and "
        "room for what is rounded and for sums; "
        "transients are what lives within an update, data two batches as they are sent; room "
        "that a gradient takes over from an activation, as that of the logits, stays with "
        "the activations.");
    print_note(out, columns,
               "estimated: work, the price of recomputation; textbook, which knows the number of "
               "parameters only; in linear layers the 4 MiB that cuBLASLt may take at most.");
    print_note(out, columns,
               "not known before a run, and on top: the driver's context with its code, NCCL's "
               "buffers between several devices.");
    print_note(out, columns, "in the host's memory: %s for samples on their way, at the last batch",
               host);
}

static void print_host_notes(FILE *out, const struct bst_mem_report *r, int columns)
{
    char process[32] = "n/a", saving[32];
    bst_text_bytes(r->saving, saving);
    if (r->process)
        bst_text_bytes(r->process, process);
    print_note(out, columns,
               "rewind is room for the state before a change, touched by the first one; work is "
               "the estimated price of recomputation;");
    print_note(out, columns, "while a checkpoint is written, %s more", saving);
    print_note(out, columns,
               "measured, on top, once a process: %s for program, libraries and data set", process);
}

static void print_text(const struct tui_call *c, const struct bst_mem_report *r)
{
    int columns = tui_output_columns(c->out) - 1;
    bool gpu = r->device[0] != '\0';
    if (gpu)
        print_note(c->out, columns,
                   "%s: %s on %d x %s, planned with cuDNN %s; no such device need be here%s",
                   r->preset, r->net, r->devices, r->device, r->cudnn,
                   r->generated ? "; nor are the data, their usual sizes are taken" : "");
    else
        print_note(c->out, columns, "%s: %s on %d device%s (%s)%s", r->preset, r->net, r->devices,
                   r->devices == 1 ? "" : "s", r->backend,
                   r->generated ? "; the data are not here, their usual sizes are taken" : "");
    fprintf(c->out, "MiB of one device%s:\n", gpu ? "" : ", planned");
    if (columns >= (gpu ? WIDE_GPU : WIDE))
        print_wide(c->out, r);
    else
        print_narrow(c->out, r, columns);
    for (int i = 0; i < r->n_largest; i++)
        print_largest(c->out, r, &r->largest[i]);
    print_parts(c->out, r, columns);
    if (gpu)
        print_gpu_notes(c->out, r, columns);
    else
        print_host_notes(c->out, r, columns);
}

static int make(const struct tui_call *c, struct ask *a)
{
    struct bst_mem_report *r = NULL;
    struct bst_preset_errors errs;
    bst_preset_errors_init(&errs);
    enum bst_err err = bst_mem_make(&a->cfg, &r, &errs);
    int code = TUI_EXIT_DONE;
    if (err && errs.n) {
        code = tui_refuse_preset(c, &errs);
    } else if (err) {
        code = tui_fail(c, err == BST_E_NOTFOUND ? TUI_EXIT_USAGE : TUI_EXIT_FAILED);
    } else if (tui_given(c, TUI_OPTION_JSON)) {
        struct bst_sb text;
        bst_sb_init(&text, 16 << 20);
        bst_mem_print_json(r, &text);
        fprintf(c->out, "%s\n", text.data);
        bst_sb_fini(&text);
    } else {
        print_text(c, r);
    }
    bst_mem_free(r);
    bst_preset_errors_fini(&errs);
    return code;
}

int tui_verb_mem(const struct tui_call *c)
{
    struct ask *a = bst_xalloc(sizeof *a);
    struct bst_preset_env *env = bst_preset_env_new(c->nets);
    a->cfg.presets = env;
    a->cfg.nets = c->nets;
    int code = read_options(c, a);
    if (!code && !a->n_gpus)
        code = make(c, a);
    for (int i = 0; i < a->n_gpus && !code; i++) {
        a->cfg.device = a->gpus[i];
        if (i && !tui_given(c, TUI_OPTION_JSON))
            fputc('\n', c->out);
        code = make(c, a);
    }
    free_list(a->gpus);
    free_list(a->precisions);
    free_list(a->recomputes);
    bst_preset_env_free(env);
    bst_free(a);
    return code;
}
