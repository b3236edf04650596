#include "core/run/reply.h"

#include <math.h>
#include <string.h>

#include "core/run/curve.h"
#include "core/run/live.h"
#include "core/tune/plan_changes.h"

enum { RATE_DIGITS = 4 };

static const char *why_kept(enum bst_param_id id)
{
    if (bst_param_at(id)->live == BST_PARAM_LENGTH)
        return "the run keeps its length without --with-length";
    /* A live key is kept for this reason alone. */
    return bst_param_of_optimizer(id) ? "meant for another optimizer" : "fixed when a run starts";
}

static void print_kept(const struct bst_outcome *o, struct bst_json *j)
{
    bst_json_open(j, "kept", '[');
    for (int i = 0; i < o->n_kept; i++) {
        bst_json_open(j, NULL, '{');
        bst_json_str(j, "key", bst_param_at(o->kept[i].id)->key);
        bst_json_str(j, "why", why_kept(o->kept[i].id));
        bst_json_close(j, '}');
    }
    bst_json_close(j, ']');
}

static void print_metric(struct bst_json *j, const char *key, struct bst_metric m)
{
    if (m.valid)
        bst_json_num(j, key, m.value);
    else
        bst_json_null(j, key);
}

static void print_plan(const struct bst_plan *plan, struct bst_json *j)
{
    double samples[BST_MAX_CURVE], rate[BST_MAX_CURVE];
    char code[16];
    int n = bst_curve_make(&plan->after.schedule, plan->after.batch, samples, rate);
    bst_changes_print(plan->changes, plan->n_changes, j);
    bst_json_open(j, "notes", '[');
    for (int i = 0; i < plan->n_notes; i++) {
        bst_diag_code(plan->notes[i], code);
        bst_json_str(j, NULL, code);
    }
    bst_json_close(j, ']');
    bst_json_open(j, "schedule", '{');
    bst_json_num(j, "learning_rate_before", plan->lr_before);
    bst_json_num(j, "learning_rate", plan->lr_after);
    bst_json_open(j, "curve", '[');
    for (int i = 0; i < n; i++) {
        bst_json_open(j, NULL, '[');
        bst_json_num(j, NULL, samples[i]);
        bst_json_num(j, NULL, rate[i]);
        bst_json_close(j, ']');
    }
    bst_json_close(j, ']');
    bst_json_close(j, '}');
}

void bst_outcome_print(const struct bst_outcome *o, struct bst_sb *out)
{
    struct bst_json j;
    char code[16];
    bst_json_init(&j, out);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "re", "command");
    bst_json_uint(&j, "id", o->id);
    bst_json_str(&j, "outcome", o->outcome);
    if (o->code)
        bst_diag_code(o->code, code);
    bst_json_str(&j, "code", o->code ? code : NULL);
    bst_json_str(&j, "text", o->text);
    bst_json_uint(&j, "effective_update", o->update);
    bst_json_uint(&j, "effective_samples", o->samples);
    if (o->plan)
        print_plan(o->plan, &j);
    print_kept(o, &j);
    bst_json_open(&j, "memory", '{');
    print_metric(&j, "planned", o->memory_planned);
    print_metric(&j, "limit", o->memory_limit);
    bst_json_close(&j, '}');
    bst_json_close(&j, '}');
}

/* As a person says it; other keys are their own words. */
static void add_words(struct bst_sb *out, const char *key)
{
    static const char *const short_words[][2] = {
        {"global_batch_size", "batch"},
        {"micro_batch_size", "micro-batch"},
        {"gradient_accumulation_steps", "accumulation"},
        {"lr_scheduler", "decay"},
        {"warmup", "warm-up"},
    };
    for (size_t i = 0; i < sizeof short_words / sizeof *short_words; i++)
        if (!strcmp(key, short_words[i][0]))
            key = short_words[i][1];
    for (; *key; key++)
        bst_sb_addc(out, *key == '_' ? ' ' : *key);
}

static bool differs(double a, double b)
{
    return fabs(a - b) > 1e-9 * fmax(fabs(a), fabs(b));
}

/* The rate of the next update, which is what the console shows as the rate, and the peak that it
 * hangs from where that changes: the two are alike only at the top of the schedule. */
static void add_rate(const struct bst_plan *plan, const struct bst_change *peak, struct bst_sb *out)
{
    char was[BST_BRIEF], is[BST_BRIEF];
    bool moves = differs(plan->lr_before, plan->lr_after);
    bst_num_brief(plan->lr_before, RATE_DIGITS, was);
    bst_num_brief(plan->lr_after, RATE_DIGITS, is);
    if (moves)
        bst_sb_addf(out, "rate %s → %s", was, is);
    if (!peak)
        return;
    bst_change_brief(peak->before, peak->after, was, is);
    bst_sb_addf(out, moves ? " (peak %s → %s)" : "peak rate %s → %s", was, is);
}

void bst_outcome_describe(const struct bst_plan *plan, struct bst_sb *out)
{
    bool rate_said = !differs(plan->lr_before, plan->lr_after);
    for (int i = 0; i < plan->n_changes; i++) {
        const struct bst_change *c = &plan->changes[i];
        bst_sb_add(out, i ? ", " : "");
        if (!strcmp(c->key, "learning_rate")) {
            add_rate(plan, c, out);
            rate_said = true;
            continue;
        }
        char was[BST_BRIEF], is[BST_BRIEF];
        bst_change_brief(c->before, c->after, was, is);
        add_words(out, c->key);
        bst_sb_addf(out, " %s → %s", was, is);
    }
    if (plan->n_changes && !rate_said) {
        bst_sb_add(out, ", ");
        add_rate(plan, NULL, out);
    }
    if (!plan->n_changes)
        bst_sb_add(out, "nothing changes");
    for (int i = 0; i < plan->n_notes; i++) {
        char brief[BST_DIAG_BRIEF];
        bst_diag_brief(plan->notes[i], brief);
        bst_sb_addf(out, "; %s", brief);
    }
}
