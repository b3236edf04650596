/* What this machine grants: cores and memory, cgroups counted. Plain queries; any thread. */
#ifndef BST_TRAIN_HOST_H
#define BST_TRAIN_HOST_H

#include <stdint.h>

/* Cores this process may use: its affinity mask, less what a cgroup's CPU quota allows; at least 1.
 */
int bst_host_cores(void);
/* The lesser of MemAvailable and the memory limits of the cgroups this process is in; 0: not known.
 */
uint64_t bst_host_memory(void);
/* What this process has in memory now, bytes; 0: not known. */
uint64_t bst_host_resident(void);

/* The same under another root than "/", for tests: `mask` is the affinity's count. */
int bst_host_cores_at(const char *root, int mask);
uint64_t bst_host_memory_at(const char *root);

#endif
