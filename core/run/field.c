#include "core/run/field.h"

#include <string.h>

#include "core/base/text.h"
#include "core/run/status.h"

static void print_field(const struct bst_field *f, const char *at, struct bst_json *j)
{
    switch (f->kind) {
    case BST_FIELD_STR:
        bst_json_str(j, f->key, at);
        return;
    case BST_FIELD_INT:
        bst_json_int(j, f->key, *(const int *)(const void *)at);
        return;
    case BST_FIELD_U64:
        bst_json_uint(j, f->key, *(const uint64_t *)(const void *)at);
        return;
    case BST_FIELD_I64:
        bst_json_int(j, f->key, *(const int64_t *)(const void *)at);
        return;
    case BST_FIELD_F64:
        bst_json_num(j, f->key, *(const double *)(const void *)at);
        return;
    case BST_FIELD_BOOL:
        bst_json_bool(j, f->key, *(const bool *)(const void *)at);
        return;
    case BST_FIELD_METRIC: {
        const struct bst_metric *m = (const void *)at;
        if (m->valid)
            bst_json_num(j, f->key, m->value);
        else
            bst_json_null(j, f->key);
        return;
    }
    }
}

void bst_fields_print(const struct bst_field *fields, size_t n, const void *from,
                      struct bst_json *j)
{
    for (size_t i = 0; i < n; i++)
        print_field(&fields[i], (const char *)from + fields[i].offset, j);
}

/* The largest whole double below 2^63: a double past it has no int64_t. */
static bool is_count(const json_t *v, int64_t *out)
{
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return true;
    }
    double d = json_is_real(v) ? json_real_value(v) : -1;
    if (!(d >= 0 && d < 9.2e18))
        return false;
    *out = (int64_t)d;
    return true;
}

static void read_field(const struct bst_field *f, const json_t *v, char *at)
{
    int64_t whole;
    switch (f->kind) {
    case BST_FIELD_STR:
        if (json_is_string(v))
            bst_copy_clean(at, f->room, json_string_value(v));
        return;
    case BST_FIELD_INT:
        if (is_count(v, &whole) && whole >= INT32_MIN && whole <= INT32_MAX)
            *(int *)(void *)at = (int)whole;
        return;
    case BST_FIELD_U64:
        if (is_count(v, &whole) && whole >= 0)
            *(uint64_t *)(void *)at = (uint64_t)whole;
        return;
    case BST_FIELD_I64:
        if (is_count(v, &whole))
            *(int64_t *)(void *)at = whole;
        return;
    case BST_FIELD_F64:
        if (json_is_number(v))
            *(double *)(void *)at = json_number_value(v);
        return;
    case BST_FIELD_BOOL:
        if (json_is_boolean(v))
            *(bool *)(void *)at = json_is_true(v);
        return;
    case BST_FIELD_METRIC: {
        struct bst_metric *m = (void *)at;
        *m = (struct bst_metric){.valid = json_is_number(v)};
        if (m->valid)
            m->value = json_number_value(v);
        return;
    }
    }
}

void bst_fields_read(const struct bst_field *fields, size_t n, const json_t *from, void *to)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_object_get(from, fields[i].key);
        if (v)
            read_field(&fields[i], v, (char *)to + fields[i].offset);
    }
}

void bst_copy_text(char *to, size_t room, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    if (n >= room) {
        n = room - 1;
        while (n && ((unsigned char)text[n] & 0xC0) == 0x80)
            n--;
    }
    if (n)
        memcpy(to, text, n);
    to[n] = '\0';
}

void bst_copy_clean(char *to, size_t room, const char *text)
{
    struct bst_sb sb;
    if (!text)
        text = "";
    bst_sb_init(&sb, 4 * room + 64);
    bst_text_clean(&sb, text, strnlen(text, room));
    bst_copy_text(to, room, sb.data);
    bst_sb_fini(&sb);
}

const char *bst_json_text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

double bst_json_real(const json_t *o, const char *key, double otherwise)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : otherwise;
}

uint64_t bst_json_count(const json_t *o, const char *key, uint64_t otherwise)
{
    int64_t whole;
    const json_t *v = json_object_get(o, key);
    return v && is_count(v, &whole) && whole >= 0 ? (uint64_t)whole : otherwise;
}
