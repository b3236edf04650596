#include "tui/lines.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tui/format.h"
#include "tui/print.h"
#include "tui/render.h"

enum { LINE_CAP = 1024 };
static const double every_seconds = 10;

struct lines {
    int events;
    double said;
    enum bst_phase phase;
    bool any;
};

static bool say(const char *text)
{
    return tui_write_line(STDOUT_FILENO, text);
}

/* One line on where the run stands, without its end. */
static void add_line_text(const struct bst_status *s, struct bst_sb *out)
{
    char text[160];
    bst_sb_addf(out, "%s  epoch %.2f/%g  update %llu", bst_phase_name(s->phase), s->epoch,
                s->epochs_total, (unsigned long long)s->update);
    tui_metric(s->loss, 4, text);
    bst_sb_addf(out, "  loss %s", text);
    if (s->eval_accuracy.valid) {
        tui_percent1(s->eval_accuracy, text);
        bst_sb_addf(out, "  top-1 %s", text);
    }
    if (s->eval_perplexity.valid) {
        tui_metric(s->eval_perplexity, 4, text);
        bst_sb_addf(out, "  perplexity %s", text);
    }
    if (s->eval_exact.valid) {
        tui_percent1(s->eval_exact, text);
        bst_sb_addf(out, "  exact %s", text);
    }
    tui_metric(s->learning_rate, 3, text);
    bst_sb_addf(out, "  rate %s", text);
    tui_batch_text(s, false, text, sizeof text);
    bst_sb_addf(out, "  batch %s", text);
    tui_metric(s->samples_per_sec, 4, text);
    bst_sb_addf(out, "  samples/s %s", text);
    if (s->tokens_per_sec.valid) {
        tui_count(s->tokens_per_sec.value, text);
        bst_sb_addf(out, "  tokens/s %s", text);
    }
    tui_span(s->eta_seconds, text);
    bst_sb_addf(out, "  left %s", text);
}

static bool say_status(struct lines *l, const struct bst_status *s)
{
    struct bst_sb line;
    double now = bst_clock_now();
    if (l->any && s->phase == l->phase && now - l->said < every_seconds)
        return true;
    l->any = true;
    l->phase = s->phase;
    l->said = now;
    bst_sb_init(&line, LINE_CAP);
    add_line_text(s, &line);
    bool ok = say(line.data);
    bst_sb_fini(&line);
    return ok;
}

static bool say_events(struct lines *l, const struct bst_history *h)
{
    char text[TUI_TEXT + 32], what[TUI_TEXT];
    /* A resume may have cut the journal. */
    l->events = l->events > h->n_events ? h->n_events : l->events;
    for (; l->events < h->n_events; l->events++) {
        const struct bst_history_event *e = &h->events[l->events];
        tui_coded(e->code, e->text, what);
        snprintf(text, sizeof text, "update %llu  %s", (unsigned long long)e->update, what);
        if (!say(text))
            return false;
    }
    return true;
}

int tui_lines(const struct tui_console_cfg *cfg, struct tui_link *link, const char *warning)
{
    struct lines l = {0};
    if (warning)
        say(warning);
    for (int frame = 0;; frame++) {
        link->ops->refresh(link, false);
        struct pollfd p = {link->ops->fd(link), POLLIN, 0};
        poll(&p, p.fd >= 0, 500);
        while (link->ops->next(link) != BST_CLIENT_NOTHING)
            ;
        const struct bst_status *s = link->ops->status(link);
        if (!say_events(&l, link->ops->history(link)) || (s && !say_status(&l, s)))
            return 1;
        if (link->ops->state(link) == TUI_LINK_OVER)
            return s && bst_phase_is_failure(s->phase) && cfg->started_here;
        if (cfg->frames && frame + 1 >= cfg->frames)
            return 0;
    }
}
