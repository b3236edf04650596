/* The rows of a sweep's view: a batch each, with the letter of its curve. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/report/sweep_table.h"
#include "tui/format.h"
#include "tui/study.h"

enum column { RUNS, ACCURACY, ERROR, SPEED, EPOCH, MEMORY, EFFICIENCY, TARGET, N_COLUMNS };

/* In the order in which they stand; where room is short, those of the greatest `rank` go first. */
static const struct {
    const char *title;
    int width, rank;
} columns[N_COLUMNS] = {
    [RUNS] = {"runs", 6, 1},      [ACCURACY] = {"acc %", 7, 0}, [ERROR] = {"±", 6, 2},
    [SPEED] = {"samp/s", 7, 4},   [EPOCH] = {"epoch", 7, 3},    [MEMORY] = {"memory", 9, 5},
    [EFFICIENCY] = {"eff", 5, 6}, [TARGET] = {"target", 8, 7},
};

enum { LEFT = 3, BATCH = 6, NOTE_LEAST = 18, MARK_ROOM = 8 };

/* Bit 1 << column. */
static unsigned choose(int width)
{
    unsigned shown = (1u << N_COLUMNS) - 1;
    for (int rank = N_COLUMNS - 1;; rank--) {
        int w = LEFT + BATCH + NOTE_LEAST, last = 0;
        for (int i = 0; i < N_COLUMNS; i++) {
            w += shown >> i & 1 ? columns[i].width : 0;
            last = columns[i].rank == rank ? i : last;
        }
        if (w <= width || rank < 2)
            return shown;
        shown &= ~(1u << last);
    }
}

void tui_study_hidden(int width, struct bst_sb *out)
{
    unsigned shown = choose(width);
    for (int i = 0; i < N_COLUMNS; i++)
        if (!(shown >> i & 1))
            bst_sb_addf(out, "%s%s", out->len ? ", " : "", columns[i].title);
}

static const struct bst_sweep_row *done_of(const struct tui_study *v, int row)
{
    const struct bst_sweep *w = &v->study->sweep;
    for (int i = 0; i < w->n_rows; i++)
        if (w->rows[i].batch == tui_study_run(v, row, 0)->batch)
            return &w->rows[i];
    return NULL;
}

static int count(const struct tui_study *v, int row, enum bst_study_state state)
{
    int n = 0;
    for (int i = 0; i < v->study->plan.repeats; i++)
        n += tui_study_run(v, row, i)->state == state;
    return n;
}

static void number(double x, int digits, char out[TUI_NUM])
{
    if (isfinite(x))
        snprintf(out, TUI_NUM, "%.*f", digits, x);
    else
        snprintf(out, TUI_NUM, "n/a");
}

static void cell_text(const struct bst_sweep_row *r, enum column c, char out[TUI_NUM])
{
    switch (c) {
    case ACCURACY:
        number(100 * r->accuracy, 2, out);
        break;
    case ERROR:
        number(100 * r->error, 2, out);
        break;
    case SPEED:
        tui_count(r->samples_per_sec, out);
        break;
    case EPOCH:
        bst_clock_span_fine(r->epoch_seconds, out, TUI_NUM);
        break;
    case MEMORY:
        tui_bytes((struct bst_metric){r->memory_planned, isfinite(r->memory_planned)}, out);
        break;
    case EFFICIENCY:
        number(r->efficiency, 2, out);
        break;
    case TARGET:
        bst_clock_span_fine(r->seconds_to_target, out, TUI_NUM);
        break;
    case RUNS:
    case N_COLUMNS:
        out[0] = '\0';
    }
}

/* Takes words off the end until the rest fits; false when one had to go. */
static bool drop_words(struct tui_area a, int room, char *text)
{
    char *end = text + strlen(text);
    bool whole = true;
    while (end > text && end[-1] == ' ')
        *--end = '\0';
    while (tui_columns(a.f, text) > room && (end = strrchr(text, ' ')) != NULL) {
        *end = '\0';
        whole = false;
    }
    return whole;
}

/* In full where there is room. */
static int put_marks(struct tui_area a, int x, int y, const struct bst_sweep_row *r)
{
    struct bst_sb text;
    bst_sb_init(&text, 256);
    bst_sweep_marks(r, &text);
    if (tui_columns(a.f, text.data) > a.w - x) {
        bst_sb_clear(&text);
        bst_sb_addf(&text, "%s%s%s%s", r->choice ? "choice " : "", r->accurate ? "accurate " : "",
                    r->fastest ? "fastest " : "", r->largest ? "largest" : "");
    }
    bool whole = drop_words(a, a.w - x, text.data);
    int n = tui_put_cut(a, x, y, a.w - x, r->choice ? TUI_GOOD : TUI_NORMAL, text.data);
    if (!whole && n + 2 <= a.w - x)
        tui_cell_put(a, x + n + 1, y, TUI_DIM, L'…');
    bst_sb_fini(&text);
    return x + n;
}

/* `reserve`: columns that what follows needs; how long it takes is left out for them. */
static int put_live(struct tui_area a, int x, int y, const struct bst_study_run *run, bool wide,
                    int reserve)
{
    char text[96], end[TUI_NUM] = "", left[TUI_NUM] = "";
    int n = tui_put(a, x, y, TUI_GOOD, "● ");
    if (isfinite(run->epochs))
        snprintf(end, sizeof end, "/%.4g", run->epochs);
    if (!isfinite(run->epoch))
        snprintf(text, sizeof text, "starting");
    else
        snprintf(text, sizeof text, "%s%.2f%s", wide ? "epoch " : "", run->epoch, end);
    n += tui_put_cut(a, x + n, y, a.w - x - n, TUI_GOOD, text);
    if (isfinite(run->left)) {
        bst_clock_span(run->left, left, sizeof left);
        snprintf(text, sizeof text, "  %s left", left);
        if (n + tui_columns(a.f, text) + reserve <= a.w - x)
            n += tui_put(a, x + n, y, TUI_NORMAL, text);
    }
    return x + n;
}

static const char *waiting(const struct tui_study *v, int row)
{
    for (int i = 0; i < v->study->plan.repeats; i++)
        if (tui_study_run(v, row, i)->state == BST_STUDY_FAILED)
            return tui_study_run(v, row, i)->why;
    return count(v, row, BST_STUDY_PARTLY) ? "begun" : "to do";
}

/* What trains now; then what a finished row is, or what an unfinished one waits for. */
static void put_note(const struct tui_study *v, int row, const struct bst_sweep_row *r,
                     struct tui_area a, int x, int y)
{
    const struct bst_study_run *live = tui_study_live(v, row);
    char text[80];
    if (live) {
        bool marked = r && (r->choice || r->accurate || r->fastest || r->largest);
        x = put_live(a, x, y, live, !r, marked ? MARK_ROOM : 0) + 2;
        snprintf(text, sizeof text, "seed %" PRIu64, live->seed);
        if (!r && v->study->plan.repeats > 1 && x + tui_columns(a.f, text) <= a.w)
            x += tui_put(a, x, y, TUI_DIM, text) + 2;
    }
    if (r && x + 4 < a.w) {
        x = put_marks(a, x, y, r) + 2;
        if (count(v, row, BST_STUDY_FAILED) && x + 6 <= a.w)
            tui_put(a, x, y, TUI_BAD, "failed");
    } else if (!live && !r) {
        tui_put_cut(a, x, y, a.w - x, count(v, row, BST_STUDY_FAILED) ? TUI_BAD : TUI_DIM,
                    waiting(v, row));
    }
}

static void put_row(const struct tui_study *v, int row, struct tui_area a, int y, unsigned shown)
{
    const struct bst_sweep_row *r = done_of(v, row);
    bool chosen = row == v->selected;
    enum tui_style style = chosen ? TUI_STRONG : TUI_NORMAL;
    char text[TUI_NUM];
    int x = LEFT + BATCH;
    if (chosen)
        tui_cell_put(a, 0, y, TUI_FOCUS, L'▸');
    tui_cell_put(a, 1, y, tui_study_style(row), tui_study_letter(row));
    snprintf(text, sizeof text, "%" PRIu64, tui_study_run(v, row, 0)->batch);
    tui_put_right(a, x, y, style, text);
    for (int i = 0; i < N_COLUMNS; i++) {
        /* The columns of a batch without a result are the note's. */
        if (!(shown >> i & 1) || (!r && i != RUNS))
            continue;
        if (x + columns[i].width > a.w) /* a number that is cut is another one */
            return;
        x += columns[i].width;
        if (i == RUNS)
            snprintf(text, sizeof text, "%d/%d", count(v, row, BST_STUDY_DONE),
                     v->study->plan.repeats);
        else
            cell_text(r, (enum column)i, text);
        tui_put_right(a, x, y, i == ERROR ? TUI_DIM : style, text);
    }
    put_note(v, row, r, a, x + 2, y);
}

/* The first that is shown of so many rows that fit. */
static int first_row(const struct tui_study *v, int rows)
{
    int n = v->study->plan.n_batches, at = v->selected;
    for (int i = 0; at < 0 && i < n; i++)
        if (tui_study_live(v, i))
            at = i;
    at = at - rows / 2;
    at = at > n - rows ? n - rows : at;
    return at < 0 ? 0 : at;
}

void tui_study_table_draw(const struct tui_study *v, struct tui_area a)
{
    unsigned shown = choose(a.w);
    int x = LEFT + BATCH, rows = a.h - 1, n = v->study->plan.n_batches;
    int first = first_row(v, rows);
    tui_put_right(a, x, 0, TUI_DIM, "batch");
    for (int i = 0; i < N_COLUMNS; i++) {
        if (!(shown >> i & 1) || x + columns[i].width > a.w)
            continue;
        x += columns[i].width;
        tui_put_right(a, x, 0, TUI_DIM, columns[i].title);
    }
    for (int i = 0; i < rows && first + i < n; i++)
        put_row(v, first + i, a, 1 + i, shown);
    /* That there is more is said at the edge. */
    if (first)
        tui_cell_put(a, 0, 1, TUI_DIM, L'↑');
    if (first + rows < n)
        tui_cell_put(a, 0, rows, TUI_DIM, L'↓');
}
