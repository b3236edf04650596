/* Softmax cross-entropy with PyTorch's label smoothing, a row a block. The loss stays on the device
 * until the program has been put on its stream. */
#include "core/backend/cuda/tune.h"

/* Scratch: the labels, then a struct kern_row a sample. */
static size_t labels_bytes(int64_t n)
{
    return cuda_round_up((size_t)n * sizeof(int32_t));
}

static enum bst_err ce_describe(struct bst_be *be, const struct bst_program *p,
                                const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                struct cuda_handle *h)
{
    const int64_t n = cuda_rows(cuda_src_shape(p, in, 0));

    (void)be;
    (void)accumulate;
    (void)h;
    if (in->attr.pair)
        return bst_fail(BST_E_UNSUPPORTED, "cuda: a second loss");
    w->src[0] = w->dst[0] = BST_LAYOUT_PLAIN;
    w->inplace[0] = 0;
    w->scratch_bytes = labels_bytes(n) + (size_t)n * sizeof(struct kern_row);
    return BST_OK;
}

static enum bst_err ce_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct bst_shape *s = cuda_src_shape(c->p, c->in, 0);
    const int64_t rows = cuda_rows(s), per_sample = rows / s->d[0];
    const struct kern_softmax a = {
        .scaler = be->type == KERN_F16 ? be->scaler : NULL,
        .z = c->src[0],
        .labels = c->scratch,
        .dz = c->in->n_dst ? c->dst[0] : NULL,
        .row = (struct kern_row *)((char *)c->scratch + labels_bytes(rows)),
        .n = rows,
        .n_valid = c->step->n_valid * per_sample,
        .classes = (int)cuda_width(s),
        .ignored = BST_LABEL_IGNORED,
        .smoothing = (float)c->step->label_smoothing,
        .grad_scale = c->step->grad_scale,
    };
    const struct kern_loss_sum sum = {a.row, be->loss, a.n};

    (void)h;
    BST_TRY(
        cuda_fail(cudaMemcpyAsync(c->scratch, c->step->labels, (size_t)a.n_valid * sizeof(int32_t),
                                  cudaMemcpyHostToDevice, be->stream),
                  "labels to the device"));
    BST_TRY(cuda_fail(kern_run_softmax(be->stream, KERN_F32, &a), "loss"));
    BST_TRY(cuda_fail(kern_run_loss_sum(be->stream, KERN_F32, &sum), "loss"));
    BST_TRY(cuda_fail(cudaMemcpyAsync(be->loss_host, be->loss, sizeof *be->loss,
                                      cudaMemcpyDeviceToHost, be->stream),
                      "loss from the device"));
    be->loss_is_pending = true;
    be->loss_per_sample = per_sample;
    return BST_OK;
}

enum bst_err cuda_finish(struct bst_be *be, const struct bst_step *step)
{
    const bool pending = be->loss_is_pending;
    const struct kern_loss *loss = be->loss_host;

    be->loss_is_pending = false;
    BST_TRY(cuda_wait(be));
    if (be->tuned)
        cuda_tuned_write(be->tuned);
    if (!pending)
        return BST_OK;
    if (loss->bad_row >= 0)
        return bst_fail(BST_E_RANGE, "label %d of sample %d is no class of the net",
                        (int)step->labels[loss->bad_row],
                        (int)(loss->bad_row / be->loss_per_sample));
    step->result->loss_sum += loss->sum;
    step->result->correct += loss->correct;
    step->result->targets += loss->targets;
    /* There is no operation over sequences here yet: a sample is a row. */
    step->result->exact += loss->correct;
    return BST_OK;
}

const struct cuda_op cuda_op_softmax_ce = {ce_describe, ce_run};
