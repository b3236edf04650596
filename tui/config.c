#include "tui/config.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/run/yaml.h"
#include "tui/keys.h"

enum { FILE_CAP = 256 << 10 };

enum kind { CHOICE, TRUTH, SECONDS };

/* Every setting but the keys. */
static const struct setting {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *words[5]; /* of a choice, in the order of its enum */
    const char *text;
} settings[] = {
#define AT(field) offsetof(struct tui_config, field)
    {"color",
     CHOICE,
     AT(color),
     {"auto", "always", "never"},
     "auto heeds NO_COLOR and the terminal"},
    {"symbols",
     CHOICE,
     AT(symbols),
     {"auto", "braille", "block", "ascii"},
     "what charts are drawn with"},
    {"ascii", TRUTH, AT(ascii), {NULL}, "draw with ASCII characters alone"},
    {"mouse", TRUTH, AT(mouse), {NULL}, "the terminal's own selection then needs Shift"},
    {"bell", TRUTH, AT(bell), {NULL}, "ring when something goes wrong"},
    {"refresh", SECONDS, AT(refresh), {NULL}, "seconds between two frames, 0.25 to 60"},
#undef AT
};
enum { N_SETTINGS = sizeof settings / sizeof settings[0] };

static const char keys_name[] = "keys";

void tui_config_default(struct tui_config *out)
{
    *out = (struct tui_config){.bell = true, .refresh = TUI_REFRESH_USUAL};
}

void tui_config_find(struct tui_config *c)
{
    const char *given = getenv("BSTUNE_CONFIG"), *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    if (given)
        snprintf(c->path, sizeof c->path, "%s", given);
    else if (config && *config == '/')
        snprintf(c->path, sizeof c->path, "%s/bstune/config.yaml", config);
    else if (home && *home == '/')
        snprintf(c->path, sizeof c->path, "%s/.config/bstune/config.yaml", home);
}

static const char *text_of(const struct bst_yaml *node)
{
    return node->kind == BST_YAML_SCALAR ? node->text
           : node->kind == BST_YAML_LIST ? "a list"
                                         : "a mapping";
}

static void refuse(struct bst_complaints *c, const struct bst_yaml *node, const char *allowed)
{
    struct bst_sb quoted;
    bst_sb_init(&quoted, 512);
    bst_quote(&quoted, text_of(node));
    bst_complain(c, node->at, "%s: %s is not %s", node->key, quoted.data, allowed);
    bst_sb_fini(&quoted);
}

static void read_choice(const struct setting *s, const struct bst_yaml *node, int *out,
                        struct bst_complaints *c)
{
    struct bst_sb allowed;
    for (int i = 0; node->kind == BST_YAML_SCALAR && s->words[i]; i++)
        if (!strcmp(node->text, s->words[i])) {
            *out = i;
            return;
        }
    bst_sb_init(&allowed, 200);
    for (int i = 0; s->words[i]; i++)
        bst_sb_addf(&allowed, "%s%s", i == 0 ? "" : s->words[i + 1] ? ", " : " or ", s->words[i]);
    refuse(c, node, allowed.data);
    bst_sb_fini(&allowed);
}

static void read_truth(const struct bst_yaml *node, bool *out, struct bst_complaints *c)
{
    bool yes = !strcmp(text_of(node), "true");
    if (!node->plain || (!yes && strcmp(text_of(node), "false") != 0))
        refuse(c, node, "true or false");
    else
        *out = yes;
}

static void read_seconds(const struct bst_yaml *node, double *out, struct bst_complaints *c)
{
    double value;
    if (!node->plain || !bst_num_parse(text_of(node), &value) || value < TUI_REFRESH_LEAST ||
        value > TUI_REFRESH_MOST)
        refuse(c, node, "a number of seconds from 0.25 to 60");
    else
        *out = value;
}

static void read_setting(const struct setting *s, const struct bst_yaml *node,
                         struct tui_config *out, struct bst_complaints *c)
{
    char *field = (char *)out + s->offset;
    int choice;
    switch (s->kind) {
    case CHOICE:
        memcpy(&choice, field, sizeof choice);
        read_choice(s, node, &choice, c);
        memcpy(field, &choice, sizeof choice);
        break;
    case TRUTH:
        read_truth(node, (bool *)field, c);
        break;
    case SECONDS:
        read_seconds(node, (double *)field, c);
        break;
    }
}

/* Gives which of the names was likely meant; -1: none. */
static int complain_unknown(struct bst_complaints *c, const struct bst_yaml *node, const char *what,
                            const char *const *names, int n)
{
    struct bst_sb quoted;
    int near = bst_text_nearest(node->key, names, n);
    bst_sb_init(&quoted, 512);
    bst_quote(&quoted, node->key);
    bst_complain(c, node->key_at, "unknown %s %s%s%s%s", what, quoted.data,
                 near < 0 ? "" : "; did you mean '", near < 0 ? "" : names[near],
                 near < 0 ? "" : "'?");
    bst_sb_fini(&quoted);
    return near;
}

/* The one that was likely meant. */
static enum tui_request complain_no_request(struct bst_complaints *c, const struct bst_yaml *node)
{
    char names[TUI_N_REQUESTS][32];
    const char *list[TUI_N_REQUESTS];
    for (int i = 0; i < TUI_N_REQUESTS; i++) {
        tui_request_name((enum tui_request)i, names[i]);
        list[i] = names[i];
    }
    return (enum tui_request)complain_unknown(c, node, "name under keys", list, TUI_N_REQUESTS);
}

/* Of two things on one key, the place of the later one that stands in the file. `unknown`: whose
 * keys were to be others, and nobody knows which. */
static void check_keys(const struct bst_yaml *map, const bool unknown[TUI_N_REQUESTS],
                       struct bst_complaints *c)
{
    struct tui_key_clash clash[BST_COMPLAINTS_MAX];
    int n = tui_keys_clashes(clash, BST_COMPLAINTS_MAX);
    for (int i = 0; i < n && i < BST_COMPLAINTS_MAX; i++) {
        const enum tui_request *which = clash[i].which;
        struct bst_place at = map->at;
        char one[32], other[32];
        if (unknown[which[0]] || unknown[which[1]])
            continue;
        for (const struct bst_yaml *line = map->child; line; line = line->next) {
            enum tui_request req = tui_request_by_name(line->key);
            if (req != TUI_REQ_NONE && (req == which[0] || req == which[1]))
                at = line->at;
        }
        tui_request_name(which[0], one);
        tui_request_name(which[1], other);
        bst_complain(c, at, "keys: %s is a key of %s and of %s", clash[i].key, one, other);
    }
}

static void read_keys(const struct bst_yaml *map, struct bst_complaints *c)
{
    bool unknown[TUI_N_REQUESTS] = {false};
    if (map->kind != BST_YAML_MAP) {
        refuse(c, map, "a mapping of names to keys, as `bstune keys` prints it");
        return;
    }
    for (const struct bst_yaml *n = map->child; n; n = n->next) {
        enum tui_request req = tui_request_by_name(n->key);
        int before = c->n;
        if (n->bad)
            continue;
        if (req == TUI_REQ_NONE)
            req = complain_no_request(c, n);
        else if (n->kind != BST_YAML_SCALAR || !*n->text)
            refuse(c, n, "keys with blanks between them, or none");
        else if (tui_keys_bind(req, n->text))
            bst_complain(c, n->at, "keys: %s: %s", n->key, bst_err_text());
        if (c->n > before && req != TUI_REQ_NONE)
            unknown[req] = true;
    }
    check_keys(map, unknown, c);
}

static void read_map(const struct bst_yaml *root, struct tui_config *out, struct bst_complaints *c)
{
    const char *names[N_SETTINGS + 1];
    for (int i = 0; i < N_SETTINGS; i++)
        names[i] = settings[i].name;
    names[N_SETTINGS] = keys_name;
    for (const struct bst_yaml *n = root->child; n; n = n->next) {
        int i = 0;
        while (i <= N_SETTINGS && strcmp(names[i], n->key) != 0)
            i++;
        if (n->bad)
            continue;
        if (i < N_SETTINGS)
            read_setting(&settings[i], n, out, c);
        else if (i == N_SETTINGS)
            read_keys(n, c);
        else
            complain_unknown(c, n, "key", names, N_SETTINGS + 1);
    }
}

static void read_text(const char *text, size_t n, struct tui_config *out, struct bst_complaints *c)
{
    struct bst_yaml *root;
    if (!bst_yaml_read(text, n, 0, &root, c) || !root)
        return;
    if (root->kind == BST_YAML_MAP)
        read_map(root, out, c);
    else if (root->kind != BST_YAML_SCALAR || *root->text)
        bst_complain(c, root->at, "this is not `key: value` lines");
    bst_yaml_free(root);
}

enum bst_err tui_config_read(struct tui_config *out, struct bst_sb *errs)
{
    char *text;
    size_t n;
    tui_config_default(out);
    tui_keys_reset();
    tui_config_find(out);
    if (!out->path[0] || (!getenv("BSTUNE_CONFIG") && !bst_io_exists(out->path)))
        return BST_OK;
    enum bst_err err = bst_io_read_file(out->path, FILE_CAP, &text, &n);
    if (err) {
        bst_sb_addf(errs, "%s\n", bst_err_text());
        return err;
    }
    struct bst_complaints *c = bst_xalloc(sizeof *c);
    out->there = true;
    read_text(text, n, out, c);
    err = bst_complaints_tell(c, out->path, NULL, errs);
    bst_complaints_fini(c);
    bst_free(c);
    bst_free(text);
    return err;
}

static void print_setting(const struct setting *s, const struct tui_config *c, struct bst_sb *out)
{
    const char *field = (const char *)c + s->offset;
    char value[32] = "";
    int choice;
    double seconds;
    switch (s->kind) {
    case CHOICE:
        memcpy(&choice, field, sizeof choice);
        snprintf(value, sizeof value, "%s", s->words[choice]);
        break;
    case TRUTH:
        snprintf(value, sizeof value, "%s", *(const bool *)field ? "true" : "false");
        break;
    case SECONDS:
        memcpy(&seconds, field, sizeof seconds);
        bst_num_text(seconds, value);
        break;
    }
    bst_sb_addf(out, "%s: %-*s # %s\n", s->name, (int)(16 - strlen(s->name)), value, s->text);
}

void tui_config_print_keys(struct bst_sb *out)
{
    bst_sb_addf(out, "%s:\n", keys_name);
    for (int i = 0; i < TUI_N_REQUESTS; i++) {
        char name[32], keys[80];
        size_t n = 0;
        const char *s = tui_keys_of((enum tui_request)i);
        tui_request_name((enum tui_request)i, name);
        keys[n++] = '"';
        for (s = *s ? s : "none"; *s && n + 4 < sizeof keys; s++) {
            if (*s == '"' || *s == '\\')
                keys[n++] = '\\';
            keys[n++] = *s;
        }
        keys[n++] = '"';
        keys[n] = '\0';
        bst_sb_addf(out, "  %s: %-*s # %s\n", name, (int)(30 - strlen(name)), keys,
                    tui_keys[i].help);
    }
}

void tui_config_print(const struct tui_config *c, struct bst_sb *out)
{
    for (int i = 0; i < N_SETTINGS; i++)
        print_setting(&settings[i], c, out);
    tui_config_print_keys(out);
}
