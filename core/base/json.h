/* Writing one JSON value into a string buffer. Locale-proof; strings are escaped and cleaned of
 * invalid UTF-8; a double that is not finite is written as null. Reading is jansson's work.
 * Caller's storage; one thread. */
#ifndef BST_BASE_JSON_H
#define BST_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/sb.h"

struct bst_json {
    struct bst_sb *sb;
    bool comma;
};

void bst_json_init(struct bst_json *j, struct bst_sb *sb);
/* key is NULL in arrays and for the outermost value. bracket is one of {[ and }]. */
void bst_json_open(struct bst_json *j, const char *key, char bracket);
void bst_json_close(struct bst_json *j, char bracket);
void bst_json_str(struct bst_json *j, const char *key, const char *value); /* NULL value: null */
void bst_json_int(struct bst_json *j, const char *key, int64_t value);
void bst_json_uint(struct bst_json *j, const char *key, uint64_t value);
void bst_json_num(struct bst_json *j, const char *key, double value); /* as bst_num_text */
void bst_json_bool(struct bst_json *j, const char *key, bool value);
void bst_json_null(struct bst_json *j, const char *key);
/* `"key":null,"nonfinite":"nan"|"inf"` when value is not finite, else the number. */
void bst_json_num_or_why(struct bst_json *j, const char *key, double value);
void bst_json_raw(struct bst_json *j, const char *key, const char *json);

/* Shortest decimal that strtod reads back to the same double, '.' whatever the locale. */
void bst_num_text(double value, char out[32]);
/* Rounded to so many significant digits (1 to 17), for people; the same form otherwise. */
void bst_num_brief(double value, int digits, char out[32]);
/* Whole-string decimal number in the C locale; refuses NaN, Inf, hex, blanks. */
bool bst_num_parse(const char *text, double *out);
bool bst_int_parse(const char *text, int64_t *out);

#endif
