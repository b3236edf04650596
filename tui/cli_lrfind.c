#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/json.h"
#include "core/report/lr_plot.h"
#include "core/run/find_start.h"
#include "tui/chart.h"
#include "tui/cli_client.h"
#include "tui/cli_run.h"

enum { CHART_ROWS = 16, CHART_LEAST = 39, CHART_MOST = 120, FILE_CAP = 8 << 20 };

static void progress(void *arg, const char *text)
{
    const struct tui_call *c = arg;
    /* In a file or a pipe every point is a line, so that none is lost with this process. */
    fprintf(c->err, isatty(STDERR_FILENO) ? "\r%-78s" : "%s\n", text);
    fflush(c->err);
}

struct curve { /* what the chart draws from */
    const struct bst_lr_result *r;
    double smooth[BST_LR_RANGE_MOST];
    int n;
};

static double log_rate(const struct bst_lr_result *r, int i)
{
    return log10(bst_lr_range_rate(&r->range, i));
}

static void smooth_at(void *arg, int i, double *x, double *y)
{
    const struct curve *k = arg;
    *x = log_rate(k->r, i);
    *y = k->smooth[i];
}

static void loss_at(void *arg, int i, double *x, double *y)
{
    const struct curve *k = arg;
    *x = log_rate(k->r, i);
    *y = k->r->curves[0].loss[i];
}

static void add_mark(struct tui_chart *chart, double rate, wchar_t mark)
{
    if (rate > 0)
        chart->upright[chart->n_uprights++] =
            (struct tui_chart_line){.at = log10(rate), .style = TUI_KEY, .mark = mark, .every = 1};
}

/* The range of the fall: what blows up at the end would press it flat. */
static void choose_range(const struct curve *k, struct tui_chart *chart)
{
    chart->y0 = chart->y1 = k->smooth[0];
    for (int i = 1; i < k->n; i++) {
        chart->y0 = fmin(chart->y0, k->smooth[i]);
        chart->y1 = fmax(chart->y1, fmin(k->smooth[i], 1.3 * k->smooth[0]));
    }
    if (!(chart->y1 > chart->y0))
        chart->y0 = chart->y1 = 0;
}

static void print_chart(const struct tui_call *c, const struct bst_lr_result *r)
{
    struct curve *k = bst_xalloc(sizeof *k);
    struct tui_frame f;
    struct bst_sb sb;
    setlocale(LC_CTYPE, "");
    bool ascii = tui_given(c, TUI_OPTION_ASCII) || strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
    k->r = r;
    /* One that was cut has passes of several lengths; the first is the longest. */
    k->n = bst_lr_range_smooth(&r->range, r->curves, r->cut ? 1 : r->repeats, k->smooth);
    struct tui_chart chart = {
        .series =
            {{.at = loss_at, .arg = k, .n = k->n, .style = TUI_DIM, .mark = ascii ? L'.' : L'·'},
             {.at = smooth_at, .arg = k, .n = k->n, .style = TUI_NORMAL, .every = 1}},
        .n_series = 2,
        .x0 = log10(r->range.start),
        .x1 = log10(r->range.end),
        .x_name = "log10 rate",
        .empty = "no loss was finite",
    };
    add_mark(&chart, r->s.steepest, ascii ? L'|' : L'│');
    add_mark(&chart, r->s.valley, ascii ? L':' : L'┊');
    int columns = tui_output_columns(c->out) - 1;
    columns = columns < CHART_LEAST ? CHART_LEAST : columns > CHART_MOST ? CHART_MOST : columns;
    tui_frame_init(&f, columns, CHART_ROWS);
    f.ascii = ascii;
    f.symbols = ascii ? TUI_DOTS_ASCII : TUI_DOTS_BRAILLE;
    if (k->n)
        choose_range(k, &chart);
    tui_chart_draw(&chart, tui_area_all(&f));
    bst_sb_init(&sb, 1 << 20);
    tui_frame_text(&f, &sb);
    fputs(sb.data, c->out);
    bst_sb_fini(&sb);
    tui_frame_fini(&f);
    bst_free(k);
}

/* The key of the preset that means this rate at this batch. */
static void print_key(const struct tui_call *c, const struct bst_preset *p, double rate)
{
    uint64_t base = p->lr_scaling == BST_LR_RULE_SQRT_ACCUMULATE
                        ? (uint64_t)bst_preset_accumulate_base(p)
                        : (uint64_t)p->lr_base_batch_size;
    double factor =
        bst_lr_rule_factor((enum bst_lr_rule)p->lr_scaling, (uint64_t)p->global_batch_size, base);
    char text[32];
    bst_num_brief(rate / factor, 3, text);
    fprintf(c->out, "in a preset    learning_rate: %s  (lr_scaling %s from batch %" PRIu64 ")\n",
            text, bst_lr_rule_name((enum bst_lr_rule)p->lr_scaling), base);
}

static void print_result(const struct tui_call *c, const struct bst_preset *p,
                         const struct bst_lr_result *r)
{
    const struct bst_lr_suggestion *s = &r->s;
    print_chart(c, r);
    fprintf(c->out, "%d updates of batch %" PRId64 ", rates %.3g to %.3g\n", r->updates, r->batch,
            r->range.start, bst_lr_range_rate(&r->range, r->curves[0].n ? r->curves[0].n - 1 : 0));
    if (r->cut) {
        fprintf(c->out,
                "cut            interrupted: these are the updates until then, and no rate is "
                "suggested\n");
        return;
    }
    if (s->doubt != BST_LR_NO_FALL) {
        fprintf(c->out, "steepest fall  %.3g\nvalley         %.3g\n", s->steepest, s->valley);
        if (r->repeats > 1)
            fprintf(c->out, "repeats        %.3g to %.3g, %.2g times apart\n", s->lowest,
                    s->highest, s->highest / s->lowest);
    }
    if (s->doubt)
        fprintf(c->out, "unclear        %s\n", bst_lr_doubt_text(s->doubt));
    else
        print_key(c, p, s->steepest);
}

static enum bst_err write_jsonl(const struct bst_lr_result *r, const char *path)
{
    struct bst_sb sb;
    bst_sb_init(&sb, FILE_CAP);
    bst_lr_print(r, &sb);
    enum bst_err err = bst_io_replace_file(path, sb.data, sb.len);
    bst_sb_fini(&sb);
    return err;
}

static enum bst_err write_plot(const struct bst_preset *p, const struct bst_lr_result *r,
                               const char *path)
{
    char title[200];
    snprintf(title, sizeof title, "LR range test: %s, batch %" PRId64, p->name[0] ? p->name : p->id,
             r->batch);
    struct bst_plot *plot = bst_lr_plot(r, title);
    enum bst_err err = bst_plot_write(plot, path);
    bst_plot_free(plot);
    return err;
}

static int write_files(const struct tui_call *c, const struct bst_preset *p,
                       const struct bst_lr_result *r)
{
    const char *plot = tui_value(c, TUI_OPTION_PLOT), *jsonl = tui_value(c, TUI_OPTION_JSONL);
    if (plot && !r->cut && write_plot(p, r, plot))
        return tui_fail(c, TUI_EXIT_FAILED);
    if (jsonl && write_jsonl(r, jsonl))
        return tui_fail(c, TUI_EXIT_FAILED);
    return TUI_EXIT_DONE;
}

/* The rate is one for the batch of the test; the run has its own, and a rule for that. */
static int apply(const struct tui_call *c, const struct bst_lr_result *r, const char *run)
{
    struct bst_run_info info;
    struct bst_status *s = bst_xalloc(sizeof *s);
    char dir[512], text[64], rate[32];
    int rule = 0;
    enum bst_err err = bst_run_find(BST_RUNS_ROOT, run, BST_RUN_CHANGE, dir);
    if (!err)
        err = tui_read_status(dir, &info, s);
    while (rule < BST_N_LR_RULES && strcmp(s->lr_scaling, bst_lr_rule_name((enum bst_lr_rule)rule)))
        rule++;
    double factor = 1;
    if (!err && rule < BST_N_LR_RULES && s->global_batch > 0)
        factor = bst_lr_rule_factor((enum bst_lr_rule)rule, (uint64_t)s->global_batch,
                                    (uint64_t)r->batch);
    bst_free(s);
    if (err)
        return tui_fail(c, tui_code_of(err));
    bst_num_brief(r->s.steepest * factor, 3, rate);
    snprintf(text, sizeof text, "lr =%s", rate);
    return tui_give_command(c, dir, text);
}

static int report(const struct tui_call *c, const struct bst_preset *p,
                  const struct bst_lr_result *r)
{
    const char *run = tui_value(c, TUI_OPTION_APPLY);
    struct bst_sb sb;
    if (tui_given(c, TUI_OPTION_JSON)) {
        bst_sb_init(&sb, FILE_CAP);
        bst_lr_print(r, &sb);
        fputs(sb.data, c->out);
        bst_sb_fini(&sb);
    } else {
        print_result(c, p, r);
    }
    int code = write_files(c, p, r);
    if (r->cut) {
        fprintf(c->err, "bstune lrfind: stopped before its end%s\n",
                run ? ", so nothing was proposed" : "");
        return TUI_EXIT_FAILED;
    }
    if (code || !run)
        return code;
    if (!r->s.doubt)
        return apply(c, r, run);
    tui_print(c->err, "bstune lrfind: unclear, so nothing was proposed to %s\n", run);
    return TUI_EXIT_FAILED;
}

static int search(const struct tui_call *c, const struct bst_preset *p,
                  const struct bst_lr_cfg *cfg)
{
    struct bst_find_rig rig;
    struct bst_lr_result *r = bst_xalloc(sizeof *r);
    bool tty = isatty(STDERR_FILENO);
    enum bst_err err = bst_find_rig_open(p, c->nets, true, &rig);
    bool unusable = bst_start_is_usage(err);
    if (!err) {
        rig.find.progress = progress;
        rig.find.arg = (void *)c;
        err = bst_find_lr(&rig.find, cfg, r);
        if (tty)
            fprintf(c->err, "\r%78s\r", "");
    }
    if (r->cut && r->updates)
        err = BST_OK;
    int code = err ? tui_fail(c, unusable ? TUI_EXIT_USAGE : TUI_EXIT_FAILED) : report(c, p, r);
    bst_find_rig_close(&rig);
    bst_free(r);
    return code;
}

/* BST_E_ARG names the option that is no number. */
static enum bst_err read_cfg(const struct tui_call *c, struct bst_lr_cfg *cfg)
{
    static const enum tui_option rates[] = {TUI_OPTION_START, TUI_OPTION_END};
    static const enum tui_option counts[] = {TUI_OPTION_UPDATES, TUI_OPTION_REPEATS};
    double *rate[] = {&cfg->range.start, &cfg->range.end};
    int *count[] = {&cfg->range.updates, &cfg->repeats};
    for (int i = 0; i < 2; i++) {
        const char *text = tui_value(c, rates[i]), *whole = tui_value(c, counts[i]);
        int64_t n;
        if (text && !bst_num_parse(text, rate[i]))
            return bst_fail(BST_E_ARG, "--%s is a rate, not %.40s", tui_option_at(rates[i])->name,
                            text);
        if (whole && (!bst_int_parse(whole, &n) || n < 0 || n > 1 << 20))
            return bst_fail(BST_E_ARG, "--%s is a whole number, not %.40s",
                            tui_option_at(counts[i])->name, whole);
        if (whole)
            *count[i] = (int)n;
    }
    return bst_lr_cfg_check(cfg);
}

static bool is_plot(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && (!strcmp(path + n - 4, ".svg") || !strcmp(path + n - 4, ".png"));
}

/* Before a test that takes minutes: where its result is to go. The run may end meanwhile all the
 * same. */
static int check_targets(const struct tui_call *c)
{
    static const enum tui_option files[] = {TUI_OPTION_PLOT, TUI_OPTION_JSONL};
    const char *run = tui_value(c, TUI_OPTION_APPLY);
    struct bst_run_info info;
    char dir[512];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = tui_value(c, files[i]);
        int code = tui_check_new(c, files[i]);
        if (code)
            return code;
        if (path && bst_io_may_replace(path))
            return tui_fail(c, TUI_EXIT_FAILED);
    }
    if (!run)
        return TUI_EXIT_DONE;
    enum bst_err err = bst_run_find(BST_RUNS_ROOT, run, BST_RUN_CHANGE, dir);
    if (!err)
        err = bst_run_info_read(dir, &info);
    if (!err && !info.live)
        err =
            bst_fail(BST_E_NOTFOUND, "--apply %s: that run has ended (%s)", info.name, info.state);
    return err ? tui_fail(c, tui_code_of(err)) : TUI_EXIT_DONE;
}

int tui_verb_lrfind(const struct tui_call *c)
{
    struct bst_lr_cfg cfg = {.range = BST_LR_RANGE_USUAL, .repeats = 1};
    const char *plot = tui_value(c, TUI_OPTION_PLOT);
    if (read_cfg(c, &cfg))
        return tui_usage(c, "%s", bst_err_text());
    if (plot && !is_plot(plot))
        return tui_usage(c, "--plot: %s is neither a .svg nor a .png", plot);
    struct tui_run *r = bst_xalloc(sizeof *r);
    int code = tui_run_preset(c, r, NULL);
    if (!code)
        code = check_targets(c);
    if (!code)
        code = search(c, &r->preset, &cfg);
    bst_preset_env_free(r->env);
    bst_free(r);
    return code;
}
