#include "tui/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"

enum { MESSAGE_SECONDS = 8, MESSAGE_OWN_SECONDS = 4 };

static const struct bst_history no_history;

void tui_model_init(struct tui_model *m)
{
    memset(m, 0, sizeof *m);
    m->history = &no_history;
    m->fixed = "";
    m->view.focus = TUI_PANE_LOSS;
    m->view.shown = TUI_PANES_SHOWN;
    m->view.smooth = true;
    m->view.autoscale = true;
    /* Norms go over decades; a loss and a rate are read off a linear scale first. */
    m->view.log = 1u << TUI_PANE_GRADIENT | 1u << TUI_PANE_NOISE;
}

void tui_model_fini(struct tui_model *m)
{
    for (int i = 0; i < m->prompt.n_past; i++)
        bst_free(m->prompt.past[i]);
    m->prompt.n_past = 0;
    bst_free(m->settings);
    m->settings = NULL;
}

static void show(struct tui_model *m, enum tui_style style, bool own, const char *fmt, va_list ap)
{
    vsnprintf(m->message, sizeof m->message, fmt, ap);
    m->message_style = style;
    m->message_own = own;
    m->message_until = m->now + MESSAGE_SECONDS;
}

void tui_say(struct tui_model *m, enum tui_style style, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    show(m, style, true, fmt, ap);
    va_end(ap);
}

void tui_notice(struct tui_model *m, enum tui_style style, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    show(m, style, false, fmt, ap);
    va_end(ap);
}

bool tui_said_lately(const struct tui_model *m)
{
    return m->message[0] && m->message_own &&
           m->now < m->message_until - MESSAGE_SECONDS + MESSAGE_OWN_SECONDS;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The trainer sends each layer's norm of the moment; what is usual for it is seen from here. */
static void follow_layers(struct tui_model *m, const struct bst_status *s)
{
    if (s->n_layers != m->n_layers || s->update < m->layers_update)
        memset(m->layers, 0, sizeof m->layers);
    else if (s->update == m->layers_update)
        return;
    m->n_layers = s->n_layers;
    m->layers_update = s->update;
    for (int i = 0; i < s->n_layers; i++)
        if (s->layers[i].grad_norm.valid)
            bst_health_add(&m->layers[i], s->layers[i].grad_norm.value);
}

void tui_model_follow(struct tui_model *m, struct tui_link *link)
{
    const struct bst_status *s = link->ops->status(link);
    m->history = link->ops->history(link);
    m->link_state = link->ops->state(link);
    m->ended = link->ops->ended(link);
    snprintf(m->link_why, sizeof m->link_why, "%s", link->ops->why(link));
    m->fixed = link->ops->fixed(link);
    snprintf(m->holder, sizeof m->holder, "%s", link->ops->lease_holder(link));
    m->behind = link->ops->behind(link);
    m->has_lease = link->ops->has_lease(link);
    if (m->view.frozen) {
        /* A resume can cut the files while they are looked at. */
        m->n_updates = least(m->n_updates, m->history->n_updates);
        m->n_evals = least(m->n_evals, m->history->n_evals);
        m->n_events = least(m->n_events, m->history->n_events);
        m->n_noise = least(m->n_noise, m->history->n_noise);
        return;
    }
    if (s) {
        follow_layers(m, s);
        m->status = *s;
        m->has_status = true;
    }
    m->n_updates = m->history->n_updates;
    m->n_evals = m->history->n_evals;
    m->n_events = m->history->n_events;
    m->n_noise = m->history->n_noise;
}

bool tui_model_may_change(const struct tui_model *m, char *why, size_t room)
{
    if (m->fixed[0])
        snprintf(why, room, "%s", m->fixed);
    else if (m->link_state == TUI_LINK_OVER)
        snprintf(why, room, "the run has ended");
    else if (m->link_state == TUI_LINK_LOST)
        snprintf(why, room, "the trainer does not answer: %s", m->link_why);
    else if (m->readonly)
        snprintf(why, room, "read-only: this console only looks (:readonly changes that)");
    else if (!m->has_lease && m->holder[0])
        snprintf(why, room, "read-only: %s has the controls (:take takes them)", m->holder);
    else
        return true;
    return false;
}
