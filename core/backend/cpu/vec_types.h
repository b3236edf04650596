/* Vectors of eight reals for the bodies in vec*.c, which are written once and inlined into one
 * function an instruction set. A body takes no vector by value, since that would be another call
 * convention in each. */
#ifndef BST_BACKEND_CPU_VEC_TYPES_H
#define BST_BACKEND_CPU_VEC_TYPES_H

#include <stdint.h>

#define BODY static inline __attribute__((always_inline)) void

typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t v8i __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t v8u __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint8_t v8b __attribute__((vector_size(8), aligned(1), may_alias));
typedef float v4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double v4d __attribute__((vector_size(32), aligned(8), may_alias));

#define LOAD(p) (*(const v8 *)(p))
#define STORE(p, v) (*(v8 *)(p) = (v))
/* x where m is all ones */
#define KEEP(x, m) ((v8)((v8i)(x) & (m)))

/* A ReLU lets NaN through, as PyTorch's does: what is not ≤ 0 passes. */
#define OPEN(x) (~(v8i)((x) <= 0.0f))

#endif
