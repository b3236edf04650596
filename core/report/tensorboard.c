#include "core/report/tensorboard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/crc32c.h"

/* Wire types and the numbers of the fields used here, from the .proto files named in the header. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION_LOG = 7,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9,
    METADATA_PLUGIN = 1,
    PLUGIN_NAME = 1,
    TENSOR_DTYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_STRING = 8,
    SESSION_STATUS = 1,
    SESSION_START = 1,
    DT_STRING = 7,
};
enum { MESSAGE_MAX = 4096 };

static void put_varint(struct bst_sb *m, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        bst_sb_addc(m, (char)(x | 0x80));
    bst_sb_addc(m, (char)x);
}

static void put_key(struct bst_sb *m, int field, int type)
{
    put_varint(m, (uint64_t)field << 3 | (uint64_t)type);
}

static void put_little(struct bst_sb *m, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        bst_sb_addc(m, (char)(x >> 8 * i));
}

static void put_double(struct bst_sb *m, int field, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_key(m, field, FIXED64);
    put_little(m, bits, 8);
}

static void put_float(struct bst_sb *m, int field, double x)
{
    float single = (float)x;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    put_key(m, field, FIXED32);
    put_little(m, bits, 4);
}

static void put_int(struct bst_sb *m, int field, uint64_t x)
{
    put_key(m, field, VARINT);
    put_varint(m, x);
}

static void put_bytes(struct bst_sb *m, int field, const char *s, size_t n)
{
    put_key(m, field, BYTES);
    put_varint(m, n);
    bst_sb_addn(m, s, n);
}

static void put_message(struct bst_sb *m, int field, struct bst_sb *inner)
{
    put_bytes(m, field, inner->data, inner->len);
    bst_sb_fini(inner);
}

static struct bst_sb message(void)
{
    struct bst_sb m;
    bst_sb_init(&m, MESSAGE_MAX);
    return m;
}

static uint32_t masked_crc(const void *data, size_t n)
{
    uint32_t crc = bst_crc32c(0, data, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void put_record(struct bst_sb *out, const struct bst_sb *m)
{
    size_t at = out->len;
    put_little(out, m->len, 8);
    put_little(out, masked_crc(out->data + at, 8), 4);
    bst_sb_addn(out, m->data, m->len);
    put_little(out, masked_crc(m->data, m->len), 4);
}

static struct bst_sb event(double wall, double samples)
{
    struct bst_sb e = message();
    put_double(&e, EVENT_WALL_TIME, wall);
    put_int(&e, EVENT_STEP, (uint64_t)samples);
    return e;
}

static void put_scalar(struct bst_sb *summary, const char *tag, double x)
{
    struct bst_sb v = message();
    put_bytes(&v, VALUE_TAG, tag, strlen(tag));
    put_float(&v, VALUE_SIMPLE, x);
    put_message(summary, SUMMARY_VALUE, &v);
}

static void put_text(struct bst_sb *summary, const char *tag, const char *text)
{
    struct bst_sb v = message(), meta = message(), plugin = message(), tensor = message();
    put_bytes(&v, VALUE_TAG, tag, strlen(tag));
    put_bytes(&plugin, PLUGIN_NAME, "text", 4);
    put_message(&meta, METADATA_PLUGIN, &plugin);
    put_int(&tensor, TENSOR_DTYPE, DT_STRING);
    put_bytes(&tensor, TENSOR_SHAPE, "", 0);
    put_bytes(&tensor, TENSOR_STRING, text, strlen(text));
    put_message(&v, VALUE_TENSOR, &tensor);
    put_message(&v, VALUE_METADATA, &meta);
    put_message(summary, SUMMARY_VALUE, &v);
}

static void put_numbers(struct bst_sb *summary, const struct bst_row *row)
{
    int n;
    const struct bst_row_field *f = bst_row_fields(&n);
    bool eval = row->kind == BST_ROW_EVAL;
    for (int i = 0; i < n; i++) {
        if (f[i].of_eval != eval)
            continue;
        double x = f[i].get(row);
        char tag[64];
        snprintf(tag, sizeof tag, "%s/%s", eval ? "eval" : "train", f[i].name);
        if (isfinite(x) || (f[i].bad && row->update->nonfinite))
            put_scalar(summary, tag, x);
    }
}

void bst_tensorboard_header(struct bst_sb *out, double wall)
{
    static const char version[] = "brain.Event:2";
    struct bst_sb e = message();
    put_double(&e, EVENT_WALL_TIME, wall);
    put_bytes(&e, EVENT_FILE_VERSION, version, sizeof version - 1);
    put_record(out, &e);
    bst_sb_fini(&e);
}

void bst_tensorboard_row(struct bst_sb *out, const struct bst_row *row, double wall)
{
    struct bst_sb e = event(wall + row->seconds, row->samples), inner = message();
    if (row->kind == BST_ROW_BACK) {
        put_int(&inner, SESSION_STATUS, SESSION_START);
        put_message(&e, EVENT_SESSION_LOG, &inner);
    } else {
        if (row->kind == BST_ROW_EVENT)
            put_text(&inner, "changes", row->event->text);
        else
            put_numbers(&inner, row);
        put_message(&e, EVENT_SUMMARY, &inner);
    }
    put_record(out, &e);
    bst_sb_fini(&e);
}
