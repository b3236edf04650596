/* The table of keys, from params.def, and what it says of values in words. */
#include "core/run/preset.h"

#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "core/run/preset_impl.h"

enum { GROUP_NONE = 0, GROUP_WARMUP, GROUP_LENGTH };

static const struct bst_param_info params[BST_N_PARAMS] = {
#define BST_PARAM(f, kind_, least_, most_, initial_, unit_, live_, one_of_, text_)                 \
    [BST_PARAM_##f] = {.key = #f,                                                                  \
                       .kind = BST_KIND_##kind_,                                                   \
                       .least = least_,                                                            \
                       .most = most_,                                                              \
                       .initial = initial_,                                                        \
                       .unit = unit_,                                                              \
                       .live = BST_PARAM_##live_,                                                  \
                       .one_of = GROUP_##one_of_,                                                  \
                       .text = text_},
#define BST_PARAM_IN(s, f, kind_, least_, most_, initial_, unit_, live_, one_of_, text_)           \
    [BST_PARAM_##s##_##f] = {.key = #s "." #f,                                                     \
                             .section = #s,                                                        \
                             .kind = BST_KIND_##kind_,                                             \
                             .least = least_,                                                      \
                             .most = most_,                                                        \
                             .initial = initial_,                                                  \
                             .unit = unit_,                                                        \
                             .live = BST_PARAM_##live_,                                            \
                             .one_of = GROUP_##one_of_,                                            \
                             .text = text_},
#define BST_SECTION(s, text)
#define BST_SECTION_END(s)
#include "core/run/params.def"
};

#define FIELD(f)                                                                                   \
    {                                                                                              \
        offsetof(struct bst_preset, f), sizeof((struct bst_preset *)0)->f                          \
    }
static const struct {
    size_t offset, bytes;
} fields[BST_N_PARAMS] = {
#define BST_PARAM(f, ...) [BST_PARAM_##f] = FIELD(f),
#define BST_PARAM_IN(s, f, ...) [BST_PARAM_##s##_##f] = FIELD(s.f),
#define BST_SECTION(s, text)
#define BST_SECTION_END(s)
#include "core/run/params.def"
};

static const struct bst_param_section sections[] = {
#define BST_PARAM(...)
#define BST_PARAM_IN(...)
#define BST_SECTION(s, text) {#s, text},
#define BST_SECTION_END(s)
#include "core/run/params.def"
};

static const struct {
    const char *key, *names;
} elsewhere[] = {
#define BST_PARAM(...)
#define BST_PARAM_IN(...)
#define BST_SECTION(s, text)
#define BST_SECTION_END(s)
#define BST_ELSEWHERE(key, names) {key, names},
#include "core/run/params.def"
};

#define X(name, text) text,
static const char *const stems[] = {BST_STEMS(X)};
static const char *const optimizers[] = {BST_OPTIMIZERS(X)};
static const char *const precisions[] = {BST_PRECISIONS(X)};
static const char *const augments[] = {BST_AUGMENTS(X)};
static const char *const measures[] = {BST_MEASURES(X)};
static const char *const advises[] = {BST_ADVISE(X)};
static const char *const units[] = {BST_BATCH_UNITS(X)};
static const char *const rules[] = {BST_LR_RULES(X)};
static const char *const schedules[] = {BST_SCHEDULES(X)};
static const char *const warmups[] = {BST_WARMUPS(X)};
#undef X

#define CHOICES(list)                                                                              \
    {                                                                                              \
        list, sizeof list / sizeof list[0]                                                         \
    }
static const struct {
    const char *const *words;
    int n;
} choices[BST_N_KINDS] = {
    [BST_KIND_STEM] = CHOICES(stems),           [BST_KIND_OPTIMIZER] = CHOICES(optimizers),
    [BST_KIND_PRECISION] = CHOICES(precisions), [BST_KIND_AUGMENT] = CHOICES(augments),
    [BST_KIND_LR_RULE] = CHOICES(rules),        [BST_KIND_SCHEDULE] = CHOICES(schedules),
    [BST_KIND_WARMUP] = CHOICES(warmups),       [BST_KIND_MEASURE] = CHOICES(measures),
    [BST_KIND_ADVISE] = CHOICES(advises),       [BST_KIND_BATCH_UNIT] = CHOICES(units),
};

const struct bst_param_info *bst_param_at(enum bst_param_id id)
{
    return &params[id];
}

const char *const *bst_param_choices(enum bst_param_id id, int *n)
{
    *n = choices[params[id].kind].n;
    return choices[params[id].kind].words;
}

const struct bst_param_section *bst_param_sections(int *n)
{
    *n = (int)(sizeof sections / sizeof sections[0]);
    return sections;
}

bool bst_param_by_key(const char *key, enum bst_param_id *out)
{
    for (int i = 0; i < BST_N_PARAMS; i++) {
        if (strcmp(params[i].key, key) == 0) {
            *out = (enum bst_param_id)i;
            return true;
        }
    }
    return false;
}

bool bst_param_by_other_name(const char *name, enum bst_param_id *out)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        if (bst_text_in_list(elsewhere[i].names, name))
            return bst_param_by_key(elsewhere[i].key, out);
    return false;
}

void *bst_param_field(struct bst_preset *p, enum bst_param_id id)
{
    return (char *)p + fields[id].offset;
}

const void *bst_param_field_view(const struct bst_preset *p, enum bst_param_id id, size_t *bytes)
{
    if (bytes)
        *bytes = fields[id].bytes;
    return (const char *)p + fields[id].offset;
}

void bst_param_list_words(struct bst_sb *out, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        bst_sb_addf(out, "%s%s", i == 0 ? "" : i == n - 1 ? " or " : ", ", words[i]);
}

/* "a number from 0 to 1", "a whole number above 2". */
static void add_bounds(struct bst_sb *out, const struct bst_param_info *m, const char *what)
{
    char least[32], most[32];
    bst_num_text(m->least, least);
    bst_num_text(m->most, most);
    const char *from = m->kind == BST_KIND_NUMBER_OVER ? "above" : "from";
    const char *to = m->kind == BST_KIND_NUMBER_UNDER  ? "to below"
                     : m->kind == BST_KIND_NUMBER_OVER ? "up to"
                                                       : "to";
    bst_sb_addf(out, "%s %s %s %s %s", what, from, least, to, most);
}

static void add_bytes_bounds(struct bst_sb *out, const struct bst_param_info *m)
{
    char least[32], most[32];
    bst_text_bytes((uint64_t)m->least, least);
    bst_text_bytes((uint64_t)m->most, most);
    bst_sb_addf(out, "auto or a size from %s to %s", least, most);
}

void bst_param_allowed(enum bst_param_id id, struct bst_sb *out)
{
    const struct bst_param_info *m = &params[id];
    if (choices[m->kind].n) {
        bst_param_list_words(out, choices[m->kind].words, choices[m->kind].n);
        return;
    }
    switch (m->kind) {
    case BST_KIND_TRUTH:
        bst_sb_add(out, "true or false");
        break;
    case BST_KIND_COUNT:
        add_bounds(out, m, "a whole number");
        break;
    case BST_KIND_COUNT_OR_AUTO:
        add_bounds(out, m, "auto or a whole number");
        break;
    case BST_KIND_BYTES_OR_AUTO:
        add_bytes_bounds(out, m);
        break;
    case BST_KIND_NUMBER:
    case BST_KIND_NUMBER_OVER:
    case BST_KIND_NUMBER_UNDER:
        add_bounds(out, m, "a number");
        break;
    case BST_KIND_INTERVAL:
        bst_sb_add(out, "never or a length such as 1ep, 500st, 10000sa");
        break;
    case BST_KIND_CHANNELS:
        add_bounds(out, m, "a list of one to four numbers");
        break;
    case BST_KIND_MILESTONES:
        add_bounds(out, m, "a rising list of numbers");
        break;
    case BST_KIND_PAIR:
        add_bounds(out, m, "a rising list of two numbers");
        break;
    case BST_KIND_GROUPS:
        bst_sb_add(out, "a list of {match, factor, weight_decay}");
        break;
    case BST_KIND_CHANGES:
        bst_sb_add(out, "a list of {at, command}");
        break;
    case BST_KIND_RECOMPUTE:
        add_bounds(out, m, "none, auto, {layers: [PATTERN, ...]} or {every: n} with n");
        break;
    default:
        bst_sb_add(out, "text");
        break;
    }
}

void bst_param_allowed_item(enum bst_param_id id, struct bst_sb *out)
{
    if (params[id].kind == BST_KIND_GROUPS)
        bst_sb_add(out, "a mapping {match, factor, weight_decay}");
    else
        add_bounds(out, &params[id], "a number");
}
