#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/run/curve.h"
#include "core/run/field.h"
#include "core/run/session_inner.h"

/* How often a snapshot is made at most, and how often the parts of it that cost something. */
#define PUBLISH_SECONDS 0.05
#define LAYERS_SECONDS 0.5
#define CPU_SECONDS 0.5

double bst_session_elapsed(const struct bst_session *s)
{
    return s->at.elapsed + bst_clock_now() - s->opened;
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* All ranks of a host share its cores in equal parts and run in step, so each has the same share;
 * those of other processes are taken to be like this one's. */
static void fill_utilisation(struct bst_session *s, double now)
{
    struct bst_status *st = &s->status;
    double cpu = cpu_seconds(), span = now - s->cpu_at;
    int threads = 0;
    if (span < CPU_SECONDS)
        return;
    for (int i = 0; i < bst_trainer_ranks_here(s->trainer); i++)
        threads += st->devices[i].threads;
    if (s->cpu_at > 0 && threads > 0) {
        double share = (cpu - s->cpu_used) / (span * threads);
        for (int i = 0; i < st->n_devices && !s->monitor; i++)
            st->devices[i].utilisation = bst_metric_of(share < 1 ? share : 1);
    }
    s->cpu_at = now;
    s->cpu_used = cpu;
}

static void fill_devices(struct bst_session *s)
{
    struct bst_status *st = &s->status;
    for (int i = 0; i < st->n_devices; i++) {
        struct bst_status_device *d = &st->devices[i];
        struct bst_device_info info;
        struct bst_rank_memory m;
        bst_trainer_device(s->trainer, i, &info);
        bst_trainer_memory(s->trainer, i, &m);
        snprintf(d->name, sizeof d->name, "%.95s", info.name);
        d->threads = info.threads;
        /* A run's last update may be smaller than its batch. */
        if (bst_trainer_batch(s->trainer) == (int64_t)s->live.batch || !d->memory_planned.valid)
            d->memory_planned = bst_metric_of((double)m.total);
        d->memory_hold = bst_metric_of((double)m.hold);
        d->memory_used = bst_metric_of((double)m.held);
        d->memory_limit = bst_metric_of((double)m.limit);
        double peak = d->memory_peak.valid ? d->memory_peak.value : 0;
        d->memory_peak = bst_metric_of((double)m.held > peak ? (double)m.held : peak);
        d->recompute_work = (struct bst_metric){m.again_share, m.n_again > 0};
        bst_monitor_fill(s->monitor, i, d);
        d->samples_per_sec = st->samples_per_sec;
        d->samples_per_sec.value /= st->n_devices;
    }
}

static bool layers_are_due(const struct bst_session *s, double now)
{
    return now - s->layers_at >= LAYERS_SECONDS;
}

bool bst_session_layers_wanted(struct bst_session *s, uint64_t update)
{
    const double now = bst_clock_now();
    const bool due = layers_are_due(s, now);
    if (due)
        s->layers_at = now;
    return due || update % BST_LAYERS_EVERY == 0;
}

void bst_session_show_layers(struct bst_session *s)
{
    int n;
    const struct bst_layer_norm *norms = bst_trainer_layers(s->trainer, &n);
    s->status.n_layers = n < BST_MAX_LAYERS ? n : BST_MAX_LAYERS;
    for (int i = 0; i < s->status.n_layers; i++) {
        struct bst_status_layer *l = &s->status.layers[i];
        bst_copy_text(l->name, sizeof l->name, norms[i].name);
        l->grad_norm = bst_metric_of(norms[i].grad_norm);
        l->weight_norm = bst_metric_of(norms[i].weight_norm);
    }
}

/* Where updates are on their way they are asked for with one of them. */
static void fill_layers(struct bst_session *s, double now)
{
    if (!layers_are_due(s, now) || !s->at.update || s->finding || bst_trainer_sent(s->trainer))
        return;
    s->layers_at = now;
    bst_session_show_layers(s);
}

static void fill_settings(struct bst_session *s)
{
    struct bst_status *st = &s->status;
    const struct bst_live *l = &s->live;
    bst_copy_text(st->preset, sizeof st->preset, l->preset[0] ? l->preset : s->info.preset);
    st->samples_total = l->schedule.total;
    st->global_batch = (int64_t)l->batch;
    st->batch_tokens = l->batch_tokens;
    st->micro_batch = (int)l->split.micro;
    st->accumulation = (int)l->split.accumulate;
    st->warmup_samples = bst_schedule_warmup_end(&l->schedule);
    st->momentum = s->env.no_momentum ? 0 : l->momentum;
    st->weight_decay = l->weight_decay;
    st->max_grad_norm = l->max_grad_norm;
    st->label_smoothing = l->label_smoothing;
    bst_copy_text(st->lr_scheduler, sizeof st->lr_scheduler, bst_schedule_name(l->schedule.kind));
    bst_copy_text(st->lr_scaling, sizeof st->lr_scaling, bst_lr_rule_name(l->rule));
    bst_session_noise_follow(s);
    st->n_curve = bst_curve_make(&l->schedule, l->batch, st->curve_samples, st->curve_rate);
    if (!st->learning_rate.valid)
        st->learning_rate = bst_metric_of(bst_schedule_lr(&l->schedule, s->at.samples, l->batch));
}

void bst_session_rates(struct bst_session *s)
{
    s->status.samples_per_sec = bst_metric_of(s->rate_mean > 0 ? s->rate_mean : NAN);
    s->status.tokens_per_sec = bst_metric_of(s->tokens_mean > 0 ? s->tokens_mean : NAN);
}

static void fill_progress(struct bst_session *s)
{
    struct bst_status *st = &s->status;
    double per_epoch = (double)s->env.dataset;
    double left = (double)st->samples_total - (double)s->at.samples;
    st->update = s->at.update;
    st->samples = s->at.samples;
    st->samples_per_epoch = (int64_t)s->env.dataset;
    st->eval_samples = bst_trainer_data(s->trainer)->n[BST_EVAL];
    st->epoch = (double)s->at.samples / per_epoch;
    st->epochs_total = (double)st->samples_total / per_epoch;
    st->nonfinite = s->at.nonfinite;
    st->skipped = s->at.skipped;
    st->eval_loss = s->at.eval_loss;
    st->eval_accuracy = s->at.eval_accuracy;
    st->eval_perplexity = s->at.eval_perplexity;
    st->eval_exact = s->at.eval_exact;
    st->best_accuracy = s->at.best_accuracy;
    bst_session_rates(s);
    st->eta_seconds = bst_metric_of(s->rate_mean > 0 ? left / s->rate_mean : NAN);
    st->elapsed_seconds = bst_metric_of(bst_session_elapsed(s));
    st->journal_seq = s->journal ? bst_journal_seq(s->journal) : 0;
}

static void tell_errors(struct bst_session *s)
{
    int device;
    unsigned xid;
    while (bst_monitor_error(s->monitor, &device, &xid)) {
        if (device >= 0)
            bst_session_note(s, BST_DIAG_DEVICE_ERROR, "device %d: Xid %u", device, xid);
        else
            bst_session_note(s, BST_DIAG_DEVICE_ERROR, "another device of this machine: Xid %u",
                             xid);
    }
}

void bst_session_publish(struct bst_session *s, bool at_once)
{
    double now = bst_clock_now();
    if (!at_once && now - s->published < PUBLISH_SECONDS)
        return;
    s->published = now;
    if (s->trainer && s->env.dataset && s->live.batch) {
        fill_settings(s);
        fill_progress(s);
        fill_devices(s);
        fill_utilisation(s, now);
        fill_layers(s, now);
    }
    tell_errors(s);
    if (s->recorder)
        bst_recorder_add(s->recorder, &s->status);
    if (s->server)
        bst_server_publish(s->server, &s->status);
}

static void tell(struct bst_session *s, enum bst_session_news what, const char *text)
{
    if (s->cfg.news)
        s->cfg.news(s->cfg.arg, what, &s->status, text);
}

void bst_session_phase(struct bst_session *s, enum bst_phase phase)
{
    bool other = s->status.phase != phase;
    s->status.phase = phase;
    bst_session_publish(s, true);
    if (other)
        tell(s, BST_NEWS_PHASE, "");
}

static void note_metrics(struct bst_session *s, const char *code, const char *text)
{
    struct bst_sb line;
    struct bst_json j;
    bst_sb_init(&line, 4096);
    bst_json_init(&j, &line);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "type", "note");
    bst_json_uint(&j, "samples", s->at.samples);
    bst_json_uint(&j, "update", s->at.update);
    bst_json_num(&j, "wall", bst_clock_wall());
    bst_json_str(&j, "code", code);
    bst_json_str(&j, "text", text);
    bst_json_close(&j, '}');
    bst_metrics_add(s->metrics, line.data);
    bst_sb_fini(&line);
}

const char *bst_session_split_code(const char *text, char code[8])
{
    code[0] = '\0';
    if (!bst_diag_number(text) || strncmp(text + 7, ": ", 2) != 0)
        return text;
    bst_copy_text(code, 8, text);
    return text + 9;
}

enum bst_diag bst_session_code_of(enum bst_diag known, const char **text)
{
    char code[8];
    const char *rest = bst_session_split_code(*text, code);
    int number = bst_diag_number(code);
    if (!number || (known && known != (enum bst_diag)number))
        return known;
    *text = rest;
    return (enum bst_diag)number;
}

static void note(struct bst_session *s, enum bst_diag code, const char *text, bool in_metrics,
                 bool in_log)
{
    char clean[400], word[16] = "";
    const struct bst_diag_info *info = bst_diag_find((int)code);
    enum bst_log_level level = BST_LOG_INFO;
    bst_copy_clean(clean, sizeof clean, text);
    if (info) {
        bst_diag_code(code, word);
        level = info->severity == BST_SEVERITY_INFO   ? BST_LOG_INFO
                : info->severity == BST_SEVERITY_WARN ? BST_LOG_WARN
                                                      : BST_LOG_ERROR;
    }
    if (in_log)
        bst_log(level, "%s%s%s", word, *word ? ": " : "", clean);
    bst_copy_text(s->status.note, sizeof s->status.note, clean);
    bst_copy_text(s->status.note_code, sizeof s->status.note_code, word);
    /* Storage that fails is not told through the file that fails. */
    if (s->metrics && in_metrics && code != BST_DIAG_METRICS_FAILING)
        note_metrics(s, *word ? word : NULL, clean);
    if (s->server)
        bst_server_event(s->server, "note", *word ? word : NULL, clean);
    bst_session_publish(s, true);
    tell(s, BST_NEWS_NOTE, clean);
}

void bst_session_note(struct bst_session *s, enum bst_diag code, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    note(s, code, text, true, true);
}

void bst_session_note_journalled(struct bst_session *s, enum bst_diag code, const char *text)
{
    note(s, code, text, false, true);
}

void bst_session_note_last(struct bst_session *s, enum bst_diag code, const char *text)
{
    note(s, code, text, true, false);
}

void bst_session_tell_change(struct bst_session *s, const struct bst_inbound *in,
                             const char *outcome, enum bst_diag code, uint64_t update,
                             const char *text)
{
    char line[1000], word[16] = "";
    bool applied = !strcmp(outcome, "applied");
    if (code)
        bst_diag_code(code, word);
    snprintf(line, sizeof line, "update %llu  %s (%s)%s%s%s%s: %s", (unsigned long long)update,
             in->text, in->source, applied ? "" : " ", applied ? "" : outcome, code ? " " : "",
             word, text);
    tell(s, BST_NEWS_CHANGE, line);
}

void bst_session_write_status(struct bst_session *s)
{
    struct bst_sb sb;
    bst_sb_init(&sb, 1 << 20);
    bst_status_print(&s->status, &sb, true);
    bst_sb_addc(&sb, '\n');
    if (bst_run_write(s->cfg.dir, "status.json", &sb))
        bst_log(BST_LOG_WARN, "%s", bst_err_text());
    bst_sb_fini(&sb);
}
