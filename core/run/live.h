/* Live settings as JSON: what the journal and a checkpoint keep of them, so that a change is put
 * back exactly as it was, not worked out again. Pure; any thread. */
#ifndef BST_RUN_LIVE_H
#define BST_RUN_LIVE_H

#include <jansson.h>

#include "core/base/json.h"
#include "core/tune/plan.h"

void bst_live_print(const struct bst_live *live, const char *key, struct bst_json *j);
/* BST_E_PARSE when a field is missing or bst_plan_check refuses the whole. */
BST_MUST_USE enum bst_err bst_live_read(const json_t *o, struct bst_live *out);

/* "changes":[{"key":…,"old":…,"new":…}], numbers as numbers. */
void bst_changes_print(const struct bst_change *changes, int n, struct bst_json *j);
/* A string as it is, a number as its shortest text; "" for anything else. */
void bst_value_text(const json_t *v, char *out, size_t room);

#endif
