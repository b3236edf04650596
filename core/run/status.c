#include "core/run/status.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/run/field.h"
#include "core/run/run_dir.h"
#include "core/run/status_json.h"

enum { FILE_CAP = 1 << 20 };

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const char *const phase_names[] = {
    [BST_PHASE_STARTING] = "starting",     [BST_PHASE_TRAINING] = "training",
    [BST_PHASE_EVALUATING] = "evaluating", [BST_PHASE_SAVING] = "saving",
    [BST_PHASE_PAUSED] = "paused",         [BST_PHASE_DONE] = "done",
    [BST_PHASE_FAILED] = "failed",         [BST_PHASE_STOPPING] = "stopping",
    [BST_PHASE_STOPPED] = "stopped",       [BST_PHASE_PREEMPTED] = "preempted",
    [BST_PHASE_SEARCHING] = "searching",   [BST_PHASE_KILLED] = "killed",
};

struct bst_metric bst_metric_of(double value)
{
    return (struct bst_metric){isfinite(value) ? value : 0, isfinite(value)};
}

const char *bst_phase_name(enum bst_phase p)
{
    return (size_t)p < COUNT(phase_names) ? phase_names[p] : "unknown";
}

bool bst_phase_is_over(enum bst_phase p)
{
    return p == BST_PHASE_DONE || p == BST_PHASE_STOPPED || p == BST_PHASE_PREEMPTED ||
           bst_phase_is_failure(p);
}

bool bst_phase_is_failure(enum bst_phase p)
{
    return p == BST_PHASE_FAILED || p == BST_PHASE_KILLED;
}

#define S(kind, name) BST_FIELD(struct bst_status, kind, name)
static const struct bst_field status_fields[] = {
    S(STR, run),
    S(STR, preset),
    S(STR, net),
    S(STR, data),
    S(STR, host),
    S(STR, dir),
    S(INT, pid),
    S(STR, note),
    S(STR, note_code),
    S(STR, search),
    S(METRIC, found_micro),
    S(METRIC, found_rate),
    S(U64, update),
    S(U64, samples),
    S(U64, samples_total),
    S(I64, samples_per_epoch),
    S(I64, eval_samples),
    S(F64, epoch),
    S(F64, epochs_total),
    S(I64, global_batch),
    S(INT, micro_batch),
    S(INT, accumulation),
    S(INT, n_devices),
    S(METRIC, learning_rate),
    S(METRIC, loss),
    S(METRIC, train_accuracy),
    S(METRIC, eval_loss),
    S(METRIC, eval_accuracy),
    S(METRIC, best_accuracy),
    S(METRIC, eval_exact),
    S(METRIC, grad_norm),
    S(METRIC, grad_low),
    S(METRIC, grad_high),
    S(U64, nonfinite),
    S(U64, skipped),
    S(METRIC, samples_per_sec),
    S(METRIC, tokens_per_sec),
    S(U64, batch_tokens),
    S(METRIC, eval_perplexity),
    S(METRIC, data_wait),
    S(METRIC, update_age),
    S(METRIC, eta_seconds),
    S(METRIC, elapsed_seconds),
    S(METRIC, last_checkpoint_samples),
    S(U64, warmup_samples),
    S(METRIC, noise_scale),
    S(METRIC, noise_low),
    S(METRIC, noise_high),
    S(METRIC, noise_efficiency),
    S(METRIC, noise_cost),
    S(STR, noise_state),
    S(U64, noise_updates),
    S(F64, momentum),
    S(F64, weight_decay),
    S(F64, max_grad_norm),
    S(F64, label_smoothing),
    S(STR, optimizer),
    S(STR, lr_scheduler),
    S(STR, lr_scaling),
    S(STR, precision),
    S(STR, backend),
    S(STR, lease),
    S(BOOL, you_hold_lease),
    S(STR, lease_taken_by),
    S(BOOL, you_search),
    S(INT, n_clients),
    S(U64, journal_seq),
};
#undef S

#define D(kind, name) BST_FIELD(struct bst_status_device, kind, name)
static const struct bst_field device_fields[] = {
    D(STR, name),
    D(METRIC, memory_planned),
    D(METRIC, memory_used),
    D(METRIC, memory_peak),
    D(METRIC, memory_limit),
    D(METRIC, utilisation),
    D(METRIC, temperature),
    D(METRIC, power),
    D(METRIC, sm_clock),
    D(METRIC, memory_clock),
    D(METRIC, ecc_uncorrected),
    D(STR, throttle),
    D(METRIC, samples_per_sec),
    D(METRIC, recompute_work),
    D(METRIC, memory_hold),
    D(METRIC, driver_memory_used),
    D(METRIC, driver_memory_total),
    D(INT, threads),
};
#undef D

#define L(kind, name) BST_FIELD(struct bst_status_layer, kind, name)
static const struct bst_field layer_fields[] = {
    L(STR, name),
    L(METRIC, grad_norm),
    L(METRIC, weight_norm),
};
#undef L

#define A(kind, name) BST_FIELD(struct bst_status_advice, kind, name)
static const struct bst_field advice_fields[] = {
    A(STR, code),   A(STR, why),          A(STR, change),       A(STR, effect),
    A(U64, update), A(METRIC, statistic), A(METRIC, threshold),
};
#undef A

void bst_status_print(const struct bst_status *s, struct bst_sb *out, bool with_layers)
{
    struct bst_json j;
    bst_json_init(&j, out);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "phase", bst_phase_name(s->phase));
    bst_fields_print(status_fields, COUNT(status_fields), s, &j);
    bst_json_open(&j, "devices", '[');
    for (int i = 0; i < s->n_devices && i < BST_MAX_DEVICES; i++) {
        bst_json_open(&j, NULL, '{');
        bst_fields_print(device_fields, COUNT(device_fields), &s->devices[i], &j);
        bst_json_close(&j, '}');
    }
    bst_json_close(&j, ']');
    bst_json_open(&j, "advice", '[');
    for (int i = 0; i < s->n_advice; i++) {
        bst_json_open(&j, NULL, '{');
        bst_fields_print(advice_fields, COUNT(advice_fields), &s->advice[i], &j);
        bst_json_close(&j, '}');
    }
    bst_json_close(&j, ']');
    if (with_layers) {
        bst_json_open(&j, "layers", '[');
        for (int i = 0; i < s->n_layers; i++) {
            bst_json_open(&j, NULL, '{');
            bst_fields_print(layer_fields, COUNT(layer_fields), &s->layers[i], &j);
            bst_json_close(&j, '}');
        }
        bst_json_close(&j, ']');
    }
    bst_json_open(&j, "curve", '[');
    for (int i = 0; i < s->n_curve; i++) {
        bst_json_open(&j, NULL, '[');
        bst_json_num(&j, NULL, s->curve_samples[i]);
        bst_json_num(&j, NULL, s->curve_rate[i]);
        bst_json_close(&j, ']');
    }
    bst_json_close(&j, ']');
    bst_json_close(&j, '}');
}

int bst_curve_read(const json_t *from, double *samples, double *rate)
{
    int n = 0;
    size_t i;
    json_t *pair;
    json_array_foreach(from, i, pair)
    {
        const json_t *x = json_array_get(pair, 0), *y = json_array_get(pair, 1);
        if (n == BST_MAX_CURVE || !json_is_number(x) || !json_is_number(y))
            break;
        samples[n] = json_number_value(x);
        rate[n++] = json_number_value(y);
    }
    return n;
}

static void read_phase(const json_t *from, struct bst_status *out)
{
    const char *name = bst_json_text(from, "phase");
    for (size_t i = 0; i < COUNT(phase_names); i++)
        if (!strcmp(phase_names[i], name))
            out->phase = (enum bst_phase)i;
}

void bst_status_read(const json_t *from, struct bst_status *out)
{
    size_t i;
    json_t *o;
    *out = (struct bst_status){0};
    read_phase(from, out);
    bst_fields_read(status_fields, COUNT(status_fields), from, out);
    int n_devices = 0;
    json_array_foreach(json_object_get(from, "devices"), i, o)
    {
        if (n_devices == BST_MAX_DEVICES)
            break;
        bst_fields_read(device_fields, COUNT(device_fields), o, &out->devices[n_devices++]);
    }
    out->n_devices = n_devices;
    json_array_foreach(json_object_get(from, "advice"), i, o)
    {
        if (out->n_advice == BST_MAX_ADVICE)
            break;
        bst_fields_read(advice_fields, COUNT(advice_fields), o, &out->advice[out->n_advice++]);
    }
    json_array_foreach(json_object_get(from, "layers"), i, o)
    {
        if (out->n_layers == BST_MAX_LAYERS)
            break;
        bst_fields_read(layer_fields, COUNT(layer_fields), o, &out->layers[out->n_layers++]);
    }
    out->n_curve =
        bst_curve_read(json_object_get(from, "curve"), out->curve_samples, out->curve_rate);
}

enum bst_err bst_status_parse(const char *json, struct bst_status *out)
{
    json_error_t why;
    json_t *o = json_loads(json, JSON_REJECT_DUPLICATES, &why);
    if (!o)
        return bst_fail(BST_E_PARSE, "status: %s", why.text);
    if (!json_is_object(o) || !json_is_string(json_object_get(o, "phase"))) {
        json_decref(o);
        return bst_fail(BST_E_PARSE, "status: not a status object");
    }
    bst_status_read(o, out);
    json_decref(o);
    return BST_OK;
}

enum bst_err bst_status_load(const char *dir, struct bst_status *out)
{
    char path[768], *text;
    size_t n;
    bst_run_path(dir, "status.json", path);
    BST_TRY(bst_io_read_file(path, FILE_CAP, &text, &n));
    enum bst_err err = bst_status_parse(text, out);
    bst_free(text);
    return err ? bst_fail_in(err, "%s", path) : BST_OK;
}
