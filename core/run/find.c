#include <stdarg.h>
#include <stdio.h>

#include "core/run/field.h"
#include "core/run/find_inner.h"

enum bst_err bst_find_begin(const struct bst_find *f, struct bst_kept **kept)
{
    BST_TRY(bst_find_stopped(f));
    return bst_trainer_keep(f->trainer, kept);
}

enum bst_err bst_find_end(const struct bst_find *f, struct bst_kept *kept, enum bst_err err,
                          bool *restored)
{
    const struct bst_failure why = bst_err_keep(err);
    enum bst_err back = bst_trainer_restore(kept);
    bst_trainer_kept_free(kept);
    if (!back && f->req.batch)
        back = bst_trainer_set_split(f->trainer, f->req.batch, f->req.micro_batches, NULL);
    *restored = !back;
    if (back)
        return bst_fail_in(back, "after the search the trainer could not be put back");
    return bst_err_restore(&why);
}

void bst_find_say(const struct bst_find *f, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    if (!f->progress)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    f->progress(f->arg, text);
}

enum bst_err bst_find_stopped(const struct bst_find *f)
{
    if (f->stop && atomic_load(f->stop))
        return bst_fail(BST_E_CANCELLED, "stopped");
    return BST_OK;
}
