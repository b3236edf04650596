#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/armed.h"
#include "core/tune/diagnostics.h"
#include "core/tune/plan_changes.h"
#include "tui/format.h"
#include "tui/keys.h"
#include "tui/render.h"
#include "tui/trial.h"

enum { ARMED_ROOM = 1400, ARMED_KEYS = 160 };

static void add_change(struct bst_sb *out, const struct bst_reply_change *c)
{
    double before, after;
    char was[BST_BRIEF], is[BST_BRIEF];
    bst_change_brief(c->old_value, c->new_value, was, is);
    bst_sb_addf(out, "%s%s %s → %s", out->len ? "  " : "", tui_short_name(c->key), was, is);
    if (!strcmp(c->key, "global_batch_size") && tui_batch_of(c->old_value, &before) &&
        tui_batch_of(c->new_value, &after) && before > 0)
        bst_sb_addf(out, " (%+.0f %%)", (after / before - 1) * 100);
}

/* The header shows the rate of an update, so what a change makes of the next one's is said beside
 * the peak. */
static void add_rate(struct bst_sb *out, const struct bst_reply *r)
{
    char was[TUI_NUM], is[TUI_NUM];
    tui_metric(r->rate_before, 3, was);
    tui_metric(r->rate_after, 3, is);
    if (r->rate_before.valid && r->rate_after.valid && strcmp(was, is))
        bst_sb_addf(out, "  rate %s → %s", was, is);
}

/* What should be known before the change is applied. */
static void add_notes(struct bst_sb *out, const struct bst_reply *r)
{
    for (int i = 0; i < r->n_notes; i++) {
        char brief[BST_DIAG_BRIEF];
        bst_diag_brief((enum bst_diag)r->notes[i], brief);
        bst_sb_addf(out, "  %s", brief);
    }
}

/* Of the trainer's own words what is neither the values, which stand here already, nor a note: that
 * a rewind drops updates, or that 20 was perhaps meant as 20 %. */
static void add_remarks(struct bst_sb *out, const struct bst_reply *r)
{
    for (const char *part = r->n_changes ? r->text : ""; *part;) {
        const char *end = strstr(part, "; ");
        size_t n = end ? (size_t)(end - part) : strlen(part);
        const char *arrow = strstr(part, " → ");
        bool values = arrow && arrow < part + n;
        if (!values && !bst_diag_number(part))
            bst_sb_addf(out, "  %.*s", (int)n, part);
        part += n + (end ? 2 : 0);
    }
}

static void add_waiting(struct bst_sb *out, const struct tui_armed *a)
{
    char text[TUI_TEXT];
    tui_armed_waiting(a, text, sizeof text);
    if (text[0])
        bst_sb_addf(out, "  then %s", text);
}

static void add_proposal(const struct tui_model *m, struct bst_sb *out)
{
    const struct tui_armed *a = &m->armed;
    const struct bst_reply *r = &a->reply;
    const char *gap = out->len ? "  " : "";
    char memory[2 * TUI_NUM];
    int n = tui_change_count(r);
    if (n > 3)
        bst_sb_addf(out, "%s%s: %d changes", gap, a->wish.text, r->n_changes);
    if (n > 3 && r->n_kept)
        bst_sb_addf(out, ", %d kept", r->n_kept);
    for (int i = 0; i < r->n_changes && n <= 3; i++)
        if (!tui_change_is_detail(r, i))
            add_change(out, &r->changes[i]);
    add_rate(out, r);
    if (!r->n_changes)
        bst_sb_addf(out, "%s%s: %s", gap, a->wish.text, r->text[0] ? r->text : "changes nothing");
    add_notes(out, r);
    add_remarks(out, r);
    add_waiting(out, a);
    /* Last, as what may be cut. */
    if (r->memory_planned.valid) {
        tui_of_bytes(r->memory_planned, r->memory_limit, memory);
        bst_sb_addf(out, "  memory %s", memory);
    }
}

static void armed_text(const struct tui_model *m, struct bst_sb *out)
{
    const struct tui_armed *a = &m->armed;
    char text[TUI_TEXT], flight[120];
    bool waits = m->has_status && tui_in_flight(&m->status, flight, sizeof flight);
    /* What a key has just been answered comes first. */
    bool said = m->message[0] && m->message_own;
    if (said)
        bst_sb_add(out, m->message);
    if (a->state == TUI_ARMED_ASKING) {
        bst_sb_addf(out, "%s%s …%s%s", said ? "  " : "", a->wish.text, waits ? "  queued; " : "",
                    waits ? flight : "");
    } else if (a->state == TUI_ARMED_REFUSED) {
        tui_refusal(&a->reply, text);
        bst_sb_addf(out, "%s%s", said ? "  " : "", text);
    } else if (a->state == TUI_ARMED_PROPOSED || !said) {
        add_proposal(m, out);
        if (a->state == TUI_ARMED_APPLYING && waits)
            bst_sb_addf(out, "  queued; %s", flight);
        return;
    }
    add_waiting(out, a);
}

/* "T try  ", or why not: "T: 30 updates left, …  " */
static void try_key(const struct tui_model *m, char *out, size_t room)
{
    char key[16], why[64];
    tui_key_first(TUI_REQ_TRY, key, sizeof key);
    int n = tui_trial_updates(m, why, sizeof why);
    out[0] = '\0';
    if (key[0] && n)
        snprintf(out, room, "%s try  ", key);
    else if (key[0] && why[0])
        snprintf(out, room, "%s: %s  ", key, why);
}

static void armed_keys(const struct tui_model *m, char *out, size_t room)
{
    const struct tui_armed *a = &m->armed;
    const char *last = a->n_next ? " the last" : "";
    char apply[16], try[96], drop[16];
    tui_key_first(TUI_REQ_APPLY, apply, sizeof apply);
    tui_key_first(TUI_REQ_DROP, drop, sizeof drop);
    switch (a->state) {
    case TUI_ARMED_PROPOSED:
        try_key(m, try, sizeof try);
        snprintf(out, room, "%s %s  %s%s drop%s", apply, a->early ? "again applies" : "apply", try,
                 drop, last);
        break;
    case TUI_ARMED_APPLYING:
        snprintf(out, room, "applying …");
        break;
    case TUI_ARMED_REFUSED:
        snprintf(out, room, "%s", drop);
        break;
    default:
        snprintf(out, room, "%s%s drop%s", a->early ? "not worked out yet  " : "", drop, last);
    }
}

/* Rows that text and keys take together; the keys stand at the right of the last. */
static int rows_of(const struct tui_frame *f, int w, const char *text, const char *keys)
{
    int last, rows = tui_rows(f, w, text, &last);
    return rows + (last + 2 + tui_columns(f, keys) > w);
}

/* The seconds left are said where they do not move anything. */
static void add_seconds(const struct tui_model *m, int free, char *keys, size_t room)
{
    double left = tui_armed_left(m);
    size_t used = strlen(keys);
    if (left > 0 && left <= 5.5 && free >= 7)
        snprintf(keys + used, room - used, "  %.0f s", ceil(left));
}

/* Beside a text of which something is left. */
static bool has_room(struct tui_area a, const char *keys)
{
    return a.h > 1 || a.w - tui_columns(a.f, keys) - 2 >= a.w / 3;
}

/* On the one row of a tiny screen: what they do is known by whoever chose it. */
static void only_keys(char *out, size_t room)
{
    char apply[16], drop[16];
    tui_key_first(TUI_REQ_APPLY, apply, sizeof apply);
    tui_key_first(TUI_REQ_DROP, drop, sizeof drop);
    snprintf(out, room, "%s %s", apply, drop);
}

static bool is_drawn_on(struct tui_area a)
{
    const struct tui_cell *row = &a.f->cells[a.y * a.f->w + a.x];
    for (int x = 0; x < a.w; x++)
        if (row[x].ch != L' ')
            return true;
    return false;
}

void tui_armed_draw(const struct tui_model *m, struct tui_area a)
{
    struct bst_sb text;
    char keys[ARMED_KEYS];
    enum tui_style style = m->armed.state == TUI_ARMED_REFUSED ? TUI_BAD : TUI_ARMED;
    bst_sb_init(&text, ARMED_ROOM);
    armed_text(m, &text);
    armed_keys(m, keys, sizeof keys);
    if (!has_room(a, keys) && m->armed.state == TUI_ARMED_PROPOSED)
        only_keys(keys, sizeof keys);
    int n_keys = tui_columns(a.f, keys);
    add_seconds(m, a.h > 1 ? a.w - n_keys : a.w - tui_columns(a.f, text.data) - n_keys, keys,
                sizeof keys);
    n_keys = tui_columns(a.f, keys);
    tui_area_fill(a, style == TUI_ARMED ? TUI_ARMED : TUI_NORMAL);
    tui_put_wrapped(a, 0, style, text.data);
    /* The keys stand whatever the text is; on the last row it gives way to them. */
    if (has_room(a, keys)) {
        struct tui_area under = tui_area_sub(a, a.w - n_keys - 2, a.h - 1, n_keys + 2, 1);
        bool covers = is_drawn_on(under);
        tui_area_fill(under, style == TUI_ARMED ? TUI_ARMED : TUI_NORMAL);
        if (covers)
            tui_cell_put(under, 0, 0, style, L'…');
        tui_put_right(a, a.w, a.h - 1, style, keys);
    }
    bst_sb_fini(&text);
}

int tui_footer_rows(const struct tui_model *m, const struct tui_frame *f)
{
    struct bst_sb text;
    char keys[ARMED_KEYS];
    if (m->armed.state == TUI_ARMED_NONE || m->prompt.mark)
        return 1;
    bst_sb_init(&text, ARMED_ROOM);
    armed_text(m, &text);
    armed_keys(m, keys, sizeof keys);
    int rows = rows_of(f, f->w >= 40 ? f->w - 2 : f->w, text.data, keys);
    bst_sb_fini(&text);
    return rows;
}
