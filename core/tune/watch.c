#include "core/tune/watch.h"

#include <math.h>
#include <stdio.h>

static const double wait_too_much = 0.1;
static const double stall_ratio = 20;
static const double stall_seconds = 10; /* shorter ones are hiccups of the machine */
static const double wait_weight = 0.05; /* of the newest update in the smoothed share */

static const enum bst_diag codes[] = {
#define X(name) BST_DIAG_##name,
    BST_WATCH_RULES(X)
#undef X
};

void bst_watch_init(struct bst_watch *w, struct bst_band band)
{
    *w = (struct bst_watch){.band = band};
}

/* One event is enough for these; the others must last. */
static bool is_sudden(enum bst_watch_rule rule)
{
    return rule == BST_WATCH_GRADIENT_SPIKE || rule == BST_WATCH_UPDATE_STALLED;
}

static bool arises(struct bst_watch *w, enum bst_watch_rule rule, bool now)
{
    int lasts = is_sudden(rule) ? 1 : BST_WATCH_LASTS;
    if (!now) {
        w->rules[rule].row = 0;
        if (w->rules[rule].said && ++w->rules[rule].calm >= BST_WATCH_LASTS)
            w->rules[rule].said = false;
        return false;
    }
    w->rules[rule].calm = 0;
    if (w->rules[rule].said || ++w->rules[rule].row < lasts)
        return false;
    w->rules[rule].said = true;
    w->rules[rule].row = 0;
    return true;
}

static void take_in(struct bst_watch *w, const struct bst_watch_update *u)
{
    w->last = *u;
    bst_health_add(&w->norm, u->grad_norm);
    bst_health_add(&w->seconds, u->seconds);
    if (u->seconds > 0)
        w->wait_share += wait_weight * (u->data_wait_seconds / u->seconds - w->wait_share);
}

int bst_watch_add(struct bst_watch *w, const struct bst_watch_update *u,
                  enum bst_diag out[BST_N_WATCH_RULES])
{
    int n = 0;
    take_in(w, u);
    enum bst_verdict verdict = bst_health_judge(w->band, u->grad_norm);
    const bool now[] = {
        [BST_WATCH_GRADIENT_SPIKE] = bst_health_is_spike(&w->norm),
        [BST_WATCH_GRADIENT_LOW] = verdict == BST_HEALTH_LOW,
        [BST_WATCH_GRADIENT_HIGH] = verdict == BST_HEALTH_HIGH,
        [BST_WATCH_LAYER_WITHOUT_GRADIENT] = u->n_zero_layers > 0,
        [BST_WATCH_LOADER_SLOW] = w->wait_share > wait_too_much,
        [BST_WATCH_UPDATE_STALLED] = u->seconds > stall_seconds && w->seconds.n > BST_WATCH_LASTS &&
                                     w->seconds.ratio > stall_ratio,
    };
    for (int i = 0; i < BST_N_WATCH_RULES; i++)
        if (arises(w, (enum bst_watch_rule)i, now[i]))
            out[n++] = codes[i];
    return n;
}

void bst_watch_text(const struct bst_watch *w, enum bst_diag code, char out[128])
{
    const struct bst_watch_update *u = &w->last;
    switch (code) {
    case BST_DIAG_GRADIENT_SPIKE:
        snprintf(out, 128, "gradient norm %.3g, %.0f times the usual", u->grad_norm, w->norm.ratio);
        break;
    case BST_DIAG_GRADIENT_LOW:
        snprintf(out, 128, "gradient norm %.3g, under %.3g for %d updates", u->grad_norm,
                 w->band.low, BST_WATCH_LASTS);
        break;
    case BST_DIAG_GRADIENT_HIGH:
        snprintf(out, 128, "gradient norm %.3g, over %.3g for %d updates", u->grad_norm,
                 w->band.high, BST_WATCH_LASTS);
        break;
    case BST_DIAG_LAYER_WITHOUT_GRADIENT:
        snprintf(out, 128, "%d parameters had a gradient of exactly 0 for %d updates",
                 u->n_zero_layers, BST_WATCH_LASTS);
        break;
    case BST_DIAG_LOADER_SLOW:
        snprintf(out, 128, "%.0f %% of the time goes into waiting for data", 100 * w->wait_share);
        break;
    case BST_DIAG_UPDATE_STALLED:
        snprintf(out, 128, "an update took %.1f s, %.0f times the usual", u->seconds,
                 w->seconds.ratio);
        break;
    default:
        out[0] = '\0';
    }
}
