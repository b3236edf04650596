/* What the driver says of a run's devices, once a second, for its status: NVML's readings where the
 * devices are NVIDIA's. The session's thread. */
#ifndef BST_RUN_MONITOR_H
#define BST_RUN_MONITOR_H

#include "core/run/status.h"

struct bst_monitor;

/* `uuids`: of the devices in order, "" where one has none; borrowed for the call. `nvml`: another
 * library than the driver's (tests), or NULL. NULL: there is nothing to be read, and no thread. */
struct bst_monitor *bst_monitor_open(const char *const *uuids, int n, const char *nvml);
void bst_monitor_close(struct bst_monitor *m); /* NULL is fine */

/* Into d what was read last; what could not be read is not valid. False, and d is left alone, where
 * the driver is not asked about this device. */
bool bst_monitor_fill(struct bst_monitor *m, int device, struct bst_status_device *d);
/* The oldest error (Xid) that was not taken yet; false: none. *device is -1 for another one. */
bool bst_monitor_error(struct bst_monitor *m, int *device, unsigned *xid);

#endif
