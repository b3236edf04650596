#include "tui/keys.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/text.h"

const struct tui_key_info tui_keys[TUI_N_REQUESTS] = {
#define X(name, keys, group, flags, label, help)                                                   \
    {#name, keys, TUI_GROUP_##group, flags, label, help},
#include "tui/keys.def"
#undef X
};

/* Heap; NULL: as in the table. */
static char *bound[TUI_N_REQUESTS];

const char *tui_group_heading(enum tui_key_group group)
{
    static const char *const headings[] = {
#define X(name, heading) heading,
        TUI_KEY_GROUPS(X)
#undef X
    };
    return headings[group];
}

static const struct {
    const char *text;
    int key;
} names[] = {
#define X(name, text) {text, TUI_KEY_##name},
    TUI_NAMED_KEYS(X)
#undef X
        {"Tab", TUI_KEY_TAB},
    {"Enter", TUI_KEY_ENTER},
    {"Esc", TUI_KEY_ESC},
    {"Space", ' '},
};

static int parse_named(const char *word, size_t n)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i].text) == n && !memcmp(names[i].text, word, n))
            return names[i].key;
    return -1;
}

int tui_key_parse(const char **text)
{
    const char *s = *text;
    int key = -1;
    while (*s == ' ')
        s++;
    const char *end = strchr(s, '>');
    uint32_t point;
    size_t len;
    if (s[0] == '<' && s[1] && s[1] != ' ' && end) {
        key = parse_named(s + 1, (size_t)(end - s) - 1);
        s = end + 1;
    } else if (s[0] == '^' && s[1] >= 'A' && s[1] <= 'Z') {
        key = s[1] - 'A' + 1;
        s += 2;
    } else if ((len = bst_text_utf8(s, strlen(s), &point)) != 0) {
        key = (int)point;
        s += len;
    }
    while (*s == ' ')
        s++;
    *text = s;
    return key;
}

const char *tui_keys_of(enum tui_request req)
{
    return bound[req] ? bound[req] : tui_keys[req].keys;
}

void tui_request_name(enum tui_request req, char out[32])
{
    const char *s = tui_keys[req].name;
    int n = 0;
    for (; *s && n < 31; s++)
        out[n++] = *s == '_' ? '-' : (char)(*s >= 'A' && *s <= 'Z' ? *s + ('a' - 'A') : *s);
    out[n] = '\0';
}

enum tui_request tui_request_by_name(const char *name)
{
    for (int i = 0; i < TUI_N_REQUESTS; i++) {
        char own[32];
        tui_request_name((enum tui_request)i, own);
        if (!strcmp(own, name))
            return (enum tui_request)i;
    }
    return TUI_REQ_NONE;
}

/* What a terminal sends on its own is no key that somebody presses. */
static bool may_be_bound(int key)
{
    return key > 0 && key != TUI_KEY_PASTE && key != TUI_KEY_PASTE_END && key != TUI_KEY_MOUSE &&
           key != TUI_KEY_RESIZE;
}

enum bst_err tui_keys_bind(enum tui_request req, const char *keys)
{
    keys += strspn(keys, " ");
    if (!strcmp(keys, "none"))
        keys = "";
    for (const char *s = keys; *s;) {
        const char *from = s;
        int key = tui_key_parse(&s);
        /* Two letters without a blank between them are a word, not two keys. */
        if (!may_be_bound(key) || (*s && s[-1] != ' '))
            return bst_fail(BST_E_PARSE, "no key is written so: %.*s", (int)strcspn(from, " "),
                            from);
    }
    bst_free(bound[req]);
    bound[req] = bst_xstrdup(keys);
    return BST_OK;
}

bool tui_keys_in(enum tui_key_view view, enum tui_request req)
{
    static const enum tui_request of_sweep[] = {
#define X(name, label, help) TUI_REQ_##name,
#include "tui/study_keys.def"
#undef X
    };
    if (view == TUI_KEYS_CONSOLE)
        return tui_keys[req].group != TUI_GROUP_SWEEP;
    for (size_t i = 0; i < sizeof of_sweep / sizeof of_sweep[0]; i++)
        if (of_sweep[i] == req)
            return true;
    return false;
}

static bool has_key(enum tui_request req, int key)
{
    const char *s = tui_keys_of(req);
    while (*s)
        if (tui_key_parse(&s) == key)
            return true;
    return false;
}

static bool meet(enum tui_request a, enum tui_request b)
{
    for (int v = 0; v < TUI_N_KEY_VIEWS; v++)
        if (tui_keys_in((enum tui_key_view)v, a) && tui_keys_in((enum tui_key_view)v, b))
            return true;
    return false;
}

int tui_keys_clashes(struct tui_key_clash *out, int most)
{
    int n = 0;
    for (int later = 0; later < TUI_N_REQUESTS; later++) {
        const char *s = tui_keys_of((enum tui_request)later);
        while (*s) {
            const char *from = s;
            int key = tui_key_parse(&s), words = (int)strcspn(from, " ");
            for (int i = 0; i < later; i++) {
                if (!meet((enum tui_request)i, (enum tui_request)later) ||
                    !has_key((enum tui_request)i, key))
                    continue;
                if (n < most) {
                    out[n].which[0] = (enum tui_request)i;
                    out[n].which[1] = (enum tui_request)later;
                    snprintf(out[n].key, sizeof out[n].key, "%.*s", words, from);
                }
                n++;
            }
        }
    }
    return n;
}

void tui_keys_reset(void)
{
    for (int i = 0; i < TUI_N_REQUESTS; i++) {
        bst_free(bound[i]);
        bound[i] = NULL;
    }
}

enum tui_request tui_key_request(enum tui_key_view view, int key)
{
    for (int i = 0; i < TUI_N_REQUESTS; i++)
        if (tui_keys_in(view, (enum tui_request)i) && has_key((enum tui_request)i, key))
            return (enum tui_request)i;
    return TUI_REQ_NONE;
}

void tui_key_first(enum tui_request req, char *out, size_t room)
{
    const char *s = tui_keys_of(req);
    size_t n = strcspn(s, " ");
    if (s[0] == '<' && n > 2) {
        s++;
        n -= 2;
    }
    snprintf(out, room, "%.*s", (int)n, s);
}

void tui_keys_text(const char *keys, char *out, size_t room)
{
    size_t n = 0;
    for (const char *s = keys; *s && n + 1 < room; s++)
        if (!strchr("<>", *s) || s[1] == ' ' || !s[1] || s == keys)
            out[n++] = *s;
    out[n] = '\0';
    /* The brackets of <Named> keys are for the table only. */
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (!((out[i] == '<' || out[i] == '>') && n > 1))
            out[k++] = out[i];
    out[k] = '\0';
}
