#include "core/report/prometheus.h"

#include <math.h>
#include <stdio.h>

#include "core/base/json.h"

struct sheet {
    struct bst_sb *out;
    const struct bst_status *s;
};

/* A label's value: backslash, quote and line feed are escaped (the format's own rule). */
static void put_label(struct bst_sb *out, const char *name, const char *value)
{
    bst_sb_addf(out, "%s=\"", name);
    for (const char *p = value; *p; p++) {
        if (*p == '\\' || *p == '"')
            bst_sb_addc(out, '\\');
        if (*p == '\n')
            bst_sb_add(out, "\\n");
        else
            bst_sb_addc(out, *p);
    }
    bst_sb_addc(out, '"');
}

static void put_head(const struct sheet *t, const char *name, const char *type, const char *help)
{
    bst_sb_addf(t->out, "# HELP bstune_%s %s\n# TYPE bstune_%s %s\n", name, help, name, type);
}

/* One sample; `label` may be NULL. */
static void put_sample(const struct sheet *t, const char *name, const char *label,
                       const char *value, double x)
{
    char text[32];
    bst_sb_addf(t->out, "bstune_%s{", name);
    put_label(t->out, "run", t->s->run);
    if (label) {
        bst_sb_addc(t->out, ',');
        put_label(t->out, label, value);
    }
    if (isfinite(x))
        bst_num_text(x, text);
    else
        snprintf(text, sizeof text, "%s", isnan(x) ? "NaN" : x > 0 ? "+Inf" : "-Inf");
    bst_sb_addf(t->out, "} %s\n", text);
}

static void put_one(const struct sheet *t, const char *name, const char *type, const char *help,
                    double x)
{
    put_head(t, name, type, help);
    put_sample(t, name, NULL, NULL, x);
}

static void put_metric(const struct sheet *t, const char *name, const char *help,
                       struct bst_metric m)
{
    if (m.valid)
        put_one(t, name, "gauge", help, m.value);
}

static void put_devices(const struct sheet *t)
{
    const struct bst_status *s = t->s;
    static const struct {
        const char *name, *help;
        size_t at;
    } rows[] = {
#define ROW(name, help, field) {name, help, offsetof(struct bst_status_device, field)}
        ROW("device_memory_planned_bytes", "Bytes that the plan in force asks for.",
            memory_planned),
        ROW("device_memory_used_bytes", "Bytes held now.", memory_used),
        ROW("device_memory_peak_bytes", "Most bytes held so far.", memory_peak),
        ROW("device_memory_limit_bytes", "Bytes that a plan may ask for.", memory_limit),
        ROW("device_driver_memory_used_bytes", "Bytes of the GPU in use, whoever uses them.",
            driver_memory_used),
        ROW("device_driver_memory_total_bytes", "Bytes that the GPU has.", driver_memory_total),
        ROW("device_power_watts", "Power that the GPU draws.", power),
        ROW("device_utilisation_ratio", "Busy share of the device's time.", utilisation),
        ROW("device_temperature_celsius", "Temperature of the device.", temperature),
#undef ROW
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        bool headed = false;
        for (int i = 0; i < s->n_devices && i < BST_MAX_DEVICES; i++) {
            const char *device = (const char *)&s->devices[i];
            const struct bst_metric *m = (const struct bst_metric *)(device + rows[r].at);
            char index[16];
            if (!m->valid)
                continue;
            if (!headed)
                put_head(t, rows[r].name, "gauge", rows[r].help);
            headed = true;
            snprintf(index, sizeof index, "%d", i);
            put_sample(t, rows[r].name, "device", index, m->value);
        }
    }
}

/* Of a run that was killed early: there is none that is 0. */
static struct bst_metric known(uint64_t n)
{
    return (struct bst_metric){(double)n, n > 0};
}

void bst_prometheus_print(struct bst_sb *out, const struct bst_status *s, bool live)
{
    const struct sheet t = {out, s};
    put_one(&t, "up", "gauge", "1 while a trainer has the run.", live);
    put_head(&t, "phase", "gauge", "1 under the phase the run is in.");
    put_sample(&t, "phase", "phase", bst_phase_name(s->phase), 1);
    put_one(&t, "samples_total", "counter", "Samples seen.", (double)s->samples);
    put_one(&t, "updates_total", "counter", "Updates made.", (double)s->update);
    put_one(&t, "skipped_updates_total", "counter", "Updates dropped for a non-finite gradient.",
            (double)s->skipped);
    put_one(&t, "changes_total", "counter", "Entries of the journal.", (double)s->journal_seq);
    put_metric(&t, "target_samples", "Samples at which the run ends.", known(s->samples_total));
    put_one(&t, "epoch", "gauge", "Epochs trained.", s->epoch);
    put_metric(&t, "global_batch_size", "Samples an update.", known((uint64_t)s->global_batch));
    put_metric(&t, "learning_rate", "Rate of the next update.", s->learning_rate);
    put_metric(&t, "loss", "Mean loss of the last update.", s->loss);
    put_metric(&t, "gradient_norm", "Norm of the last update's gradient.", s->grad_norm);
    put_metric(&t, "eval_loss", "Loss of the last evaluation.", s->eval_loss);
    put_metric(&t, "eval_accuracy_ratio", "Accuracy of the last evaluation.", s->eval_accuracy);
    put_metric(&t, "eval_perplexity", "Perplexity of the last evaluation, of sequences.",
               s->eval_perplexity);
    put_metric(&t, "eval_exact_ratio", "Answers of the last evaluation that are right as a whole.",
               s->eval_exact);
    put_metric(&t, "samples_per_second", "Samples trained a second.", s->samples_per_sec);
    put_metric(&t, "tokens_per_second", "Tokens trained a second, of sequences without padding.",
               s->tokens_per_sec);
    put_metric(&t, "remaining_seconds", "Time to the end, estimated.", s->eta_seconds);
    put_devices(&t);
}
