/* What is worth a remark about the updates as they go by: norms out of their band, spikes, layers
 * without a gradient, waiting for data, stalls. A remark is made once when something has lasted,
 * and again only after it had been gone as long. Plain values in the caller's storage; one thread.
 */
#ifndef BST_TUNE_WATCH_H
#define BST_TUNE_WATCH_H

#include <stdbool.h>

#include "core/tune/diagnostics.h"
#include "core/tune/health.h"

enum { BST_WATCH_LASTS = 20 }; /* updates in a row that make it a remark, or end it */

struct bst_watch_update {
    double grad_norm; /* before clipping */
    double seconds, data_wait_seconds;
    int n_zero_layers; /* trained parameters whose gradient was exactly 0 */
};

#define BST_WATCH_RULES(X)                                                                         \
    X(GRADIENT_SPIKE)                                                                              \
    X(GRADIENT_LOW)                                                                                \
    X(GRADIENT_HIGH)                                                                               \
    X(LAYER_WITHOUT_GRADIENT)                                                                      \
    X(LOADER_SLOW)                                                                                 \
    X(UPDATE_STALLED)

enum bst_watch_rule {
#define X(name) BST_WATCH_##name,
    BST_WATCH_RULES(X)
#undef X
        BST_N_WATCH_RULES
};

struct bst_watch {
    struct bst_band band; /* both 0: none is known */
    struct bst_health_track norm, seconds;
    double wait_share; /* of an update's time, smoothed */
    struct bst_watch_update last;
    struct {
        int row, calm;
        bool said;
    } rules[BST_N_WATCH_RULES];
};

void bst_watch_init(struct bst_watch *w, struct bst_band band);
/* Takes in one update; the codes that it gives rise to go into `out`, their number is returned. */
int bst_watch_add(struct bst_watch *w, const struct bst_watch_update *u,
                  enum bst_diag out[BST_N_WATCH_RULES]);
/* The remark itself, with the numbers of the update just taken in. */
void bst_watch_text(const struct bst_watch *w, enum bst_diag code, char out[128]);

#endif
