/* Every message that has a code: one table, diagnostics.def, fills this enum, the events pane and
 * bstune-diagnostics(7). A code is never reused. Pure; any thread. */
#ifndef BST_TUNE_DIAGNOSTICS_H
#define BST_TUNE_DIAGNOSTICS_H

enum bst_severity {
    BST_SEVERITY_INFO,  /* worth knowing */
    BST_SEVERITY_WARN,  /* the run goes on, something should be looked at */
    BST_SEVERITY_ERROR, /* a request was refused, or the run ends */
};

enum bst_diag {
    BST_DIAG_NONE,
#define X(number, name, severity, title, cause, remedy) BST_DIAG_##name = number,
#include "core/tune/diagnostics.def"
#undef X
};

struct bst_diag_info {
    enum bst_diag id; /* its number is the code's: 101 is BST-101 */
    enum bst_severity severity;
    const char *name;   /* "NONFINITE_GRADIENT" */
    const char *title;  /* one line, lower case, no stop */
    const char *cause;  /* sentences */
    const char *remedy; /* sentences */
};

/* NULL for an unknown code. */
const struct bst_diag_info *bst_diag_find(int number);
/* i from 0 to n-1 in the order of the table. */
int bst_diag_count(void);
const struct bst_diag_info *bst_diag_at(int i);
/* "BST-101" */
void bst_diag_code(enum bst_diag id, char out[16]);
/* The number of the code that a text begins with, known or not; 0: it begins with none. */
int bst_diag_number(const char *text);
enum { BST_DIAG_BRIEF = 160 };
/* "BST-101 gradient is not finite": a code that is known, and its title. */
void bst_diag_brief(enum bst_diag id, char out[BST_DIAG_BRIEF]);
const char *bst_severity_name(enum bst_severity severity);

#endif
