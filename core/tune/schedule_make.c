#include <math.h>
#include <string.h>

#include "core/base/err.h"
#include "core/tune/schedule.h"

static const char *const kind_names[] = {
#define X(name, text) text,
    BST_SCHEDULES(X)
#undef X
};
static const char *const curve_names[] = {
#define X(name, text) text,
    BST_WARMUPS(X)
#undef X
};

static int find_name(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(name, names[i]))
            return i;
    return -1;
}

const char *bst_schedule_name(enum bst_schedule_kind kind)
{
    return kind_names[kind];
}

const char *bst_warmup_name(enum bst_warmup_curve curve)
{
    return curve_names[curve];
}

bool bst_schedule_by_name(const char *name, enum bst_schedule_kind *out)
{
    int i = find_name(name, kind_names, BST_N_SCHEDULES);
    if (i >= 0)
        *out = (enum bst_schedule_kind)i;
    return i >= 0;
}

bool bst_warmup_by_name(const char *name, enum bst_warmup_curve *out)
{
    int i = find_name(name, curve_names, BST_N_WARMUPS);
    if (i >= 0)
        *out = (enum bst_warmup_curve)i;
    return i >= 0;
}

static enum bst_err check_milestones(const struct bst_schedule *sch)
{
    if (!sch->n_milestones)
        return bst_fail(BST_E_RANGE, "multistep needs lr_milestones");
    if (!(sch->gamma > 0 && sch->gamma <= 1))
        return bst_fail(BST_E_RANGE, "lr_gamma is %g, not above 0 and at most 1", sch->gamma);
    for (int i = 1; i < sch->n_milestones; i++)
        if (sch->milestones[i] <= sch->milestones[i - 1])
            return bst_fail(BST_E_RANGE, "lr_milestones must rise");
    return BST_OK;
}

enum bst_err bst_schedule_check(const struct bst_schedule *sch)
{
    if (!(sch->peak > 0 && isfinite(sch->peak)))
        return bst_fail(BST_E_RANGE, "the learning rate is %g, not above 0", sch->peak);
    if (!(sch->start_lr >= 0 && isfinite(sch->start_lr)))
        return bst_fail(BST_E_RANGE, "the warm-up starts at %g, which is no rate", sch->start_lr);
    if (!(sch->min_lr_ratio >= 0 && sch->min_lr_ratio <= 1))
        return bst_fail(BST_E_RANGE, "min_lr_ratio is %g, not 0 to 1", sch->min_lr_ratio);
    if (!(sch->warmup >= 0 && isfinite(sch->warmup)))
        return bst_fail(BST_E_RANGE, "the warm-up is %g samples long", sch->warmup);
    if (!sch->total)
        return bst_fail(BST_E_RANGE, "the run has no length");
    bool own_warmup = sch->kind == BST_SCHEDULE_NOAM || sch->kind == BST_SCHEDULE_ONE_CYCLE;
    if (sch->curve == BST_WARMUP_EXPONENTIAL && !own_warmup && sch->warmup > 0 && !sch->start_lr)
        return bst_fail(BST_E_RANGE,
                        "an exponential warm-up cannot start at 0: set warmup_start_lr");
    if ((sch->kind == BST_SCHEDULE_INVERSE_SQRT || sch->kind == BST_SCHEDULE_NOAM) && !sch->warmup)
        return bst_fail(BST_E_RANGE, "%s needs a warm-up: its decay is counted from there",
                        bst_schedule_name(sch->kind));
    return sch->kind == BST_SCHEDULE_MULTISTEP ? check_milestones(sch) : BST_OK;
}

static double or_default(double value, double otherwise)
{
    return value > 0 ? value : otherwise;
}

static enum bst_err set_one_cycle(const struct bst_schedule_spec *spec, struct bst_schedule *out)
{
    double pct = or_default(spec->pct, 0.3), div = or_default(spec->div, 25);
    if (pct > 1)
        return bst_fail(BST_E_RANGE, "one-cycle's pct is %g, not 0 to 1", pct);
    if (!out->warmup)
        out->warmup = pct * (double)out->total;
    out->start_lr = spec->peak / div;
    out->min_lr_ratio = 1 / div / or_default(spec->final_div, 1e4);
    return BST_OK;
}

enum bst_err bst_schedule_make(const struct bst_schedule_spec *spec, const struct bst_scale *scale,
                               struct bst_schedule *out)
{
    uint64_t warmup = 0;
    BST_TRY(bst_interval_samples(spec->warmup, scale, &warmup));
    BST_ASSERT(spec->n_milestones >= 0 && spec->n_milestones <= BST_MILESTONES_MAX);
    *out = (struct bst_schedule){
        .kind = spec->kind,
        .curve = spec->curve,
        .peak = spec->peak,
        .start_lr = spec->kind == BST_SCHEDULE_NOAM ? 0 : spec->start_lr,
        .min_lr_ratio = spec->min_lr_ratio,
        .warmup = (double)warmup,
        .total = scale->total,
        .log_n = scale->batch ? (double)warmup / (double)scale->batch : 0,
        .gamma = spec->gamma,
        .n_milestones = spec->n_milestones,
    };
    for (int i = 0; i < spec->n_milestones; i++) {
        struct bst_interval epochs = {spec->milestones[i], BST_UNIT_EPOCHS};
        BST_TRY(bst_interval_samples(epochs, scale, &out->milestones[i]));
    }
    if (spec->kind == BST_SCHEDULE_ONE_CYCLE)
        BST_TRY(set_one_cycle(spec, out));
    return bst_schedule_check(out);
}
