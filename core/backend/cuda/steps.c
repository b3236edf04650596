/* Steps that nobody waits for: their blocks go to the device on a stream of their own, beside the
 * work on the step before; events say when a block is there, and when it is not needed any more. */
#include "core/backend/cuda/be.h"

size_t cuda_input_bytes(size_t block_bytes)
{
    return cuda_round_up(block_bytes);
}

enum bst_err cuda_steps_open(struct bst_be *be)
{
    struct cuda_steps *s = &be->steps;
    cudaError_t e = cudaStreamCreateWithFlags(&s->copy, cudaStreamNonBlocking);

    for (int i = 0; i < BST_STEP_SLOTS && e == cudaSuccess; i++) {
        e = cudaEventCreateWithFlags(&s->copied[i], cudaEventDisableTiming);
        if (e == cudaSuccess)
            e = cudaEventCreateWithFlags(&s->done[i], cudaEventDisableTiming);
    }
    return cuda_fail(e, "cuda: a stream for copies");
}

void cuda_steps_close(struct bst_be *be)
{
    struct cuda_steps *s = &be->steps;

    for (int i = 0; i < BST_STEP_SLOTS; i++) {
        if (s->copied[i])
            cudaEventDestroy(s->copied[i]);
        if (s->done[i])
            cudaEventDestroy(s->done[i]);
    }
    if (s->copy)
        cudaStreamDestroy(s->copy);
}

/* What is asked for from here on comes behind the copy. */
static cudaError_t send_block(struct bst_be *be, const struct bst_step *step, int slot)
{
    struct cuda_steps *s = &be->steps;
    cudaError_t e =
        cudaMemcpyAsync(s->at, step->block, step->block_bytes, cudaMemcpyHostToDevice, s->copy);

    s->is_copying = true;
    if (e == cudaSuccess)
        e = cudaEventRecord(s->copied[slot], s->copy);
    return e == cudaSuccess ? cudaStreamWaitEvent(be->stream, s->copied[slot], 0) : e;
}

enum bst_err cuda_begin(struct bst_be *be, const struct bst_step *step)
{
    struct cuda_steps *s = &be->steps;
    const int slot = (int)(s->n_begun % BST_STEP_SLOTS);

    /* Whoever had the place before is done. */
    BST_ASSERT(step->input && s->n_begun - s->n_done < BST_STEP_SLOTS);
    s->at = (char *)step->input + (size_t)slot * cuda_input_bytes(step->block_bytes);
    s->from = step->block;
    s->bytes = step->block_bytes;
    if (!step->accumulate)
        BST_TRY(cuda_update_begins(be));
    BST_TRY(cuda_fail(send_block(be, step, slot), "a micro-batch to the device"));
    s->n_begun++;
    return BST_OK;
}

const void *cuda_input(const struct bst_be *be, const struct bst_step *step, const void *host)
{
    const struct cuda_steps *s = &be->steps;
    const char *p = host;

    if (step->result)
        return NULL;
    BST_ASSERT(step->block == s->from && p >= s->from && p < s->from + s->bytes);
    return s->at + (p - s->from);
}

enum bst_err cuda_step_ends(struct bst_be *be)
{
    struct cuda_steps *s = &be->steps;

    BST_TRY(cuda_update_goes_on(be));
    return cuda_fail(cudaEventRecord(s->done[(s->n_begun - 1) % BST_STEP_SLOTS], be->stream),
                     "a micro-batch's end");
}

/* One after the other, so that a device is given its time for each. */
enum bst_err cuda_steps_left(struct bst_be *be, int most)
{
    struct cuda_steps *s = &be->steps;

    while (s->n_begun - s->n_done > (unsigned)most) {
        BST_TRY(cuda_wait_event(be, s->done[s->n_done % BST_STEP_SLOTS]));
        s->n_done++;
    }
    return BST_OK;
}

enum bst_err cuda_alloc_host(struct bst_be *be, size_t bytes, void **out)
{
    (void)be;
    *out = NULL;
    return cuda_fail(cudaHostAlloc(out, bytes, cudaHostAllocDefault), "page-locked memory");
}

void cuda_free_host(struct bst_be *be, void *p, size_t bytes)
{
    (void)bytes;
    if (!be->is_hung) /* which may still be reading it */
        cudaFreeHost(p);
}
