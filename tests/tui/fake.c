#include "tests/tui/fake.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/tune/command.h"

enum { EPOCH = 60000, EPOCHS = 10, BATCH = 256 };

struct fake {
    struct tui_link link;
    enum fake_kind kind;
    struct bst_status status;
    struct bst_history history;
    struct bst_reply reply;
    bool has_reply, has_lease;
    bool holds_back; /* the reply waits for the next question */
    bool closed;     /* is still to be told */
    uint64_t last_id;
    double peak, old_peak;
    int64_t old_batch;
    int n_notes;
    uint32_t noise;
};

/* Uniform in -1 … 1, the same on every machine. */
static double noise(struct fake *f)
{
    f->noise = f->noise * 1664525u + 1013904223u;
    return (double)(f->noise >> 8) / (double)(1 << 23) - 1;
}

static bool is_noam; /* of the run, of which there is one a program */

static double rate_at(double samples, double peak, double warmup)
{
    if (samples < warmup)
        return peak * samples / warmup;
    if (is_noam)
        return peak * sqrt(warmup / samples);
    double done = (samples - warmup) / ((double)EPOCH * EPOCHS - warmup);
    return peak * 0.5 * (1 + cos(3.14159265358979 * done));
}

static int fill_curve(double *samples, double *rate, double peak, double warmup)
{
    enum { N = 64 };
    for (int i = 0; i < N; i++) {
        samples[i] =
            i < 8 ? warmup * i / 8 : warmup + ((double)EPOCH * EPOCHS - warmup) * (i - 8) / (N - 9);
        rate[i] = rate_at(samples[i], peak, warmup);
    }
    return N;
}

static struct bst_metric is(double v)
{
    return (struct bst_metric){v, true};
}

static void add_event(struct fake *f, const char *code, const char *source, bool refused,
                      const char *text)
{
    struct bst_history *h = &f->history;
    h->events = bst_xrealloc(h->events, (size_t)h->n_events + 1, sizeof *h->events);
    struct bst_history_event *e = &h->events[h->n_events++];
    memset(e, 0, sizeof *e);
    e->samples = (double)f->status.samples;
    e->wall = 1796000000 + 8.0 * h->n_events;
    e->seq = (uint64_t)h->n_events;
    e->update = f->status.update;
    e->refused = refused;
    snprintf(e->code, sizeof e->code, "%s", code);
    snprintf(e->source, sizeof e->source, "%s", source);
    snprintf(e->text, sizeof e->text, "%s", text);
    f->status.journal_seq = e->seq;
}

static void add_update(struct fake *f, int total)
{
    struct bst_history *h = &f->history;
    int i = h->n_updates;
    const struct bst_history_update *last = i ? &h->updates[i - 1] : NULL;
    struct bst_history_update *u = &h->updates[i];
    double samples = (last ? last->samples : 0) + BATCH, epoch = samples / EPOCH;
    double speed = 2150 + 60 * noise(f) - (i % 235 < 3 ? 900 : 0);
    u->update = (uint64_t)i + 1;
    u->samples = samples;
    u->epoch = epoch;
    u->seconds = (last ? last->seconds : 0) + BATCH / speed;
    u->loss = 0.28 + 2.0 * exp(-3 * epoch) + (0.12 + 0.2 * exp(-epoch)) * noise(f) * 0.6;
    u->learning_rate = rate_at(samples, f->peak, EPOCH);
    u->grad_norm = 1.2 + 4 * exp(-2 * epoch) + 0.5 * noise(f);
    u->samples_per_sec = speed;
    u->loss_scale = 1;
    u->global_batch = BATCH;
    u->micro_batch = 128;
    u->accumulation = 1;
    if (f->kind == FAKE_DIVERGED && i > total - 60) {
        u->loss = i % 7 ? 3.0 + 0.4 * (i - total + 60) : NAN;
        u->grad_norm = i % 7 ? 40.0 * (i - total + 62) : INFINITY;
        u->nonfinite = i % 7 == 0;
    }
    h->n_updates++;
    h->generation++;
    if (h->n_updates % 8 == 0) {
        bool known = h->n_updates >= 64;
        double scale = 90 + 60 * epoch + 12 * sin(h->n_updates), wide = 1.2 + 2 * exp(-epoch);
        h->noise[h->n_noise++] = (struct bst_history_noise){
            samples, known ? scale : NAN, known ? scale / wide : NAN, known ? scale * wide : NAN,
            known ? scale / (scale + BATCH) : NAN};
    }
    if ((long)(samples / EPOCH) > (long)((samples - BATCH) / EPOCH))
        h->evals[h->n_evals++] =
            (struct bst_history_eval){.samples = samples,
                                      .loss = 0.36 + 0.5 * exp(-epoch),
                                      .accuracy = 0.915 - 0.12 * exp(-0.8 * epoch)};
}

enum { MOST = 2300 }; /* updates of ten epochs */

static void make_history(struct fake *f, int n)
{
    struct bst_history *h = &f->history;
    h->updates = bst_xcalloc(MOST, sizeof *h->updates);
    h->evals = bst_xcalloc(64, sizeof *h->evals);
    h->noise = bst_xcalloc(MOST / 8 + 1, sizeof *h->noise);
    for (int i = 0; i < n; i++)
        add_update(f, n);
}

static void make_layers(struct bst_status *s, int n, bool bad)
{
    s->n_layers = n;
    for (int i = 0; i < n; i++) {
        struct bst_status_layer *l = &s->layers[i];
        snprintf(l->name, sizeof l->name, i == n - 1 ? "fc" : "layer%d.%d.conv%d", 1 + i / 8 % 4,
                 i / 2 % 4, 1 + i % 2);
        l->grad_norm = is(0.05 + 0.03 * (i * 7 % 11));
        l->weight_norm = is(2 + 0.4 * i);
    }
    if (!bad)
        return;
    s->layers[2].grad_norm = is(NAN);
    s->layers[3].grad_norm = is(0);
    s->layers[4].weight_norm.valid = false;
}

static void make_devices(struct bst_status *s, int n)
{
    s->n_devices = n;
    for (int i = 0; i < n; i++) {
        struct bst_status_device *d = &s->devices[i];
        snprintf(d->name, sizeof d->name, "AMD EPYC 7B13, cores %d-%d", 8 * i, 8 * i + 7);
        d->memory_limit = is(8.0 * (1 << 30));
        d->memory_planned = is((1.2 + 0.3 * i) * (1 << 30));
        d->memory_used = is((1.18 + 0.3 * i) * (1 << 30));
        d->memory_peak = is((1.31 + 0.3 * i) * (1 << 30));
        d->utilisation = is(0.97 - 0.02 * i);
        d->samples_per_sec = is(1080 - 10 * i);
        d->threads = 8;
    }
}

static void make_noise(struct fake *f)
{
    struct bst_status *s = &f->status;
    const struct bst_history_noise *v = &f->history.noise[f->history.n_noise - 1];
    s->noise_updates = (uint64_t)f->history.n_updates;
    if (f->kind == FAKE_DIVERGED) {
        snprintf(s->noise_state, sizeof s->noise_state, "interval spans more than 10 times");
        return;
    }
    snprintf(s->noise_state, sizeof s->noise_state, "known");
    s->noise_scale = is(v->scale);
    s->noise_low = is(v->low);
    s->noise_high = is(v->high);
    s->noise_efficiency = is(v->efficiency);
    s->noise_cost = is(0.0004);
}

static void make_status(struct fake *f)
{
    struct bst_status *s = &f->status;
    int n = f->history.n_updates;
    snprintf(s->run, sizeof s->run, "quickstart-1");
    snprintf(s->preset, sizeof s->preset, "quickstart");
    snprintf(s->net, sizeof s->net, "resnet8");
    snprintf(s->data, sizeof s->data, "fashion-mnist");
    snprintf(s->host, sizeof s->host, "node7");
    snprintf(s->backend, sizeof s->backend, "cpu");
    snprintf(s->precision, sizeof s->precision, "fp32");
    snprintf(s->lr_scheduler, sizeof s->lr_scheduler, "cosine");
    s->phase = BST_PHASE_TRAINING;
    s->update = (uint64_t)n;
    s->samples = (uint64_t)n * BATCH;
    s->samples_total = (uint64_t)EPOCH * EPOCHS;
    s->samples_per_epoch = EPOCH;
    s->epoch = (double)s->samples / EPOCH;
    s->epochs_total = EPOCHS;
    s->global_batch = BATCH;
    s->micro_batch = 128;
    s->accumulation = 1;
    s->warmup_samples = EPOCH;
    s->n_clients = 1;
    make_devices(s, 2);
    s->n_curve = fill_curve(s->curve_samples, s->curve_rate, f->peak, EPOCH);
    if (!n) {
        s->phase = BST_PHASE_STARTING;
        return;
    }
    const struct bst_history_update *u = &f->history.updates[n - 1];
    s->learning_rate = is(u->learning_rate);
    s->loss = is(u->loss);
    s->grad_norm = is(u->grad_norm);
    s->grad_low = is(0.3);
    s->grad_high = is(10);
    s->samples_per_sec = is(u->samples_per_sec);
    s->data_wait = is(0.012);
    s->eta_seconds = is((double)(s->samples_total - s->samples) / 2150);
    s->elapsed_seconds = is(u->seconds);
    s->last_checkpoint_samples = is(3.0 * EPOCH);
    make_noise(f);
    s->n_advice = 2;
    s->advice[0] =
        (struct bst_status_advice){.code = "BST-803",
                                   .change = "batch -20%",
                                   .update = 760,
                                   .statistic = is(3),
                                   .why = "3 evaluations without a better accuracy than 90.41 %",
                                   .effect = "a better accuracy within three evaluations"};
    s->advice[1] = (struct bst_status_advice){.code = "BST-505",
                                              .update = 300,
                                              .statistic = is(1),
                                              .why = "14 % of the time goes into waiting for data",
                                              .effect = "devices that do not wait"};
    make_layers(s, 22, f->kind == FAKE_DIVERGED);
    if (f->history.n_evals) {
        const struct bst_history_eval *e = &f->history.evals[f->history.n_evals - 1];
        s->eval_loss = is(e->loss);
        s->eval_accuracy = s->best_accuracy = is(e->accuracy);
    }
}

static void make_diverged(struct fake *f)
{
    struct bst_status *s = &f->status;
    s->phase = BST_PHASE_FAILED;
    s->loss = is(NAN);
    s->grad_norm = is(INFINITY);
    s->nonfinite = s->skipped = 9;
    snprintf(s->note, sizeof s->note, "ten updates in a row had a gradient that is not finite");
    snprintf(s->note_code, sizeof s->note_code, "BST-103");
    add_event(f, "BST-101", "trainer", false, "update 795 skipped: gradient not finite");
    add_event(f, "BST-103", "trainer", true, s->note);
}

/* A byte-level GPT on the licences, sequences of 256. */
static void make_tokens(struct fake *f)
{
    static const char *const parts[] = {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"};
    struct bst_status *s = &f->status;
    snprintf(s->run, sizeof s->run, "gpt-1");
    snprintf(s->preset, sizeof s->preset, "GPT on text");
    snprintf(s->net, sizeof s->net, "gpt");
    snprintf(s->data, sizeof s->data, "text");
    snprintf(s->lr_scheduler, sizeof s->lr_scheduler, "noam");
    s->eval_perplexity = is(exp(s->eval_loss.value));
    s->batch_tokens = (uint64_t)BATCH * 256;
    s->tokens_per_sec = is(s->samples_per_sec.value * 256);
    s->grad_low = is(0.5);
    s->grad_high = is(5);
    for (int i = 0; i < s->n_layers; i++)
        snprintf(s->layers[i].name, sizeof s->layers[i].name, "transformer.h.%d.%s.weight", i / 4,
                 parts[i % 4]);
}

static void make_many(struct fake *f)
{
    struct bst_status *s = &f->status;
    make_devices(s, 8);
    make_layers(s, 300, false);
    snprintf(s->run, sizeof s->run, "a-run-with-a-name-as-long-as-a-name-may-be-0123456789");
    snprintf(s->data, sizeof s->data, "\x1b[31m数据\tset\xff");
    snprintf(s->layers[0].name, sizeof s->layers[0].name, "エンコーダ.層0.attention.query.weight");
    s->devices[1].memory_used.valid = s->devices[1].utilisation.valid = false;
    s->devices[2].memory_limit.valid = false;
    s->devices[3].temperature = is(71);
    s->devices[4].memory_used = is(7.9 * (1 << 30));
}

static void fake_close(struct tui_link *l)
{
    struct fake *f = (struct fake *)l;
    bst_free(f->history.updates);
    bst_free(f->history.evals);
    bst_free(f->history.noise);
    bst_free(f->history.events);
    bst_free(f);
}

static int fake_fd(const struct tui_link *l)
{
    (void)l;
    return -1;
}

static enum tui_link_state fake_state(const struct tui_link *l)
{
    enum fake_kind kind = ((const struct fake *)l)->kind;
    if (kind == FAKE_LOST)
        return TUI_LINK_LOST;
    return kind == FAKE_DIVERGED || kind == FAKE_ENDED ? TUI_LINK_OVER : TUI_LINK_LIVE;
}

static const char *fake_why(const struct tui_link *l)
{
    enum fake_kind kind = ((const struct fake *)l)->kind;
    return kind == FAKE_LOST     ? "no trainer at runs/quickstart-1 (pid 4711)"
           : kind == FAKE_REPLAY ? "replay x10"
                                 : "";
}

static const char *fake_fixed(const struct tui_link *l)
{
    return ((const struct fake *)l)->kind == FAKE_REPLAY
               ? "this is the replay of a run: nothing can be changed"
               : "";
}

static double fake_ended(const struct tui_link *l)
{
    enum fake_kind kind = ((const struct fake *)l)->kind;
    return kind == FAKE_DIVERGED ? 1796000000 - 60 : kind == FAKE_ENDED ? 1796000000 - 90000 : 0;
}

static void fake_refresh(struct tui_link *l, bool layers)
{
    struct fake *f = (struct fake *)l;
    (void)layers;
    f->holds_back = false;
    if (f->kind == FAKE_TAKEN && f->last_id) {
        f->has_lease = false;
        snprintf(f->status.note_code, sizeof f->status.note_code, "BST-803");
        snprintf(f->status.note, sizeof f->status.note, "%d evaluations without a better accuracy",
                 ++f->n_notes);
    }
    if (f->kind != FAKE_MOVING)
        return;
    for (int i = 0; i < 8 && f->history.n_updates < MOST; i++)
        add_update(f, MOST);
    make_status(f);
    for (int i = 0; i < f->status.n_layers; i++)
        f->status.layers[i].grad_norm.value *= 1 + 0.2 * noise(f);
}

static enum bst_client_event fake_next(struct tui_link *l)
{
    struct fake *f = (struct fake *)l;
    bool had = f->has_reply && !f->holds_back;
    if (f->closed) {
        f->closed = false;
        return BST_CLIENT_CLOSED;
    }
    f->has_reply = f->has_reply && !had;
    return had ? BST_CLIENT_REPLY : BST_CLIENT_NOTHING;
}

static const struct bst_status *fake_status(const struct tui_link *l)
{
    return &((const struct fake *)l)->status;
}

static const struct bst_reply *fake_reply(const struct tui_link *l)
{
    return &((const struct fake *)l)->reply;
}

static const char *fake_note(const struct tui_link *l)
{
    (void)l;
    return "";
}

static const struct bst_history *fake_history(const struct tui_link *l)
{
    return &((const struct fake *)l)->history;
}

static void change(struct bst_reply *r, const char *key, const char *before, const char *after)
{
    struct bst_reply_change *c = &r->changes[r->n_changes++];
    snprintf(c->key, sizeof c->key, "%s", key);
    snprintf(c->old_value, sizeof c->old_value, "%s", before);
    snprintf(c->new_value, sizeof c->new_value, "%s", after);
}

static void refuse(struct bst_reply *r, const char *code, const char *text)
{
    r->ok = false;
    snprintf(r->outcome, sizeof r->outcome, "refused");
    snprintf(r->code, sizeof r->code, "%s", code);
    snprintf(r->text, sizeof r->text, "%s", text);
}

static void set_rate(struct fake *f, struct bst_reply *r, double peak, bool dry)
{
    char before[48], after[48];
    snprintf(before, sizeof before, "%.3g", f->peak);
    snprintf(after, sizeof after, "%.3g", peak);
    change(r, "learning_rate", before, after);
    r->n_curve = fill_curve(r->curve_samples, r->curve_rate, peak, EPOCH);
    r->rate_before = is(rate_at((double)f->status.samples, f->peak, EPOCH));
    r->rate_after = is(rate_at((double)f->status.samples, peak, EPOCH));
    if (dry)
        return;
    f->peak = peak;
    f->status.n_curve = fill_curve(f->status.curve_samples, f->status.curve_rate, peak, EPOCH);
    f->status.learning_rate = is(rate_at((double)f->status.samples, peak, EPOCH));
}

static void put_batch(const struct fake *f, int batch, char out[48])
{
    if (f->kind == FAKE_TOKENS)
        snprintf(out, 48, "%d tokens (%d samples)", 256 * batch, batch);
    else
        snprintf(out, 48, "%d", batch);
}

static void set_batch(struct fake *f, struct bst_reply *r, int64_t batch, bool dry)
{
    char before[48], after[48], text[240];
    if (batch > 1000) {
        refuse(r, "BST-201", "batch 1040 needs 8.10 GiB a device, devices.memory is 8.00 GiB");
        return;
    }
    put_batch(f, (int)f->status.global_batch, before);
    put_batch(f, (int)batch, after);
    change(r, "global_batch_size", before, after);
    r->memory_planned = is((0.4 + 0.003125 * (double)batch) * (1 << 30));
    r->memory_limit = is(8.0 * (1 << 30));
    set_rate(f, r, f->peak * (double)batch / (double)f->status.global_batch, dry);
    if (dry)
        return;
    snprintf(text, sizeof text, "batch %s → %s, learning rate %s → %s", before, after,
             r->changes[1].old_value, r->changes[1].new_value);
    f->old_batch = f->status.global_batch;
    f->status.global_batch = batch;
    f->status.micro_batch = (int)((batch + 1) / 2);
    f->status.update++;
    f->status.samples += (uint64_t)batch;
    add_event(f, "", "console", false, text);
}

static void try_change(struct fake *f, struct bst_reply *r, const struct bst_command *cmd)
{
    char text[120];
    if (f->kind == FAKE_ENDING) {
        snprintf(text, sizeof text, "a trial of %lld is too long for the run",
                 (long long)cmd->count);
        f->status.samples_total = f->status.samples + 30 * BATCH;
        refuse(r, "", text);
        return;
    }
    snprintf(r->text, sizeof r->text,
             "%s: the change is better: loss 0.290 to 0.282, -0.008 (-0.011…-0.005)", cmd->tried);
}

static void answer(struct fake *f, const char *text, bool dry)
{
    struct bst_reply *r = &f->reply;
    struct bst_command cmd;
    if (bst_command_parse(text, &cmd)) {
        refuse(r, "", bst_err_text());
    } else if (cmd.kind == BST_COMMAND_BATCH) {
        double power =
            cmd.op == BST_OPERAND_PERCENT
                ? pow(cmd.presses > 0 ? 1 + cmd.value / 100 : 1 - cmd.value / 100, abs(cmd.presses))
                : 1;
        double base =
            cmd.op == BST_OPERAND_SET ? cmd.value : (double)f->status.global_batch * power;
        set_batch(f, r, (int64_t)floor(base + 0.5), dry);
    } else if (cmd.kind == BST_COMMAND_LR) {
        set_rate(f, r,
                 cmd.op == BST_OPERAND_TIMES ? f->peak * pow(cmd.value, cmd.presses) : cmd.value,
                 dry);
    } else if (cmd.kind == BST_COMMAND_UNDO) {
        if (!f->old_batch)
            refuse(r, "BST-220", "there is no change to undo");
        else
            set_batch(f, r, f->old_batch, dry);
        if (r->ok && cmd.rewind)
            snprintf(r->text, sizeof r->text,
                     dry ? "back to update 800: weights and metrics of the 1 update since are "
                           "dropped; batch 307 → 256"
                         : "back to update 800; batch 307 → 256");
    } else if (cmd.kind == BST_COMMAND_PRESET) {
        change(r, "global_batch_size", "256", "2048");
        change(r, "learning_rate", "0.1", "0.4");
        change(r, "warmup_epochs", "1", "10");
        change(r, "lr_scheduler", "cosine", "linear");
        snprintf(r->kept[0].key, sizeof r->kept[0].key, "model");
        snprintf(r->kept[0].new_value, sizeof r->kept[0].new_value, "fixed at the start");
        snprintf(r->kept[1].key, sizeof r->kept[1].key, "devices");
        snprintf(r->kept[1].new_value, sizeof r->kept[1].new_value, "fixed at the start");
        r->n_kept = 2;
        r->n_curve = fill_curve(r->curve_samples, r->curve_rate, 0.4, 10 * EPOCH - 1);
    } else if (cmd.kind == BST_COMMAND_WARMUP && f->kind == FAKE_EARLY) {
        change(r, "warmup", "60000sa (1.000ep)", "66000sa (1.100ep)");
        r->notes[r->n_notes++] = 807;
        r->n_curve = fill_curve(r->curve_samples, r->curve_rate, f->peak, 1.1 * EPOCH);
        r->rate_before = is(rate_at((double)f->status.samples, f->peak, EPOCH));
        r->rate_after = is(rate_at((double)f->status.samples, f->peak, 1.1 * EPOCH));
    } else if (cmd.kind == BST_COMMAND_WARMUP) {
        refuse(r, "BST-230", "the warm-up is over");
    } else if (cmd.kind == BST_COMMAND_TRIAL) {
        try_change(f, r, &cmd);
    } else {
        snprintf(r->text, sizeof r->text, "%s done", text);
    }
}

static bool fake_behind(const struct tui_link *l)
{
    (void)l;
    return false;
}

static uint64_t fake_command(struct tui_link *l, const char *text, bool dry)
{
    struct fake *f = (struct fake *)l;
    memset(&f->reply, 0, sizeof f->reply);
    f->reply.id = ++f->last_id;
    f->reply.ok = true;
    snprintf(f->reply.outcome, sizeof f->reply.outcome, dry ? "proposed" : "applied");
    answer(f, text, dry);
    f->reply.effective_update = f->status.update;
    f->has_reply = true;
    f->holds_back = f->kind == FAKE_SLOW && !dry;
    uint64_t id = f->last_id;
    f->closed = f->kind == FAKE_GONE && !strncmp(text, "trial ", 6);
    if (f->closed) {
        f->has_reply = false;
        f->last_id = 0;
    }
    return id;
}

static void fake_arm(struct tui_link *l, bool on)
{
    (void)l;
    (void)on;
}

static void fake_lease(struct tui_link *l, bool take)
{
    ((struct fake *)l)->has_lease = take;
}

static const char *fake_holder(const struct tui_link *l)
{
    const struct fake *f = (const struct fake *)l;
    return f->has_lease ? "you" : f->kind == FAKE_OTHER || f->kind == FAKE_TAKEN ? "ann@gpu7" : "";
}

static bool fake_has_lease(const struct tui_link *l)
{
    return ((const struct fake *)l)->has_lease;
}

static const struct tui_link_ops fake_ops = {
    .close = fake_close,
    .fd = fake_fd,
    .state = fake_state,
    .why = fake_why,
    .fixed = fake_fixed,
    .ended = fake_ended,
    .refresh = fake_refresh,
    .next = fake_next,
    .status = fake_status,
    .reply = fake_reply,
    .note = fake_note,
    .behind = fake_behind,
    .history = fake_history,
    .command = fake_command,
    .arm = fake_arm,
    .lease = fake_lease,
    .lease_holder = fake_holder,
    .has_lease = fake_has_lease,
};

int fake_kind_by_name(const char *name)
{
    static const char *const names[] = {"usual", "empty",  "diverged", "many",   "other",
                                        "lost",  "moving", "slow",     "ended",  "tokens",
                                        "taken", "replay", "early",    "ending", "gone"};
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        if (!strcmp(name, names[i]))
            return i;
    return -1;
}

struct tui_link *fake_open(enum fake_kind kind)
{
    struct fake *f = bst_xalloc(sizeof *f);
    f->link.ops = &fake_ops;
    f->kind = kind;
    is_noam = kind == FAKE_TOKENS;
    f->peak = is_noam ? 0.002 : 0.1;
    f->noise = 1;
    f->has_lease = kind != FAKE_OTHER;
    make_history(f, kind == FAKE_EMPTY   ? 0
                    : kind == FAKE_EARLY ? 117
                    : kind == FAKE_ENDED ? MOST
                                         : 800);
    make_status(f);
    if (kind == FAKE_ENDED) {
        f->status.phase = BST_PHASE_DONE;
        f->status.eta_seconds.valid = f->status.samples_per_sec.valid = false;
    }
    if (kind != FAKE_EMPTY && kind != FAKE_EARLY) {
        uint64_t update = f->status.update;
        f->status.update = 402;
        f->status.samples = 402 * BATCH;
        add_event(f, "", "console", false, "learning rate 0.08 → 0.1");
        f->status.update = 517;
        f->status.samples = 517 * BATCH;
        add_event(f, "BST-201", "ctl", true, "batch 1040 refused: needs 8.10 GiB a device");
        f->status.update = update;
        f->status.samples = update * BATCH;
    }
    if (kind == FAKE_ENDING)
        f->status.samples_total = f->status.samples + 100 * BATCH;
    if (kind == FAKE_EARLY)
        f->status.devices[0].memory_used = is(64.2 * (1 << 20));
    if (kind == FAKE_DIVERGED)
        make_diverged(f);
    if (kind == FAKE_MANY)
        make_many(f);
    if (kind == FAKE_TOKENS)
        make_tokens(f);
    return &f->link;
}
