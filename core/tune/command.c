#include "core/tune/command.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/tune/lr_range.h"
#include "core/tune/trial.h"
#include "core/tune/split.h"

enum { TEXT_MAX = 256, WORDS_MAX = 6 };

/* A command's words, cut out of its own copy of the text. */
struct words {
    char text[TEXT_MAX];
    char *word[WORDS_MAX];
    int n;
};

static const char *const command_words[] = {
#define X(name, word, operand, example, help) word,
    BST_COMMANDS(X)
#undef X
};
static const struct {
    const char *operand, *example, *help;
} info[] = {
#define X(name, word, operand, example, help) {operand, example, help},
    BST_COMMANDS(X)
#undef X
};

const char *bst_command_word(enum bst_command_kind kind)
{
    return command_words[kind];
}

const char *bst_command_operand(enum bst_command_kind kind)
{
    return info[kind].operand;
}

const char *bst_command_example(enum bst_command_kind kind)
{
    return info[kind].example;
}

const char *bst_command_help(enum bst_command_kind kind)
{
    return info[kind].help;
}

bool bst_command_is_change(enum bst_command_kind kind)
{
    return kind <= BST_COMMAND_PRESET || kind == BST_COMMAND_UNDO || kind == BST_COMMAND_REDO;
}

static enum bst_err split_words(const char *text, struct words *w)
{
    if (strlen(text) >= TEXT_MAX)
        return bst_fail(BST_E_PARSE, "a command is at most %d characters", TEXT_MAX - 1);
    memcpy(w->text, text, strlen(text) + 1);
    w->n = 0;
    char *save = NULL;
    for (char *p = strtok_r(w->text, " \t\r\n", &save); p; p = strtok_r(NULL, " \t\r\n", &save)) {
        if (w->n == WORDS_MAX)
            return bst_fail(BST_E_PARSE, "a command has at most %d words", WORDS_MAX);
        w->word[w->n++] = p;
    }
    if (!w->n)
        return bst_fail(BST_E_PARSE, "no command given");
    return BST_OK;
}

/* What it is called by people who come from a preset or from elsewhere. */
static const struct {
    enum bst_command_kind kind;
    const char *words;
} elsewhere[] = {
    {BST_COMMAND_BATCH, "batch_size batchsize global_batch_size bs"},
    {BST_COMMAND_WARMUP, "warm-up warm_up warmup_epochs warmup_steps warmup_ratio"},
    {BST_COMMAND_LR, "learning_rate learning-rate rate"},
    {BST_COMMAND_DECAY, "schedule scheduler lr_scheduler min_lr_ratio"},
    {BST_COMMAND_LENGTH, "epochs steps max_epochs max_steps"},
    {BST_COMMAND_ACCUMULATE, "accumulation accum gradient_accumulation_steps"},
    {BST_COMMAND_CLIP, "max_grad_norm clip_grad grad_clip"},
    {BST_COMMAND_WEIGHT_DECAY, "wd weight_decay"},
    {BST_COMMAND_SMOOTHING, "smoothing label_smoothing"},
    {BST_COMMAND_PAUSE, "hold suspend"},
    {BST_COMMAND_RESUME, "continue unpause"},
    {BST_COMMAND_EVAL, "evaluate validate test"},
    {BST_COMMAND_CHECKPOINT, "save snapshot"},
    {BST_COMMAND_UNDO, "rewind revert back"},
    {BST_COMMAND_LRFIND, "lr-find lr_find"},
    {BST_COMMAND_TRIAL, "try"},
    {BST_COMMAND_STOP, "kill terminate end finish"},
};

const char *bst_command_near(const char *word)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        if (bst_text_in_list(elsewhere[i].words, word))
            return command_words[elsewhere[i].kind];
    int near = bst_text_nearest(word, command_words, BST_N_COMMANDS);
    return near < 0 ? NULL : command_words[near];
}

static enum bst_err find_command(const char *word, enum bst_command_kind *kind)
{
    for (int i = 0; i < BST_N_COMMANDS; i++) {
        if (!strcmp(word, command_words[i])) {
            *kind = (enum bst_command_kind)i;
            return BST_OK;
        }
    }
    const char *near = bst_command_near(word);
    return bst_fail(BST_E_NOTFOUND, "no command '%.40s'%s%s%s", word,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static enum bst_err fail_operand(enum bst_command_kind kind, const char *operand)
{
    return bst_fail(BST_E_PARSE, "%s: '%.40s' is not %s, as in `%s`", command_words[kind], operand,
                    info[kind].operand, info[kind].example);
}

/* Takes the flags out of the words; "--" only ends them. */
static enum bst_err take_flags(struct words *w, struct bst_command *out)
{
    static const struct {
        const char *text;
        enum bst_command_kind kind;
    } flags[] = {
        {"--jump", BST_COMMAND_WARMUP},
        {"--with-length", BST_COMMAND_PRESET},
        {"--rewind", BST_COMMAND_UNDO},
    };
    bool *set[] = {&out->jump, &out->with_length, &out->rewind};
    int kept = 1;
    bool ended = false;
    for (int i = 1; i < w->n; i++) {
        if (ended || strncmp(w->word[i], "--", 2) != 0) {
            w->word[kept++] = w->word[i];
            continue;
        }
        ended = !w->word[i][2];
        bool known = ended;
        for (int f = 0; f < 3 && !known; f++) {
            known = out->kind == flags[f].kind && !strcmp(w->word[i], flags[f].text);
            if (known)
                *set[f] = true;
        }
        if (!known)
            return bst_fail(BST_E_PARSE, "%s: no option '%.40s'", command_words[out->kind],
                            w->word[i]);
    }
    w->n = kept;
    return BST_OK;
}

/* Cuts "^3" off the operand; presses is 1 without it. */
static bool take_presses(char *operand, int *presses)
{
    char *hat = strchr(operand, '^');
    *presses = 1;
    if (!hat)
        return true;
    int64_t n;
    *hat = '\0';
    if (!bst_int_parse(hat + 1, &n) || n < 1 || n > BST_PRESSES_MAX || hat[1] == '+')
        return false;
    *presses = (int)n;
    return true;
}

static bool is_digit_or_dot(char c)
{
    return (c >= '0' && c <= '9') || c == '.';
}

/* An unsigned number: a second sign ("=-5", "*+2") is not one. */
static bool parse_number(const char *text, double *out)
{
    return is_digit_or_dot(*text) && bst_num_parse(text, out);
}

/* +20% -20% *2 x2 /1.1 =V V, with ^n where it repeats. False: not of this form. */
static bool parse_scalar(char *operand, struct bst_command *out)
{
    char sign = *operand;
    char *rest = operand + !is_digit_or_dot(sign);
    bool repeats = strchr(operand, '^') != NULL;
    if (!take_presses(rest, &out->presses))
        return false;
    if (sign == '+' || sign == '-') {
        size_t n = strlen(rest);
        if (!n || rest[n - 1] != '%')
            return false;
        rest[n - 1] = '\0';
        out->op = BST_OPERAND_PERCENT;
    } else if (sign == '*' || sign == 'x' || sign == '/') {
        out->op = BST_OPERAND_TIMES;
    } else if ((sign == '=' || is_digit_or_dot(sign)) && !repeats) {
        out->op = BST_OPERAND_SET;
        out->presses = 0;
    } else {
        return false;
    }
    if (sign == '-' || sign == '/')
        out->presses = -out->presses;
    return parse_number(rest, &out->value);
}

static enum bst_err fail_range(enum bst_command_kind kind, const char *operand, const char *allowed)
{
    return bst_fail(BST_E_RANGE, "%s: '%.40s' is out of range: %s", command_words[kind], operand,
                    allowed);
}

/* Of a relative operand. */
static enum bst_err check_relative(const struct bst_command *cmd, const char *shown)
{
    if (cmd->op == BST_OPERAND_PERCENT && cmd->presses < 0 && !(cmd->value > 0 && cmd->value < 100))
        return fail_range(cmd->kind, shown, "above 0% and below 100% less");
    if (cmd->op == BST_OPERAND_PERCENT && !(cmd->value > 0 && cmd->value <= 1000))
        return fail_range(cmd->kind, shown, "above 0% and up to 1000% more");
    if (cmd->op == BST_OPERAND_TIMES && !(cmd->value > 0))
        return fail_range(cmd->kind, shown, "a factor above 0");
    return BST_OK;
}

/* "+20" or "20%" where "+20%" was likely meant. */
static bool near_percent(const char *operand, char out[64])
{
    static const char *const with[] = {"%.40s%%", "+%.40s"};
    for (int i = 0; i < 2; i++) {
        char copy[64];
        struct bst_command cmd = {0};
        snprintf(out, 64, with[i], operand);
        memcpy(copy, out, sizeof copy);
        if (parse_scalar(copy, &cmd) && cmd.op == BST_OPERAND_PERCENT && cmd.value >= 1)
            return true;
    }
    return false;
}

/* warmup and length: an interval where a number would be, or a scalar change of the length. */
static enum bst_err parse_length(char *operand, struct bst_command *out)
{
    char sign = *operand;
    size_t n = strlen(operand);
    bool percent = n && operand[n - 1] == '%';
    bool scales = sign == '*' || sign == 'x' || sign == '/' || strchr(operand, '^');
    if (scales || (percent && (sign == '+' || sign == '-'))) {
        char shown[TEXT_MAX];
        memcpy(shown, operand, n + 1);
        if (!parse_scalar(operand, out) || out->op == BST_OPERAND_SET)
            return fail_operand(out->kind, shown);
        return check_relative(out, shown);
    }
    bool is_sign = sign == '=' || sign == '+' || sign == '-';
    enum bst_err err = bst_interval_parse(operand + is_sign, &out->interval);
    if (err)
        return bst_fail_in(err, "%s", command_words[out->kind]);
    if (out->kind == BST_COMMAND_LENGTH && out->interval.unit == BST_UNIT_RATIO)
        return fail_operand(out->kind, operand);
    out->op = sign == '+' ? BST_OPERAND_ADD : sign == '-' ? BST_OPERAND_TAKE : BST_OPERAND_SET;
    if (out->op != BST_OPERAND_SET && out->interval.value == 0)
        return bst_fail(BST_E_PARSE, "%s: '%.40s' changes nothing", command_words[out->kind],
                        operand);
    return BST_OK;
}

/* Which forms a command takes, and the bounds of a set value. */
struct scalar_rule {
    enum bst_command_kind kind;
    bool scales; /* * / and % too */
    bool whole;  /* a set value is an integer */
    double least, most;
    const char *allowed;   /* that, in words */
    const char *zero_word; /* a word for =0 */
};

static const struct scalar_rule scalar_rules[] = {
    {BST_COMMAND_BATCH, true, true, 1, (double)INT32_MAX, "1 to 2147483647", NULL},
    {BST_COMMAND_LR, true, false, 0, 1000, "above 0, up to 1000", NULL},
    {BST_COMMAND_ACCUMULATE, false, true, 0, (double)INT32_MAX, "auto or 1 to 2147483647", "auto"},
    {BST_COMMAND_CLIP, false, false, 0, 1e30, "off or above 0, up to 1e30", "off"},
    {BST_COMMAND_WEIGHT_DECAY, true, false, 0, 1, "0 to 1", NULL},
    {BST_COMMAND_MOMENTUM, false, false, 0, 1, "0 to below 1", NULL},
    {BST_COMMAND_SMOOTHING, false, false, 0, 1, "0 to below 1", NULL},
};

static const struct scalar_rule *find_rule(enum bst_command_kind kind)
{
    for (size_t i = 0; i < sizeof scalar_rules / sizeof scalar_rules[0]; i++)
        if (scalar_rules[i].kind == kind)
            return &scalar_rules[i];
    return NULL;
}

static enum bst_err parse_by_rule(const struct scalar_rule *rule, char *operand,
                                  struct bst_command *out)
{
    const char *bare = operand + (*operand == '=');
    if (rule->zero_word && !strcmp(bare, rule->zero_word)) {
        out->op = BST_OPERAND_SET;
        return BST_OK;
    }
    char shown[TEXT_MAX], near[64];
    memcpy(shown, operand, strlen(operand) + 1);
    if (!parse_scalar(operand, out) || (out->op != BST_OPERAND_SET && !rule->scales)) {
        if (!rule->scales || !near_percent(shown, near))
            return fail_operand(out->kind, shown);
        return bst_fail(BST_E_PARSE, "%s: '%.40s' is not %s; did you mean '%s'?",
                        command_words[out->kind], shown, info[out->kind].operand, near);
    }
    if (out->op != BST_OPERAND_SET)
        return check_relative(out, shown);
    if (rule->whole && out->value != floor(out->value))
        return bst_fail(BST_E_PARSE, "%s: '%.40s' is not a whole number", command_words[out->kind],
                        shown);
    if (out->value < rule->least || out->value > rule->most ||
        (rule->kind == BST_COMMAND_LR && out->value == 0))
        return fail_range(out->kind, shown, rule->allowed);
    return BST_OK;
}

static enum bst_err parse_decay(struct words *w, struct bst_command *out)
{
    if (!bst_schedule_by_name(w->word[1], &out->decay)) {
        const char *names[BST_N_SCHEDULES];
        for (int i = 0; i < BST_N_SCHEDULES; i++)
            names[i] = bst_schedule_name((enum bst_schedule_kind)i);
        int near = bst_text_nearest(w->word[1], names, BST_N_SCHEDULES);
        return bst_fail(BST_E_PARSE, "decay: no kind '%.40s'%s%s%s", w->word[1],
                        near < 0 ? "" : "; did you mean '", near < 0 ? "" : names[near],
                        near < 0 ? "" : "'?");
    }
    if (w->n < 3)
        return BST_OK;
    const char *bare = w->word[2] + (*w->word[2] == '=');
    if (!parse_number(bare, &out->value) || out->value > 1)
        return bst_fail(BST_E_PARSE, "decay: '%.40s' is not an end ratio, 0 to 1", w->word[2]);
    if (out->decay != BST_SCHEDULE_COSINE && out->decay != BST_SCHEDULE_LINEAR)
        return bst_fail(BST_E_PARSE, "decay: %s takes no end ratio", w->word[1]);
    out->has_value = true;
    return BST_OK;
}

static enum bst_err parse_preset(const char *name, struct bst_command *out)
{
    if (!bst_text_is_name(name))
        return bst_fail(BST_E_PARSE, "preset: '%.40s' is not a preset's name", name);
    memcpy(out->preset, name, strlen(name) + 1);
    return BST_OK;
}

static enum bst_err parse_count(enum bst_command_kind kind, const char *text, int64_t least,
                                int64_t most, int64_t *out)
{
    if (!bst_int_parse(text, out) || *text == '+' || *text == '-')
        return bst_fail(BST_E_PARSE, "%s: '%.40s' is not a whole number", command_words[kind],
                        text);
    char allowed[64];
    snprintf(allowed, sizeof allowed, "%lld to %lld", (long long)least, (long long)most);
    return *out < least || *out > most ? fail_range(kind, text, allowed) : BST_OK;
}

static enum bst_err parse_search(const struct words *w, struct bst_command *out)
{
    bool fit = out->kind == BST_COMMAND_FIT;
    int64_t repeats = 0;
    if (w->n > 1)
        BST_TRY(parse_count(out->kind, w->word[1], fit ? 1 : BST_LR_RANGE_LEAST,
                            fit ? 1 << 20 : BST_LR_RANGE_MOST, &out->count));
    if (w->n > 2)
        BST_TRY(parse_count(out->kind, w->word[2], 1, BST_LR_REPEATS_MOST, &repeats));
    out->repeats = (int)repeats;
    return BST_OK;
}

static enum bst_err check_count(const struct words *w, enum bst_command_kind kind)
{
    int least = info[kind].operand[0] && info[kind].operand[0] != '[' ? 2 : 1;
    int most = kind == BST_COMMAND_DECAY || kind == BST_COMMAND_LRFIND ? 3
               : kind == BST_COMMAND_FIT                               ? 2
                                                                       : least;
    if (w->n < least)
        return bst_fail(BST_E_PARSE, "%s: needs %s, as in `%s`", command_words[kind],
                        info[kind].operand, info[kind].example);
    if (w->n > most && kind == BST_COMMAND_PRESET)
        return bst_fail(BST_E_PARSE,
                        "preset: takes a name without blanks, as in `%s`; `bstune preset list` "
                        "shows them",
                        info[kind].example);
    if (w->n > most)
        return bst_fail(BST_E_PARSE, "%s: '%.40s' is too much", command_words[kind], w->word[most]);
    return BST_OK;
}

/* Its own words, then those of a command, which are read as ever. */
static enum bst_err parse_trial(const char *text, struct bst_command *out)
{
    static const char blanks[] = " \t\r\n";
    struct bst_command tried;
    struct bst_sb canonical;
    char count[24];
    text += strspn(text, blanks);
    size_t n = strcspn(text, blanks);
    if (n >= sizeof count || !text[n])
        return bst_fail(BST_E_PARSE, "trial: needs %s, as in `%s`", info[BST_COMMAND_TRIAL].operand,
                        info[BST_COMMAND_TRIAL].example);
    memcpy(count, text, n);
    count[n] = '\0';
    BST_TRY(parse_count(out->kind, count, BST_TRIAL_LEAST, BST_TRIAL_MOST, &out->count));
    BST_TRY(bst_command_parse(text + n, &tried));
    if (!bst_command_is_change(tried.kind) || tried.kind == BST_COMMAND_UNDO ||
        tried.kind == BST_COMMAND_REDO)
        return bst_fail(BST_E_PARSE, "trial: %s is nothing that can be tried",
                        command_words[tried.kind]);
    bst_sb_init(&canonical, sizeof out->tried - 1);
    bst_command_format(&tried, &canonical);
    bool fits = !canonical.full;
    memcpy(out->tried, canonical.data, canonical.len + 1);
    bst_sb_fini(&canonical);
    return fits ? BST_OK : bst_fail(BST_E_RANGE, "trial: a command of up to 126 bytes");
}

static bool is_trial(const char *text, const char **rest)
{
    size_t n = strlen(command_words[BST_COMMAND_TRIAL]);
    text += strspn(text, " \t\r\n");
    *rest = text + n;
    return !strncmp(text, command_words[BST_COMMAND_TRIAL], n) && strchr(" \t\r\n", text[n]);
}

enum bst_err bst_command_parse(const char *text, struct bst_command *out)
{
    struct words w;
    *out = (struct bst_command){0};
    const char *rest;
    if (is_trial(text, &rest)) {
        out->kind = BST_COMMAND_TRIAL;
        return parse_trial(rest, out);
    }
    BST_TRY(split_words(text, &w));
    BST_TRY(find_command(w.word[0], &out->kind));
    BST_TRY(take_flags(&w, out));
    BST_TRY(check_count(&w, out->kind));
    const struct scalar_rule *rule = find_rule(out->kind);
    if (rule)
        return parse_by_rule(rule, w.word[1], out);
    if (out->kind == BST_COMMAND_WARMUP || out->kind == BST_COMMAND_LENGTH)
        return parse_length(w.word[1], out);
    if (out->kind == BST_COMMAND_DECAY)
        return parse_decay(&w, out);
    if (out->kind == BST_COMMAND_FIT || out->kind == BST_COMMAND_LRFIND)
        return parse_search(&w, out);
    if (out->kind == BST_COMMAND_PRESET)
        return parse_preset(w.word[1], out);
    return BST_OK;
}
