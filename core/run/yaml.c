/* Parser events only: yaml_parser_load() follows aliases, and libyaml
 * 0.2.5 has no limit of depth of its own. */
#include "core/run/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "core/base/alloc.h"
#include "core/base/text.h"

void bst_complain(struct bst_complaints *c, struct bst_place at, const char *fmt, ...)
{
    int i = c->n++;
    if (i >= BST_COMPLAINTS_MAX)
        return;
    struct bst_sb text;
    bst_sb_init(&text, 1024);
    va_list ap;
    va_start(ap, fmt);
    bst_sb_addv(&text, fmt, ap);
    va_end(ap);
    c->v[i] = (struct bst_complaint){at, bst_sb_take(&text)};
}

void bst_complaints_fini(struct bst_complaints *c)
{
    for (int i = 0; i < c->n && i < BST_COMPLAINTS_MAX; i++)
        bst_free(c->v[i].text);
    c->n = 0;
}

/* Places of --set come after those of the file. */
static int by_place(const void *a, const void *b)
{
    const struct bst_place *x = &((const struct bst_complaint *)a)->at;
    const struct bst_place *y = &((const struct bst_complaint *)b)->at;
    if ((x->line < 0) != (y->line < 0))
        return x->line < 0 ? 1 : -1;
    if (x->line != y->line)
        return (x->line < y->line) == (x->line >= 0) ? -1 : 1;
    return (x->column > y->column) - (x->column < y->column);
}

static void add_line(struct bst_sb *out, const char *label, const char *const *sets,
                     const struct bst_complaint *c)
{
    if (c->at.line < 0) {
        bst_sb_add(out, "--set ");
        bst_text_clean(out, sets[-c->at.line - 1], strnlen(sets[-c->at.line - 1], 80));
    } else {
        bst_text_clean(out, label, strlen(label));
        if (c->at.line)
            bst_sb_addf(out, ":%d:%d", c->at.line, c->at.column);
    }
    bst_sb_add(out, ": error: ");
    bst_text_clean(out, c->text, strlen(c->text));
    bst_sb_addc(out, '\n');
}

enum bst_err bst_complaints_tell(struct bst_complaints *c, const char *label,
                                 const char *const *sets, struct bst_sb *out)
{
    int kept = c->n < BST_COMPLAINTS_MAX ? c->n : BST_COMPLAINTS_MAX;
    if (!c->n)
        return BST_OK;
    qsort(c->v, (size_t)kept, sizeof c->v[0], by_place);
    for (int i = 0; i < kept; i++)
        add_line(out, label, sets, &c->v[i]);
    if (kept < c->n)
        bst_sb_addf(out, "… and %d errors more\n", c->n - kept);
    return bst_fail(BST_E_PARSE, "%.*s", (int)strcspn(out->data, "\n"), out->data);
}

void bst_quote(struct bst_sb *out, const char *text)
{
    enum { SHOWN = 60 };
    size_t n = strlen(text), shown = 0;
    uint32_t point;
    while (shown < n && shown < SHOWN) {
        size_t len = bst_text_utf8(text + shown, n - shown, &point);
        shown += len ? len : 1;
    }
    bst_sb_addc(out, '\'');
    bst_text_clean(out, text, shown);
    bst_sb_add(out, shown < n ? "…'" : "'");
}

struct reader {
    yaml_parser_t parser;
    struct bst_complaints *c;
    int at_set;
    struct bst_place end; /* behind the last word: libyaml's end is on the line after it */
    int n_events, depth;
    struct bst_yaml *stack[BST_YAML_DEPTH_MAX];
    char *key; /* of the value to come, in a map */
    struct bst_place key_at;
    struct bst_yaml *root;
};

static struct bst_place place(const struct reader *r, yaml_mark_t mark)
{
    if (r->at_set)
        return (struct bst_place){-r->at_set, 0};
    return (struct bst_place){(int)mark.line + 1, (int)mark.column + 1};
}

/* Where a person sees it: what is missing at the end is missing behind the last word. */
static struct bst_place seen_place(const struct reader *r, yaml_mark_t mark)
{
    struct bst_place at = place(r, mark);
    return !r->at_set && at.line > r->end.line ? r->end : at;
}

void bst_yaml_free(struct bst_yaml *node)
{
    while (node) {
        struct bst_yaml *next = node->next;
        bst_yaml_free(node->child);
        bst_free(node->text);
        bst_free(node->key);
        bst_free(node);
        node = next;
    }
}

static struct bst_yaml *find(const struct bst_yaml *map, const char *key)
{
    for (struct bst_yaml *n = map->child; n; n = n->next)
        if (strcmp(n->key, key) == 0)
            return n;
    return NULL;
}

static void put(struct reader *r, struct bst_yaml *node)
{
    struct bst_yaml *parent = r->depth ? r->stack[r->depth - 1] : NULL;
    if (!parent) {
        r->root = node;
        return;
    }
    if (parent->kind == BST_YAML_MAP) {
        node->key = r->key;
        node->key_at = r->key_at;
        r->key = NULL;
    }
    if (parent->last)
        parent->last->next = node;
    else
        parent->child = node;
    parent->last = node;
}

/* A scalar where a map wants a key. */
static void take_key(struct reader *r, const char *text, struct bst_place at)
{
    r->key = bst_xstrdup(text);
    r->key_at = at;
    const struct bst_yaml *same = find(r->stack[r->depth - 1], text);
    if (!same)
        return;
    struct bst_sb quoted;
    bst_sb_init(&quoted, 512);
    bst_quote(&quoted, text);
    if (r->at_set)
        bst_complain(r->c, at, "key %s is given twice", quoted.data);
    else
        bst_complain(r->c, at, "key %s is given twice; first on line %d", quoted.data,
                     same->key_at.line);
    bst_sb_fini(&quoted);
}

static bool wants_key(const struct reader *r)
{
    return r->depth && r->stack[r->depth - 1]->kind == BST_YAML_MAP && !r->key;
}

/* Tags and anchors are refused, wherever they stand; the node then says no more. */
static bool is_marked(struct reader *r, struct bst_place at, const yaml_char_t *anchor,
                      const yaml_char_t *tag)
{
    if (anchor)
        bst_complain(r->c, at, "anchors (&name) are not allowed");
    if (tag)
        bst_complain(r->c, at, "tags (!name) are not allowed");
    return anchor || tag;
}

static bool take_scalar(struct reader *r, const yaml_event_t *e)
{
    struct bst_place at = place(r, e->start_mark);
    const char *text = (const char *)e->data.scalar.value;
    size_t n = e->data.scalar.length;
    bool bad = is_marked(r, at, e->data.scalar.anchor, e->data.scalar.tag);
    if (n > BST_YAML_SCALAR_MAX) {
        bst_complain(r->c, at, "a value of %zu bytes; %d is the limit", n, BST_YAML_SCALAR_MAX);
        return false;
    }
    if (memchr(text, '\0', n)) {
        bst_complain(r->c, at, "a value has a NUL character in it");
        return false;
    }
    if (wants_key(r)) {
        take_key(r, text, at);
        return true;
    }
    struct bst_yaml *node = bst_xalloc(sizeof *node);
    *node = (struct bst_yaml){.kind = BST_YAML_SCALAR,
                              .at = at,
                              .bad = bad,
                              .plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE,
                              .text = bst_xstrdup(text)};
    put(r, node);
    return true;
}

static bool open_collection(struct reader *r, enum bst_yaml_kind kind, struct bst_place at,
                            bool bad)
{
    if (wants_key(r)) {
        bst_complain(r->c, at, "a key must be a word, not a list or a mapping");
        return false;
    }
    if (r->depth == BST_YAML_DEPTH_MAX) {
        bst_complain(r->c, at, "nested more than %d deep", BST_YAML_DEPTH_MAX);
        return false;
    }
    struct bst_yaml *node = bst_xalloc(sizeof *node);
    *node = (struct bst_yaml){.kind = kind, .at = at, .bad = bad};
    put(r, node);
    r->stack[r->depth++] = node;
    return true;
}

static bool take_alias(struct reader *r, struct bst_place at)
{
    bst_complain(r->c, at, "aliases (*name) are not allowed");
    if (wants_key(r))
        return false;
    struct bst_yaml *node = bst_xalloc(sizeof *node);
    *node =
        (struct bst_yaml){.kind = BST_YAML_SCALAR, .at = at, .bad = true, .text = bst_xstrdup("")};
    put(r, node);
    return true;
}

/* One event; false ends the reading. */
static bool take(struct reader *r, const yaml_event_t *e)
{
    struct bst_place at = place(r, e->start_mark);
    bool bad;
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (!r->root)
            return true;
        bst_complain(r->c, at, "a second document; one is all there may be");
        return false;
    case YAML_ALIAS_EVENT:
        return take_alias(r, at);
    case YAML_SCALAR_EVENT:
        return take_scalar(r, e);
    case YAML_SEQUENCE_START_EVENT:
        bad = is_marked(r, at, e->data.sequence_start.anchor, e->data.sequence_start.tag);
        return open_collection(r, BST_YAML_LIST, at, bad);
    case YAML_MAPPING_START_EVENT:
        bad = is_marked(r, at, e->data.mapping_start.anchor, e->data.mapping_start.tag);
        return open_collection(r, BST_YAML_MAP, at, bad);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        return true;
    default:
        return true;
    }
}

/* libyaml's words for a token that does not fit are about its own grammar; the common ones are put
 * in the reader's terms. */
static void complain_of_syntax(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    struct bst_place at = seen_place(r, p->problem_mark);
    const char *why = p->problem ? p->problem : "not YAML";
    if (p->error == YAML_MEMORY_ERROR)
        bst_complain(r->c, at, "out of memory");
    else if (p->context && !r->at_set)
        bst_complain(r->c, at, "%s (%s that began on line %d)", why, p->context,
                     seen_place(r, p->context_mark).line);
    else
        bst_complain(r->c, at, "%s", why);
}

static bool read_events(struct reader *r)
{
    for (;;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&r->parser, &e)) {
            complain_of_syntax(r);
            return false;
        }
        bool end = e.type == YAML_STREAM_END_EVENT;
        bool ok = end || take(r, &e);
        if (ok && ++r->n_events > BST_YAML_EVENTS_MAX) {
            bst_complain(r->c, place(r, e.start_mark), "more than %d values, keys and brackets",
                         BST_YAML_EVENTS_MAX);
            ok = false;
        }
        yaml_event_delete(&e);
        if (!ok || end)
            return ok;
    }
}

/* libyaml gives no line for a byte it cannot decode, so text is looked through beforehand. */
static bool check_text(const char *text, size_t n, int at_set, struct bst_complaints *c)
{
    struct bst_place at = {1, 1};
    for (size_t i = 0; i < n;) {
        uint32_t point = 0;
        size_t len = bst_text_utf8(text + i, n - i, &point);
        struct bst_place here = at_set ? (struct bst_place){-at_set, 0} : at;
        if (!len) {
            bst_complain(c, here, "byte 0x%02x is not UTF-8", (unsigned char)text[i]);
            return false;
        }
        bool shown = point >= 0x20 || point == '\t' || point == '\n' || point == '\r';
        if (!shown || point == 0x7F || (point >= 0x80 && point < 0xA0 && point != 0x85)) {
            bst_complain(c, here, "control character 0x%02x", (unsigned)point);
            return false;
        }
        at = point == '\n' ? (struct bst_place){at.line + 1, 1}
                           : (struct bst_place){at.line, at.column + 1};
        i += len;
    }
    return true;
}

/* Counted as libyaml does, in characters. */
static struct bst_place end_of(const char *text, size_t n)
{
    struct bst_place at = {1, 1}, end = {1, 1};
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte == '\n') {
            at.line++;
            at.column = 1;
            continue;
        }
        at.column += (byte & 0xc0) != 0x80;
        if (byte != ' ' && byte != '\t' && byte != '\r')
            end = at;
    }
    return end;
}

bool bst_yaml_read(const char *text, size_t n, int at_set, struct bst_yaml **root,
                   struct bst_complaints *c)
{
    *root = NULL;
    struct bst_place nowhere = {-at_set, 0};
    if (n > BST_YAML_BYTES_MAX) {
        bst_complain(c, nowhere, "%zu bytes; at most %d are possible", n, BST_YAML_BYTES_MAX);
        return false;
    }
    if (!check_text(text, n, at_set, c))
        return false;
    struct reader r = {.c = c, .at_set = at_set, .end = end_of(text, n)};
    if (!yaml_parser_initialize(&r.parser)) {
        bst_complain(c, nowhere, "out of memory");
        return false;
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
    bool ok = read_events(&r);
    yaml_parser_delete(&r.parser);
    bst_free(r.key);
    if (!ok) {
        bst_yaml_free(r.root);
        return false;
    }
    *root = r.root;
    return true;
}
