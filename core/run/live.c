#include "core/run/live.h"

#include "core/run/field.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

#define L(kind, name) BST_FIELD(struct bst_live, kind, name)
static const struct bst_field live_fields[] = {
    L(U64, batch),         L(U64, cap),          L(U64, accumulate), L(F64, max_grad_norm),
    L(U64, clip_interval), L(F64, weight_decay), L(F64, momentum),   L(F64, label_smoothing),
    L(STR, preset),
};
/* Not in the files of older versions. */
static const struct bst_field live_fields_since[] = {L(U64, batch_tokens)};
#undef L

#define P(kind, name) BST_FIELD(struct bst_split, kind, name)
static const struct bst_field split_fields[] = {
    P(U64, batch),
    P(U64, ranks),
    P(U64, accumulate),
    P(U64, micro),
};
#undef P

#define S(kind, name) BST_FIELD(struct bst_schedule, kind, name)
static const struct bst_field schedule_fields[] = {
    S(F64, peak),  S(F64, start_lr), S(F64, min_lr_ratio), S(F64, warmup), S(U64, total),
    S(F64, log_n), S(F64, gamma),    S(F64, s0),           S(F64, x0),
};
#undef S

static void print_schedule(const struct bst_schedule *sch, struct bst_json *j)
{
    bst_json_open(j, "schedule", '{');
    bst_json_str(j, "kind", bst_schedule_name(sch->kind));
    bst_json_str(j, "curve", bst_warmup_name(sch->curve));
    bst_fields_print(schedule_fields, COUNT(schedule_fields), sch, j);
    bst_json_open(j, "milestones", '[');
    for (int i = 0; i < sch->n_milestones; i++)
        bst_json_uint(j, NULL, sch->milestones[i]);
    bst_json_close(j, ']');
    bst_json_close(j, '}');
}

void bst_live_print(const struct bst_live *live, const char *key, struct bst_json *j)
{
    bst_json_open(j, key, '{');
    bst_fields_print(live_fields, COUNT(live_fields), live, j);
    if (live->batch_tokens)
        bst_fields_print(live_fields_since, COUNT(live_fields_since), live, j);
    bst_json_str(j, "rule", bst_lr_rule_name(live->rule));
    bst_json_open(j, "split", '{');
    bst_fields_print(split_fields, COUNT(split_fields), &live->split, j);
    bst_json_close(j, '}');
    print_schedule(&live->schedule, j);
    bst_json_close(j, '}');
}

static enum bst_err need(const json_t *o, const struct bst_field *fields, size_t n, void *to)
{
    for (size_t i = 0; i < n; i++)
        if (!json_object_get(o, fields[i].key))
            return bst_fail(BST_E_PARSE, "settings: \"%s\" is missing", fields[i].key);
    bst_fields_read(fields, n, o, to);
    return BST_OK;
}

static enum bst_err read_schedule(const json_t *o, struct bst_schedule *sch)
{
    size_t i;
    json_t *v;
    BST_TRY(need(o, schedule_fields, COUNT(schedule_fields), sch));
    if (!bst_schedule_by_name(bst_json_text(o, "kind"), &sch->kind) ||
        !bst_warmup_by_name(bst_json_text(o, "curve"), &sch->curve))
        return bst_fail(BST_E_PARSE, "settings: a schedule of unknown kind");
    json_array_foreach(json_object_get(o, "milestones"), i, v)
    {
        if (i == BST_MILESTONES_MAX || !json_is_integer(v) || json_integer_value(v) < 0)
            return bst_fail(BST_E_PARSE, "settings: bad milestones");
        sch->milestones[sch->n_milestones++] = (uint64_t)json_integer_value(v);
    }
    return BST_OK;
}

enum bst_err bst_live_read(const json_t *o, struct bst_live *out)
{
    enum bst_diag refused;
    *out = (struct bst_live){0};
    BST_TRY(need(o, live_fields, COUNT(live_fields), out));
    bst_fields_read(live_fields_since, COUNT(live_fields_since), o, out);
    BST_TRY(need(json_object_get(o, "split"), split_fields, COUNT(split_fields), &out->split));
    BST_TRY(read_schedule(json_object_get(o, "schedule"), &out->schedule));
    if (!bst_lr_rule_by_name(bst_json_text(o, "rule"), &out->rule))
        return bst_fail(BST_E_PARSE, "settings: unknown rule for the rate");
    enum bst_err err = bst_plan_check(out, &refused);
    return err ? bst_fail_in(BST_E_PARSE, "settings") : BST_OK;
}

static void print_value(const char *key, const char *text, struct bst_json *j)
{
    double number;
    if (bst_num_parse(text, &number))
        bst_json_num(j, key, number);
    else
        bst_json_str(j, key, text);
}

void bst_changes_print(const struct bst_change *changes, int n, struct bst_json *j)
{
    bst_json_open(j, "changes", '[');
    for (int i = 0; i < n; i++) {
        bst_json_open(j, NULL, '{');
        bst_json_str(j, "key", changes[i].key);
        print_value("old", changes[i].before, j);
        print_value("new", changes[i].after, j);
        bst_json_close(j, '}');
    }
    bst_json_close(j, ']');
}

void bst_value_text(const json_t *v, char *out, size_t room)
{
    char number[32] = "";
    if (json_is_number(v))
        bst_num_text(json_number_value(v), number);
    bst_copy_clean(out, room, json_is_string(v) ? json_string_value(v) : number);
}
