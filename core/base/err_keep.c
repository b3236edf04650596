/* Apart from err.c: a module has an err.c of its own, and this with it. */
#include <string.h>

#include "core/base/err.h"

#undef bst_err_restore

struct bst_failure bst_err_keep(enum bst_err err)
{
    struct bst_failure f = {.err = err};
    const char *text = err ? bst_err_text() : "";
    memcpy(f.text, text, strnlen(text, sizeof f.text - 1));
    return f;
}

enum bst_err bst_err_restore(const struct bst_failure *f)
{
    return f->err ? bst_fail(f->err, "%s", f->text) : BST_OK;
}
