#include "core/tune/diagnostics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int bst_diag_number(const char *text)
{
    bool coded = !strncmp(text, "BST-", 4) && strspn(text + 4, "0123456789") == 3;
    return coded ? (int)strtol(text + 4, NULL, 10) : 0;
}

void bst_diag_brief(enum bst_diag id, char out[BST_DIAG_BRIEF])
{
    char code[16];
    bst_diag_code(id, code);
    snprintf(out, BST_DIAG_BRIEF, "%s %s", code, bst_diag_find((int)id)->title);
}

const char *bst_severity_name(enum bst_severity severity)
{
    static const char *const names[] = {"info", "warning", "error"};
    return names[severity];
}
