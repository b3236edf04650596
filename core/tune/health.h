/* Gradient health: is a norm in its band, how does it compare with its own past, which layer is
 * worst. Plain values in the caller's storage; one thread writes. */
#ifndef BST_TUNE_HEALTH_H
#define BST_TUNE_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

struct bst_band {
    double low, high; /* healthy from low to high, both included; both 0: no band is known */
};

enum bst_verdict {
    BST_HEALTH_UNKNOWN,
    BST_HEALTH_OK,
    BST_HEALTH_LOW,
    BST_HEALTH_HIGH,
    BST_HEALTH_NONFINITE
};

const char *bst_health_name(enum bst_verdict v);
/* ResNet on ImageNet, summed over the net: 10 to 100. Other nets set their own. */
struct bst_band bst_health_resnet_band(void);
enum bst_verdict bst_health_judge(struct bst_band band, double norm);

/* Running statistics of one norm: mean and deviation of its natural log, exponentially weighted, so
 * that "twice the usual" means the same at 0.01 and at 100. Non-finite values are counted only. */
struct bst_health_track {
    uint64_t n, n_zero, n_nonfinite; /* n: finite and above 0 */
    double mean_log, var_log;
    double last;
    double ratio; /* last / what was usual before it */
};

enum { BST_HEALTH_WINDOW = 100 }; /* updates */

void bst_health_add(struct bst_health_track *t, double norm);
/* Geometric mean so far; 0 before the first value. */
double bst_health_usual(const struct bst_health_track *t);
/* Whether the last norm is above 10 times what was usual before it, after 20 values or more. */
bool bst_health_is_spike(const struct bst_health_track *t);

/* Worst first into order[n]: not finite, then exactly 0 (nothing reaches the layer), then by how
 * many times the last norm is off its usual, up or down. Ties keep the net's order. */
void bst_health_order(const struct bst_health_track *layers, int n, int *order);

#endif
