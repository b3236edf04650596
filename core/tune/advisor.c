#include "core/tune/advisor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Thresholds, where they are more than a row's number. */
static const double early_epochs = 3;
static const double block_part = 0.05; /* of an epoch */
static const double block_least = 1024;
static const double start_least = 256; /* the first ones: their loss is the start's */
static const double warmup_least = 0.05, warmup_most = 0.10;
static const double best_step = 0.002; /* accuracies closer than that are the same */
static const double stall_before = 0.7, slow_before = 0.5; /* of the run: later it is its end */
static const double thrown_back = 1.2;                     /* times the first loss */
static const double tiny_step = 2e-4;                      /* of the weights; some 1e-3 is usual */
static const double unequal_weight = 0.05;
static const double step_weight = 0.5; /* of the newest look at the weights */

void bst_advisor_init(struct bst_advisor *a)
{
    memset(a, 0, sizeof *a);
    for (int i = 0; i < BST_N_ADVICE_RULES; i++)
        a->spoke[i] = -INFINITY;
}

static void forget(struct bst_advisor *a)
{
    a->n_blocks = 0;
    a->block_sum = a->block_samples = a->block_n = 0;
    a->step = 0;
    a->unequal = a->layer_small = a->layer_large = 0;
    a->noise.state = BST_NOISE_OFF;
    a->evals_without_best = 0;
    /* Else a cut of the rate would be asked for again by what it was made for. */
    a->n_nonfinite = 0;
    memset(a->nonfinite, 0, sizeof a->nonfinite);
    memset(a->row, 0, sizeof a->row);
    memset(a->said, 0, sizeof a->said);
}

static bool same(const struct bst_advice_settings *x, const struct bst_advice_settings *y)
{
    return x->batch == y->batch && x->base_batch == y->base_batch && x->unscaled == y->unscaled &&
           x->micro == y->micro && x->accumulate == y->accumulate && x->epochs == y->epochs &&
           x->warmup_epochs == y->warmup_epochs && x->peak == y->peak;
}

void bst_advisor_settings(struct bst_advisor *a, const struct bst_advice_settings *set)
{
    if (same(&a->set, set))
        return;
    a->set = *set;
    forget(a);
}

void bst_advisor_eval(struct bst_advisor *a, double accuracy)
{
    if (!isfinite(accuracy))
        return;
    bool best = !a->n_evals++ || accuracy > a->best_accuracy + best_step;
    a->evals_without_best = best ? 0 : a->evals_without_best + 1;
    if (best)
        a->best_accuracy = accuracy;
}

void bst_advisor_noise(struct bst_advisor *a, const struct bst_noise_answer *noise)
{
    a->noise = *noise;
}

void bst_advisor_layer(struct bst_advisor *a, const char *name, double grad, double weight)
{
    if (a->layers_update != a->last.update)
        a->layer_small = a->layer_large = 0;
    a->layers_update = a->last.update;
    /* Biases start at 0, and a layer without a gradient has a remark of its own. */
    if (!(weight > 1e-3) || !(grad > 0) || !isfinite(grad))
        return;
    double ratio = grad / weight;
    if (!(a->layer_small > 0) || ratio < a->layer_small) {
        a->layer_small = ratio;
        snprintf(a->layer_small_name, sizeof a->layer_small_name, "%s", name);
    }
    if (ratio > a->layer_large) {
        a->layer_large = ratio;
        snprintf(a->layer_large_name, sizeof a->layer_large_name, "%s", name);
    }
}

void bst_advisor_step(struct bst_advisor *a, double share)
{
    if (!isfinite(share))
        a->step = 0;
    else
        a->step = a->step > 0 ? a->step + step_weight * (share - a->step) : share;
}

/* Statistics: higher is worse; NaN where there is none at this moment. */

static double warmed_for(const struct bst_advisor *a) /* epochs since the warm-up */
{
    return a->last.epoch - a->set.warmup_epochs;
}

static double nonfinite_repeated(const struct bst_advisor *a)
{
    double n = 0;
    for (int i = 0; i < BST_ADVICE_RECENT; i++)
        n += a->nonfinite[i] && a->nonfinite[i] + BST_ADVICE_RECENT > a->last.update;
    return n;
}

/* How far the loss has climbed in all its ways up, as a logarithm. */
static double early_oscillation(const struct bst_advisor *a)
{
    double climbed = 0;
    if (a->last.epoch > early_epochs || a->n_blocks < BST_ADVICE_LOSSES / 3)
        return NAN;
    for (int i = 1; i < a->n_blocks; i++)
        climbed += fmax(0, log(a->blocks[i] / a->blocks[i - 1]));
    return climbed;
}

static double loss_above_start(const struct bst_advisor *a)
{
    return a->n_blocks && a->first_loss > 0 ? a->blocks[a->n_blocks - 1] / a->first_loss : NAN;
}

static double slow_fall(const struct bst_advisor *a)
{
    if (warmed_for(a) < 1 || a->last.epoch > slow_before * a->set.epochs || !a->n_blocks ||
        !(a->first_loss > 0))
        return NAN;
    /* A rate that is too high is slow as well: only steps that are tiny ask for larger ones. */
    if (!(a->step > 0 && a->step < tiny_step))
        return NAN;
    /* A loss that has been far up is not slow but thrown back. */
    if (a->worst_loss > thrown_back * a->first_loss)
        return NAN;
    return a->blocks[a->n_blocks - 1] / a->first_loss;
}

/* A net with batch norm outgrows a rate that is too high, and its loss falls all the while, so the
 * loss does not tell; and it is later, when the rate falls, that it lacks accuracy. */
static double step_large(const struct bst_advisor *a)
{
    return a->step > 0 ? a->step : NAN;
}

static double eval_stalls(const struct bst_advisor *a)
{
    if (a->last.epoch > stall_before * a->set.epochs || warmed_for(a) < 0)
        return NAN;
    return a->evals_without_best;
}

static double layer_vanishes(const struct bst_advisor *a)
{
    return a->layer_small > 0 ? 1 / a->layer_small : NAN;
}

static double layer_explodes(const struct bst_advisor *a)
{
    return a->layer_large > 0 ? a->layer_large : NAN;
}

static double batch_unscaled(const struct bst_advisor *a)
{
    if (!a->set.unscaled)
        return NAN;
    return fmax(a->set.batch / 2048, a->set.batch / (8 * a->set.base_batch));
}

/* How many times outside its bounds; only while something can still be done about it. */
static bool warmup_is_long(const struct bst_advisor *a)
{
    return a->set.warmup_epochs > warmup_most * a->set.epochs;
}

/* A start that was seen to oscillate has earned a longer one. */
static double warmup_share(const struct bst_advisor *a)
{
    double share = a->set.warmup_epochs / a->set.epochs;
    if (!(share > 0) || warmed_for(a) >= 0)
        return NAN;
    if (warmup_is_long(a) && isfinite(a->spoke[BST_ADVICE_EARLY_OSCILLATION]))
        return NAN;
    return fmax(warmup_least / share, share / warmup_most);
}

static double bn_micro_small(const struct bst_advisor *a)
{
    return a->set.micro > 0 ? 8 / a->set.micro : NAN;
}

static double batch_far(const struct bst_advisor *a)
{
    if (a->noise.state != BST_NOISE_KNOWN)
        return NAN;
    return fmax(a->set.batch / a->noise.high, a->noise.low / a->set.batch);
}

static double devices_unequal(const struct bst_advisor *a)
{
    return a->unequal > 0 ? a->unequal : NAN;
}

static double spike(const struct bst_advisor *a)
{
    return a->remarked[BST_ADVICE_GRADIENT_SPIKE] ? a->last.grad_norm : NAN;
}

static double high(const struct bst_advisor *a)
{
    return a->remarked[BST_ADVICE_GRADIENT_HIGH] ? a->last.grad_norm : NAN;
}

/* A small gradient is how a run ends; early, it is one that does not move. */
static double low(const struct bst_advisor *a)
{
    bool early = a->last.epoch < slow_before * a->set.epochs && warmed_for(a) >= 0;
    return a->remarked[BST_ADVICE_GRADIENT_LOW] && early ? 1 / a->last.grad_norm : NAN;
}

static double no_gradient(const struct bst_advisor *a)
{
    return a->remarked[BST_ADVICE_LAYER_WITHOUT_GRADIENT] ? 1 : NAN;
}

static double loader_slow(const struct bst_advisor *a)
{
    return a->remarked[BST_ADVICE_LOADER_SLOW] ? 1 : NAN;
}

/* Changes, as commands. */

static void oscillation_change(const struct bst_advisor *a, char out[48])
{
    /* In the warm-up a longer one is gentler still; later only the rate is left. */
    bool warming = a->last.epoch < 0.8 * a->set.warmup_epochs;
    snprintf(out, 48, warming ? "warmup x1.5" : "lr *0.5");
}

static void unscaled_change(const struct bst_advisor *a, char out[48])
{
    snprintf(out, 48, "lr *%.3g", sqrt(a->set.batch / a->set.base_batch));
}

static void share_change(const struct bst_advisor *a, char out[48])
{
    double share = warmup_is_long(a) ? warmup_most : warmup_least;
    /* A length that has passed would end the warm-up at once, which nobody meant. */
    if (share * a->set.epochs > a->last.epoch)
        snprintf(out, 48, "warmup =%g%%", 100 * share);
}

static void micro_change(const struct bst_advisor *a, char out[48])
{
    double parts = floor(a->set.batch / (8.0 * a->set.ranks));
    if (a->set.accumulate > 1 && parts >= 1 && parts < a->set.accumulate)
        snprintf(out, 48, "accumulate =%.0f", parts);
}

static void far_change(const struct bst_advisor *a, char out[48])
{
    double least, most;
    bst_noise_range(a->noise.scale, &least, &most);
    double samples = ceil(a->set.batch > a->noise.scale ? most : least);
    double unit = a->set.tokens_a_sample > 0 ? a->set.tokens_a_sample : 1;
    snprintf(out, 48, "batch =%.0f", ceil(samples * unit));
}

static void clip_change(const struct bst_advisor *a, char out[48])
{
    /* Above the noise, far below a spike, and within the band where there is one. */
    double at = a->last.grad_ratio > 0 ? 2 * a->last.grad_norm / a->last.grad_ratio : INFINITY;
    if (a->set.band.high > 0)
        at = fmin(at, a->set.band.high);
    if (isfinite(at))
        snprintf(out, 48, "clip =%.2g", at);
}

/* Why, in words with numbers. */

static void say_oscillation(const struct bst_advisor *a, double v, char out[160])
{
    (void)a;
    snprintf(out, 160, "the loss climbed %.1f times over in its last ways up", exp(v));
}

static void say_nonfinite(const struct bst_advisor *a, double v, char out[160])
{
    snprintf(out, 160, "%.0f of the last %d updates were not finite%s%s", v, BST_ADVICE_RECENT,
             a->first_nonfinite[0] ? ", first in " : "", a->first_nonfinite);
}

static void say_above(const struct bst_advisor *a, double v, char out[160])
{
    snprintf(out, 160, "the loss is %.3g, %.2f times the first", v * a->first_loss, v);
}

static void say_slow(const struct bst_advisor *a, double v, char out[160])
{
    snprintf(out, 160, "%.1f epochs after the warm-up the loss is still %.0f %% of the first",
             warmed_for(a), 100 * v);
}

static void say_step(const struct bst_advisor *a, double v, char out[160])
{
    (void)a;
    snprintf(out, 160, "an update moves the net by %.2g %% of its weights, before momentum",
             100 * v);
}

static void say_stall(const struct bst_advisor *a, double v, char out[160])
{
    snprintf(out, 160, "%.0f evaluations without a better accuracy than %.2f %%", v,
             100 * a->best_accuracy);
}

static void say_small(const struct bst_advisor *a, double v, char out[160])
{
    snprintf(out, 160, "%s: gradient %.2g of its weights", a->layer_small_name, 1 / v);
}

static void say_large(const struct bst_advisor *a, double v, char out[160])
{
    snprintf(out, 160, "%s: gradient %.2g times its weights", a->layer_large_name, v);
}

static void say_unscaled(const struct bst_advisor *a, double v, char out[160])
{
    (void)v;
    snprintf(out, 160, "a batch of %.0f with the rate of %.0f", a->set.batch, a->set.base_batch);
}

static void say_share(const struct bst_advisor *a, double v, char out[160])
{
    (void)v;
    snprintf(out, 160, "the warm-up is %.1f %% of the run",
             100 * a->set.warmup_epochs / a->set.epochs);
}

static void say_micro(const struct bst_advisor *a, double v, char out[160])
{
    (void)v;
    snprintf(out, 160, "batch statistics over %.0f samples", a->set.micro);
}

static void say_far(const struct bst_advisor *a, double v, char out[160])
{
    (void)v;
    snprintf(out, 160, "batch %.0f, noise scale %.0f (%.0f to %.0f): efficiency %.0f %%",
             a->set.batch, a->noise.scale, a->noise.low, a->noise.high,
             100 * bst_noise_efficiency(a->noise.scale, 0, a->set.batch));
}

static void say_unequal(const struct bst_advisor *a, double v, char out[160])
{
    (void)a;
    snprintf(out, 160, "the slowest device takes %.2f times the mean", v);
}

struct rule {
    enum bst_diag code;
    double (*statistic)(const struct bst_advisor *a);
    double threshold; /* above it */
    int lasts;        /* updates in a row */
    double rest;      /* epochs of silence after it spoke */
    double horizon;   /* epochs until it is seen whether the statistic fell */
    const char *change;
    void (*make)(const struct bst_advisor *a, char out[48]);           /* where the text depends */
    void (*say)(const struct bst_advisor *a, double v, char out[160]); /* NULL: the watch's words */
    const char *effect;
};

/* clang-format off */
static const struct rule rules[BST_N_ADVICE_RULES] = {
    [BST_ADVICE_NONFINITE_REPEATED] = {BST_DIAG_NONFINITE_REPEATED, nonfinite_repeated, 1.5, 1, 0.25, 0.5,
        "lr *0.5", NULL, say_nonfinite, "finite gradients again"},
    [BST_ADVICE_LOSS_ABOVE_START] = {BST_DIAG_LOSS_ABOVE_START, loss_above_start, 1.2, 1, 0.25, 1,
        "lr *0.3", NULL, say_above, "a loss that falls"},
    [BST_ADVICE_EARLY_OSCILLATION] = {BST_DIAG_EARLY_OSCILLATION, early_oscillation, 0.5, 1, 0.25, 1,
        "", oscillation_change, say_oscillation, "a loss that falls without jumps"},
    [BST_ADVICE_SLOW_FALL] = {BST_DIAG_SLOW_FALL, slow_fall, 0.5, 20, 1, 1,
        "lr *2", NULL, say_slow, "a loss that falls faster"},
    [BST_ADVICE_STEP_LARGE] = {BST_DIAG_STEP_LARGE, step_large, 5e-3, 100, 0.25, 0.5,
        "lr *0.5", NULL, say_step, "less noise, and in the end a better accuracy"},
    [BST_ADVICE_EVAL_STALLS] = {BST_DIAG_EVAL_STALLS, eval_stalls, BST_ADVICE_EVALS - 0.5, 1, 3, 3,
        "batch -20%", NULL, say_stall, "a better accuracy within three evaluations"},
    [BST_ADVICE_LAYER_VANISHES] = {BST_DIAG_LAYER_VANISHES, layer_vanishes, 1e7, 50, 1, 1,
        "", NULL, say_small, "a layer that learns"},
    [BST_ADVICE_LAYER_EXPLODES] = {BST_DIAG_LAYER_EXPLODES, layer_explodes, 10, 50, 0.5, 0.5,
        "lr *0.5", NULL, say_large, "gradients smaller than the weights"},
    [BST_ADVICE_BATCH_ABOVE_2048] = {BST_DIAG_BATCH_ABOVE_2048, batch_unscaled, 1, 1, 1e9, 1,
        "", unscaled_change, say_unscaled, "as much progress an epoch as the smaller batch makes"},
    [BST_ADVICE_WARMUP_SHARE] = {BST_DIAG_WARMUP_SHARE, warmup_share, 1.05, 1, 1e9, 1,
        "", share_change, say_share, "a warm-up of 5 to 10 % of the run"},
    [BST_ADVICE_BN_MICRO_SMALL] = {BST_DIAG_BN_MICRO_SMALL, bn_micro_small, 1, 1, 1e9, 1,
        "", micro_change, say_micro, "steadier batch statistics"},
    [BST_ADVICE_BATCH_FAR_FROM_NOISE] = {BST_DIAG_BATCH_FAR_FROM_NOISE, batch_far, 4, 50, 1, 1,
        "", far_change, say_far, "more progress for the same time"},
    [BST_ADVICE_DEVICES_UNEQUAL] = {BST_DIAG_DEVICES_UNEQUAL, devices_unequal, 1.25, 50, 2, 1,
        "", NULL, say_unequal, "no device that waits for another"},
    [BST_ADVICE_GRADIENT_SPIKE] = {BST_DIAG_GRADIENT_SPIKE, spike, 0, 1, 0.5, 0.5,
        "", clip_change, NULL, "spikes that do not reach the weights"},
    [BST_ADVICE_GRADIENT_HIGH] = {BST_DIAG_GRADIENT_HIGH, high, 0, 1, 0.5, 0.5,
        "lr *0.7", NULL, NULL, "a gradient norm back in its band"},
    [BST_ADVICE_GRADIENT_LOW] = {BST_DIAG_GRADIENT_LOW, low, 0, 1, 1, 1,
        "lr *1.4", NULL, NULL, "a loss that falls faster"},
    [BST_ADVICE_LAYER_WITHOUT_GRADIENT] = {BST_DIAG_LAYER_WITHOUT_GRADIENT, no_gradient, 0, 1, 2, 1,
        "", NULL, NULL, "a layer that learns"},
    [BST_ADVICE_LOADER_SLOW] = {BST_DIAG_LOADER_SLOW, loader_slow, 0, 1, 2, 1,
        "", NULL, NULL, "devices that do not wait"},
};
/* clang-format on */

/* Those that look at nothing but the settings. */
static const enum bst_advice_rule by_settings[] = {
    BST_ADVICE_BATCH_ABOVE_2048, BST_ADVICE_WARMUP_SHARE, BST_ADVICE_BN_MICRO_SMALL};
enum { N_BY_SETTINGS = sizeof by_settings / sizeof *by_settings };

int bst_advisor_foresee(const struct bst_advisor *a, const struct bst_advice_settings *next,
                        enum bst_diag *out)
{
    struct bst_advisor then = {.set = *next, .last = {.epoch = a->last.epoch}};
    int n = 0;
    memcpy(then.spoke, a->spoke, sizeof then.spoke);
    for (int i = 0; i < N_BY_SETTINGS; i++) {
        const struct rule *r = &rules[by_settings[i]];
        double is = r->statistic(a), will_be = r->statistic(&then);
        if (will_be > r->threshold && !(is >= will_be))
            out[n++] = r->code;
    }
    return n;
}

void bst_advisor_told(struct bst_advisor *a, enum bst_diag code)
{
    for (int i = 0; i < N_BY_SETTINGS; i++)
        if (rules[by_settings[i]].code == code)
            a->spoke[by_settings[i]] = a->last.epoch;
}

void bst_advisor_remark(struct bst_advisor *a, enum bst_diag code, const char *text)
{
    for (int i = BST_ADVICE_GRADIENT_SPIKE; i < BST_N_ADVICE_RULES; i++)
        if (rules[i].code == code) {
            a->remarked[i] = true;
            snprintf(a->remark[i], sizeof a->remark[i], "%s", text);
        }
}

static void take_loss(struct bst_advisor *a, const struct bst_advice_update *u)
{
    if (!isfinite(u->loss) || !(u->loss > 0))
        return;
    const double block = fmax(block_least, block_part * a->set.dataset);
    const double before = u->epoch * a->set.dataset - u->samples;
    /* That of a whole block is no start where a rate that is too high has thrown it up in it. */
    if (a->start_samples < start_least && before <= a->start_samples + 0.5) {
        a->start_sum += u->loss * u->samples;
        a->start_samples += u->samples;
    }
    a->block_sum += u->loss * u->samples;
    a->block_samples += u->samples;
    if (a->block_samples < block)
        return;
    /* After a resume the first loss seen is not the run's first. */
    bool first = u->epoch * a->set.dataset - a->block_samples <= block;
    if (a->n_blocks == BST_ADVICE_LOSSES)
        memmove(a->blocks, a->blocks + 1, (BST_ADVICE_LOSSES - 1) * sizeof *a->blocks);
    else
        a->n_blocks++;
    double mean = a->block_sum / a->block_samples;
    a->blocks[a->n_blocks - 1] = mean;
    if (!(a->first_loss > 0) && first)
        a->first_loss = a->start_samples > 0 ? fmin(mean, a->start_sum / a->start_samples) : mean;
    a->worst_loss = fmax(a->worst_loss, mean);
    a->block_sum = a->block_samples = 0;
}

static void take_in(struct bst_advisor *a, const struct bst_advice_update *u)
{
    a->last = *u;
    a->last.first_nonfinite = NULL;
    take_loss(a, u);
    if (u->nonfinite) {
        a->nonfinite[a->n_nonfinite++ % BST_ADVICE_RECENT] = u->update;
        snprintf(a->first_nonfinite, sizeof a->first_nonfinite, "%s",
                 u->first_nonfinite ? u->first_nonfinite : "");
    }
    if (u->busy_mean > 0 && a->set.ranks > 1) {
        double ratio = u->busy_most / u->busy_mean;
        a->unequal = a->unequal > 0 ? a->unequal + unequal_weight * (ratio - a->unequal) : ratio;
    }
}

static void give(struct bst_advisor *a, enum bst_advice_rule i, double v)
{
    const struct rule *r = &rules[i];
    if (a->n_given == BST_ADVICE_MOST)
        return;
    struct bst_advice *out = &a->given[a->n_given++];
    *out = (struct bst_advice){
        .rule = i,
        .code = r->code,
        .update = a->last.update,
        .epoch = a->last.epoch,
        .statistic = v,
        .threshold = r->threshold,
        .effect = r->effect,
        .saves_time = i == BST_ADVICE_WARMUP_SHARE && warmup_is_long(a),
        .due = a->last.epoch + r->horizon,
        .after = NAN,
    };
    if (r->say)
        r->say(a, v, out->why);
    else
        memcpy(out->why, a->remark[i], sizeof a->remark[i]);
    snprintf(out->change, sizeof out->change, "%s", r->change);
    if (r->make)
        r->make(a, out->change);
    a->spoke[i] = a->last.epoch;
    a->said[i]++;
    a->row[i] = 0;
}

/* What was not acted on is said again, but less and less often. */
static bool rests(const struct bst_advisor *a, int i)
{
    int times = a->said[i] > 1 ? a->said[i] - 1 : 0;
    return a->last.epoch < a->spoke[i] + ldexp(rules[i].rest, times);
}

/* Whether the statistic fell within its horizon, whoever brought that about. */
static void score(struct bst_advisor *a)
{
    for (int i = 0; i < a->n_given; i++) {
        struct bst_advice *g = &a->given[i];
        if (g->scored || a->last.epoch < g->due)
            continue;
        g->scored = true;
        g->after = rules[g->rule].statistic(a);
        /* A remark that has not come again is gone; a rule whose time is over knows nothing. */
        bool gone = isnan(g->after) && !rules[g->rule].say;
        g->improved = gone || g->after < g->statistic;
    }
}

void bst_advisor_update(struct bst_advisor *a, const struct bst_advice_update *u)
{
    take_in(a, u);
    score(a);
    for (int i = 0; i < BST_N_ADVICE_RULES; i++) {
        double v = rules[i].statistic(a);
        a->row[i] = v > rules[i].threshold ? a->row[i] + 1 : 0;
        if (a->row[i] >= rules[i].lasts && !rests(a, i))
            give(a, (enum bst_advice_rule)i, v);
    }
    memset(a->remarked, 0, sizeof a->remarked);
}

const struct bst_advice *bst_advisor_take(struct bst_advisor *a)
{
    return a->n_taken < a->n_given ? &a->given[a->n_taken++] : NULL;
}
