#include <inttypes.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/run/find_start.h"
#include "tui/cli_run.h"

enum { UPDATE_AT = 10 };

static void progress(void *arg, const char *text)
{
    const struct tui_call *c = arg;
    fprintf(c->err, "%s\n", text);
    fflush(c->err);
}

static const char *mark_of(const struct bst_fit_result *r, int i)
{
    if (i == r->fastest && i == r->knee)
        return "  fastest, knee";
    return i == r->fastest ? "  fastest" : i == r->knee ? "  knee" : "";
}

static void print_rows(const struct tui_call *c, const struct bst_fit_result *r)
{
    fprintf(c->out, "%12s  %12s  %14s\n", "micro-batch", "samples/s", "planned");
    for (int i = 0; i < r->n_rows; i++) {
        const struct bst_fit_row *row = &r->rows[i];
        char rate[32] = "", bytes[32] = "";
        if (row->rate > 0)
            bst_text_rate(row->rate, rate);
        if (row->planned)
            bst_text_bytes(row->planned, bytes);
        fprintf(c->out, "%12" PRId64 "  %12s  %14s%s\n", row->micro,
                row->rate > 0 ? rate : bst_fit_outcome_name(row->outcome), bytes, mark_of(r, i));
    }
}

/* What a whole update of the preset's batch would take, by the micro-batch that was timed. */
static void print_update(const struct tui_call *c, const struct bst_fit_result *r)
{
    char all[32], bytes[32], text[200];
    if (!(r->update_seconds > 0))
        return;
    for (int i = 0; i < r->n_rows; i++) {
        const struct bst_fit_row *row = &r->rows[i];
        if (row->micro != r->largest)
            continue;
        bst_clock_span_fine(r->update_seconds, all, sizeof all);
        bst_text_bytes(row->planned, bytes);
        snprintf(text, sizeof text,
                 "about %s: %" PRIu64 " micro-batches a device (%.3g s for %" PRId64
                 ", measured), %.2g s for the rest; %s a device",
                 all, r->split.accumulate, row->micro_seconds, row->micro, row->rest_seconds,
                 bytes);
        tui_print_text(c->out, text, UPDATE_AT, fprintf(c->out, "%-*s", UPDATE_AT, "update"));
    }
}

/* What the rows above it show: on a machine that does something else as well one may be slow. */
static void print_knee(const struct tui_call *c, const struct bst_fit_result *r)
{
    bool larger = false;
    if (r->knee < 0)
        return;
    for (int i = r->knee + 1; i < r->n_rows; i++)
        larger = larger || r->rows[i].rate > 0;
    fprintf(c->out, "knee      %" PRId64 ": %s\n", r->rows[r->knee].micro,
            larger       ? "no larger size gives 5 % more samples/s a doubling"
            : r->dip < 0 ? "every doubling up to it gave 5 % more or better"
                         : "the largest that was measured");
    if (r->dip >= 0)
        fprintf(c->out,
                "          %" PRId64 " after %" PRId64
                " gave less, a larger one made up for it: a slow size, or the machine was busy\n",
                r->rows[r->dip_next].micro, r->rows[r->dip].micro);
}

/* The search was ended from outside. */
static void print_cut(const struct tui_call *c, const struct bst_fit_result *r)
{
    print_rows(c, r);
    if (r->largest)
        fprintf(c->out, "largest   %" PRId64 "\n", r->largest);
    fprintf(c->out,
            "cut       interrupted after %d updates: these are the sizes tried until then%s\n",
            r->updates, r->largest ? "" : ", and the largest is not known");
}

static void print_result(const struct tui_call *c, const struct bst_fit_result *r)
{
    char limit[32];
    bst_text_bytes(r->limit, limit);
    print_rows(c, r);
    if (!r->largest) {
        fprintf(c->out, "nothing fits: a micro-batch of 1 does not run within %s a device\n",
                limit);
        return;
    }
    if (r->largest == r->most)
        fprintf(c->out, "largest   %" PRId64 ", the most asked about; --max raises it\n",
                r->largest);
    else
        fprintf(c->out, "largest   %" PRId64 ": it ran, %" PRId64 " did not, within %s a device\n",
                r->largest, r->largest + 1, limit);
    if (r->uneven)
        fprintf(c->out,
                "uneven    %" PRId64 " to %" PRId64
                " failed although larger ones ran: memory here is not monotone in the batch\n",
                r->hole_least, r->hole_greatest);
    if (r->fastest >= 0) {
        char rate[32];
        bst_text_rate(r->rows[r->fastest].rate, rate);
        fprintf(c->out, "fastest   %" PRId64 ": %s samples/s\n", r->rows[r->fastest].micro, rate);
    }
    print_knee(c, r);
    if (r->split.batch)
        fprintf(c->out,
                "split     batch %" PRIu64 " = %" PRIu64 " per device x %" PRIu64
                " accumulated x %" PRIu64 " devices\n",
                r->split.batch, r->split.micro, r->split.accumulate, r->split.ranks);
    print_update(c, r);
}

static int report(const struct tui_call *c, const struct bst_fit_result *r)
{
    struct bst_sb sb;
    if (!tui_given(c, TUI_OPTION_JSON)) {
        (r->cut ? print_cut : print_result)(c, r);
    } else {
        bst_sb_init(&sb, 1 << 16);
        bst_fit_print(r, &sb);
        fprintf(c->out, "%s\n", sb.data);
        bst_sb_fini(&sb);
    }
    if (r->cut)
        fprintf(c->err, "bstune fit: stopped before its end\n");
    return r->largest && !r->cut ? TUI_EXIT_DONE : TUI_EXIT_FAILED;
}

static int search(const struct tui_call *c, const struct bst_preset *p, int64_t most)
{
    struct bst_find_rig rig;
    struct bst_fit_result *r = bst_xalloc(sizeof *r);
    enum bst_err err = bst_find_rig_open(p, c->nets, false, &rig);
    bool unusable = bst_start_is_usage(err);
    if (!err) {
        struct bst_fit_cfg cfg = {.most = most, .global_batch = (int64_t)rig.live.batch};
        rig.find.progress = progress;
        rig.find.arg = (void *)c;
        err = bst_find_fit(&rig.find, &cfg, r);
    }
    if (r->cut && r->n_rows)
        err = BST_OK;
    int code = err ? tui_fail(c, unusable ? TUI_EXIT_USAGE : TUI_EXIT_FAILED) : report(c, r);
    bst_find_rig_close(&rig);
    bst_free(r);
    return code;
}

int tui_verb_fit(const struct tui_call *c)
{
    const char *text = tui_value(c, TUI_OPTION_MAX);
    int64_t most = 0;
    if (text && (!bst_int_parse(text, &most) || most < 1 || most > 1 << 20))
        return tui_usage(c, "--max is a whole number from 1 to %d, not %s", 1 << 20, text);
    struct tui_run *r = bst_xalloc(sizeof *r);
    int code = tui_run_preset(c, r, NULL);
    if (!code)
        code = search(c, &r->preset, most);
    bst_preset_env_free(r->env);
    bst_free(r);
    return code;
}
