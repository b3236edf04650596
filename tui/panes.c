#include "tui/pane.h"

#include <math.h>
#include <string.h>

#include "core/base/json.h"
#include "tui/series.h"

const struct tui_pane *const tui_panes[TUI_N_PANES] = {
    [TUI_PANE_DEVICES] = &tui_pane_devices,   [TUI_PANE_THROUGHPUT] = &tui_pane_throughput,
    [TUI_PANE_LOSS] = &tui_pane_loss,         [TUI_PANE_GRADIENT] = &tui_pane_gradient,
    [TUI_PANE_SCHEDULE] = &tui_pane_schedule, [TUI_PANE_EVENTS] = &tui_pane_events,
    [TUI_PANE_NOISE] = &tui_pane_noise,
};

int tui_title_item(struct tui_area a, int x, enum tui_style style, const char *label,
                   const char *value)
{
    int n = tui_columns(a.f, label) + tui_columns(a.f, value) + (*label && *value);
    /* A number cut in half would be read as another one. */
    if (x + n > a.w)
        return x;
    x += tui_put(a, x, 0, TUI_DIM, label) + (*label && *value);
    x += tui_put(a, x, 0, style, value);
    return x + 2;
}

int tui_fact(struct tui_area a, int x, int y, const char *label, const char *value)
{
    int n = tui_columns(a.f, label) + 1 + tui_columns(a.f, value);
    if (x && x + n > a.w)
        return x;
    x += tui_put(a, x, y, TUI_DIM, label) + 1;
    return x + tui_put(a, x, y, TUI_NORMAL, value) + 2;
}

void tui_bar(struct tui_area a, int x, int y, int w, double used, double planned,
             enum tui_style style)
{
    int n_used = used > 0 ? (int)lround(fmin(used, 1) * w) : 0;
    int n_planned = planned > 0 ? (int)lround(fmin(planned, 1) * w) : 0;
    /* Something is never shown as nothing. */
    if (used > 0 && !n_used)
        n_used = 1;
    for (int i = 0; i < w; i++) {
        if (i < n_used)
            tui_cell_put(a, x + i, y, style, L'█');
        else if (i < n_planned)
            tui_cell_put(a, x + i, y, TUI_BAR_PLANNED, L'▒');
        else
            tui_cell_put(a, x + i, y, TUI_DIM, isnan(used) && isnan(planned) ? L' ' : L'░');
    }
}

bool tui_filter_hits(const struct tui_model *m, const char *text)
{
    return !m->view.filter[0] || strcasestr(text, m->view.filter);
}

bool tui_event_hits(const struct tui_model *m, const struct bst_history_event *e)
{
    return tui_filter_hits(m, e->text) || (e->code[0] && tui_filter_hits(m, e->code));
}

void tui_csv_number(struct bst_sb *out, double v)
{
    char text[32];
    bst_sb_addc(out, ',');
    /* An empty field is what tables read as missing. */
    if (!isfinite(v))
        return;
    bst_num_text(v, text);
    bst_sb_add(out, text);
}

void tui_csv_window(const struct tui_model *m, struct bst_sb *out)
{
    struct tui_window w;
    tui_window_make(m, &w);
    bst_sb_add(out, "update,samples,epoch,seconds,loss,learning_rate,grad_norm,samples_per_sec,"
                    "global_batch_size,micro_batch_size,gradient_accumulation_steps,eval_loss,"
                    "eval_accuracy_top1\n");
    int e = w.first_eval;
    for (int i = w.first; i < w.first + w.n; i++) {
        const struct bst_history_update *u = &m->history->updates[i];
        bst_sb_addf(out, "%llu", (unsigned long long)u->update);
        const double columns[] = {
            u->samples,       u->epoch,       u->seconds,         u->loss,
            u->learning_rate, u->grad_norm,   u->samples_per_sec, (double)u->global_batch,
            u->micro_batch,   u->accumulation};
        for (size_t k = 0; k < sizeof columns / sizeof columns[0]; k++)
            tui_csv_number(out, columns[k]);
        bool here = e < m->n_evals && m->history->evals[e].samples <= u->samples;
        tui_csv_number(out, here ? m->history->evals[e].loss : NAN);
        tui_csv_number(out, here ? m->history->evals[e].accuracy : NAN);
        e += here;
        bst_sb_addc(out, '\n');
    }
}
