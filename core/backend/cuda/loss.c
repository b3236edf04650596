/* Softmax cross-entropy with PyTorch's label smoothing, a row a block; a net may have a second
 * loss, of a label a sample. Losses stay on the device until the program has been put on its
 * stream, of a step without a result until the commit. */
#include "core/backend/cuda/tune.h"

/* Scratch: the labels, then a struct kern_row a target. */
static size_t labels_bytes(int64_t n)
{
    return cuda_round_up((size_t)n * sizeof(int32_t));
}

static enum bst_err ce_describe(struct bst_be *be, const struct bst_program *p,
                                const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                struct cuda_handle *h)
{
    const int64_t n = cuda_rows(cuda_src_shape(p, in, 0));

    (void)accumulate;
    (void)h;
    cuda_seq_layouts(be, p, in, w);
    w->inplace[0] = 0;
    w->scratch_bytes = labels_bytes(n) + (size_t)n * sizeof(struct kern_row);
    return BST_OK;
}

static enum bst_err bad_label(const int32_t *labels, int64_t row, int64_t per_sample)
{
    return bst_fail(BST_E_RANGE, "label %d of sample %d is no class of the net", (int)labels[row],
                    (int)(row / per_sample));
}

/* What comes back with the commit comes too late for an error about labels. */
static enum bst_err check_ahead(const struct kern_softmax *a, const int32_t *labels,
                                int64_t per_sample)
{
    for (int64_t i = 0; i < a->n_valid; i++)
        if (labels[i] != a->ignored && (labels[i] < 0 || labels[i] >= a->classes))
            return bad_label(labels, i, per_sample);
    return BST_OK;
}

/* Of the rows, and their sum to where it is read. */
static enum bst_err run_loss(struct bst_be *be, enum kern_type type, const struct kern_softmax *a,
                             const struct bst_step *step, int64_t per_sample, int which)
{
    const bool late = !step->result;
    const struct kern_loss_sum sum = {a->row,     &be->loss[which],        a->n, a->n / per_sample,
                                      per_sample, late && step->accumulate};

    BST_TRY(cuda_fail(kern_run_softmax(be->stream, type, a), "loss"));
    BST_TRY(cuda_fail(kern_run_loss_sum(be->stream, KERN_F32, &sum), "loss"));
    if (late)
        return BST_OK;
    BST_TRY(cuda_fail(cudaMemcpyAsync(&be->loss_host[which], &be->loss[which], sizeof *be->loss,
                                      cudaMemcpyDeviceToHost, be->stream),
                      "loss from the device"));
    be->loss_is_pending[which] = true;
    if (!which)
        be->loss_per_sample = per_sample;
    return BST_OK;
}

static enum bst_err ce_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct bst_shape *s = cuda_src_shape(c->p, c->in, 0);
    const struct bst_step *step = c->step;
    const bool pair = c->in->attr.pair;
    const int32_t *labels = pair ? step->pair : step->labels;
    const double smoothing = pair ? 0 : step->label_smoothing;
    const int64_t rows = cuda_rows(s), per_sample = rows / s->d[0];
    struct kern_softmax a = {
        .scaler = be->type == KERN_F16 ? be->scaler : NULL,
        .z = c->src[0],
        .labels = labels ? cuda_input(be, step, labels) : NULL,
        .dz = c->in->n_dst ? c->dst[0] : NULL,
        .row = (struct kern_row *)((char *)c->scratch + labels_bytes(rows)),
        .n = rows,
        .n_valid = step->n_valid * per_sample,
        .classes = (int)cuda_width(s),
        .ignored = BST_LABEL_IGNORED,
        .every = smoothing / (double)cuda_width(s),
        .own = 1 - smoothing,
        .grad_scale = pair ? step->pair_scale : step->grad_scale,
    };

    (void)h;
    if (!labels && step->n_valid)
        return bst_fail(BST_E_ARG, "the step has no labels for this loss");
    if (a.labels)
        BST_TRY(check_ahead(&a, labels, per_sample));
    if (!a.labels && a.n_valid)
        BST_TRY(cuda_fail(cudaMemcpyAsync(c->scratch, labels, (size_t)a.n_valid * sizeof *labels,
                                          cudaMemcpyHostToDevice, be->stream),
                          "labels to the device"));
    a.labels = a.labels ? a.labels : c->scratch;
    return run_loss(be, cuda_seq_type(be, s), &a, step, per_sample, pair);
}

static enum bst_err check_labels(const struct kern_loss *loss, const int32_t *labels,
                                 int64_t per_sample)
{
    if (loss->bad_row < 0)
        return BST_OK;
    return bad_label(labels, loss->bad_row, per_sample);
}

enum bst_err cuda_finish(struct bst_be *be, const struct bst_step *step)
{
    bool pending[CUDA_LOSSES];
    struct bst_step_result *r = step->result;

    for (int i = 0; i < CUDA_LOSSES; i++) {
        pending[i] = be->loss_is_pending[i];
        be->loss_is_pending[i] = false;
    }
    if (r)
        BST_TRY(cuda_wait(be));
    else
        BST_TRY(cuda_step_ends(be));
    if (be->tuned)
        cuda_tuned_write(be->tuned);
    if (pending[0]) {
        const struct kern_loss *loss = &be->loss_host[0];

        BST_TRY(check_labels(loss, step->labels, be->loss_per_sample));
        r->loss_sum += loss->sum;
        r->correct += loss->correct;
        r->targets += loss->targets;
        r->exact += loss->exact;
    }
    if (pending[1]) {
        BST_TRY(check_labels(&be->loss_host[1], step->pair, 1));
        r->pair_loss_sum += be->loss_host[1].sum;
        r->pair_correct += be->loss_host[1].correct;
    }
    return BST_OK;
}

const struct cuda_op cuda_op_softmax_ce = {ce_describe, ce_run};
