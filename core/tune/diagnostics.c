#include "core/tune/diagnostics.h"

#include <stddef.h>
#include <stdio.h>

static const struct bst_diag_info table[] = {
#define X(number, name, severity, title, cause, remedy)                                            \
    {BST_DIAG_##name, BST_SEVERITY_##severity, #name, title, cause, remedy},
#include "core/tune/diagnostics.def"
#undef X
};

int bst_diag_count(void)
{
    return (int)(sizeof table / sizeof table[0]);
}

const struct bst_diag_info *bst_diag_at(int i)
{
    return &table[i];
}

const struct bst_diag_info *bst_diag_find(int number)
{
    for (int i = 0; i < bst_diag_count(); i++)
        if ((int)table[i].id == number)
            return &table[i];
    return NULL;
}

void bst_diag_code(enum bst_diag id, char out[16])
{
    snprintf(out, 16, "BST-%03u", (unsigned)id);
}

const char *bst_severity_name(enum bst_severity severity)
{
    static const char *const names[] = {"info", "warning", "error"};
    return names[severity];
}
