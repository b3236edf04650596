#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/run/mem.h"
#include "tui/verbs.h"

#define MIB (1024.0 * 1024.0)

/* What the options say, and the storage for it. */
struct ask {
    struct bst_mem_cfg cfg;
    const char *sets[TUI_ARGS_MAX + 1];
    char devices[64];
    uint64_t batches[BST_MEM_LIST];
    char *precisions[BST_MEM_LIST], *recomputes[BST_MEM_LIST];
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
    for (int i = 0; i < n && !code; i++) {
        int64_t batch = 0;
        if (!bst_int_parse(items[i], &batch) || batch < 1 || batch > INT32_MAX)
            code = -1;
        a->batches[i] = (uint64_t)batch;
    }
    free_list(items);
    a->cfg.batches = a->batches;
    a->cfg.n_batches = n;
    return code ? tui_usage(c, "--batch: %s is not a list of sizes such as 64,128,256", list) : 0;
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
    int n = precision ? split_list(precision, a->precisions) : 0;
    a->cfg.device = tui_value(c, TUI_OPTION_DEVICE);
    if (n < 0)
        return tui_usage(c, "--precision: %s is not a list such as fp32", precision);
    a->cfg.n_precisions = n;
    n = recompute ? split_list(recompute, a->recomputes) : 0;
    if (n < 0)
        return tui_usage(c, "--recompute: %s is not a list such as none,every:1,auto", recompute);
    a->cfg.n_recomputes = n;
    for (int i = 0; i < n; i++)
        a->recomputes[i] = as_in_file(a->recomputes[i]);
    a->cfg.precisions = (const char *const *)a->precisions;
    a->cfg.recomputes = (const char *const *)a->recomputes;
    return 0;
}

static int read_options(const struct tui_call *c, struct ask *a)
{
    const char *capacity = tui_value(c, TUI_OPTION_CAPACITY);
    const char *devices = tui_value(c, TUI_OPTION_DEVICES);
    a->cfg.preset = c->cli->operands[0];
    for (int i = 0; i < c->cli->n_sets; i++)
        a->sets[a->cfg.n_sets++] = c->cli->sets[i];
    if (devices) {
        snprintf(a->devices, sizeof a->devices, "devices.count=%s", devices);
        a->sets[a->cfg.n_sets++] = a->devices;
    }
    a->cfg.sets = a->sets;
    if (capacity && (!bst_text_parse_bytes(capacity, &a->cfg.capacity) || !a->cfg.capacity))
        return tui_usage(c, "--capacity: %s is not a size such as 80GiB", capacity);
    int code = read_batches(c, a);
    return code ? code : read_lists(c, a);
}

static void print_bytes(FILE *out, uint64_t bytes, int width)
{
    fprintf(out, " %*.1f", width, (double)bytes / MIB);
}

static void print_row(FILE *out, const struct bst_mem_report *report, const struct bst_mem_row *r)
{
    char micro[32];
    bool gpu = report->device[0] != '\0';
    snprintf(micro, sizeof micro, r->micro_batches > 1 ? "%dx%d" : "%.0d%d",
             r->micro_batches > 1 ? r->micro_batches : 0, r->micro);
    fprintf(out, "%7" PRIu64 " %7s  ", r->batch, micro);
    if (gpu)
        fprintf(out, "%-5s ", r->precision);
    fprintf(out, "%-12s", r->recompute);
    if (r->why[0] || !r->known) {
        fprintf(out, "  %s\n", r->why[0] ? r->why : "does not fit, by far");
        return;
    }
    print_bytes(out, r->parameters, 11);
    print_bytes(out, r->gradients, 9);
    print_bytes(out, r->optimizer, 9);
    print_bytes(out, r->rewind, 8);
    print_bytes(out, r->activations, 11);
    print_bytes(out, r->recomputation, 13);
    if (gpu) {
        print_bytes(out, r->workspace - r->scratch, 10);
        print_bytes(out, r->scratch, 8);
        print_bytes(out, r->libraries, 9);
    } else {
        print_bytes(out, r->data, 7);
        print_bytes(out, r->workspace, 9);
    }
    print_bytes(out, r->total, 9);
    fprintf(out, "  %-4s %+6.1f%%", r->fits ? "yes" : "no", 100 * r->again_share);
    if (r->textbook > 0)
        fprintf(out, " %9.1f %+6.1f%%", r->textbook / MIB,
                100 * bst_memory_error(r->textbook, (double)r->total));
    fprintf(out, "\n");
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
    fprintf(out, "recompute %s: ", l->recompute);
    if (l->micro)
        fprintf(out, "%d samples a device in one pass, a batch of %" PRIu64 " (%s)\n", l->micro,
                l->batch, total);
    else
        fprintf(out, "not one sample fits\n");
}

/* What is exact, what is estimated, and what nobody can plan are kept apart. */
static void print_gpu_text(FILE *out, const struct bst_mem_report *r)
{
    char host[32] = "n/a";
    fprintf(out, "%s: %s on %d x %s, planned with cuDNN %s; no such device need be here%s\n",
            r->preset, r->net, r->devices, r->device, r->cudnn,
            r->generated ? "; nor are the data, their usual sizes are taken" : "");
    fprintf(out, "MiB of one device:\n"
                 "  batch   micro  type  recompute     parameters gradients optimizer   rewind "
                 "activations recomputation transients  scratch libraries     total  fits    work"
                 "  textbook   error\n");
    for (int i = 0; i < r->n_rows; i++)
        print_row(out, r, &r->rows[i]);
    for (int i = 0; i < r->n_largest; i++)
        print_largest(out, r, &r->largest[i]);
    if (r->n_rows)
        bst_text_bytes(r->rows[r->n_rows - 1].host, host);
    fprintf(
        out,
        "exact, as a run would ask for it: all columns up to total. scratch is what the "
        "instruction needs at which most is in use: cuDNN's\n"
        "workspace for the plan it puts first, asked of cuDNN for each convolution, and room for "
        "filters and sums; libraries is cuBLASLt's.\n"
        "estimated: work, the price of recomputation; textbook, which knows the number of "
        "parameters only.\n"
        "not known before a run, and on top: the driver's context with its code, NCCL's buffers "
        "between several devices.\n"
        "in the host's memory: %s for images at the last batch\n",
        host);
}

static void print_text(const struct tui_call *c, const struct bst_mem_report *r)
{
    char process[32] = "n/a", saving[32];
    bst_text_bytes(r->saving, saving);
    if (r->process)
        bst_text_bytes(r->process, process);
    fprintf(c->out, "%s: %s on %d device%s (%s)%s\n", r->preset, r->net, r->devices,
            r->devices == 1 ? "" : "s", r->backend,
            r->generated ? "; the data are not here, their usual sizes are taken" : "");
    fprintf(c->out, "MiB of one device, planned:\n"
                    "  batch   micro  recompute     parameters gradients optimizer   rewind "
                    "activations recomputation    data workspace     total  fits    work  textbook "
                    "  error\n");
    for (int i = 0; i < r->n_rows; i++)
        print_row(c->out, r, &r->rows[i]);
    for (int i = 0; i < r->n_largest; i++)
        print_largest(c->out, r, &r->largest[i]);
    fprintf(c->out,
            "rewind is room for the state before a change, touched by the first one; work is the "
            "estimated price of recomputation;\n"
            "while a checkpoint is written, %s more\n"
            "measured, on top, once a process: %s for program, libraries and data set\n",
            saving, process);
}

static int make(const struct tui_call *c, struct ask *a)
{
    struct bst_mem_report *r = NULL;
    struct bst_preset_errors errs;
    bst_preset_errors_init(&errs);
    enum bst_err err = bst_mem_make(&a->cfg, &r, &errs);
    int code = TUI_EXIT_DONE;
    if (err && errs.n) {
        fprintf(c->err, "%s", errs.text.data);
        code = TUI_EXIT_USAGE;
    } else if (err) {
        code = tui_fail(c, err == BST_E_NOTFOUND ? TUI_EXIT_USAGE : TUI_EXIT_FAILED);
    } else if (tui_given(c, TUI_OPTION_JSON)) {
        struct bst_sb text;
        bst_sb_init(&text, 16 << 20);
        bst_mem_print_json(r, &text);
        fprintf(c->out, "%s\n", text.data);
        bst_sb_fini(&text);
    } else if (r->device[0]) {
        print_gpu_text(c->out, r);
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
    if (!code)
        code = make(c, a);
    free_list(a->precisions);
    free_list(a->recomputes);
    bst_preset_env_free(env);
    bst_free(a);
    return code;
}
