/* Advice on the way from the rules to whoever can use it: metrics.jsonl, the log, the status, and,
 * where the preset says so, the run itself. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/run/field.h"
#include "core/run/session_inner.h"

static struct bst_advice_settings settings_of(const struct bst_session *s, const struct bst_live *l)
{
    const struct bst_status *st = &s->status;
    double dataset = (double)s->env.dataset, tokens = (double)s->env.tokens / dataset;
    return (struct bst_advice_settings){
        .batch = (double)l->batch,
        .base_batch = (double)s->preset.lr_base_batch_size / (tokens > 0 ? tokens : 1),
        .unscaled = l->rule == BST_LR_RULE_NONE,
        .micro = bst_trainer_has_batch_norm(s->trainer) ? (double)l->split.micro : 0,
        .ranks = (int)s->env.ranks,
        .accumulate = (int)l->split.accumulate,
        .epochs = (double)l->schedule.total / dataset,
        .warmup_epochs = (double)bst_schedule_warmup_end(&l->schedule) / dataset,
        .dataset = dataset,
        .tokens_a_sample = tokens,
        .peak = l->schedule.peak,
        .band = {st->grad_low.value, st->grad_high.value},
    };
}

static void follow_settings(struct bst_session *s)
{
    struct bst_advice_settings set = settings_of(s, &s->live);
    bst_advisor_settings(&s->advisor, &set);
}

/* What the advisor would say of the settings alone is said with the proposal, not after it. */
void bst_session_foresee(struct bst_session *s, struct bst_plan *plan)
{
    enum bst_diag codes[BST_N_ADVICE_RULES];
    if (s->preset.advise != BST_ADVISE_SHOW || !plan->n_changes)
        return;
    follow_settings(s);
    struct bst_advice_settings next = settings_of(s, &plan->after);
    int n = bst_advisor_foresee(&s->advisor, &next, codes);
    for (int i = 0; i < n && plan->n_notes < BST_NOTES_MAX; i++) {
        bool said = false;
        for (int k = 0; k < plan->n_notes; k++)
            said = said || plan->notes[k] == codes[i];
        if (!said)
            plan->notes[plan->n_notes++] = codes[i];
    }
}

void bst_session_foretold(struct bst_session *s, const struct bst_plan *plan)
{
    /* An autopilot has to hear of it, to do something about it. */
    if (s->preset.autopilot)
        return;
    for (int i = 0; i < plan->n_notes; i++)
        bst_advisor_told(&s->advisor, plan->notes[i]);
}

static void look_at_layers(struct bst_session *s, const struct bst_update_result *res)
{
    int n;
    double weights = 0;
    if (s->at.update % BST_LAYERS_EVERY)
        return;
    const struct bst_layer_norm *l = bst_trainer_layers(s->trainer, &n);
    for (int i = 0; i < n; i++) {
        bst_advisor_layer(&s->advisor, l[i].name, l[i].grad_norm, l[i].weight_norm);
        weights += l[i].weight_norm * l[i].weight_norm;
    }
    /* The others' steps are not the gradient's length times the rate. */
    if (weights > 0 && s->preset.optimizer == BST_OPTIMIZER_SGD)
        bst_advisor_step(&s->advisor, res->lr_used * res->grad_norm / sqrt(weights));
}

static void write_line(struct bst_session *s, const struct bst_advice *a, const char *code,
                       const char *text)
{
    struct bst_sb line;
    struct bst_json j;
    bst_sb_init(&line, 4096);
    bst_json_init(&j, &line);
    bst_json_open(&j, NULL, '{');
    /* What is only logged, and what came of it, is no event of the run. */
    bool shown = s->preset.advise == BST_ADVISE_SHOW && !a->scored;
    bst_json_str(&j, "type", shown ? "advice" : a->scored ? "advice_score" : "advice_log");
    bst_json_uint(&j, "update", s->at.update);
    bst_json_uint(&j, "samples", s->at.samples);
    bst_json_num(&j, "wall", bst_clock_wall());
    bst_json_str(&j, "code", code);
    bst_json_str(&j, "text", text);
    bst_json_str(&j, "change", a->change[0] ? a->change : NULL);
    bst_json_num(&j, "statistic", a->statistic);
    bst_json_num(&j, "threshold", a->threshold);
    if (a->scored) {
        bst_json_num(&j, "after", a->after);
        bst_json_bool(&j, "improved", a->improved);
    }
    bst_json_close(&j, '}');
    bst_metrics_add(s->metrics, line.data);
    bst_sb_fini(&line);
}

static void show(struct bst_session *s, const struct bst_advice *a, const char *code,
                 const char *text)
{
    struct bst_status *st = &s->status;
    int old = 0; /* the place that is given up: the rule's own, else the last */
    while (old < st->n_advice && strcmp(st->advice[old].code, code))
        old++;
    if (old == st->n_advice && old < BST_MAX_ADVICE)
        st->n_advice++;
    else if (old == BST_MAX_ADVICE)
        old--;
    memmove(st->advice + 1, st->advice, (size_t)old * sizeof *st->advice);
    struct bst_status_advice *out = st->advice;
    *out = (struct bst_status_advice){.update = a->update,
                                      .statistic = bst_metric_of(a->statistic),
                                      .threshold = bst_metric_of(a->threshold)};
    bst_copy_text(out->code, sizeof out->code, code);
    bst_copy_clean(out->why, sizeof out->why, a->why);
    bst_copy_text(out->change, sizeof out->change, a->change);
    bst_copy_text(out->effect, sizeof out->effect, a->effect);
    if (s->server)
        bst_server_event(s->server, "advice", code, text);
}

static void tell(struct bst_session *s, const struct bst_advice *a)
{
    char code[16], text[400];
    bool logs = s->preset.advise == BST_ADVISE_LOG;
    bst_diag_code(a->code, code);
    /* What to do comes first: a row of events may have no room for the rest. */
    if (a->change[0])
        snprintf(text, sizeof text, "try `%s`, for %s: %s", a->change, a->effect, a->why);
    else
        snprintf(text, sizeof text, "%s: %s", bst_diag_find((int)a->code)->title, a->why);
    bst_log(BST_LOG_INFO, "%s: %s%s", code, logs ? "would have advised: " : "", text);
    write_line(s, a, code, text);
    if (logs)
        return;
    show(s, a, code, text);
    if (!s->preset.autopilot || !a->change[0] || a->saves_time)
        return;
    /* The newest stands, since what it was worked out from is what there is now; of one update's
     * the first, which is the worst: a clipping is no stand-in for a lower rate. */
    if (s->autopilot[0] && s->autopilot_at == a->update)
        return;
    s->autopilot_at = a->update;
    bst_copy_text(s->autopilot, sizeof s->autopilot, a->change);
}

static void tell_scores(struct bst_session *s)
{
    const struct bst_advisor *a = &s->advisor;
    while (s->n_scored < a->n_given && a->given[s->n_scored].scored) {
        const struct bst_advice *g = &a->given[s->n_scored++];
        char code[16], text[160], after[32];
        snprintf(after, sizeof after, "%s", g->improved ? "gone" : "not known");
        bst_diag_code(g->code, code);
        if (isfinite(g->after))
            snprintf(after, sizeof after, "%.3g", g->after);
        snprintf(text, sizeof text, "advice of update %" PRIu64 ": %.3g then, %s now, %s",
                 g->update, g->statistic, after, g->improved ? "better" : "not better");
        bst_log(BST_LOG_INFO, "%s: %s", code, text);
        write_line(s, g, code, text);
    }
}

/* A change of the warm-up is no longer possible behind it. */
static void withdraw(struct bst_session *s)
{
    char code[16];
    if (s->at.samples < bst_schedule_warmup_end(&s->live.schedule))
        return;
    bst_diag_code(BST_DIAG_WARMUP_SHARE, code);
    for (int i = 0; i < s->status.n_advice; i++)
        if (!strcmp(s->status.advice[i].code, code))
            s->status.advice[i].change[0] = '\0';
}

void bst_session_advise(struct bst_session *s, const struct bst_update_result *res)
{
    const struct bst_advice *a;
    if (s->preset.advise == BST_ADVISE_NONE)
        return;
    follow_settings(s);
    struct bst_advice_update u = {
        .update = s->at.update,
        .epoch = (double)s->at.samples / (double)s->env.dataset,
        .samples = (double)res->samples_used,
        .loss = res->loss,
        .grad_norm = res->grad_norm,
        .grad_ratio = s->watch.norm.ratio,
        .nonfinite = bst_update_lost(res),
        .first_nonfinite = res->first_nonfinite,
        .busy_mean = res->busy_mean,
        .busy_most = res->busy_most,
    };
    look_at_layers(s, res);
    bst_advisor_update(&s->advisor, &u);
    while ((a = bst_advisor_take(&s->advisor)) != NULL)
        tell(s, a);
    withdraw(s);
    tell_scores(s);
}

bool bst_session_advised(const struct bst_session *s, enum bst_diag code)
{
    const struct bst_advisor *a = &s->advisor;
    for (int i = a->n_given - 1; i >= 0 && a->given[i].update == s->at.update; i--)
        if (a->given[i].code == code)
            return s->preset.advise == BST_ADVISE_SHOW;
    return false;
}

static int changes_made(const struct bst_session *s)
{
    int n = 0;
    for (int i = 0; i < bst_journal_count(s->journal); i++) {
        const struct bst_journal_entry *e = bst_journal_at(s->journal, i);
        n += e->has_live && !strcmp(e->source, "autopilot") && !strcmp(e->outcome, "applied");
    }
    return n;
}

static bool within(double value, double start, const struct bst_numbers *limits)
{
    /* A rate that was multiplied up to its limit is not past it for a rounding. */
    const double slack = 1e-9;
    return value >= start * limits->v[0] * (1 - slack) &&
           value <= start * limits->v[1] * (1 + slack);
}

/* A kind of change that somebody took back is theirs from then on. */
static bool was_taken_back(const struct bst_session *s, enum bst_command_kind kind)
{
    const struct bst_journal_entry *before = NULL;
    for (int i = 0; i < bst_journal_count(s->journal); i++) {
        const struct bst_journal_entry *e = bst_journal_at(s->journal, i);
        struct bst_command cmd, undone;
        if (!e->has_live || strcmp(e->outcome, "applied") || bst_command_parse(e->command, &cmd))
            continue;
        if (cmd.kind == BST_COMMAND_UNDO && before && !strcmp(before->source, "autopilot") &&
            !bst_command_parse(before->command, &undone) && undone.kind == kind)
            return true;
        before = e;
    }
    return false;
}

/* NULL when the change keeps to the preset's limits, else which it passes. */
static const char *beyond(struct bst_session *s, const struct bst_inbound *in)
{
    const char *why = NULL;
    struct bst_proposal *p = bst_xalloc(sizeof *p);
    const struct bst_live *start = &s->live_start;
    p->in = *in;
    if (changes_made(s) >= s->preset.autopilot_changes)
        why = "autopilot_changes are used up";
    else if (bst_command_parse(in->text, &p->cmd) || bst_session_propose(s, p))
        why = "not possible now";
    else if (was_taken_back(s, p->cmd.kind))
        why = "somebody took such a change back";
    else if (!within((double)p->plan.after.batch, (double)start->batch, &s->preset.autopilot_batch))
        why = "outside autopilot_batch";
    else if (!within(p->plan.after.schedule.peak, start->schedule.peak, &s->preset.autopilot_rate))
        why = "outside autopilot_rate";
    bst_free(p);
    return why;
}

void bst_session_autopilot(struct bst_session *s)
{
    struct bst_inbound in = {.source = "autopilot"};
    bst_copy_text(in.text, sizeof in.text, s->autopilot);
    s->autopilot[0] = '\0';
    /* Somebody else's change, or one that is put back, comes first; what this one was worked out
     * from is gone then. */
    if (!in.text[0] || s->pending || s->paused || s->next_replay < s->n_replay)
        return;
    const char *why = beyond(s, &in);
    if (!why)
        bst_session_take(s, &in);
    else if (why != s->autopilot_why) /* static texts; each is said once in a row */
        bst_session_journal(s, &in, "refused", BST_DIAG_NONE, why);
    s->autopilot_why = why;
}

void bst_session_advice_end(struct bst_session *s)
{
    const struct bst_advisor *a = &s->advisor;
    int scored = 0, improved = 0;
    for (int i = 0; i < a->n_given; i++) {
        scored += a->given[i].scored;
        improved += a->given[i].scored && a->given[i].improved;
    }
    if (!a->n_given)
        return;
    if (!scored)
        bst_session_note(s, BST_DIAG_NONE, "advice: %d given, too late to see what comes of it",
                         a->n_given);
    else
        bst_session_note(s, BST_DIAG_NONE,
                         "advice: %d given; of %d whose effect could be seen %d %s followed by "
                         "something better",
                         a->n_given, scored, improved, improved == 1 ? "was" : "were");
}
