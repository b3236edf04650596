/* Inside the shim: what differs between oneDNN's majors, made alike. dnnl_majors.c's functions need
 * the context's thread. */
#ifndef BST_BACKEND_CPU_DNNL_INNER_H
#define BST_BACKEND_CPU_DNNL_INNER_H

#include <dnnl.h>

#include "core/backend/cpu/dnnl_shim.h"

/* A memory descriptor is a value in major 2 and a handle in major 3. `md_ref` is what calls take
 * and queries return: a pointer to const either way. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t md_ref;
#else
typedef const dnnl_memory_desc_t *md_ref;
#endif

#define MAX_KNOWN 24

struct md {
    dnnl_memory_desc_t d;
};

struct shim {
    dnnl_engine_t engine;
    dnnl_stream_t *streams; /* one a lane */
    int n_lanes;
    dnnl_primitive_attr_t attr; /* scratch is the caller's */
    uint32_t known[MAX_KNOWN];  /* layouts met so far: tried first */
    int n_known;
};

#if DNNL_VERSION_MAJOR < 3
union op_desc {
    dnnl_convolution_desc_t conv;
    dnnl_inner_product_desc_t linear;
};
#endif

/* Implementations of one operation, best first. */
struct choice {
    dnnl_primitive_desc_t pd;
#if DNNL_VERSION_MAJOR < 3
    dnnl_primitive_desc_iterator_t it;
    union op_desc d; /* the iterator keeps a pointer to it and reads it at every step */
#endif
};

/* A descriptor of a tensor, zeroed before the first shim_md_make() and given back by drop, whether
 * that succeeded or not. of: NULL where none was made. */
dnnl_status_t shim_md_make(struct md *m, const struct bst_shape *s, uint32_t layout);
void shim_md_drop(struct md *m);
md_ref shim_md_of(const struct md *m);

/* `m`: of each role. `c` is zeroed by the caller, and closed by it after a failure too. */
dnnl_status_t shim_choice_open(struct shim *s, const struct shim_op *op, const struct md *m,
                               struct choice *c);
bool shim_choice_next(struct shim *s, const struct shim_op *op, struct choice *c); /* false: none */
void shim_choice_close(struct choice *c);

#endif
