#include "core/report/sweep_table.h"

#include <inttypes.h>
#include <math.h>

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/text.h"

#define FIELD(name, scale)                                                                         \
    static double get_##name(const struct bst_sweep_row *row)                                      \
    {                                                                                              \
        return (double)row->name * (scale);                                                        \
    }
FIELD(batch, 1)
FIELD(runs, 1)
FIELD(epoch_seconds, 1)
FIELD(slower, 100)
FIELD(samples_per_sec, 1)
FIELD(memory_planned, 1)
FIELD(memory_peak, 1)
FIELD(accuracy, 100)
FIELD(error, 100)
FIELD(best_accuracy, 100)
FIELD(loss, 1)
FIELD(efficiency, 1)
FIELD(samples_to_target, 1)
FIELD(seconds_to_target, 1)

/* The fields of a row, for CSV and JSON; NaN is not known. */
struct field {
    const char *name;
    double (*get)(const struct bst_sweep_row *row);
};

static const struct field *fields_of(int *n)
{
    static const struct field fields[] = {
        {"batch", get_batch},
        {"runs", get_runs},
        {"epoch_seconds", get_epoch_seconds},
        {"samples_per_sec", get_samples_per_sec},
        {"memory_planned_bytes", get_memory_planned},
        {"memory_peak_bytes", get_memory_peak},
        {"accuracy_percent", get_accuracy},
        {"accuracy_error_points", get_error},
        {"best_accuracy_percent", get_best_accuracy},
        {"loss", get_loss},
        {"efficiency", get_efficiency},
        {"samples_to_target", get_samples_to_target},
        {"seconds_to_target", get_seconds_to_target},
        {"slower_percent", get_slower},
    };
    *n = (int)(sizeof fields / sizeof *fields);
    return fields;
}

void bst_sweep_marks(const struct bst_sweep_row *row, struct bst_sb *out)
{
    const struct {
        bool on;
        const char *word;
    } marks[] = {
        {row->choice, "choice"},
        {row->accurate, "most accurate"},
        {row->fastest, "fastest"},
        {row->largest, "largest tried that fits"},
    };
    bool some = false;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (!marks[i].on)
            continue;
        bst_sb_addf(out, "%s%s", some ? ", " : "", marks[i].word);
        some = true;
    }
}

static void put_number(struct bst_sb *out, int width, int digits, double x)
{
    if (isfinite(x))
        bst_sb_addf(out, "%*.*f", width, digits, x);
    else
        bst_sb_addf(out, "%*s", width, "n/a");
}

static void put_bytes(struct bst_sb *out, int width, double bytes)
{
    char text[32] = "n/a";
    if (isfinite(bytes))
        bst_text_bytes((uint64_t)bytes, text);
    bst_sb_addf(out, "%*s", width, text);
}

static void put_row(const struct bst_sweep_row *row, struct bst_sb *out)
{
    char span[32];
    bst_sb_addf(out, "%6" PRIu64 " %4d", row->batch, row->runs);
    put_number(out, 7, 2, 100 * row->accuracy);
    put_number(out, 6, 2, 100 * row->error);
    put_number(out, 7, 2, 100 * row->best_accuracy);
    put_number(out, 8, 4, row->loss);
    put_number(out, 7, 0, row->samples_per_sec);
    bst_clock_span_fine(row->epoch_seconds, span, sizeof span);
    bst_sb_addf(out, " %7s", span);
    put_bytes(out, 11, row->memory_planned);
    put_number(out, 5, 2, row->efficiency);
    bst_clock_span_fine(row->seconds_to_target, span, sizeof span);
    bst_sb_addf(out, " %7s\n", span);
}

/* "choice 384; most accurate 32": behind the rows they would not go into 80 columns. */
static void put_marked(const struct bst_sweep *w, struct bst_sb *out)
{
    bool some = false;
    for (int i = 0; i < w->n_rows; i++) {
        const struct bst_sweep_row *row = &w->rows[i];
        if (!row->choice && !row->accurate && !row->fastest && !row->largest)
            continue;
        bst_sb_addf(out, "%s%" PRIu64 ": ", some ? "; " : "\nbatch ", row->batch);
        bst_sweep_marks(row, out);
        some = true;
    }
    if (some)
        bst_sb_addc(out, '\n');
}

void bst_sweep_explain(const struct bst_sweep *w, struct bst_sb *out)
{
    if (!isfinite(w->target_used))
        return;
    if (w->vague)
        bst_sb_addf(
            out,
            "choice and most accurate: unknown, two standard errors of a difference between\n"
            "equals are over %.0f points; more seeds or samples to evaluate would tell\n",
            100 * BST_SWEEP_DOUBT_MOST);
    else
        bst_sb_addf(out, "choice: the fastest within %.2f points of the most accurate\n",
                    100 * w->delta_used);
    if (w->n_rows > 1)
        bst_sb_addf(out,
                    "epochs less than %.0f %% or two standard errors apart are equally fast%s\n",
                    100 * BST_SWEEP_SLOWER, w->told_apart ? "" : ": all of these");
    bst_sb_addf(out,
                "target: training time to an accuracy of %.2f %%\n"
                "eff: samples to the target where they are fewest, over those of this batch\n"
                "±: one standard error; times and samples/s are medians over the runs of a\n"
                "batch, the rest are means\n",
                100 * w->target_used);
}

void bst_sweep_print(const struct bst_study *s, struct bst_sb *out)
{
    const struct bst_sweep *w = &s->sweep;
    /* ± is two bytes and one column. */
    bst_sb_addf(out, "\n%6s %4s%7s%7s%7s%8s%7s %7s %10s%5s %7s\n", "batch", "runs", "acc %", "±",
                "best %", "loss", "samp/s", "epoch", "memory", "eff", "target");
    for (int i = 0; i < w->n_rows; i++)
        put_row(&w->rows[i], out);
    put_marked(w, out);
    bst_sb_addc(out, '\n');
    bst_sweep_explain(w, out);
    for (int i = 0; i < s->n_runs; i++)
        if (s->runs[i].state == BST_STUDY_FAILED)
            bst_sb_addf(out, "batch %" PRIu64 ", seed %" PRIu64 ": %s\n", s->runs[i].batch,
                        s->runs[i].seed, s->runs[i].why);
}

static void print_row_json(const struct bst_sweep_row *row, struct bst_json *j)
{
    int n;
    const struct field *f = fields_of(&n);
    bst_json_open(j, NULL, '{');
    for (int i = 0; i < n; i++)
        bst_json_num(j, f[i].name, f[i].get(row));
    bst_json_bool(j, "choice", row->choice);
    bst_json_bool(j, "most_accurate", row->accurate);
    bst_json_bool(j, "fastest", row->fastest);
    bst_json_bool(j, "as_fast", row->as_fast);
    bst_json_bool(j, "largest_that_fits", row->largest);
    bst_json_close(j, '}');
}

void bst_sweep_print_json(const struct bst_study *s, struct bst_sb *out)
{
    struct bst_json j;
    bst_json_init(&j, out);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "dir", s->plan.dir);
    bst_json_int(&j, "runs", s->n_runs);
    bst_json_int(&j, "done", s->n_done);
    bst_json_int(&j, "failed", s->n_failed);
    bst_json_num(&j, "target_percent", 100 * s->sweep.target_used);
    bst_json_num(&j, "delta_points", 100 * s->sweep.delta_used);
    bst_json_open(&j, "rows", '[');
    for (int i = 0; i < s->sweep.n_rows; i++)
        print_row_json(&s->sweep.rows[i], &j);
    bst_json_close(&j, ']');
    bst_json_close(&j, '}');
    bst_sb_addc(out, '\n');
}

void bst_sweep_print_csv(const struct bst_study *s, struct bst_sb *out)
{
    int n;
    const struct field *f = fields_of(&n);
    for (int i = 0; i < n; i++)
        bst_sb_addf(out, "%s%s", i ? "," : "", f[i].name);
    bst_sb_add(out, "\r\n");
    for (int r = 0; r < s->sweep.n_rows; r++) {
        for (int i = 0; i < n; i++) {
            char text[32] = "";
            double x = f[i].get(&s->sweep.rows[r]);
            if (isfinite(x))
                bst_num_text(x, text);
            bst_sb_addf(out, "%s%s", i ? "," : "", text);
        }
        bst_sb_add(out, "\r\n");
    }
}
