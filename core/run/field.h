/* Plain structs to and from JSON objects by a table of their fields, so that what is sent and what
 * is read cannot drift apart. Pure; any thread. */
#ifndef BST_RUN_FIELD_H
#define BST_RUN_FIELD_H

#include <jansson.h>
#include <stddef.h>

#include "core/base/json.h"

enum bst_field_kind {
    BST_FIELD_STR, /* char[room]; cleaned for a terminal when read */
    BST_FIELD_INT,
    BST_FIELD_U64,
    BST_FIELD_I64,
    BST_FIELD_F64,
    BST_FIELD_BOOL,
    BST_FIELD_METRIC, /* struct bst_metric: null when not valid */
};

struct bst_field {
    const char *key;
    enum bst_field_kind kind;
    size_t offset, room;
};

#define BST_FIELD(type, kind, name)                                                                \
    {                                                                                              \
#name, BST_FIELD_##kind, offsetof(type, name), sizeof(((type *)0)->name)                   \
    }

void bst_fields_print(const struct bst_field *fields, size_t n, const void *from,
                      struct bst_json *j);
/* A key that is missing or of another type leaves its field as it was. */
void bst_fields_read(const struct bst_field *fields, size_t n, const json_t *from, void *to);

/* Copies a text made safe to show; cut at a whole character. NULL gives "". */
void bst_copy_clean(char *to, size_t room, const char *text);
/* The same for text that was made here, so only cut. */
void bst_copy_text(char *to, size_t room, const char *text);
/* "" when there is no such string. Borrowed. */
const char *bst_json_text(const json_t *o, const char *key);
double bst_json_real(const json_t *o, const char *key, double otherwise);
uint64_t bst_json_count(const json_t *o, const char *key, uint64_t otherwise);

#endif
