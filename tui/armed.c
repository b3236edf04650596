#include "tui/armed.h"

#include <stdio.h>
#include <stdlib.h>

#include "tui/format.h"

/* The command that n net presses stand for; the trainer works out and rounds what it comes to. */
static void write_command(struct tui_armed *a)
{
    int n = abs(a->presses);
    bool up = a->presses > 0;
    char power[16] = "";
    if (n > 1)
        snprintf(power, sizeof power, "^%d", n);
    switch (a->kind) {
    case TUI_ARMED_BATCH:
        snprintf(a->text, sizeof a->text, "batch %c20%%%s", up ? '+' : '-', power);
        break;
    case TUI_ARMED_WARMUP:
        snprintf(a->text, sizeof a->text, "warmup %c10%%%s", up ? '+' : '-', power);
        break;
    case TUI_ARMED_LR:
        snprintf(a->text, sizeof a->text, "lr %c1.1%s", up ? '*' : '/', power);
        break;
    case TUI_ARMED_TEXT:
        break;
    }
}

static void ask(struct tui_model *m, struct tui_link *link)
{
    struct tui_armed *a = &m->armed;
    bool was = a->state != TUI_ARMED_NONE;
    a->id = link->ops->command(link, a->text, true);
    a->state = TUI_ARMED_ASKING;
    a->pressed = m->now;
    m->message[0] = '\0';
    if (!a->id) {
        a->state = TUI_ARMED_NONE;
        tui_say(m, TUI_BAD, "not sent: the trainer does not answer");
    }
    if (was != (a->state != TUI_ARMED_NONE))
        link->ops->arm(link, a->state != TUI_ARMED_NONE);
}

static bool busy(struct tui_model *m)
{
    if (m->armed.state == TUI_ARMED_APPLYING)
        tui_say(m, TUI_WARN, "one change at a time: %s is being applied", m->armed.text);
    return m->armed.state == TUI_ARMED_APPLYING;
}

void tui_armed_press(struct tui_model *m, struct tui_link *link, enum tui_armed_kind kind,
                     int direction)
{
    struct tui_armed *a = &m->armed;
    if (busy(m))
        return;
    /* Another key starts afresh: one change, one thing. */
    if (a->state == TUI_ARMED_NONE || a->kind != kind)
        a->presses = 0;
    a->kind = kind;
    a->presses += direction;
    if (!a->presses) {
        tui_armed_drop(m, link);
        return;
    }
    write_command(a);
    ask(m, link);
}

void tui_armed_command(struct tui_model *m, struct tui_link *link, const char *text)
{
    struct tui_armed *a = &m->armed;
    if (busy(m))
        return;
    a->kind = TUI_ARMED_TEXT;
    a->presses = 1;
    snprintf(a->text, sizeof a->text, "%s", text);
    ask(m, link);
}

void tui_armed_apply(struct tui_model *m, struct tui_link *link)
{
    struct tui_armed *a = &m->armed;
    if (a->state == TUI_ARMED_NONE || a->state == TUI_ARMED_APPLYING)
        return;
    /* What was typed before the proposal could be read is not an answer to it. */
    if (m->now - a->pressed < TUI_ARMED_DEAF)
        return;
    if (a->state == TUI_ARMED_ASKING) {
        tui_say(m, TUI_WARN, "not yet: the trainer is still working the change out");
        return;
    }
    if (a->state == TUI_ARMED_REFUSED)
        return;
    a->id = link->ops->command(link, a->text, false);
    if (a->id) {
        a->state = TUI_ARMED_APPLYING;
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
        tui_say(m, TUI_WARN, "too late to drop: %s is being applied", a->text);
        return;
    }
    a->state = TUI_ARMED_NONE;
    a->id = 0;
    link->ops->arm(link, false);
}

double tui_armed_left(const struct tui_model *m)
{
    const struct tui_armed *a = &m->armed;
    if (a->state == TUI_ARMED_NONE || a->state == TUI_ARMED_APPLYING)
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
                a->text);
        return true;
    }
    if (a->state == TUI_ARMED_APPLYING || tui_armed_left(m) > 0)
        return false;
    bool refused = a->state == TUI_ARMED_REFUSED;
    tui_armed_drop(m, link);
    if (!refused)
        tui_say(m, TUI_DIM, "%s dropped: not confirmed within %.0f s", a->text, TUI_ARMED_LIFE);
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
    char what[300];
    describe(r, m->armed.text, what, sizeof what);
    /* With a code there is more to say than when: a paused run, for one. */
    if (r->code[0] || !what[0] || !r->effective_update)
        tui_say(m, TUI_GOOD, "%s%s%s", r->code, r->code[0] ? " " : "",
                r->text[0] ? r->text : m->armed.text);
    else
        tui_say(m, TUI_GOOD, "%s in force since update %llu", what,
                (unsigned long long)r->effective_update);
}

bool tui_armed_reply(struct tui_model *m, struct tui_link *link, const struct bst_reply *reply)
{
    struct tui_armed *a = &m->armed;
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
    if (reply->ok)
        say_applied(m, reply);
    else
        tui_say(m, TUI_BAD, "%s%s%s: %s", reply->code, reply->code[0] ? " " : "", reply->outcome,
                reply->text);
    return true;
}
