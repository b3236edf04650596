/* JSON schema of a preset, draft-07, which editors use through yaml-language-server. */
#include "man/docgen.h"

#include <string.h>

#include "core/base/json.h"
#include "core/run/preset.h"

static void add_bounds(struct bst_json *j, const struct bst_param_info *m)
{
    bst_json_num(j, m->kind == BST_KIND_NUMBER_OVER ? "exclusiveMinimum" : "minimum", m->least);
    bst_json_num(j, m->kind == BST_KIND_NUMBER_UNDER ? "exclusiveMaximum" : "maximum", m->most);
}

static void add_whole_or_word(struct bst_json *j, const struct bst_param_info *m, const char *word,
                              const char *pattern)
{
    bst_json_open(j, "anyOf", '[');
    bst_json_open(j, NULL, '{');
    bst_json_str(j, "type", "integer");
    add_bounds(j, m);
    bst_json_close(j, '}');
    bst_json_open(j, NULL, '{');
    bst_json_str(j, "const", word);
    bst_json_close(j, '}');
    if (pattern) {
        bst_json_open(j, NULL, '{');
        bst_json_str(j, "type", "string");
        bst_json_str(j, "pattern", pattern);
        bst_json_close(j, '}');
    }
    bst_json_close(j, ']');
}

static void add_list(struct bst_json *j, const struct bst_param_info *m, int least, int most)
{
    bst_json_str(j, "type", "array");
    bst_json_int(j, "minItems", least);
    bst_json_int(j, "maxItems", most);
    bst_json_open(j, "items", '{');
    bst_json_str(j, "type", "number");
    add_bounds(j, m);
    bst_json_close(j, '}');
}

static void add_channels(struct bst_json *j, const struct bst_param_info *m)
{
    bst_json_open(j, "anyOf", '[');
    bst_json_open(j, NULL, '{');
    bst_json_str(j, "type", "number");
    add_bounds(j, m);
    bst_json_close(j, '}');
    bst_json_open(j, NULL, '{');
    add_list(j, m, 1, 4);
    bst_json_close(j, '}');
    bst_json_close(j, ']');
}

static void add_groups(struct bst_json *j)
{
    bst_json_str(j, "type", "array");
    bst_json_int(j, "maxItems", BST_PRESET_GROUPS);
    bst_json_raw(j, "items",
                 "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"match\"],"
                 "\"properties\":{\"match\":{\"type\":\"string\",\"maxLength\":95},"
                 "\"factor\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1000},"
                 "\"weight_decay\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1}}}");
}

static void add_changes(struct bst_json *j)
{
    bst_json_str(j, "type", "array");
    bst_json_int(j, "maxItems", BST_PRESET_CHANGES);
    bst_json_raw(
        j, "items",
        "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"at\",\"command\"],"
        "\"properties\":{\"at\":{\"type\":\"string\","
        "\"pattern\":\"^[0-9]+(\\\\.[0-9]+)?(ep|st|sa|%)$\"},"
        "\"command\":{\"type\":\"string\",\"maxLength\":127}}}");
}

static void add_recompute(struct bst_json *j, const struct bst_param_info *m)
{
    struct bst_sb text;
    bst_sb_init(&text, 1024);
    bst_sb_addf(&text,
                "[{\"enum\":[\"none\",\"auto\"]},"
                "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"every\"],"
                "\"properties\":{\"every\":{\"type\":\"integer\",\"minimum\":%.0f,"
                "\"maximum\":%.0f}}},"
                "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"layers\"],"
                "\"properties\":{\"layers\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":%d,"
                "\"items\":{\"type\":\"string\",\"maxLength\":95}}}}]",
                m->least, m->most, BST_PRESET_LAYERS);
    bst_json_raw(j, "oneOf", text.data);
    bst_sb_fini(&text);
}

static void add_choices(struct bst_json *j, enum bst_param_id id)
{
    int n;
    const char *const *words = bst_param_choices(id, &n);
    bst_json_open(j, "enum", '[');
    for (int i = 0; i < n; i++)
        bst_json_str(j, NULL, words[i]);
    bst_json_close(j, ']');
}

static void add_type(struct bst_json *j, enum bst_param_id id)
{
    const struct bst_param_info *m = bst_param_at(id);
    switch (m->kind) {
    case BST_KIND_LABEL:
    case BST_KIND_WORD:
    case BST_KIND_PATH:
    case BST_KIND_TEXT:
        bst_json_str(j, "type", "string");
        break;
    case BST_KIND_COUNT:
        bst_json_str(j, "type", "integer");
        add_bounds(j, m);
        break;
    case BST_KIND_COUNT_OR_AUTO:
        add_whole_or_word(j, m, "auto", NULL);
        break;
    case BST_KIND_BYTES_OR_AUTO:
        add_whole_or_word(j, m, "auto", "^[0-9]+(\\.[0-9]+)? ?([kMGT]B|[KMGT]iB)$");
        break;
    case BST_KIND_NUMBER:
    case BST_KIND_NUMBER_OVER:
    case BST_KIND_NUMBER_UNDER:
        bst_json_str(j, "type", "number");
        add_bounds(j, m);
        break;
    case BST_KIND_TRUTH:
        bst_json_str(j, "type", "boolean");
        break;
    case BST_KIND_INTERVAL:
        bst_json_str(j, "type", "string");
        bst_json_str(j, "pattern", "^(never|[0-9]+(\\.[0-9]+)?(ep|st|sa))$");
        break;
    case BST_KIND_CHANNELS:
        add_channels(j, m);
        break;
    case BST_KIND_MILESTONES:
        add_list(j, m, 0, BST_PRESET_NUMBERS);
        break;
    case BST_KIND_PAIR:
        add_list(j, m, 2, 2);
        break;
    case BST_KIND_GROUPS:
        add_groups(j);
        break;
    case BST_KIND_CHANGES:
        add_changes(j);
        break;
    case BST_KIND_RECOMPUTE:
        add_recompute(j, m);
        break;
    default:
        add_choices(j, id);
        break;
    }
}

static void add_param(struct bst_json *j, enum bst_param_id id)
{
    const struct bst_param_info *m = bst_param_at(id);
    bst_json_open(j, m->section ? strchr(m->key, '.') + 1 : m->key, '{');
    bst_json_str(j, "description", m->text);
    add_type(j, id);
    bst_json_bool(j, "x-bstune-live", m->live != BST_PARAM_FIXED);
    bst_json_close(j, '}');
}

static void add_section(struct bst_json *j, const struct bst_param_section *s)
{
    bst_json_open(j, s->name, '{');
    bst_json_str(j, "description", s->text);
    bst_json_str(j, "type", "object");
    bst_json_bool(j, "additionalProperties", false);
    bst_json_open(j, "properties", '{');
    for (int i = 0; i < BST_N_PARAMS; i++) {
        const char *section = bst_param_at((enum bst_param_id)i)->section;
        if (section && strcmp(section, s->name) == 0)
            add_param(j, (enum bst_param_id)i);
    }
    bst_json_close(j, '}');
    bst_json_close(j, '}');
}

/* "not both" for every pair of an either-or group. */
static void add_exclusions(struct bst_json *j)
{
    bst_json_open(j, "allOf", '[');
    for (int a = 0; a < BST_N_PARAMS; a++) {
        for (int b = a + 1; b < BST_N_PARAMS; b++) {
            const struct bst_param_info *x = bst_param_at((enum bst_param_id)a);
            const struct bst_param_info *y = bst_param_at((enum bst_param_id)b);
            if (!x->one_of || x->one_of != y->one_of)
                continue;
            bst_json_open(j, NULL, '{');
            bst_json_open(j, "not", '{');
            bst_json_open(j, "required", '[');
            bst_json_str(j, NULL, x->key);
            bst_json_str(j, NULL, y->key);
            bst_json_close(j, ']');
            bst_json_close(j, '}');
            bst_json_close(j, '}');
        }
    }
    bst_json_close(j, ']');
}

void doc_schema(struct bst_sb *out)
{
    struct bst_json j;
    int n;
    const struct bst_param_section *sections = bst_param_sections(&n);
    bst_json_init(&j, out);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "$schema", "http://json-schema.org/draft-07/schema#");
    bst_json_str(&j, "title", "bstune preset");
    bst_json_str(&j, "type", "object");
    bst_json_bool(&j, "additionalProperties", false);
    bst_json_open(&j, "properties", '{');
    for (int i = 0; i < BST_N_PARAMS; i++)
        if (!bst_param_at((enum bst_param_id)i)->section)
            add_param(&j, (enum bst_param_id)i);
    for (int i = 0; i < n; i++)
        add_section(&j, &sections[i]);
    bst_json_close(&j, '}');
    add_exclusions(&j);
    bst_json_close(&j, '}');
    bst_sb_addc(out, '\n');
}
