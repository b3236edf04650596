/* YAML as presets and the console's configuration may use it, and complaints about it with their
 * places: all of them at once, "FILE:4:1: error: …". Pure; any thread. */
#ifndef BST_RUN_YAML_H
#define BST_RUN_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"
#include "core/base/sb.h"

/* Limits while parsing. The events bound what a check of every key against every other may cost. */
enum {
    BST_YAML_BYTES_MAX = 256 * 1024,
    BST_YAML_DEPTH_MAX = 32,
    BST_YAML_EVENTS_MAX = 4096,
    BST_YAML_SCALAR_MAX = 4096,
    BST_COMPLAINTS_MAX = 50,
};

/* Where in the input something stood, both from 1. {0, 0}: nowhere; {-k, 0}: in the k-th --set. */
struct bst_place {
    int line, column;
};

/* Errors while they are gathered, kept with their places so that they can be told in order. */
struct bst_complaint {
    struct bst_place at;
    char *text; /* heap, raw */
};

struct bst_complaints {
    struct bst_complaint v[BST_COMPLAINTS_MAX];
    int n; /* all, also those past the end of v, which are only counted */
};

void bst_complain(struct bst_complaints *c, struct bst_place at, const char *fmt, ...)
    BST_PRINTF(3, 4);
void bst_complaints_fini(struct bst_complaints *c);
/* A line each, in the order of their places; `sets` are what {-k, 0} counts, NULL where there are
 * none. BST_E_PARSE, with the first line, when there is any. */
BST_MUST_USE enum bst_err bst_complaints_tell(struct bst_complaints *c, const char *label,
                                              const char *const *sets, struct bst_sb *out);
/* 'text', made safe to show and cut to what fits a line. */
void bst_quote(struct bst_sb *out, const char *text);

enum bst_yaml_kind { BST_YAML_SCALAR, BST_YAML_LIST, BST_YAML_MAP };

/* A tree of the text, made within the limits above. A scalar has no NUL within. */
struct bst_yaml {
    enum bst_yaml_kind kind;
    bool plain; /* scalar without quotes: may be a number or true */
    bool bad;   /* refused already: say no more about it */
    struct bst_place at;
    char *text; /* scalar */
    char *key;  /* when in a map; NULL in a list */
    struct bst_place key_at;
    struct bst_yaml *child, *last, *next; /* in order */
};

/* False, with a complaint, when the text is not YAML or breaks a limit; what is only refused in
 * places leaves complaints and true. *root is NULL for an empty text. `at_set`: the text is the
 * value of that
 * --set, else 0. */
bool bst_yaml_read(const char *text, size_t n, int at_set, struct bst_yaml **root,
                   struct bst_complaints *c);
void bst_yaml_free(struct bst_yaml *node);

#endif
