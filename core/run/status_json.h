/* The parts of status.h that hand a parsed JSON value on; within core/run only, so that jansson
 * stays out of the consoles. Any thread. */
#ifndef BST_RUN_STATUS_JSON_H
#define BST_RUN_STATUS_JSON_H

#include <jansson.h>

#include "core/run/status.h"

void bst_status_read(const json_t *from, struct bst_status *out);
/* Pairs into two arrays of BST_MAX_CURVE; gives how many. */
int bst_curve_read(const json_t *from, double *samples, double *rate);

#endif
