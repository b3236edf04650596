/* Every instruction and every flat function of a backend against ref64, over odd sizes, in all
 * layouts, in place and not, overwriting and adding.   test_ops BACKEND [OP | attentions | all
 * [PRECISION]]
 *
 * ref is held to a tighter budget than the others: as the specification it rounds once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "tests/ops/cases.h"
#include "tests/ops/flat.h"
#include "tests/rounding.h"

#define SINGLE_EPS 0x1p-24
#define CASES_PER_OP 60
#define CASES_PER_SEQ_OP 24
#define MAX_MACS 3e6
#define MAX_SEQ_MACS 1e6
#define MAX_MANY_MACS 8e6
#define MOST_POSITIONS 512 /* N·T of the sizes below */

struct outcome {
    int runs, failures;
    double worst; /* error in units of its allowance */
};

/* The backend that is tested: what goes into it is rounded to its precision beforehand. */
static const struct bst_backend *tested;

/* Reals that the precision holds exactly, so that both sides start from the same numbers. Those
 * that are fp32 on every backend come out of it no worse. */
static void fill(struct bst_rng *rng, double *x, int64_t n, enum bst_param_kind kind, bool ties)
{
    for (int64_t i = 0; i < n; i++) {
        double v = bst_rng_normal(rng);
        if (kind == BST_PARAM_BN_VAR)
            v = 0.5 + fabs(v);
        x[i] = ties ? floor(v * 2) / 2 : rounding_to(rig_precision(tested), v);
    }
}

static int64_t count_of(const struct rig *r, int value)
{
    return bst_shape_count(&r->p->values[value].shape);
}

/* Two or three values a channel that happen to lie close together have next to no variance, and
 * what is then computed is mostly cancellation: half-integers and a higher floor keep such cases
 * meaningful. */
static bool ill_conditioned(const struct op_case *oc, const struct op_size *s)
{
    return !strncmp(oc->name, "bn_train", 8) && s->n * s->hw * s->hw < 8;
}

/* The same numbers into any backend's rig; `step` gets its own copies of images and labels. */
static void feed(struct rig *r, const struct op_case *oc, const struct op_size *s, uint64_t seed)
{
    static uint8_t images[17 * 17 * 17 * 4];
    static int32_t labels[MOST_POSITIONS], tokens[MOST_POSITIONS], lengths[8], pair[8];
    struct bst_rng rng;
    bst_rng_init(&rng, seed, BST_RNG_TEST, 0);
    for (size_t i = 0; i < sizeof images; i++)
        images[i] = (uint8_t)bst_rng_below(&rng, 256);
    for (int i = 0; i < MOST_POSITIONS; i++) {
        labels[i] = (int32_t)bst_rng_below(&rng, (uint32_t)s->oc);
        tokens[i] = (int32_t)bst_rng_below(&rng, (uint32_t)s->oc);
        if (oc->sequence && bst_rng_below(&rng, 5) == 0)
            labels[i] = BST_LABEL_IGNORED;
    }
    for (int i = 0; i < 8; i++) /* none at all is one of them */
        lengths[i] = s->t ? (int32_t)bst_rng_below(&rng, (uint32_t)s->t + 1) : 0;
    for (int i = 0; i < 8; i++)
        pair[i] = (int32_t)bst_rng_below(&rng, (uint32_t)s->c);
    r->step.images = images;
    r->step.pair = pair;
    r->step.labels = labels;
    r->step.tokens[0] = tokens;
    r->step.lengths[0] = lengths;
    for (int i = 0; i < r->n_inputs; i++) {
        int64_t n = count_of(r, r->inputs[i]);
        double *x = bst_xcalloc((size_t)n, sizeof *x);
        fill(&rng, x, n, BST_PARAM_BIAS, oc->ties || ill_conditioned(oc, s));
        rig_set_input(r, i, x);
        bst_free(x);
    }
    for (int i = 0; i < 2 * r->table.n_slots; i++) {
        int64_t n = count_of(r, i);
        double *x = bst_xcalloc((size_t)n, sizeof *x);
        fill(&rng, x, n, r->table.slots[i % r->table.n_slots].kind, false);
        rig_set_param(r, i, x);
        bst_free(x);
    }
}

static void set_up_team(struct rig *r, const struct bst_backend *b, int threads,
                        const struct op_case *oc, const struct op_size *s, unsigned variant,
                        uint64_t seed)
{
    rig_open(r, b, threads, variant);
    oc->build(r, oc, s, variant);
    rig_finish(r);
    feed(r, oc, s, seed);
    r->step.accumulate = variant & RIG_ACCUMULATE;
    rig_run(r);
}

static void set_up(struct rig *r, const struct bst_backend *b, const struct op_case *oc,
                   const struct op_size *s, unsigned variant, uint64_t seed)
{
    set_up_team(r, b, 2, oc, s, variant, seed);
}

/* Largest difference over the largest value, which counts as `scale` at least: what is left of
 * terms of that size that cancel is not known better than they are. */
static double difference(const double *got, const double *want, int64_t n, double scale)
{
    double worst = 0, largest = scale;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(got[i] - want[i]);
        if (!(d <= worst)) /* a NaN stays */
            worst = d;
        if (fabs(want[i]) > largest)
            largest = fabs(want[i]);
    }
    return worst / largest;
}

static void judge(struct outcome *o, const struct op_case *oc, const struct op_size *s,
                  unsigned variant, bool strict, const char *what, int k, double error)
{
    int half = rounding_bits(rig_precision(tested));
    double allowed = oc->budget * (strict ? 1 : 1 + sqrt(oc->terms(s))) * SINGLE_EPS;
    if (half)
        allowed += oc->roundings * ldexp(1, -half - 1);
    if (error / (allowed > 0 ? allowed : SINGLE_EPS) > o->worst)
        o->worst = error / (allowed > 0 ? allowed : SINGLE_EPS);
    if (error <= allowed)
        return;
    o->failures++;
    printf("%s n %d c %d->%d %dx%d window %d/%d+%d t %d heads %d variant %u: %s %d is off by %.3g, "
           "allowed %.3g\n",
           oc->name, s->n, s->c, s->oc, s->hw, s->hw, s->window.kernel, s->window.stride,
           s->window.pad, s->t, s->heads, variant, what, k, error, allowed);
}

static void compare_all(struct outcome *o, const struct op_case *oc, const struct op_size *s,
                        unsigned variant, struct rig *got, struct rig *want, bool strict)
{
    for (int i = 0; i < want->n_outputs; i++) {
        int64_t n = bst_shape_count(rig_output_shape(want, i));
        double *x = bst_xcalloc((size_t)n, sizeof *x), *y = bst_xcalloc((size_t)n, sizeof *y);
        rig_get_output(got, i, x);
        rig_get_output(want, i, y);
        judge(o, oc, s, variant, strict, "output", i,
              difference(x, y, n, ill_conditioned(oc, s) ? 32 : 1));
        bst_free(x);
        bst_free(y);
    }
    for (int i = 0; i < 2 * want->table.n_slots; i++) {
        int64_t n = count_of(want, i);
        double *x = bst_xcalloc((size_t)n, sizeof *x), *y = bst_xcalloc((size_t)n, sizeof *y);
        rig_get_param(got, i, x);
        rig_get_param(want, i, y);
        judge(o, oc, s, variant, strict, "parameter", i, difference(x, y, n, sqrt(oc->terms(s))));
        bst_free(x);
        bst_free(y);
    }
    judge(o, oc, s, variant, strict, "loss", 0,
          difference(&got->result.loss_sum, &want->result.loss_sum, 1, 1));
    judge(o, oc, s, variant, strict, "correct", 0,
          (double)llabs((long long)(got->result.correct - want->result.correct)));
    judge(o, oc, s, variant, strict, "exact", 0,
          (double)llabs((long long)(got->result.exact - want->result.exact)));
    judge(o, oc, s, variant, strict, "pair loss", 0,
          difference(&got->result.pair_loss_sum, &want->result.pair_loss_sum, 1, 1));
    judge(o, oc, s, variant, strict, "targets", 0,
          (double)llabs((long long)(got->result.targets - want->result.targets)));
}

static bool worth(const struct op_case *oc, const struct op_size *s)
{
    if (oc->windowed &&
        (op_out(s) < 1 || (!strncmp(oc->name, "max", 3) && s->window.pad > s->window.kernel / 2)))
        return false;
    if (!strncmp(oc->name, "bn_train", 8) && s->n * s->hw * s->hw == 1)
        return false;
    /* Few values that lie close together are told apart by their sums no better than they are by
     * the largest of them. */
    if (oc->flags & BST_IF_STATS && s->n * s->hw * s->hw < 32)
        return false;
    if (oc->sequence && oc->steady && !oc->nan_spreads && !oc->large && !oc->many)
        return true; /* they cost what their elements do */
    if (oc->many)    /* ref64 takes its time over each */
        return (double)s->n * s->t * s->c * s->oc <= MAX_MANY_MACS;
    if (oc->sequence)
        return (double)s->n * s->t * s->c * (s->t > s->oc ? s->t : s->oc) <= MAX_SEQ_MACS;
    return oc->terms(s) * (double)s->n * s->oc * s->hw * s->hw <= MAX_MACS;
}

/* Around the tiles of 64 that a backend may work in, and far from them; heads of 5 to 128. */
static void seq_size_at(const struct op_case *oc, unsigned i, struct op_size *s)
{
    static const int batches[] = {2, 1, 3}, lengths[] = {3, 65, 1, 64, 17, 130};
    static const int dims[] = {8, 64, 17, 5, 128, 32}, heads[] = {2, 1, 3};
    static const int rows[] = {16, 3, 65, 1, 17, 128}, large[] = {1031, 5003, 2048};
    *s = (struct op_size){.n = batches[i % 3], .t = lengths[(i + i / 6) % 6], .hw = 1};
    s->heads = heads[(i / 2) % 3];
    s->c = s->heads * dims[(i / 3 + i) % 6];
    s->oc = oc->large ? large[i % 3] : rows[(i + i / 5) % 6];
    if (oc->large)
        s->c = 1 + (int)(i % 2);
    if (oc->many) { /* around blocks of 128 and 256 rows, tiles of 512 by 256 */
        static const int wide[] = {8, 72, 264, 40, 520};

        s->n = 2;
        s->t = 128 + 25 * (int)(i % 5);
        s->c = wide[i % 5];
        s->oc = wide[(i / 2 + 2) % 5];
    }
    s->window = (struct bst_window){1, 1, 0};
}

/* Size number i of a walk through all combinations that meets every value of each early. */
static void size_at(const struct op_case *oc, unsigned i, struct op_size *s)
{
    if (oc->sequence) {
        seq_size_at(oc, i, s);
        return;
    }
    *s = (struct op_size){0};
    static const int batches[] = {3, 1, 17, 2}, channels[] = {16, 3, 8, 1, 17, 32, 64};
    static const int sizes[] = {3, 17, 1, 8, 7};
    static const struct bst_window windows[] = {{3, 1, 1}, {1, 1, 0}, {3, 2, 1},
                                                {7, 2, 3}, {1, 2, 0}, {2, 2, 0}};
    s->n = batches[i % 4];
    s->c = channels[(i / 2) % 7];
    s->oc = channels[(i / 3 + i / 14) % 7];
    s->hw = oc->matrix ? 1 : sizes[(i + i / 5) % 5];
    s->window = oc->windowed ? windows[(i / 5 + i) % 6] : (struct bst_window){1, 1, 0};
}

/* Variants that make a difference: all for the first sizes, then two of them for each size. */
static bool worth_variant(const struct op_case *oc, const struct rig *built, bool strict,
                          unsigned i, unsigned variant)
{
    if (strict && variant & (RIG_BLOCKED | RIG_PLAIN_WEIGHT))
        return false; /* plain is all it has */
    if (variant & RIG_BLOCKED && (oc->matrix || oc->sequence))
        return false;
    if (variant & RIG_PLAIN_WEIGHT && !built->table.n_slots)
        return false;
    if (variant & RIG_ACCUMULATE && !built->table.n_trained)
        return false;
    if (oc->sequence)
        return i < 4 || !variant || (i + variant) % 8 == 0;
    return i < 4 || strict || (i + variant) % 8 == 0;
}

static struct outcome run_op(const struct bst_backend *b, const struct op_case *oc)
{
    const struct bst_backend *exact = bst_backend_find("ref64");
    bool strict = !strncmp(b->name, "ref", 3);
    struct outcome o = {0};
    unsigned sizes = oc->sequence ? CASES_PER_SEQ_OP : CASES_PER_OP;
    for (unsigned i = 0; i < sizes; i++) {
        struct op_size s;
        size_at(oc, i, &s);
        if (!worth(oc, &s))
            continue;
        struct rig want[2], got; /* overwriting, adding */
        set_up(&want[0], exact, oc, &s, 0, i);
        set_up(&want[1], exact, oc, &s, RIG_ACCUMULATE, i);
        for (unsigned variant = 0; variant < RIG_N_VARIANTS; variant++) {
            if (!worth_variant(oc, &want[0], strict, i, variant))
                continue;
            set_up(&got, b, oc, &s, variant, i);
            compare_all(&o, oc, &s, variant, &got, &want[!!(variant & RIG_ACCUMULATE)], strict);
            rig_close(&got);
            o.runs++;
        }
        rig_close(&want[0]);
        rig_close(&want[1]);
    }
    return o;
}

/* Where one side has a NaN the other must have one: a net that diverged must not look healthy. */
static bool same_nans(const double *got, const double *want, int64_t n, bool spreads)
{
    for (int64_t i = 0; i < n; i++) {
        if (isnan(got[i]) != isnan(want[i]) && !(spreads && isnan(got[i])))
            return false;
    }
    return true;
}

static bool same_nans_all(struct rig *got, struct rig *want, bool spreads)
{
    bool same = isnan(got->result.loss_sum) == isnan(want->result.loss_sum) &&
                isnan(got->result.pair_loss_sum) == isnan(want->result.pair_loss_sum);
    for (int i = 0; i < want->n_outputs + 2 * want->table.n_slots; i++) {
        int param = i - want->n_outputs;
        int64_t n = param < 0 ? bst_shape_count(rig_output_shape(want, i)) : count_of(want, param);
        double *x = bst_xcalloc((size_t)n, sizeof *x), *y = bst_xcalloc((size_t)n, sizeof *y);
        if (param < 0) {
            rig_get_output(got, i, x);
            rig_get_output(want, i, y);
        } else {
            rig_get_param(got, param, x);
            rig_get_param(want, param, y);
        }
        same &= same_nans(x, y, n, spreads);
        bst_free(x);
        bst_free(y);
    }
    return same;
}

/* One NaN in the middle of the first input. */
static void poison(struct rig *r, const struct op_case *oc, const struct op_size *s, uint64_t seed)
{
    int64_t n = count_of(r, r->inputs[0]);
    double *x = bst_xcalloc((size_t)n, sizeof *x);
    struct bst_rng rng;
    feed(r, oc, s, seed);
    bst_rng_init(&rng, seed, BST_RNG_TEST, 1);
    fill(&rng, x, n, BST_PARAM_BIAS, oc->ties);
    x[n / 2] = NAN;
    rig_set_input(r, 0, x);
    r->result = (struct bst_step_result){0};
    rig_run(r);
    bst_free(x);
}

static int check_nan(const struct bst_backend *b, const struct op_case *oc)
{
    int failures = 0;
    for (unsigned i = 0; i < 12; i++) {
        struct op_size s;
        size_at(oc, i, &s);
        if (!worth(oc, &s))
            continue;
        for (unsigned variant = 0; variant < 2; variant++) {
            struct rig got, want;
            set_up(&want, bst_backend_find("ref64"), oc, &s, 0, i);
            set_up(&got, b, oc, &s, variant, i);
            if (want.n_inputs) {
                poison(&want, oc, &s, i);
                poison(&got, oc, &s, i);
                if (!same_nans_all(&got, &want, oc->nan_spreads)) {
                    failures++;
                    printf("%s n %d c %d->%d %dx%d variant %u: a NaN comes out elsewhere\n",
                           oc->name, s.n, s.c, s.oc, s.hw, s.hw, variant);
                }
            }
            rig_close(&got);
            rig_close(&want);
        }
    }
    return failures;
}

static bool same_bits(struct rig *a, struct rig *b)
{
    bool same = a->result.loss_sum == b->result.loss_sum;
    for (int i = 0; i < a->n_outputs + 2 * a->table.n_slots; i++) {
        int param = i - a->n_outputs;
        int64_t n = param < 0 ? bst_shape_count(rig_output_shape(a, i)) : count_of(a, param);
        double *x = bst_xcalloc((size_t)n, sizeof *x), *y = bst_xcalloc((size_t)n, sizeof *y);
        if (param < 0) {
            rig_get_output(a, i, x);
            rig_get_output(b, i, y);
        } else {
            rig_get_param(a, param, x);
            rig_get_param(b, param, y);
        }
        same &= !memcmp(x, y, (size_t)n * sizeof *x);
        bst_free(x);
        bst_free(y);
    }
    return same;
}

/* What is dealt out to a team of three is what one thread makes of it; at sizes that are too much
 * for ref64, which need not be asked, but that a backend deals out. */
static int check_teams(const struct bst_backend *b, const struct op_case *oc)
{
    int failures = 0;
    const bool has_teams = strncmp(b->name, "ref", 3) && !b->own_memory;
    for (unsigned i = 0; i < CASES_PER_SEQ_OP && oc->steady && has_teams; i++) {
        struct op_size s;
        struct rig one, three;
        size_at(oc, i, &s);
        set_up_team(&one, b, 1, oc, &s, 0, i);
        set_up_team(&three, b, 3, oc, &s, 0, i);
        if (!same_bits(&one, &three)) {
            failures++;
            printf("%s n %d t %d c %d heads %d: three threads give other bits than one\n", oc->name,
                   s.n, s.t, s.c, s.heads);
        }
        rig_close(&one);
        rig_close(&three);
    }
    return failures;
}

static bool is_meant(const struct op_case *oc, const char *which)
{
    if (which && !strcmp(which, "attentions"))
        return strncmp(oc->name, "attention", 9) == 0;
    return !which || !strcmp(which, oc->name);
}

static int run_table(const struct bst_backend *b, const struct op_case *cases, int n,
                     const char *which)
{
    int failures = 0;
    for (int i = 0; i < n; i++) {
        if (!is_meant(&cases[i], which))
            continue;
        struct outcome o = run_op(b, &cases[i]);
        o.failures += check_nan(b, &cases[i]) + check_teams(b, &cases[i]);
        printf("%-28s %4d runs, worst %.2f of the budget%s\n", cases[i].name, o.runs, o.worst,
               o.failures || !o.runs ? "  FAILED" : "");
        failures += o.failures + !o.runs;
    }
    return failures;
}

static int usage(void)
{
    fprintf(stderr, "usage: test_ops BACKEND [OP | attentions | all [PRECISION]]\n");
    return 2;
}

int main(int argc, char **argv)
{
    int failures = 0, p = 0;
    if (argc < 2)
        return usage();
    while (argc > 3 && p < BST_N_PRECISIONS &&
           strcmp(argv[3], bst_precision_name((enum bst_precision)p)))
        p++;
    if (p == BST_N_PRECISIONS)
        return usage();
    const struct bst_backend *b = bst_backend_find(argv[1]);
    if (!b) {
        printf("this build has no backend %s\n", argv[1]);
        return 77;
    }
    if (!BST_HAS_PRECISION(b, (enum bst_precision)p)) {
        printf("%s does not compute in %s\n", b->name, argv[3]);
        return 1;
    }
    tested = b;
    rig_use_precision((enum bst_precision)p);
    const char *which = argc > 2 && strcmp(argv[2], "all") != 0 ? argv[2] : NULL;
    failures += run_table(b, op_cases, n_op_cases, which);
    failures += run_table(b, op_seq_cases, n_op_seq_cases, which);
    if (!which)
        failures += check_flat(b);
    return failures ? 1 : 0;
}
