#include "tui/armed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tune/plan_changes.h"
#include "tui/format.h"

enum { ALL_ROOM = 400 };

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

static void add_press(struct tui_wish *w, int direction)
{
    w->presses += direction;
    write_command(w);
}

static struct tui_wish wish_of(const char *text)
{
    struct tui_wish w = {.kind = TUI_ARMED_TEXT, .presses = 1};
    snprintf(w.text, sizeof w.text, "%s", text);
    return w;
}

/* Armed, and not yet on its way. */
static bool is_open(const struct tui_armed *a)
{
    return a->state == TUI_ARMED_ASKING || a->state == TUI_ARMED_PROPOSED;
}

void tui_armed_waiting(const struct tui_armed *a, char *out, size_t room)
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < a->n_next && at < room; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%s", i ? ", " : "", a->next[i].text);
}

/* All that would be lost: the armed change, where it is not on its way, and what waits. */
static void name_all(const struct tui_armed *a, char *out, size_t room)
{
    char waiting[ALL_ROOM];
    bool first = is_open(a);
    tui_armed_waiting(a, waiting, sizeof waiting);
    snprintf(out, room, "%s%s%s", first ? a->wish.text : "", first && waiting[0] ? ", " : "",
             waiting);
}

static void set_none(struct tui_armed *a, struct tui_link *link)
{
    a->state = TUI_ARMED_NONE;
    a->id = 0;
    a->n_next = 0;
    link->ops->arm(link, false);
}

static void ask(struct tui_model *m, struct tui_link *link)
{
    struct tui_armed *a = &m->armed;
    bool was = a->state != TUI_ARMED_NONE;
    a->id = link->ops->command(link, a->wish.text, true);
    a->state = TUI_ARMED_ASKING;
    a->pressed = m->now;
    a->early = false;
    if (!a->id) {
        a->state = TUI_ARMED_NONE;
        a->n_next = 0;
        tui_say(m, TUI_BAD, "not sent: the trainer does not answer");
    }
    if (was != (a->state != TUI_ARMED_NONE))
        link->ops->arm(link, a->state != TUI_ARMED_NONE);
}

static void remove_next(struct tui_armed *a, int i)
{
    for (a->n_next--; i < a->n_next; i++)
        a->next[i] = a->next[i + 1];
}

/* The one before it is decided on. */
static void arm_next(struct tui_model *m, struct tui_link *link)
{
    struct tui_armed *a = &m->armed;
    if (!a->n_next) {
        set_none(a, link);
        return;
    }
    a->wish = a->next[0];
    remove_next(a, 0);
    ask(m, link);
}

static struct tui_wish *add_next(struct tui_model *m)
{
    struct tui_armed *a = &m->armed;
    a->pressed = m->now;
    m->message[0] = '\0';
    if (a->n_next < TUI_WAITING)
        return &a->next[a->n_next++];
    tui_say(m, TUI_WARN, "not taken: %d changes wait already", a->n_next);
    return NULL;
}

static void press_waiting(struct tui_model *m, enum tui_armed_kind kind, int direction)
{
    struct tui_armed *a = &m->armed;
    struct tui_wish *w = NULL;
    for (int i = 0; i < a->n_next && !w; i++)
        if (a->next[i].kind == kind)
            w = &a->next[i];
    a->pressed = m->now;
    if (!w && (w = add_next(m)) != NULL)
        *w = (struct tui_wish){.kind = kind};
    if (!w)
        return;
    add_press(w, direction);
    if (!w->presses)
        remove_next(a, (int)(w - a->next));
}

/* Each kind adds up where it is: in the armed change, else in what waits behind it. */
void tui_armed_press(struct tui_model *m, struct tui_link *link, enum tui_armed_kind kind,
                     int direction)
{
    struct tui_armed *a = &m->armed;
    bool open = is_open(a);
    if (a->state == TUI_ARMED_APPLYING || (open && a->wish.kind != kind)) {
        press_waiting(m, kind, direction);
        return;
    }
    if (!open)
        a->wish = (struct tui_wish){.kind = kind};
    m->message[0] = '\0';
    add_press(&a->wish, direction);
    if (a->wish.presses)
        ask(m, link);
    else
        arm_next(m, link);
}

void tui_armed_command(struct tui_model *m, struct tui_link *link, const char *text)
{
    struct tui_armed *a = &m->armed;
    /* What is undone is the last change in force, which the armed one is not. */
    if ((!strncmp(text, "undo", 4) || !strncmp(text, "redo", 4)) && tui_armed_stands(m))
        return;
    if (a->state == TUI_ARMED_APPLYING || is_open(a)) {
        struct tui_wish *w = add_next(m);
        if (w)
            *w = wish_of(text);
        return;
    }
    m->message[0] = '\0';
    a->wish = wish_of(text);
    ask(m, link);
}

void tui_armed_again(struct tui_model *m, struct tui_link *link, const struct tui_wish *wish)
{
    m->armed.wish = *wish;
    ask(m, link);
}

void tui_armed_apply(struct tui_model *m, struct tui_link *link)
{
    struct tui_armed *a = &m->armed;
    char all[ALL_ROOM];
    if (!is_open(a))
        return;
    /* What was typed before the proposal could be read is not an answer to it. */
    if (a->state == TUI_ARMED_ASKING || m->now - a->pressed < TUI_ARMED_DEAF) {
        a->early = true;
        return;
    }
    name_all(a, all, sizeof all);
    a->id = link->ops->command(link, a->wish.text, false);
    m->message[0] = '\0';
    if (a->id) {
        a->state = TUI_ARMED_APPLYING;
        return;
    }
    set_none(a, link);
    tui_say(m, TUI_BAD, "%s not sent: the trainer does not answer", all);
}

void tui_armed_drop(struct tui_model *m, struct tui_link *link, const char *why)
{
    struct tui_armed *a = &m->armed;
    char all[ALL_ROOM];
    if (a->state == TUI_ARMED_NONE)
        return;
    name_all(a, all, sizeof all);
    a->n_next = 0;
    if (a->state != TUI_ARMED_APPLYING)
        set_none(a, link);
    if (why && all[0])
        tui_say(m, TUI_WARN, "%s dropped: %s", all, why);
}

void tui_armed_back(struct tui_model *m, struct tui_link *link)
{
    struct tui_armed *a = &m->armed;
    m->message[0] = '\0';
    if (a->state == TUI_ARMED_REFUSED)
        arm_next(m, link);
    else if (a->n_next)
        a->n_next--;
    else if (a->state == TUI_ARMED_APPLYING)
        tui_say(m, TUI_WARN, "too late to drop: %s is being applied", a->wish.text);
    else
        tui_armed_drop(m, link, NULL);
}

void tui_armed_go_on(struct tui_model *m, struct tui_link *link)
{
    if (m->armed.state == TUI_ARMED_REFUSED)
        arm_next(m, link);
}

bool tui_armed_stands(struct tui_model *m)
{
    if (!is_open(&m->armed))
        return false;
    m->armed.pressed = m->now;
    tui_say(m, TUI_WARN, "first apply this change, or drop it:");
    return true;
}

void tui_armed_taken(struct tui_model *m)
{
    struct tui_armed *a = &m->armed;
    char lost[ALL_ROOM];
    name_all(a, lost, sizeof lost);
    tui_say(m, TUI_WARN, "%s%s%s has taken the controls (:take takes them back)", lost,
            lost[0] ? " dropped: " : "", m->holder);
    a->n_next = 0;
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
    char all[ALL_ROOM], why[48];
    if (a->state == TUI_ARMED_NONE)
        return false;
    if (m->link_state != TUI_LINK_LIVE) {
        bool sent = a->state == TUI_ARMED_APPLYING;
        name_all(a, all, sizeof all);
        a->state = TUI_ARMED_NONE;
        a->n_next = 0;
        if (sent)
            tui_say(m, TUI_BAD, "the trainer went away while %s was being applied; see events%s%s",
                    a->wish.text, all[0] ? "; dropped: " : "", all);
        else
            tui_say(m, TUI_BAD, "%s dropped: the trainer does not answer",
                    all[0] ? all : a->wish.text);
        return true;
    }
    if (a->state == TUI_ARMED_APPLYING || a->state == TUI_ARMED_ASKING || tui_armed_left(m) > 0)
        return false;
    if (a->state == TUI_ARMED_REFUSED) {
        arm_next(m, link);
        return true;
    }
    snprintf(why, sizeof why, "not confirmed within %.0f s", TUI_ARMED_LIFE);
    tui_armed_drop(m, link, why);
    m->message_style = TUI_DIM;
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
        char was[BST_BRIEF], is[BST_BRIEF];
        if (tui_change_is_detail(r, i))
            continue;
        bst_change_brief(r->changes[i].old_value, r->changes[i].new_value, was, is);
        at += (size_t)snprintf(out + at, room - at, "%s%s %s → %s", at ? ", " : "",
                               tui_short_name(r->changes[i].key), was, is);
    }
}

static void say_applied(struct tui_model *m, const struct bst_reply *r)
{
    char what[300], text[TUI_TEXT];
    /* "back to update 13; ", of a rewind */
    const char *end = strncmp(r->text, "back to ", 8) ? NULL : strstr(r->text, "; ");
    int back = end ? (int)(end + 2 - r->text) : 0;
    describe(r, m->armed.wish.text, what, sizeof what);
    tui_coded(r->code, r->text[0] ? r->text : m->armed.wish.text, text);
    /* With a code there is more to say than when: a paused run, for one. */
    if (r->code[0] || !what[0] || !r->effective_update)
        tui_say(m, TUI_GOOD, "%s", text);
    else
        tui_say(m, TUI_GOOD, "%.*s%s in force since update %llu", back, r->text, what,
                (unsigned long long)r->effective_update);
}

bool tui_armed_reply(struct tui_model *m, struct tui_link *link, const struct bst_reply *reply)
{
    struct tui_armed *a = &m->armed;
    char refusal[TUI_TEXT], lost[ALL_ROOM];
    if (a->state == TUI_ARMED_NONE || reply->id != a->id)
        return false;
    if (a->state == TUI_ARMED_ASKING) {
        a->reply = *reply;
        a->state = reply->ok ? TUI_ARMED_PROPOSED : TUI_ARMED_REFUSED;
        a->pressed = m->now;
        return true;
    }
    if (reply->ok) {
        say_applied(m, reply);
        arm_next(m, link);
        return true;
    }
    /* What was wished on top of a change that did not come about would be another one. */
    tui_armed_waiting(a, lost, sizeof lost);
    tui_refusal(reply, refusal);
    set_none(a, link);
    tui_say(m, TUI_BAD, "%s%s%s", refusal, lost[0] ? "; dropped with it: " : "", lost);
    return true;
}
