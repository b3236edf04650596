#include "core/backend/cuda/gate.h"

#include <pthread.h>

#include "core/base/alloc.h"

struct cuda_gate {
    struct cuda_gate *next;
    const atomic_bool *of; /* the group's flag, one and the same for all its ranks */
    int refs;
    int32_t *word; /* page-locked; 0: open */
};

static pthread_mutex_t gates_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_gate *gates;

enum bst_err cuda_gate_take(const atomic_bool *of, struct cuda_gate **out)
{
    enum bst_err err = BST_OK;

    pthread_mutex_lock(&gates_lock);
    struct cuda_gate *g = gates;
    while (g && g->of != of)
        g = g->next;
    if (!g) {
        g = bst_xalloc(sizeof *g);
        *g = (struct cuda_gate){.next = gates, .of = of};
        err = cuda_fail(cudaHostAlloc((void **)&g->word, sizeof *g->word,
                                      cudaHostAllocPortable | cudaHostAllocMapped),
                        "page-locked memory");
        if (err) {
            bst_free(g);
            g = NULL;
        } else {
            *g->word = 0;
            gates = g;
        }
    }
    if (g)
        g->refs++;
    pthread_mutex_unlock(&gates_lock);
    *out = g;
    return err;
}

void cuda_gate_give_back(struct cuda_gate *g, bool hung)
{
    if (!g)
        return;
    pthread_mutex_lock(&gates_lock);
    if (--g->refs == 0) {
        struct cuda_gate **at = &gates;

        while (*at != g)
            at = &(*at)->next;
        *at = g->next;
        if (!hung)
            cudaFreeHost(g->word);
        bst_free(g);
    }
    pthread_mutex_unlock(&gates_lock);
}

void cuda_gate_shut(struct cuda_gate *g)
{
    if (g)
        __atomic_store_n(g->word, 1, __ATOMIC_SEQ_CST);
}

const int32_t *cuda_gate_word(const struct cuda_gate *g)
{
    return g->word;
}
