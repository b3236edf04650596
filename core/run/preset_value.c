/* One value of a preset: from YAML into its field. */
#include "core/run/preset_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "core/graph/compile.h"

/* "momentum: 'fast' is not a number from 0 to below 1". `found` NULL: the node itself. */
static bool refuse(enum bst_param_id id, const struct bst_yaml *node, const char *found,
                   struct bst_complaints *c)
{
    struct bst_sb text;
    bst_sb_init(&text, 1024);
    bst_sb_addf(&text, "%s: ", bst_param_at(id)->key);
    if (found)
        bst_sb_add(&text, found);
    else if (node->kind == BST_YAML_LIST)
        bst_sb_add(&text, "a list");
    else if (node->kind == BST_YAML_MAP)
        bst_sb_add(&text, "a mapping");
    else if (!*node->text)
        bst_sb_add(&text, "nothing");
    else
        bst_quote(&text, node->text);
    bst_sb_add(&text, " is not ");
    bst_param_allowed(id, &text);
    bst_complain(c, node->at, "%s", text.data);
    bst_sb_fini(&text);
    return false;
}

/* The same for one item of a list. */
static bool refuse_item(enum bst_param_id id, const struct bst_yaml *item, struct bst_complaints *c)
{
    struct bst_sb text;
    bst_sb_init(&text, 1024);
    bst_sb_addf(&text, "%s: ", bst_param_at(id)->key);
    if (item->kind == BST_YAML_SCALAR)
        bst_quote(&text, item->text);
    else
        bst_sb_add(&text, item->kind == BST_YAML_LIST ? "a list" : "a mapping");
    bst_sb_add(&text, " is not ");
    bst_param_allowed_item(id, &text);
    bst_complain(c, item->at, "%s", text.data);
    bst_sb_fini(&text);
    return false;
}

/* The word nearest to what was found, for choices and known names. */
static bool refuse_choice(enum bst_param_id id, const struct bst_yaml *node,
                          struct bst_complaints *c)
{
    int n;
    const char *const *words = bst_param_choices(id, &n);
    struct bst_sb text;
    bst_sb_init(&text, 1024);
    bst_sb_addf(&text, "%s: ", bst_param_at(id)->key);
    bst_quote(&text, node->text);
    bst_sb_add(&text, " is not ");
    bst_param_allowed(id, &text);
    int near = bst_text_nearest(node->text, words, n);
    if (near >= 0)
        bst_sb_addf(&text, "; did you mean '%s'?", words[near]);
    bst_complain(c, node->at, "%s", text.data);
    bst_sb_fini(&text);
    return false;
}

static bool read_choice(enum bst_param_id id, const struct bst_yaml *node, int *out,
                        struct bst_complaints *c)
{
    int n;
    const char *const *words = bst_param_choices(id, &n);
    if (node->kind != BST_YAML_SCALAR)
        return refuse(id, node, NULL, c);
    for (int i = 0; i < n; i++) {
        if (strcmp(words[i], node->text) == 0) {
            *out = i;
            return true;
        }
    }
    return refuse_choice(id, node, c);
}

static bool is_word(const struct bst_yaml *node, const char *word)
{
    return node->kind == BST_YAML_SCALAR && strcmp(node->text, word) == 0;
}

static bool read_whole(enum bst_param_id id, const struct bst_yaml *node, int64_t *out,
                       struct bst_complaints *c)
{
    const struct bst_param_info *m = bst_param_at(id);
    int64_t value;
    /* 010 is 8 to other readers of YAML, so it is nothing here. */
    if (node->kind != BST_YAML_SCALAR || !node->plain || !bst_int_parse(node->text, &value) ||
        *node->text == '+' || (node->text[0] == '0' && node->text[1]))
        return refuse(id, node, NULL, c);
    if ((double)value < m->least || (double)value > m->most)
        return refuse(id, node, NULL, c);
    *out = value;
    return true;
}

static bool is_within(const struct bst_param_info *m, double value)
{
    if (m->kind == BST_KIND_NUMBER_OVER ? value <= m->least : value < m->least)
        return false;
    return m->kind == BST_KIND_NUMBER_UNDER ? value < m->most : value <= m->most;
}

/* A number as the C locale's strtod reads it, so that 1e-4 is one (it is text to PyYAML). */
static bool parse_number(enum bst_param_id id, const struct bst_yaml *node, double *out)
{
    return node->kind == BST_YAML_SCALAR && node->plain && bst_num_parse(node->text, out) &&
           is_within(bst_param_at(id), *out);
}

static bool read_number(enum bst_param_id id, const struct bst_yaml *node, double *out,
                        struct bst_complaints *c)
{
    double value;
    if (!parse_number(id, node, &value))
        return refuse(id, node, NULL, c);
    *out = value;
    return true;
}

static bool read_bytes(enum bst_param_id id, const struct bst_yaml *node, uint64_t *out,
                       struct bst_complaints *c)
{
    const struct bst_param_info *m = bst_param_at(id);
    uint64_t value;
    if (node->kind != BST_YAML_SCALAR || !bst_text_parse_bytes(node->text, &value) ||
        (double)value < m->least || (double)value > m->most)
        return refuse(id, node, NULL, c);
    *out = value;
    return true;
}

static bool read_interval(enum bst_param_id id, const struct bst_yaml *node,
                          struct bst_interval *out, struct bst_complaints *c)
{
    struct bst_interval value;
    if (is_word(node, "never")) {
        *out = (struct bst_interval){0, BST_UNIT_EPOCHS};
        return true;
    }
    if (node->kind != BST_YAML_SCALAR || bst_interval_parse(node->text, &value) ||
        !(value.value > 0) || value.unit == BST_UNIT_RATIO)
        return refuse(id, node, NULL, c);
    *out = value;
    return true;
}

/* One list of numbers; for channels a single number stands for a list of one. */
static bool read_numbers(enum bst_param_id id, const struct bst_yaml *node, struct bst_numbers *out,
                         struct bst_complaints *c)
{
    enum bst_kind kind = bst_param_at(id)->kind;
    int least = kind == BST_KIND_CHANNELS ? 1 : kind == BST_KIND_PAIR ? 2 : 0;
    int most = kind == BST_KIND_CHANNELS ? 4 : kind == BST_KIND_PAIR ? 2 : BST_PRESET_NUMBERS;
    struct bst_numbers got = {0};
    const struct bst_yaml *item = node;
    if (node->kind == BST_YAML_LIST)
        item = node->child;
    else if (kind != BST_KIND_CHANNELS)
        return refuse(id, node, NULL, c);
    for (; item; item = node == item ? NULL : item->next) {
        if (item->bad)
            return false;
        if (got.n == most)
            return refuse(id, node, "a longer list", c);
        if (!parse_number(id, item, &got.v[got.n]))
            return refuse_item(id, item, c);
        if (kind != BST_KIND_CHANNELS && got.n && !(got.v[got.n] > got.v[got.n - 1]))
            return refuse(id, node, "a list that does not rise", c);
        got.n++;
    }
    if (got.n < least)
        return refuse(id, node, got.n ? "a shorter list" : "an empty list", c);
    *out = got;
    return true;
}

static bool read_truth(enum bst_param_id id, const struct bst_yaml *node, bool *out,
                       struct bst_complaints *c)
{
    bool yes = is_word(node, "true");
    if (!node->plain || (!yes && !is_word(node, "false")))
        return refuse(id, node, NULL, c);
    *out = yes;
    return true;
}

/* Text that is shown or opened; a line break only where `lines`. */
static bool is_clean(const char *s, bool lines)
{
    struct bst_sb clean;
    bst_sb_init(&clean, 3 * BST_YAML_SCALAR_MAX);
    for (const char *p = s; *p;) {
        size_t n = strcspn(p, "\n");
        bst_text_clean(&clean, p, n);
        p += n;
        if (*p) {
            bst_sb_add(&clean, lines ? "\n" : "\\n");
            p++;
        }
    }
    bool same = strcmp(clean.data, s) == 0;
    bst_sb_fini(&clean);
    return same;
}

static bool read_text(const char *key, size_t room, bool lines, const struct bst_yaml *node,
                      char *out, struct bst_complaints *c)
{
    if (node->kind != BST_YAML_SCALAR || (node->plain && !*node->text)) {
        const char *found = node->kind == BST_YAML_LIST  ? "a list"
                            : node->kind == BST_YAML_MAP ? "a mapping"
                                                         : "nothing";
        bst_complain(c, node->at, "%s: %s is not text", key, found);
        return false;
    }
    struct bst_sb quoted;
    bst_sb_init(&quoted, 512);
    bst_quote(&quoted, node->text);
    size_t n = strlen(node->text);
    bool fits = n < room, clean = is_clean(node->text, lines);
    if (!fits)
        bst_complain(c, node->at, "%s: %s is %zu bytes long; at most %zu are possible", key,
                     quoted.data, n, room - 1);
    else if (!clean)
        bst_complain(c, node->at, "%s: %s holds a control or an invisible character", key,
                     quoted.data);
    else
        memcpy(out, node->text, n + 1);
    bst_sb_fini(&quoted);
    return fits && clean;
}

static bool read_group_number(const struct bst_yaml *node, double most, double *out,
                              struct bst_complaints *c)
{
    double value;
    if (node->kind == BST_YAML_SCALAR && node->plain && bst_num_parse(node->text, &value) &&
        value >= 0 && value <= most) {
        *out = value;
        return true;
    }
    struct bst_sb quoted;
    bst_sb_init(&quoted, 512);
    if (node->kind == BST_YAML_SCALAR)
        bst_quote(&quoted, node->text);
    else
        bst_sb_add(&quoted, node->kind == BST_YAML_LIST ? "a list" : "a mapping");
    bst_complain(c, node->at, "lr_groups: %s: %s is not a number from 0 to %g", node->key,
                 quoted.data, most);
    bst_sb_fini(&quoted);
    return false;
}

static bool read_group_key(const struct bst_yaml *node, struct bst_preset_group *g,
                           struct bst_complaints *c)
{
    static const char *const keys[] = {"match", "factor", "weight_decay"};
    if (strcmp(node->key, "match") == 0)
        return read_text("lr_groups: match", sizeof g->match, false, node, g->match, c);
    if (strcmp(node->key, "factor") == 0)
        return read_group_number(node, 1000, &g->factor, c);
    if (strcmp(node->key, "weight_decay") == 0)
        return read_group_number(node, 1, &g->weight_decay, c);
    struct bst_sb text;
    bst_sb_init(&text, 512);
    bst_quote(&text, node->key);
    int near = bst_text_nearest(node->key, keys, 3);
    if (near >= 0)
        bst_complain(c, node->key_at, "lr_groups: unknown key %s; did you mean '%s'?", text.data,
                     keys[near]);
    else
        bst_complain(c, node->key_at,
                     "lr_groups: unknown key %s; match, factor and weight_decay exist", text.data);
    bst_sb_fini(&text);
    return false;
}

static bool read_groups(enum bst_param_id id, const struct bst_yaml *node,
                        struct bst_preset_groups *out, struct bst_complaints *c)
{
    if (node->kind != BST_YAML_LIST)
        return refuse(id, node, NULL, c);
    struct bst_preset_groups got = {0};
    bool ok = true;
    for (const struct bst_yaml *item = node->child; item; item = item->next) {
        if (item->bad || item->kind != BST_YAML_MAP) {
            ok = item->bad ? false : refuse_item(id, item, c);
            continue;
        }
        if (got.n == BST_PRESET_GROUPS) {
            bst_complain(c, item->at, "lr_groups: more than %d groups", BST_PRESET_GROUPS);
            return false;
        }
        struct bst_preset_group *g = &got.v[got.n++];
        *g = (struct bst_preset_group){.factor = 1, .weight_decay = -1};
        bool has_match = false;
        for (const struct bst_yaml *field = item->child; field; field = field->next) {
            has_match |= strcmp(field->key, "match") == 0;
            ok &= !field->bad && read_group_key(field, g, c);
        }
        if (!has_match) {
            bst_complain(c, item->at, "lr_groups: a group without match");
            ok = false;
        }
    }
    if (ok)
        *out = got;
    return ok;
}

static bool read_layers(enum bst_param_id id, const struct bst_yaml *node,
                        struct bst_preset_recompute *out, struct bst_complaints *c)
{
    if (node->kind != BST_YAML_LIST || !node->child)
        return refuse(id, node, node->kind == BST_YAML_LIST ? "an empty list" : NULL, c);
    for (const struct bst_yaml *item = node->child; item; item = item->next) {
        if (item->bad)
            return false;
        if (out->n_layers == BST_PRESET_LAYERS)
            return refuse(id, node, "a longer list", c);
        char *to = out->layers[out->n_layers++];
        if (!read_text("recompute: layers", sizeof out->layers[0], false, item, to, c))
            return false;
    }
    return true;
}

/* Earlier versions wrote `false` into a run's preset.yaml. */
static bool read_recompute(enum bst_param_id id, const struct bst_yaml *node,
                           struct bst_preset_recompute *out, struct bst_complaints *c)
{
    struct bst_preset_recompute got = {0};
    const struct bst_yaml *only = node->kind == BST_YAML_MAP ? node->child : NULL;
    int64_t every;
    if (is_word(node, "none") || (node->plain && is_word(node, "false"))) {
        got.kind = BST_RECOMPUTE_NONE;
    } else if (is_word(node, "auto")) {
        got.kind = BST_RECOMPUTE_AUTO;
    } else if (only && !only->next && strcmp(only->key, "every") == 0) {
        if (only->bad || !read_whole(id, only, &every, c))
            return false;
        got.kind = BST_RECOMPUTE_EVERY;
        got.every = (int)every;
    } else if (only && !only->next && strcmp(only->key, "layers") == 0) {
        if (only->bad || !read_layers(id, only, &got, c))
            return false;
        got.kind = BST_RECOMPUTE_LAYERS;
    } else {
        return refuse(id, node, NULL, c);
    }
    *out = got;
    return true;
}

static bool read_field(struct bst_preset *p, enum bst_param_id id, const struct bst_yaml *node,
                       struct bst_complaints *c)
{
    const struct bst_param_info *m = bst_param_at(id);
    void *field = bst_param_field(p, id);
    switch (m->kind) {
    case BST_KIND_LABEL:
        return read_text(m->key, BST_PRESET_LABEL, false, node, field, c);
    case BST_KIND_WORD:
        return read_text(m->key, BST_PRESET_WORD, false, node, field, c);
    case BST_KIND_PATH:
        return read_text(m->key, BST_PRESET_PATH, false, node, field, c);
    case BST_KIND_TEXT:
        return read_text(m->key, BST_PRESET_TEXT, true, node, field, c);
    case BST_KIND_COUNT_OR_AUTO:
        if (is_word(node, "auto")) {
            *(int64_t *)field = 0;
            return true;
        }
        return read_whole(id, node, field, c);
    case BST_KIND_COUNT:
        return read_whole(id, node, field, c);
    case BST_KIND_BYTES_OR_AUTO:
        if (is_word(node, "auto")) {
            *(uint64_t *)field = 0;
            return true;
        }
        return read_bytes(id, node, field, c);
    case BST_KIND_NUMBER:
    case BST_KIND_NUMBER_OVER:
    case BST_KIND_NUMBER_UNDER:
        return read_number(id, node, field, c);
    case BST_KIND_TRUTH:
        return read_truth(id, node, field, c);
    case BST_KIND_INTERVAL:
        return read_interval(id, node, field, c);
    case BST_KIND_CHANNELS:
    case BST_KIND_MILESTONES:
    case BST_KIND_PAIR:
        return read_numbers(id, node, field, c);
    case BST_KIND_GROUPS:
        return read_groups(id, node, field, c);
    case BST_KIND_CHANGES:
        return bst_changes_read(node, field, c);
    case BST_KIND_RECOMPUTE:
        return read_recompute(id, node, field, c);
    default:
        return read_choice(id, node, field, c);
    }
}

bool bst_param_read(struct bst_preset *p, enum bst_param_id id, const struct bst_yaml *node,
                    struct bst_complaints *c)
{
    return !node->bad && read_field(p, id, node, c);
}
