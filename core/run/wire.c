#include "core/run/wire.h"

#include <jansson.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/run/field.h"

void bst_frames_init(struct bst_frames *f, size_t cap)
{
    *f = (struct bst_frames){.cap = cap};
}

void bst_frames_fini(struct bst_frames *f)
{
    bst_free(f->data);
    *f = (struct bst_frames){.cap = f->cap};
}

static void make_room(struct bst_frames *f, size_t n)
{
    if (f->start) {
        memmove(f->data, f->data + f->start, f->len - f->start);
        f->len -= f->start;
        f->scanned -= f->start;
        f->start = 0;
    }
    if (f->len + n <= f->room)
        return;
    size_t room = f->room ? f->room : 512;
    while (room < f->len + n)
        room *= 2;
    f->data = bst_xrealloc(f->data, room, 1);
    f->room = room;
}

enum bst_err bst_frames_feed(struct bst_frames *f, const char *bytes, size_t n)
{
    make_room(f, n);
    memcpy(f->data + f->len, bytes, n);
    f->len += n;
    /* A line that is already whole is no more than what one feed brings past the cap. */
    if (f->len > f->cap && !memchr(f->data + f->scanned, '\n', f->len - f->scanned))
        return bst_fail(BST_E_RANGE, "a line longer than %zu bytes", f->cap);
    return BST_OK;
}

char *bst_frames_next(struct bst_frames *f, size_t *n)
{
    char *end =
        f->len > f->scanned ? memchr(f->data + f->scanned, '\n', f->len - f->scanned) : NULL;
    if (!end) {
        f->scanned = f->len;
        return NULL;
    }
    char *line = f->data + f->start;
    *end = '\0';
    *n = (size_t)(end - line);
    f->start = f->scanned = (size_t)(end - f->data) + 1;
    return line;
}

bool bst_frames_partial(const struct bst_frames *f)
{
    return f->len > f->start;
}

static const struct {
    const char *word;
    enum bst_request_op op;
} ops[] = {
    {"hello", BST_REQUEST_HELLO}, {"status", BST_REQUEST_STATUS}, {"command", BST_REQUEST_COMMAND},
    {"arm", BST_REQUEST_ARM},     {"lease", BST_REQUEST_LEASE},
};

static enum bst_err parse_op(const json_t *o, struct bst_request *out)
{
    const char *word = bst_json_text(o, "op");
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(word, ops[i].word)) {
            out->op = ops[i].op;
            return BST_OK;
        }
    return bst_fail(BST_E_PARSE, "a request without a known \"op\"");
}

static enum bst_err parse_fields(const json_t *o, struct bst_request *out)
{
    const char *text = bst_json_text(o, "text");
    BST_TRY(parse_op(o, out));
    out->id = bst_json_count(o, "id", 0);
    if (strlen(text) >= sizeof out->text)
        return bst_fail(BST_E_RANGE, "a command longer than %zu bytes", sizeof out->text - 1);
    bst_copy_text(out->text, sizeof out->text, text);
    bst_copy_clean(out->client, sizeof out->client, bst_json_text(o, "client"));
    bst_copy_clean(out->user, sizeof out->user, bst_json_text(o, "user"));
    out->version = (int)bst_json_real(o, "version", 0);
    out->readonly = json_is_true(json_object_get(o, "readonly"));
    out->dry = json_is_true(json_object_get(o, "dry"));
    out->layers = json_is_true(json_object_get(o, "layers"));
    out->on = json_is_true(json_object_get(o, out->op == BST_REQUEST_ARM ? "on" : "take"));
    return BST_OK;
}

enum bst_err bst_request_parse(const char *line, size_t n, struct bst_request *out)
{
    *out = (struct bst_request){0};
    json_error_t why;
    json_t *o = json_loadb(line, n, JSON_REJECT_DUPLICATES, &why);
    if (!o)
        return bst_fail(BST_E_PARSE, "a request that is not JSON");
    enum bst_err err = json_is_object(o) ? parse_fields(o, out)
                                         : bst_fail(BST_E_PARSE, "a request that is not an object");
    json_decref(o);
    return err;
}
