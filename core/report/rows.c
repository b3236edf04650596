#include "core/report/rows.h"

#include <math.h>

void bst_rows_init(struct bst_rows *r, const struct bst_history *h)
{
    *r = (struct bst_rows){.history = h};
}

static struct bst_row next_update(struct bst_rows *r, const struct bst_history_update *u)
{
    r->given.n_updates++;
    r->given.update = u->update;
    r->given.seconds = u->seconds;
    return (struct bst_row){
        .kind = BST_ROW_UPDATE, .samples = u->samples, .seconds = u->seconds, .update = u};
}

/* An evaluation at s samples follows the update that ends there; a change taken in at s comes
 * before the update that begins there. */
struct bst_row bst_rows_next(struct bst_rows *r)
{
    const struct bst_history *h = r->history;
    struct bst_history_place *given = &r->given;
    struct bst_row row = {.kind = BST_ROW_BACK};
    if (bst_history_went_back(h, given)) {
        bst_rows_init(r, h);
        return row;
    }
    double update =
        given->n_updates < h->n_updates ? h->updates[given->n_updates].samples : INFINITY;
    double eval = given->n_evals < h->n_evals ? h->evals[given->n_evals].samples : INFINITY;
    double event = given->n_events < h->n_events ? h->events[given->n_events].samples : INFINITY;
    if (!isfinite(event) && given->n_events < h->n_events)
        event = 0;
    row.seconds = given->seconds;
    if (event < update && event <= eval && given->n_events < h->n_events) {
        row.kind = BST_ROW_EVENT;
        row.event = &h->events[given->n_events++];
        row.samples = event;
    } else if (isfinite(update) && update <= eval) {
        row = next_update(r, &h->updates[given->n_updates]);
    } else if (isfinite(eval)) {
        row.kind = BST_ROW_EVAL;
        row.eval = &h->evals[given->n_evals++];
        row.samples = eval;
        if (isfinite(row.eval->seconds))
            row.seconds = row.eval->seconds;
    } else {
        row.kind = BST_ROW_NONE;
    }
    return row;
}

#define FIELD_OF(what, name)                                                                       \
    static double what##_##name(const struct bst_row *row)                                         \
    {                                                                                              \
        return (double)row->what->name;                                                            \
    }
FIELD_OF(update, loss)
FIELD_OF(update, learning_rate)
FIELD_OF(update, grad_norm)
FIELD_OF(update, global_batch)
FIELD_OF(update, micro_batch)
FIELD_OF(update, accumulation)
FIELD_OF(update, samples_per_sec)
FIELD_OF(update, loss_scale)
FIELD_OF(update, tokens)
FIELD_OF(update, tokens_per_sec)
FIELD_OF(eval, loss)
FIELD_OF(eval, accuracy)
FIELD_OF(eval, exact)
FIELD_OF(eval, perplexity)

const struct bst_row_field *bst_row_fields(int *n)
{
    static const struct bst_row_field fields[] = {
        {"loss", false, true, update_loss},
        {"learning_rate", false, false, update_learning_rate},
        {"grad_norm", false, true, update_grad_norm},
        {"global_batch_size", false, false, update_global_batch},
        {"micro_batch_size", false, false, update_micro_batch},
        {"gradient_accumulation_steps", false, false, update_accumulation},
        {"samples_per_sec", false, false, update_samples_per_sec},
        {"loss_scale", false, false, update_loss_scale},
        {"tokens", false, false, update_tokens},
        {"tokens_per_sec", false, false, update_tokens_per_sec},
        {"loss", true, false, eval_loss},
        {"accuracy_top1", true, false, eval_accuracy},
        {"exact_match", true, false, eval_exact},
        {"perplexity", true, false, eval_perplexity},
    };
    *n = (int)(sizeof fields / sizeof *fields);
    return fields;
}
