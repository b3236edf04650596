#include "tui/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/json.h"

static const char missing[] = "n/a";

void tui_num(double v, int digits, char out[TUI_NUM])
{
    double size = fabs(v);
    if (isnan(v)) {
        snprintf(out, TUI_NUM, "nan");
    } else if (isinf(v)) {
        snprintf(out, TUI_NUM, v < 0 ? "-inf" : "inf");
    } else if (v == 0) {
        snprintf(out, TUI_NUM, "0");
    } else if (size < 1e-4 || size >= 1e6) {
        snprintf(out, TUI_NUM, "%.*e", digits > 3 ? digits - 2 : digits > 1 ? 1 : 0, v);
    } else {
        int after = digits - 1 - (int)floor(log10(size));
        snprintf(out, TUI_NUM, "%.*f", after < 0 ? 0 : after, v);
    }
}

void tui_metric(struct bst_metric m, int digits, char out[TUI_NUM])
{
    if (m.valid)
        tui_num(m.value, digits, out);
    else
        snprintf(out, TUI_NUM, "%s", missing);
}

static void percent(struct bst_metric m, int after, char out[TUI_NUM])
{
    if (!m.valid || !isfinite(m.value))
        snprintf(out, TUI_NUM, "%s", missing);
    else
        snprintf(out, TUI_NUM, "%.*f %%", after, m.value * 100);
}

void tui_percent(struct bst_metric m, char out[TUI_NUM])
{
    percent(m, 0, out);
}

void tui_percent1(struct bst_metric m, char out[TUI_NUM])
{
    percent(m, 1, out);
}

void tui_count(double v, char out[TUI_NUM])
{
    static const char units[] = " kMGTPE";
    int unit = 0;
    double size = fabs(v);
    if (!isfinite(v)) {
        snprintf(out, TUI_NUM, "%s", missing);
        return;
    }
    if (size < 9999.5) {
        snprintf(out, TUI_NUM, "%.*f", size < 9.95 && size != floor(size) ? 1 : 0, v);
        return;
    }
    while (size >= 999.5 && unit < 6) {
        size /= 1000;
        v /= 1000;
        unit++;
    }
    snprintf(out, TUI_NUM, "%.*f%c", size < 9.995 ? 2 : size < 99.95 ? 1 : 0, v, units[unit]);
}

static int unit_of(double bytes)
{
    int unit = 0;
    while (bytes >= 999.5 && unit < 6) {
        bytes /= 1024;
        unit++;
    }
    return unit;
}

static const char *const byte_units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

static void in_unit(struct bst_metric m, int unit, char out[TUI_NUM])
{
    double v = m.value / pow(1024, unit);
    if (!m.valid || !isfinite(v))
        snprintf(out, TUI_NUM, "%s", missing);
    else
        snprintf(out, TUI_NUM, "%.*f", !unit || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2, v);
}

bool tui_in_flight(const struct bst_status *s, char *out, size_t room)
{
    static const double worth_saying = 2; /* s */
    char whole[32], so_far[32];
    bool eval = s->phase == BST_PHASE_EVALUATING;
    double age = s->update_age.value, about = NAN;
    if (!s->update_age.valid || (!eval && s->phase != BST_PHASE_TRAINING))
        return false;
    if (!eval && s->samples_per_sec.valid && s->samples_per_sec.value > 0)
        about = (double)s->global_batch / s->samples_per_sec.value;
    /* One that takes longer than they do says nothing any more about its end. */
    bool known = isfinite(about) && age < 1.5 * about;
    if ((known ? about - age : age) < worth_saying)
        return false;
    bst_clock_span(about, whole, sizeof whole);
    bst_clock_span(age, so_far, sizeof so_far);
    if (known)
        snprintf(out, room, "the update in flight takes about %s, %s of it over", whole, so_far);
    else
        snprintf(out, room, "the %s has taken %s so far",
                 eval ? "evaluation that is on" : "update in flight", so_far);
    return true;
}

void tui_of_bytes(struct bst_metric part, struct bst_metric whole, char out[2 * TUI_NUM])
{
    char a[TUI_NUM], b[TUI_NUM];
    int unit = unit_of(whole.valid ? whole.value : part.valid ? part.value : 0);
    in_unit(part, unit, a);
    in_unit(whole, unit, b);
    /* A small part has a unit of its own: 0.00 of something would be nothing. */
    bool small = part.valid && part.value > 0 && part.value < 0.1 * pow(1024, unit);
    if (small)
        tui_bytes(part, a);
    /* A limit is often a whole number, and room in the footer is short. */
    char *dot = strchr(b, '.');
    if (dot && strspn(dot, ".0") == strlen(dot))
        *dot = '\0';
    if (part.valid || whole.valid)
        snprintf(out, 2 * TUI_NUM, "%.24s/%.24s %s", a, b, byte_units[unit]);
    else
        snprintf(out, 2 * TUI_NUM, "%s", missing);
}

void tui_bytes(struct bst_metric m, char out[TUI_NUM])
{
    char number[TUI_NUM];
    if (!m.valid || !isfinite(m.value)) {
        snprintf(out, TUI_NUM, "%s", missing);
        return;
    }
    int unit = unit_of(m.value);
    in_unit(m, unit, number);
    snprintf(out, TUI_NUM, "%.20s %s", number, byte_units[unit]);
}

void tui_span(struct bst_metric seconds, char out[TUI_NUM])
{
    bst_clock_span(seconds.valid ? seconds.value : -1, out, TUI_NUM);
}

const char *tui_short_name(const char *key)
{
    static const char *const names[][2] = {
        {"global_batch_size", "batch"}, {"learning_rate", "peak"},
        {"micro_batch_size", "micro"},  {"gradient_accumulation_steps", "accumulate"},
        {"warmup_epochs", "warm-up"},   {"warmup_steps", "warm-up"},
        {"warmup_ratio", "warm-up"},    {"warmup", "warm-up"},
        {"warmup_samples", "warm-up"},  {"lr_scheduler", "decay"},
        {"max_grad_norm", "clip"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(names[i][0], key))
            return names[i][1];
    return key;
}

void tui_coded(const char *code, const char *text, char out[TUI_TEXT])
{
    bool said = !code[0] || strstr(text, code);
    snprintf(out, TUI_TEXT, "%.15s%s%.600s", said ? "" : code, said ? "" : " ", text);
}

void tui_refusal(const struct bst_reply *r, char out[TUI_TEXT])
{
    char text[sizeof r->outcome + sizeof r->text + 2];
    snprintf(text, sizeof text, "%s: %s", r->outcome, r->text);
    tui_coded(r->code, text, out);
}

bool tui_change_is_detail(const struct bst_reply *r, int i)
{
    return r->n_changes > 1 && !strcmp(r->changes[i].key, "micro_batch_size");
}

int tui_change_count(const struct bst_reply *r)
{
    int n = 0;
    for (int i = 0; i < r->n_changes; i++)
        n += !tui_change_is_detail(r, i);
    return n;
}

bool tui_batch_of(const char *value, double *out)
{
    char number[32];
    const char *tokens = strstr(value, " tokens (");
    if (!tokens)
        return bst_num_parse(value, out);
    snprintf(number, sizeof number, "%.*s", (int)(tokens - value), value);
    return bst_num_parse(number, out);
}
