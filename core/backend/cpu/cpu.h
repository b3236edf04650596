/* The CPU backend: oneDNN primitives in their own blocked layouts, everything between them as own
 * vector kernels. A context leads an OpenMP team of bst_be_cfg.threads on the thread that opened
 * it. */
#ifndef BST_BACKEND_CPU_CPU_H
#define BST_BACKEND_CPU_CPU_H

#include "core/backend/backend.h"

extern const struct bst_backend bst_backend_cpu;

#endif
