#include "tui/armed.h"

#include <stdio.h>
#include <stdlib.h>

#include "tui/format.h"

/* The command that n net presses stand for; the trainer works out and rounds what it comes to. */
static void write_command(struct tui_wish *w)
{
    int n = abs(w->presses);
    bool up = w->presses > 0;
    char power[16] = "";
    if (n > 1)
        snprintf(power, sizeof power, "^%d", n);
    switch (w->kind) {
    case TUI_ARMED_BATCH:
        snprintf(w->text, sizeof w->text, "batch %c20%%%s", up ? '+' : '-', power);
        break;
    case TUI_ARMED_WARMUP:
        snprintf(w->text, sizeof w->text, "warmup %c10%%%s", up ? '+' : '-', power);
        break;
    case TUI_ARMED_LR:
        snprintf(w->text, sizeof w->text, "lr %c1.1%s", up ? '*' : '/', power);
        break;
    case TUI_ARMED_TEXT:
        break;
    }
}

/* Another key starts afresh: one change, one thing. */
static void add_press(struct tui_wish *w, enum tui_armed_kind kind, int direction)
{
    if (w->kind != kind)
        *w = (struct tui_wish){.kind = kind};
    w->presses += direction;
    write_command(w);
}

static void set_text(struct tui_wish *w, const char *text)
{
    *w = (struct tui_wish){.kind = TUI_ARMED_TEXT, .presses = 1};
    snprintf(w->text, sizeof w->text, "%s", text);
}

static void ask(struct tui_model *m, struct tui_link *link)
{
    struct tui_armed *a = &m->armed;
    bool was = a->state != TUI_ARMED_NONE;
    a->id = link->ops->command(link, a->wish.text, true);
    a->state = TUI_ARMED_ASKING;
    a->pressed = m->now;
    a->early = false;
    m->message[0] = '\0';
    if (!a->id) {
        a->state = TUI_ARMED_NONE;
        tui_say(m, TUI_BAD, "not sent: the trainer does not answer");
    }
    if (was != (a->state != TUI_ARMED_NONE))
        link->ops->arm(link, a->state != TUI_ARMED_NONE);
}

void tui_armed_press(struct tui_model *m, struct tui_link *link, enum tui_armed_kind kind,
                     int direction)
{
    struct tui_armed *a = &m->armed;
    if (a->state == TUI_ARMED_APPLYING) {
        add_press(&a->next, kind, direction);
        return;
    }
    if (a->state == TUI_ARMED_NONE)
        a->wish.presses = 0;
    add_press(&a->wish, kind, direction);
    if (a->wish.presses)
        ask(m, link);
    else
        tui_armed_drop(m, link);
}

void tui_armed_command(struct tui_model *m, struct tui_link *link, const char *text)
{
    struct tui_armed *a = &m->armed;
    if (a->state == TUI_ARMED_APPLYING) {
        set_text(&a->next, text);
        return;
    }
    set_text(&a->wish, text);
    ask(m, link);
}

void tui_armed_apply(struct tui_model *m, struct tui_link *link)
{
    struct tui_armed *a = &m->armed;
    if (a->state != TUI_ARMED_ASKING && a->state != TUI_ARMED_PROPOSED)
        return;
    /* What was typed before the proposal could be read is not an answer to it. */
    if (a->state == TUI_ARMED_ASKING || m->now - a->pressed < TUI_ARMED_DEAF) {
        a->early = true;
        return;
    }
    a->id = link->ops->command(link, a->wish.text, false);
    m->message[0] = '\0';
    if (a->id) {
        a->state = TUI_ARMED_APPLYING;
        a->next.presses = 0;
        return;
    }
    tui_armed_drop(m, link);
    tui_say(m, TUI_BAD, "not sent: the trainer does not answer");
}

void tui_armed_drop(struct tui_model *m, struct tui_link *link)
{
    struct tui_armed *a = &m->armed;
    if (a->state == TUI_ARMED_NONE)
        return;
    if (a->state == TUI_ARMED_APPLYING) {
        if (!a->next.presses)
            tui_say(m, TUI_WARN, "too late to drop: %s is being applied", a->wish.text);
        a->next.presses = 0;
        return;
    }
    a->state = TUI_ARMED_NONE;
    a->id = 0;
    link->ops->arm(link, false);
}

void tui_armed_taken(struct tui_model *m)
{
    struct tui_armed *a = &m->armed;
    const char *lost = a->state == TUI_ARMED_APPLYING ? a->next.presses ? a->next.text : ""
                       : a->state == TUI_ARMED_NONE   ? ""
                                                      : a->wish.text;
    tui_say(m, TUI_WARN, "%s%s%s has taken the controls (:take takes them back)", lost,
            lost[0] ? " dropped: " : "", m->holder);
    a->next.presses = 0;
    if (a->state != TUI_ARMED_APPLYING)
        a->state = TUI_ARMED_NONE;
}

double tui_armed_left(const struct tui_model *m)
{
    const struct tui_armed *a = &m->armed;
    /* A proposal comes when the update in flight has ended, which may take minutes. */
    if (a->state != TUI_ARMED_PROPOSED && a->state != TUI_ARMED_REFUSED)
        return 0;
    double left = a->pressed + TUI_ARMED_LIFE - m->now;
    return left > 0 ? left : 0;
}

bool tui_armed_tick(struct tui_model *m, struct tui_link *link)
{
    struct tui_armed *a = &m->armed;
    if (a->state == TUI_ARMED_NONE)
        return false;
    if (m->link_state != TUI_LINK_LIVE) {
        bool sent = a->state == TUI_ARMED_APPLYING;
        a->state = TUI_ARMED_NONE;
        tui_say(m, TUI_BAD,
                sent ? "the trainer went away while %s was being applied; see events"
                     : "%s dropped: the trainer does not answer",
                a->wish.text);
        return true;
    }
    if (a->state == TUI_ARMED_APPLYING || a->state == TUI_ARMED_ASKING || tui_armed_left(m) > 0)
        return false;
    bool refused = a->state == TUI_ARMED_REFUSED;
    tui_armed_drop(m, link);
    if (!refused)
        tui_say(m, TUI_DIM, "%s dropped: not confirmed within %.0f s", a->wish.text,
                TUI_ARMED_LIFE);
    return true;
}

static void describe(const struct bst_reply *r, const char *command, char *out, size_t room)
{
    size_t at = 0;
    out[0] = '\0';
    if (tui_change_count(r) > 3) {
        snprintf(out, room, "%s: %d changes", command, r->n_changes);
        return;
    }
    for (int i = 0; i < r->n_changes && at < room; i++) {
        char was[TUI_VALUE], is[TUI_VALUE];
        if (tui_change_is_detail(r, i))
            continue;
        tui_short_value(r->changes[i].old_value, was);
        tui_short_value(r->changes[i].new_value, is);
        at += (size_t)snprintf(out + at, room - at, "%s%s %s → %s", at ? ", " : "",
                               tui_short_name(r->changes[i].key), was, is);
    }
}

static void say_applied(struct tui_model *m, const struct bst_reply *r)
{
    char what[300], text[TUI_TEXT];
    describe(r, m->armed.wish.text, what, sizeof what);
    tui_coded(r->code, r->text[0] ? r->text : m->armed.wish.text, text);
    /* With a code there is more to say than when: a paused run, for one. */
    if (r->code[0] || !what[0] || !r->effective_update)
        tui_say(m, TUI_GOOD, "%s", text);
    else
        tui_say(m, TUI_GOOD, "%s in force since update %llu", what,
                (unsigned long long)r->effective_update);
}

bool tui_armed_reply(struct tui_model *m, struct tui_link *link, const struct bst_reply *reply)
{
    struct tui_armed *a = &m->armed;
    char refusal[TUI_TEXT];
    if (a->state == TUI_ARMED_NONE || reply->id != a->id)
        return false;
    if (a->state == TUI_ARMED_ASKING) {
        a->reply = *reply;
        a->state = reply->ok ? TUI_ARMED_PROPOSED : TUI_ARMED_REFUSED;
        a->pressed = m->now;
        return true;
    }
    a->state = TUI_ARMED_NONE;
    link->ops->arm(link, false);
    tui_refusal(reply, refusal);
    if (reply->ok)
        say_applied(m, reply);
    else
        tui_say(m, TUI_BAD, "%s", refusal);
    /* What was wished on top of a change that did not come about is asked for anew. */
    if (reply->ok && a->next.presses) {
        a->wish = a->next;
        ask(m, link);
    }
    return true;
}
