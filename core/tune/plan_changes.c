#include "core/tune/plan_changes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"

enum { TEXT_ROOM = sizeof((struct bst_change *)0)->before };

typedef void show_fn(const struct bst_live *live, uint64_t dataset, char out[TEXT_ROOM]);

static void show_count(uint64_t value, char out[TEXT_ROOM])
{
    snprintf(out, TEXT_ROOM, "%" PRIu64, value);
}

static void show_number(double value, char out[TEXT_ROOM])
{
    char digits[32];
    bst_num_brief(value, 9, digits);
    snprintf(out, TEXT_ROOM, "%s", digits);
}

/* Samples, and what that is in epochs to three places. */
static void show_samples(double samples, uint64_t dataset, char out[TEXT_ROOM])
{
    if (!dataset) {
        snprintf(out, TEXT_ROOM, "%.0fsa", samples);
        return;
    }
    uint64_t milli = (uint64_t)(samples / (double)dataset * 1000 + 0.5);
    snprintf(out, TEXT_ROOM, "%.0fsa (%" PRIu64 ".%03uep)", samples, milli / 1000,
             (unsigned)(milli % 1000));
}

static void show_batch(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    if (l->batch_tokens)
        snprintf(out, TEXT_ROOM, "%" PRIu64 " tokens (%" PRIu64 " sample%s)", l->batch_tokens,
                 l->batch, l->batch == 1 ? "" : "s");
    else
        show_count(l->batch, out);
}

static void show_micro(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    show_count(l->split.micro, out);
}

static void show_accumulate(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    show_count(l->split.accumulate, out);
}

static void show_peak(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    show_number(l->schedule.peak, out);
}

static void show_rule(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    snprintf(out, TEXT_ROOM, "%s", bst_lr_rule_name(l->rule));
}

static void show_warmup(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    show_samples(l->schedule.warmup, dataset, out);
}

static void show_start(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    show_number(l->schedule.start_lr, out);
}

static void show_curve(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    snprintf(out, TEXT_ROOM, "%s", bst_warmup_name(l->schedule.curve));
}

static void show_kind(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    snprintf(out, TEXT_ROOM, "%s", bst_schedule_name(l->schedule.kind));
}

static void show_end(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    show_number(l->schedule.min_lr_ratio, out);
}

static void show_gamma(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    show_number(l->schedule.gamma, out);
}

/* Epochs of as many milestones as there is room for. */
static void show_milestones(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    size_t len = 0;
    out[0] = '\0';
    for (int i = 0; i < l->schedule.n_milestones; i++) {
        double at = (double)l->schedule.milestones[i] / (double)(dataset ? dataset : 1);
        char one[32];
        bst_num_text((double)(uint64_t)(at * 1000 + 0.5) / 1000, one);
        size_t n = strlen(one);
        if (len + n + 6 > TEXT_ROOM) {
            snprintf(out + len, TEXT_ROOM - len, " …");
            return;
        }
        len += (size_t)snprintf(out + len, TEXT_ROOM - len, "%s%s", len ? " " : "", one);
    }
}

static void show_total(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    show_samples((double)l->schedule.total, dataset, out);
}

static void show_clip(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    if (l->max_grad_norm > 0)
        show_number(l->max_grad_norm, out);
    else
        snprintf(out, TEXT_ROOM, "off");
}

static void show_clip_interval(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    show_count(l->clip_interval, out);
}

static void show_weight_decay(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    show_number(l->weight_decay, out);
}

static void show_momentum(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    show_number(l->momentum, out);
}

static void show_smoothing(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    show_number(l->label_smoothing, out);
}

static void show_preset(const struct bst_live *l, uint64_t dataset, char out[TEXT_ROOM])
{
    (void)dataset;
    snprintf(out, TEXT_ROOM, "%.46s", l->preset[0] ? l->preset : "none");
}

/* What a person looks at first comes first. */
static const struct {
    const char *key;
    show_fn *show;
} shown[] = {
    {"preset", show_preset},
    {"global_batch_size", show_batch},
    {"micro_batch_size", show_micro},
    {"gradient_accumulation_steps", show_accumulate},
    {"learning_rate", show_peak},
    {"lr_scaling", show_rule},
    {"warmup", show_warmup},
    {"warmup_start_lr", show_start},
    {"warmup_curve", show_curve},
    {"lr_scheduler", show_kind},
    {"min_lr_ratio", show_end},
    {"lr_milestones", show_milestones},
    {"lr_gamma", show_gamma},
    {"length", show_total},
    {"max_grad_norm", show_clip},
    {"clip_interval", show_clip_interval},
    {"weight_decay", show_weight_decay},
    {"momentum", show_momentum},
    {"label_smoothing", show_smoothing},
};

_Static_assert(sizeof shown / sizeof shown[0] <= BST_CHANGES_MAX, "room for every key");

void bst_plan_list_changes(struct bst_plan *plan, uint64_t dataset)
{
    plan->n_changes = 0;
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        struct bst_change *c = &plan->changes[plan->n_changes];
        c->key = shown[i].key;
        shown[i].show(&plan->before, dataset, c->before);
        shown[i].show(&plan->after, dataset, c->after);
        if (strcmp(c->before, c->after) != 0)
            plan->n_changes++;
    }
}

/* "60000sa (1.000ep)", as show_samples() writes it; epochs is NaN where there are none. */
static bool is_length(const char *text, double *samples, double *epochs)
{
    char *rest;
    *samples = strtod(text, &rest);
    *epochs = NAN;
    if (rest == text || strncmp(rest, "sa", 2))
        return false;
    if (!strncmp(rest, "sa (", 4))
        *epochs = strtod(rest + 4, NULL);
    return true;
}

/* Less than that is told in samples: 0.008 epochs tell nobody much. */
static const double short_epochs = 0.1;

static bool in_epochs(double epochs)
{
    return epochs == 0 || epochs >= short_epochs;
}

static void brief_value(const char *text, char out[BST_BRIEF])
{
    double v;
    const char *tokens = strstr(text, " tokens (");
    if (tokens)
        snprintf(out, BST_BRIEF, "%.*s tokens", (int)(tokens - text), text);
    else if (text[strspn(text, "0123456789")] && bst_num_parse(text, &v))
        snprintf(out, BST_BRIEF, "%.4g", v);
    else
        snprintf(out, BST_BRIEF, "%.47s", text);
}

void bst_change_brief(const char *before, const char *after, char was[BST_BRIEF],
                      char is[BST_BRIEF])
{
    double samples[2], epochs[2];
    if (is_length(before, &samples[0], &epochs[0]) && is_length(after, &samples[1], &epochs[1])) {
        snprintf(was, BST_BRIEF, "%.4g ep", epochs[0]);
        snprintf(is, BST_BRIEF, "%.4g ep", epochs[1]);
        if (in_epochs(epochs[0]) && in_epochs(epochs[1]) && strcmp(was, is) != 0)
            return;
        snprintf(was, BST_BRIEF, "%.0f samples", samples[0]);
        snprintf(is, BST_BRIEF, "%.0f samples", samples[1]);
        return;
    }
    brief_value(before, was);
    brief_value(after, is);
    if (!strcmp(was, is)) {
        snprintf(was, BST_BRIEF, "%.47s", before);
        snprintf(is, BST_BRIEF, "%.47s", after);
    }
}
