/* A context with one small table of parameters, for the tests of an update's end: the same on a
 * backend of floats and one of doubles. One thread plays all ranks; what goes wrong fails the test.
 */
#ifndef BST_TESTS_CUDA_COMMIT_RIG_H
#define BST_TESTS_CUDA_COMMIT_RIG_H

#include "core/backend/cuda/be.h"

/* Three parameters with padding between them, as a table lays them out; then statistics. */
enum { N_PARAMS = 3, FLOATS = 192, STATS = 8, DEVICES = 8 };
extern const int rig_sizes[N_PARAMS];

enum { WEIGHT, GRAD, FIRST, SECOND, N_BLOCKS };

struct rig {
    const struct bst_backend *b;
    struct bst_be *be;
    int device; /* -1: none */
    void *block[N_BLOCKS];
    void *staged, *stats;
};

#define ok(expr) rig_check((expr), #expr)
void rig_check(enum bst_err err, const char *what);

void rig_open(struct rig *r, const char *backend, int rank, enum bst_precision p);
void rig_close(struct rig *r);
void rig_use(const struct rig *r); /* its device becomes the thread's */
void rig_put(struct rig *r, void *block, const float *x, int n);
void rig_get(struct rig *r, const void *block, double *x, int n);
/* Normal ones times `scale`, 0 between the parameters; x[FLOATS]. */
void rig_numbers(float *x, uint64_t seed, float scale);

/* What a commit is told, and the arrays that it points to. */
struct rig_update {
    struct bst_param_slot params[N_PARAMS];
    struct bst_span spans[N_PARAMS];
    double factor[N_PARAMS];
    int n_spans;
    struct bst_commit commit;
};
void rig_describe(struct rig_update *w, struct rig *r, enum bst_optimizer kind);

/* Asked for and waited for; squares[N_PARAMS]. */
struct bst_commit_result rig_commit(struct rig *r, const struct bst_commit *how, double *squares);

#endif
