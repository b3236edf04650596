/* Reading a preset: defaults, the file, then --set, then the checks; every error is gathered. */
#include "core/run/preset.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/run/preset_impl.h"

void bst_preset_errors_init(struct bst_preset_errors *e)
{
    bst_sb_init(&e->text, 256 * 1024);
    e->n = 0;
}

void bst_preset_errors_fini(struct bst_preset_errors *e)
{
    bst_sb_fini(&e->text);
    e->n = 0;
}

/* Read once from params.def's own words, the same way as a file's. */
static struct bst_preset defaults;
static pthread_once_t defaults_once = PTHREAD_ONCE_INIT;

static void read_defaults(void)
{
    struct bst_complaints none = {0};
    for (int i = 0; i < BST_N_PARAMS; i++) {
        const struct bst_param_info *m = bst_param_at((enum bst_param_id)i);
        struct bst_yaml *root = NULL;
        if (!*m->initial)
            continue;
        BST_ASSERT(bst_yaml_read(m->initial, strlen(m->initial), 0, &root, &none) && root);
        BST_ASSERT(bst_param_read(&defaults, (enum bst_param_id)i, root, &none));
        bst_yaml_free(root);
    }
}

void bst_preset_default(struct bst_preset *p)
{
    pthread_once(&defaults_once, read_defaults);
    *p = defaults;
}

static bool optimizer_has(const struct bst_preset *p, enum bst_param_id id)
{
    const struct bst_optimizer_info *o = bst_optimizer_info((enum bst_optimizer)p->optimizer);
    switch (id) {
    case BST_PARAM_momentum:
    case BST_PARAM_nesterov:
        return o->momentum;
    case BST_PARAM_beta1:
    case BST_PARAM_beta2:
    case BST_PARAM_epsilon:
        return o->adaptive;
    case BST_PARAM_trust_coefficient:
        return p->optimizer == BST_OPTIMIZER_LARS;
    default:
        return true;
    }
}

bool bst_param_of_optimizer(enum bst_param_id id)
{
    return id == BST_PARAM_learning_rate || id == BST_PARAM_lr_scaling ||
           id == BST_PARAM_lr_base_batch_size || id == BST_PARAM_warmup_start_lr ||
           id == BST_PARAM_weight_decay;
}

bool bst_preset_in_force(const struct bst_preset *p, enum bst_param_id id)
{
    int group = bst_param_at(id)->one_of;
    if (!optimizer_has(p, id))
        return false;
    if (!group)
        return true;
    int first = -1, given = -1;
    for (int i = 0; i < BST_N_PARAMS; i++) {
        if (bst_param_at((enum bst_param_id)i)->one_of != group)
            continue;
        if (first < 0)
            first = i;
        if (given < 0 && p->origin[i] != BST_ORIGIN_DEFAULT)
            given = i;
    }
    return (int)id == (given >= 0 ? given : first);
}

struct bst_interval bst_preset_warmup(const struct bst_preset *p)
{
    if (bst_preset_in_force(p, BST_PARAM_warmup_steps))
        return (struct bst_interval){(double)p->warmup_steps, BST_UNIT_STEPS};
    if (bst_preset_in_force(p, BST_PARAM_warmup_ratio))
        return (struct bst_interval){p->warmup_ratio, BST_UNIT_RATIO};
    return (struct bst_interval){p->warmup_epochs, BST_UNIT_EPOCHS};
}

struct bst_interval bst_preset_length(const struct bst_preset *p)
{
    if (bst_preset_in_force(p, BST_PARAM_max_steps))
        return (struct bst_interval){(double)p->max_steps, BST_UNIT_STEPS};
    return (struct bst_interval){p->max_epochs, BST_UNIT_EPOCHS};
}

int64_t bst_preset_accumulate_base(const struct bst_preset *p)
{
    if (p->micro_batch_size)
        return p->micro_batch_size * p->devices.count;
    int64_t steps = p->gradient_accumulation_steps;
    return steps ? (p->global_batch_size + steps - 1) / steps : 0;
}

/* What is being read, and where each key was given. */
struct load {
    struct bst_preset *p;
    struct bst_preset_read r;
    struct bst_complaints c;
};

static bool is_section(const char *key)
{
    int n;
    const struct bst_param_section *sections = bst_param_sections(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(sections[i].name, key) == 0)
            return true;
    return false;
}

/* The first key of a mapping, without its name. */
static const char *first_of(const char *section)
{
    for (int i = 0; i < BST_N_PARAMS; i++) {
        const struct bst_param_info *m = bst_param_at((enum bst_param_id)i);
        if (m->section && strcmp(m->section, section) == 0)
            return strchr(m->key, '.') + 1;
    }
    return "";
}

/* Names that may stand where `section` (NULL: at the top) says. */
static int names_within(const char *section, bool dotted, const char *names[BST_N_PARAMS + 8])
{
    int n = 0, n_sections;
    const struct bst_param_section *sections = bst_param_sections(&n_sections);
    for (int i = 0; i < BST_N_PARAMS; i++) {
        const struct bst_param_info *m = bst_param_at((enum bst_param_id)i);
        if (section && m->section && strcmp(m->section, section) == 0)
            names[n++] = strchr(m->key, '.') + 1;
        else if (!section && (dotted || !m->section))
            names[n++] = m->key;
    }
    for (int i = 0; !section && !dotted && i < n_sections; i++)
        names[n++] = sections[i].name;
    return n;
}

/* A key of a mapping that someone wrote at the top, or under another mapping. */
static const char *elsewhere(const char *key)
{
    for (int i = 0; i < BST_N_PARAMS; i++) {
        const struct bst_param_info *m = bst_param_at((enum bst_param_id)i);
        const char *last = m->section ? strchr(m->key, '.') + 1 : m->key;
        if (strcmp(last, key) == 0)
            return m->key;
    }
    return NULL;
}

struct guess {
    const char *section; /* that `name` is written in; NULL: it is a whole key */
    const char *name;    /* NULL: none */
};

/* What was likely meant: by another program's name for it, mistyped, or in another place. */
static struct guess guess_key(const char *section, bool dotted, const char *key)
{
    const char *names[BST_N_PARAMS + 8], *dot = strrchr(key, '.');
    enum bst_param_id id;
    if (bst_param_by_other_name(dot ? dot + 1 : key, &id)) {
        const struct bst_param_info *m = bst_param_at(id);
        bool here = section && m->section && !strcmp(section, m->section);
        return (struct guess){here ? section : NULL, here ? strchr(m->key, '.') + 1 : m->key};
    }
    int near = bst_text_nearest(key, names, names_within(section, dotted, names));
    if (near >= 0)
        return (struct guess){section, names[near]};
    return (struct guess){NULL, elsewhere(key)};
}

/* Nobody knows what the key that was likely meant is to be. */
static void mistyped(struct load *l, const struct guess *g)
{
    char key[128];
    enum bst_param_id id;
    if (!g->name)
        return;
    snprintf(key, sizeof key, "%s%s%s", g->section ? g->section : "", g->section ? "." : "",
             g->name);
    if (bst_param_by_key(key, &id))
        l->r.unknown[id] = true;
}

static void complain_unknown(struct load *l, const char *section, bool dotted, const char *key,
                             struct bst_place at)
{
    enum bst_param_id id;
    if (!section && !dotted && bst_param_by_key(key, &id)) {
        bst_complain(&l->c, at, "key '%s' is written as '%s' under '%s'", key, strchr(key, '.') + 1,
                     bst_param_at(id)->section);
        return;
    }
    if (dotted && is_section(key)) {
        bst_complain(&l->c, at, "'%s' is a mapping; set its keys one by one, as in %s.%s=…", key,
                     key, first_of(key));
        return;
    }
    struct guess guess = guess_key(section, dotted, key);
    mistyped(l, &guess);
    struct bst_sb text;
    bst_sb_init(&text, 512);
    bst_quote(&text, key);
    if (section)
        bst_sb_addf(&text, " in %s", section);
    if (guess.name)
        bst_sb_addf(&text, "; did you mean '%s'?", guess.name);
    bst_complain(&l->c, at, "unknown key %s", text.data);
    bst_sb_fini(&text);
}

/* A key of an either-or group in a --set replaces the one that the file gave; in the file two of
 * them contradict each other. */
static void settle_group(struct load *l, enum bst_param_id id, enum bst_origin origin,
                         struct bst_place at)
{
    int group = bst_param_at(id)->one_of;
    for (int i = 0; group && i < BST_N_PARAMS; i++) {
        if (i == (int)id || bst_param_at((enum bst_param_id)i)->one_of != group ||
            l->p->origin[i] == BST_ORIGIN_DEFAULT)
            continue;
        if (origin == BST_ORIGIN_SET)
            l->p->origin[i] = BST_ORIGIN_DEFAULT;
        else
            bst_complain(&l->c, at, "%s and %s exclude each other", bst_param_at(id)->key,
                         bst_param_at((enum bst_param_id)i)->key);
    }
}

/* Where the patterns of lr_groups stand; the list was read, so each item has one. */
static void place_groups(struct load *l, const struct bst_yaml *list)
{
    int i = 0;
    for (const struct bst_yaml *item = list->child; item && i < BST_PRESET_GROUPS;
         item = item->next, i++)
        for (const struct bst_yaml *field = item->child; field; field = field->next)
            if (!strcmp(field->key, "match"))
                l->r.groups[i] = field->at;
}

static void give(struct load *l, enum bst_param_id id, const struct bst_yaml *node,
                 enum bst_origin origin, struct bst_place at)
{
    settle_group(l, id, origin, at);
    l->p->origin[id] = (unsigned char)origin;
    l->r.places[id] = at;
    l->r.unknown[id] = !bst_param_read(l->p, id, node, &l->c);
    if (id == BST_PARAM_lr_groups && !l->r.unknown[id])
        place_groups(l, node);
}

static void give_section(struct load *l, const char *section, const struct bst_yaml *map)
{
    if (map->bad)
        return;
    if (map->kind != BST_YAML_MAP) {
        char key[128];
        enum bst_param_id id;
        snprintf(key, sizeof key, "%s.%s", section, first_of(section));
        bst_complain(&l->c, map->at, "%s: must be a mapping, as in {%s: %s}", section,
                     first_of(section),
                     bst_param_by_key(key, &id) ? bst_param_at(id)->initial : "…");
        return;
    }
    for (const struct bst_yaml *n = map->child; n; n = n->next) {
        char key[128];
        enum bst_param_id id;
        snprintf(key, sizeof key, "%s.%s", section, n->key);
        if (bst_param_by_key(key, &id))
            give(l, id, n, BST_ORIGIN_FILE, n->key_at);
        else
            complain_unknown(l, section, false, n->key, n->key_at);
    }
}

static void give_file(struct load *l, const char *yaml, size_t n)
{
    struct bst_yaml *root;
    if (!bst_yaml_read(yaml, n, 0, &root, &l->c)) {
        memset(l->r.unknown, true, sizeof l->r.unknown);
        return;
    }
    bool nothing = root && root->kind == BST_YAML_SCALAR && root->plain && !*root->text;
    if (root && root->kind != BST_YAML_MAP && !root->bad && !nothing)
        bst_complain(&l->c, root->at, "a preset is a mapping of keys to values");
    for (const struct bst_yaml *at = root && root->kind == BST_YAML_MAP ? root->child : NULL; at;
         at = at->next) {
        enum bst_param_id id;
        if (is_section(at->key))
            give_section(l, at->key, at);
        else if (!strchr(at->key, '.') && bst_param_by_key(at->key, &id))
            give(l, id, at, BST_ORIGIN_FILE, at->key_at);
        else
            complain_unknown(l, NULL, false, at->key, at->key_at);
    }
    bst_yaml_free(root);
}

static bool is_text(enum bst_kind kind)
{
    return kind == BST_KIND_LABEL || kind == BST_KIND_WORD || kind == BST_KIND_PATH ||
           kind == BST_KIND_TEXT;
}

/* recompute.every=2 is recompute={every: 2}. */
static bool give_set_within(struct load *l, int number, const char *key, const char *value)
{
    struct bst_place at = {-number, 0};
    const char *dot = strchr(key, '.');
    enum bst_param_id id;
    char outer[128];
    struct bst_yaml *node = NULL;
    snprintf(outer, sizeof outer, "%.*s", dot ? (int)(dot - key) : 0, key);
    if (!dot || !bst_param_by_key(outer, &id) || bst_param_at(id)->kind != BST_KIND_RECOMPUTE)
        return false;
    char *text = bst_xasprintf("{%s: %s}", dot + 1, value);
    if (bst_yaml_read(text, strlen(text), number, &node, &l->c) && node) {
        give(l, id, node, BST_ORIGIN_SET, at);
        bst_yaml_free(node);
    }
    bst_free(text);
    return true;
}

/* One key=value. The value is YAML, except that text is taken as it stands, so that no shell and no
 * YAML quoting meet. */
static void give_set(struct load *l, int number, const char *set)
{
    struct bst_place at = {-number, 0};
    const char *equals = strchr(set, '=');
    enum bst_param_id id;
    char key[128];
    if (!equals || equals == set) {
        bst_complain(&l->c, at, "must be key=value");
        return;
    }
    snprintf(key, sizeof key, "%.*s", (int)(equals - set), set);
    if (!bst_param_by_key(key, &id)) {
        if (!give_set_within(l, number, key, equals + 1))
            complain_unknown(l, NULL, true, key, at);
        return;
    }
    const char *value = equals + 1;
    struct bst_yaml *node = NULL;
    struct bst_yaml raw = {.kind = BST_YAML_SCALAR, .at = at, .text = (char *)(uintptr_t)value};
    struct bst_yaml empty = {.kind = BST_YAML_SCALAR, .plain = true, .at = at, .text = raw.text};
    if (is_text(bst_param_at(id)->kind)) {
        give(l, id, &raw, BST_ORIGIN_SET, at);
    } else if (bst_yaml_read(value, strlen(value), number, &node, &l->c)) {
        give(l, id, node ? node : &empty, BST_ORIGIN_SET, at);
        bst_yaml_free(node);
    }
}

/* Defaults that go by another key. */
static void settle_defaults(struct bst_preset *p)
{
    const struct bst_optimizer_info *o = bst_optimizer_info((enum bst_optimizer)p->optimizer);
    if (p->origin[BST_PARAM_lr_scaling] == BST_ORIGIN_DEFAULT)
        p->lr_scaling = (int)bst_lr_rule_default(o->adaptive);
    if (p->batch_unit == BST_BATCH_TOKENS &&
        p->origin[BST_PARAM_lr_base_batch_size] == BST_ORIGIN_DEFAULT)
        p->lr_base_batch_size = p->global_batch_size;
    struct bst_preset_gpus gpus;
    if (p->origin[BST_PARAM_devices_count] == BST_ORIGIN_DEFAULT &&
        bst_preset_gpus(p->devices.list, &gpus) && gpus.n)
        p->devices.count = gpus.n;
}

enum bst_err bst_preset_parse(const struct bst_preset_env *env, const char *label, const char *yaml,
                              size_t n, const char *const *sets, int n_sets, struct bst_preset *out,
                              struct bst_preset_errors *errs)
{
    struct load *l = bst_xalloc(sizeof *l);
    l->p = out;
    l->r.p = out;
    bst_preset_default(out);
    give_file(l, yaml, n);
    for (int i = 0; i < n_sets; i++)
        give_set(l, i + 1, sets[i]);
    settle_defaults(out);
    bst_preset_cross_check(&l->r, env, &l->c);
    errs->n = l->c.n;
    enum bst_err err = bst_complaints_tell(&l->c, label, sets, &errs->text);
    bst_complaints_fini(&l->c);
    bst_free(l);
    return err;
}
