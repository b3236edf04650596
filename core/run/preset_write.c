/* A preset as text: values, the resolved file, the difference of two. */
#include "core/run/preset_impl.h"

#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "core/graph/compile.h"

/* Plain where any reader of YAML takes it for this text, else in double quotes. */
void bst_preset_write_text(struct bst_sb *out, const char *s)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no",
                                        "on",   "off",   "y",    "n"};
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    bool is_plain =
        ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '/') && !s[strspn(s, plain)];
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        is_plain &= strcasecmp(words[i], s) != 0;
    if (is_plain) {
        bst_sb_add(out, s);
        return;
    }
    bst_sb_addc(out, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            bst_sb_addc(out, '\\');
        if (*s == '\n')
            bst_sb_add(out, "\\n");
        else
            bst_sb_addc(out, *s);
    }
    bst_sb_addc(out, '"');
}

static void write_number(struct bst_sb *out, double value)
{
    char text[32];
    bst_num_text(value, text);
    bst_sb_add(out, text);
}

static void write_numbers(struct bst_sb *out, const struct bst_numbers *v)
{
    bst_sb_addc(out, '[');
    for (int i = 0; i < v->n; i++) {
        bst_sb_add(out, i ? ", " : "");
        write_number(out, v->v[i]);
    }
    bst_sb_addc(out, ']');
}

static void write_groups(struct bst_sb *out, const struct bst_preset_groups *groups)
{
    bst_sb_addc(out, '[');
    for (int i = 0; i < groups->n; i++) {
        const struct bst_preset_group *g = &groups->v[i];
        bst_sb_addf(out, "%s{match: ", i ? ", " : "");
        bst_preset_write_text(out, g->match);
        bst_sb_add(out, ", factor: ");
        write_number(out, g->factor);
        if (g->weight_decay >= 0) {
            bst_sb_add(out, ", weight_decay: ");
            write_number(out, g->weight_decay);
        }
        bst_sb_addc(out, '}');
    }
    bst_sb_addc(out, ']');
}

static void write_interval(struct bst_sb *out, struct bst_interval value)
{
    char text[32] = "never";
    if (value.value > 0)
        bst_interval_format(value, text);
    bst_sb_add(out, text);
}

static void write_recompute(struct bst_sb *out, const struct bst_preset_recompute *r)
{
    if (r->kind == BST_RECOMPUTE_EVERY) {
        bst_sb_addf(out, "{every: %d}", r->every);
        return;
    }
    if (r->kind != BST_RECOMPUTE_LAYERS) {
        bst_sb_add(out, r->kind == BST_RECOMPUTE_AUTO ? "auto" : "none");
        return;
    }
    bst_sb_add(out, "{layers: [");
    for (int i = 0; i < r->n_layers; i++) {
        bst_sb_add(out, i ? ", " : "");
        bst_preset_write_text(out, r->layers[i]);
    }
    bst_sb_add(out, "]}");
}

void bst_preset_write_value(const struct bst_preset *p, enum bst_param_id id, struct bst_sb *out)
{
    const struct bst_param_info *m = bst_param_at(id);
    const void *field = bst_param_field_view(p, id, NULL);
    int n;
    const char *const *words = bst_param_choices(id, &n);
    if (words) {
        bst_sb_add(out, words[*(const int *)field]);
        return;
    }
    switch (m->kind) {
    case BST_KIND_COUNT:
    case BST_KIND_COUNT_OR_AUTO:
        if (m->kind == BST_KIND_COUNT_OR_AUTO && !*(const int64_t *)field)
            bst_sb_add(out, "auto");
        else
            bst_sb_addf(out, "%lld", (long long)*(const int64_t *)field);
        break;
    case BST_KIND_BYTES_OR_AUTO:
        if (*(const uint64_t *)field)
            bst_sb_addf(out, "%llu", (unsigned long long)*(const uint64_t *)field);
        else
            bst_sb_add(out, "auto");
        break;
    case BST_KIND_NUMBER:
    case BST_KIND_NUMBER_OVER:
    case BST_KIND_NUMBER_UNDER:
        write_number(out, *(const double *)field);
        break;
    case BST_KIND_TRUTH:
        bst_sb_add(out, *(const bool *)field ? "true" : "false");
        break;
    case BST_KIND_INTERVAL:
        write_interval(out, *(const struct bst_interval *)field);
        break;
    case BST_KIND_CHANNELS:
    case BST_KIND_MILESTONES:
    case BST_KIND_PAIR:
        write_numbers(out, field);
        break;
    case BST_KIND_GROUPS:
        write_groups(out, field);
        break;
    case BST_KIND_CHANGES:
        bst_changes_write(out, field);
        break;
    case BST_KIND_RECOMPUTE:
        write_recompute(out, field);
        break;
    default:
        bst_preset_write_text(out, field);
        break;
    }
}

/* The keys of a mapping follow each other in params.def, which makes its lines one block. */
void bst_preset_write(const struct bst_preset *p, struct bst_sb *out)
{
    const char *section = NULL;
    for (int i = 0; i < BST_N_PARAMS; i++) {
        const struct bst_param_info *m = bst_param_at((enum bst_param_id)i);
        if (!bst_preset_in_force(p, (enum bst_param_id)i))
            continue;
        if (m->section && m->section != section && (!section || strcmp(m->section, section) != 0))
            bst_sb_addf(out, "%s:\n", m->section);
        section = m->section;
        bst_sb_addf(out, "%s%s: ", section ? "  " : "", section ? strchr(m->key, '.') + 1 : m->key);
        bst_preset_write_value(p, (enum bst_param_id)i, out);
        bst_sb_addc(out, '\n');
    }
}

static void value_or_dash(const struct bst_preset *p, enum bst_param_id id, char out[96])
{
    struct bst_sb text;
    bst_sb_init(&text, BST_PRESET_TEXT * 16);
    if (bst_preset_in_force(p, id))
        bst_preset_write_value(p, id, &text);
    else
        bst_sb_add(&text, "—");
    enum { ROOM = 96 };
    struct bst_sb cut;
    bst_sb_init(&cut, text.len < ROOM ? ROOM - 1 : ROOM - 1 - strlen("…"));
    bst_sb_add(&cut, text.data);
    snprintf(out, ROOM, "%s%s", cut.data, cut.full ? "…" : "");
    bst_sb_fini(&cut);
    bst_sb_fini(&text);
}

static bool same_value(const struct bst_preset *a, const struct bst_preset *b, enum bst_param_id id)
{
    if (!bst_preset_in_force(a, id) || !bst_preset_in_force(b, id))
        return bst_preset_in_force(a, id) == bst_preset_in_force(b, id);
    struct bst_sb left, right;
    bst_sb_init(&left, BST_PRESET_TEXT * 16);
    bst_sb_init(&right, BST_PRESET_TEXT * 16);
    bst_preset_write_value(a, id, &left);
    bst_preset_write_value(b, id, &right);
    bool same = strcmp(left.data, right.data) == 0;
    bst_sb_fini(&left);
    bst_sb_fini(&right);
    return same;
}

int bst_preset_diff(const struct bst_preset *from, const struct bst_preset *to,
                    struct bst_preset_difference *out)
{
    int n = 0;
    for (int i = 0; i < BST_N_PARAMS; i++) {
        enum bst_param_id id = (enum bst_param_id)i;
        if (id == BST_PARAM_name || id == BST_PARAM_about || same_value(from, to, id))
            continue;
        out[n].id = id;
        value_or_dash(from, id, out[n].before);
        value_or_dash(to, id, out[n].after);
        n++;
    }
    return n;
}

void bst_preset_copy_live(struct bst_preset *to, const struct bst_preset *from, bool with_length)
{
    for (int i = 0; i < BST_N_PARAMS; i++) {
        enum bst_param_id id = (enum bst_param_id)i;
        enum bst_live_kind live = bst_param_at(id)->live;
        if (live == BST_PARAM_FIXED || (live == BST_PARAM_LENGTH && !with_length))
            continue;
        size_t bytes;
        const void *field = bst_param_field_view(from, id, &bytes);
        memcpy(bst_param_field(to, id), field, bytes);
        to->origin[i] = from->origin[i];
    }
    memcpy(to->id, from->id, sizeof to->id);
}
