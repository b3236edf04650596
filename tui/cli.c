#include "tui/cli.h"

#include <string.h>

#include "core/base/text.h"
#include "core/tune/command.h"
#include "tui/print.h"

enum { HELP_COLUMNS = 79 };

static const struct tui_verb_info verbs[TUI_N_VERBS] = {
#define TUI_VERB(name, word, operands, least, most, takes, text)                                   \
    [TUI_VERB_##name] = {word, operands, least, most, TUI_TAKES_##takes, text},
#define TUI_OPTION(...)
#include "tui/cli.def"
};

static const struct tui_option_info options[TUI_N_OPTIONS] = {
#define IN(verb) (1u << TUI_VERB_##verb)
#define TUI_VERB(...)
#define TUI_OPTION(name, word, letter, argument, in, text)                                         \
    [TUI_OPTION_##name] = {word, letter, argument, in, text},
#include "tui/cli.def"
#undef IN
};

const struct tui_verb_info *tui_verb_at(enum tui_verb verb)
{
    return &verbs[verb];
}

const struct tui_option_info *tui_option_at(enum tui_option option)
{
    return &options[option];
}

static bool has(enum tui_verb verb, int option)
{
    return options[option].verbs & (1u << verb);
}

static int refuse(FILE *err, enum tui_verb verb, const char *why, const char *what)
{
    struct bst_sb clean;
    bst_sb_init(&clean, 1024);
    bst_text_clean(&clean, what, strnlen(what, 200));
    const char *space = verb < TUI_N_VERBS ? " " : "",
               *word = verb < TUI_N_VERBS ? verbs[verb].word : "";
    fprintf(err, "bstune%s%s: %s%s\nTry 'bstune%s%s --help'.\n", space, word, why, clean.data,
            space, word);
    bst_sb_fini(&clean);
    return 2;
}

static bool find_verb(const char *word, enum tui_verb *out)
{
    for (int i = 0; i < TUI_N_VERBS; i++) {
        if (strcmp(verbs[i].word, word) == 0) {
            *out = (enum tui_verb)i;
            return true;
        }
    }
    return false;
}

static bool is_command_of_run(const char *word)
{
    for (int i = 0; i < BST_N_COMMANDS; i++)
        if (!strcmp(word, bst_command_word((enum bst_command_kind)i)))
            return true;
    return false;
}

static int refuse_verb(FILE *err, const char *word)
{
    const char *words[TUI_N_VERBS];
    for (int i = 0; i < TUI_N_VERBS; i++)
        words[i] = verbs[i].word;
    int near = bst_text_nearest(word, words, TUI_N_VERBS);
    bool of_run = is_command_of_run(word);
    if (near < 0 && !of_run)
        return refuse(err, TUI_N_VERBS, "unknown command: ", word);
    struct bst_sb clean;
    bst_sb_init(&clean, 1024);
    bst_text_clean(&clean, word, strnlen(word, 200));
    fprintf(err, "bstune: unknown command: %s; did you mean '%s%s'?\nTry 'bstune --help'.\n",
            clean.data, of_run ? "ctl " : "", of_run ? word : words[near]);
    bst_sb_fini(&clean);
    return 2;
}

/* The option that argument `a` of `verb` is, or -1; *value is what follows its =. */
static int find_option(enum tui_verb verb, const char *a, const char **value)
{
    *value = NULL;
    for (int i = 0; i < TUI_N_OPTIONS; i++) {
        size_t n = strlen(options[i].name);
        if (!has(verb, i))
            continue;
        if (a[1] != '-' && a[1] == options[i].letter) {
            if (!a[2])
                return i;
            if (!*options[i].argument)
                continue;
            *value = a + 2;
            return i;
        }
        if (a[1] == '-' && strncmp(a + 2, options[i].name, n) == 0 &&
            (!a[2 + n] || a[2 + n] == '=')) {
            if (a[2 + n])
                *value = a + 3 + n;
            return i;
        }
    }
    return -1;
}

/* Whether `value` is one of the words of "a|b|c". */
static bool is_choice(const char *choices, const char *value)
{
    size_t n = strlen(value);
    for (const char *p = choices; n && p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (strncmp(p, value, n) == 0 && (!p[n] || p[n] == '|'))
            return true;
    return false;
}

static int take_option(struct tui_cli *out, int option, const char *value, FILE *err)
{
    const struct tui_option_info *o = &options[option];
    char dashed[40];
    snprintf(dashed, sizeof dashed, "--%s", o->name);
    if (!*o->argument) {
        if (value)
            return refuse(err, out->verb, "takes no argument: ", dashed);
        value = "";
    } else if (!*value) {
        return refuse(err, out->verb, "needs an argument that is not empty: ", dashed);
    }
    if (strchr(o->argument, '|') && !is_choice(o->argument, value)) {
        char why[80];
        snprintf(why, sizeof why, "%s is %s, not ", dashed, o->argument);
        return refuse(err, out->verb, why, value);
    }
    if (out->option[option] && *o->argument && option != TUI_OPTION_SET)
        return refuse(err, out->verb, "given twice: ", dashed);
    if (option == TUI_OPTION_SET) {
        if (out->n_sets == TUI_ARGS_MAX)
            return refuse(err, out->verb, "too many ", dashed);
        out->sets[out->n_sets++] = value;
    }
    out->option[option] = value;
    return 0;
}

static int refuse_option(FILE *err, enum tui_verb verb, const char *a)
{
    for (int i = 0; i < TUI_N_OPTIONS; i++) {
        const char *value;
        for (int other = 0; other < TUI_N_VERBS; other++)
            if (has((enum tui_verb)other, i) && find_option((enum tui_verb)other, a, &value) == i) {
                char why[80];
                snprintf(why, sizeof why, "an option of 'bstune %s': ", verbs[other].word);
                return refuse(err, verb, why, a);
            }
    }
    return refuse(err, verb, "unknown option: ", a);
}

static int read_rest(int argc, char **argv, struct tui_cli *out, FILE *err)
{
    bool only_operands = false;
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i], *value = NULL;
        bool dashed = !only_operands && a[0] == '-' && a[1];
        int option = dashed ? find_option(out->verb, a, &value) : -1;
        if (dashed && strcmp(a, "--") == 0) {
            only_operands = true;
        } else if (option >= 0) {
            if (*options[option].argument && !value) {
                if (++i == argc)
                    return refuse(err, out->verb, "needs an argument: ", a);
                value = argv[i];
            }
            int code = take_option(out, option, value, err);
            if (code)
                return code;
        } else if (dashed && (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0)) {
            out->about = out->verb;
            out->verb = TUI_VERB_HELP;
            return 0;
        } else if (dashed && !(out->verb == TUI_VERB_CTL && out->n_operands)) {
            return refuse_option(err, out->verb, a);
        } else if (out->n_operands == verbs[out->verb].most) {
            return refuse(err, out->verb, "one argument too many: ", a);
        } else {
            out->operands[out->n_operands++] = a;
        }
    }
    if (out->n_operands < verbs[out->verb].least)
        return refuse(err, out->verb, "missing argument: ", verbs[out->verb].operands);
    return 0;
}

int tui_cli_parse(int argc, char **argv, struct tui_cli *out, FILE *err)
{
    *out = (struct tui_cli){.verb = TUI_VERB_HELP, .about = TUI_N_VERBS};
    if (argc < 2) {
        tui_cli_help(TUI_N_VERBS, err);
        return 2;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return 0;
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        out->verb = TUI_VERB_VERSION;
        return 0;
    }
    if (strcmp(word, "help") == 0)
        return argc == 2 || find_verb(argv[2], &out->about) ? 0 : refuse_verb(err, argv[2]);
    if (!find_verb(word, &out->verb))
        return *word == '-' ? refuse(err, TUI_N_VERBS, "unknown option: ", word)
                            : refuse_verb(err, word);
    out->rest = argv + 2;
    out->n_rest = argc - 2;
    bool asks = argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0);
    if (out->verb == TUI_VERB_PRESET && !asks)
        return 0;
    return read_rest(argc - 2, argv + 2, out, err);
}

static void print_option(const struct tui_option_info *o, FILE *out)
{
    enum { INDENT = 30 };
    const char *space = *o->argument ? " " : "";
    int at = o->letter ? fprintf(out, "  -%c, --%s%s%s", o->letter, o->name, space, o->argument)
                       : fprintf(out, "      --%s%s%s", o->name, space, o->argument);
    if (at >= INDENT) {
        fprintf(out, "\n");
        at = 0;
    }
    tui_print_wrapped(out, HELP_COLUMNS, o->text, INDENT, at);
}

static const char grammar[] =
    "An operand with a sign or a factor is relative, one with = or nothing before it absolute. "
    "Lengths have a unit: ep for epochs, st for updates, sa for samples, % of the run.";

void tui_cli_commands(FILE *out)
{
    fprintf(out, "Commands of a run:\n");
    for (int i = 0; i < BST_N_COMMANDS; i++) {
        enum bst_command_kind kind = (enum bst_command_kind)i;
        const char *operand = bst_command_operand(kind);
        int at = fprintf(out, "  %s%s%s", bst_command_word(kind), *operand ? " " : "", operand);
        if (at >= 29) {
            fprintf(out, "\n");
            at = 0;
        }
        tui_print_wrapped(out, HELP_COLUMNS, bst_command_help(kind), 30, at);
    }
    fprintf(out, "\n");
    tui_print_wrapped(out, HELP_COLUMNS, grammar, 0, 0);
    fprintf(out, "\nExamples:\n");
    for (int i = BST_COMMAND_BATCH; i <= BST_COMMAND_LR; i++)
        fprintf(out, "  bstune ctl %s\n", bst_command_example((enum bst_command_kind)i));
    fprintf(out, "  bstune ctl quickstart-1 %s\n", bst_command_example(BST_COMMAND_PRESET));
}

void tui_cli_command(int kind, FILE *out)
{
    enum bst_command_kind k = (enum bst_command_kind)kind;
    const char *operand = bst_command_operand(k);
    fprintf(out, "usage: bstune ctl [RUN] %s%s%s\n  %s\n", bst_command_word(k), *operand ? " " : "",
            operand, bst_command_help(k));
    if (!*operand)
        return;
    fprintf(out, "\n");
    tui_print_wrapped(out, HELP_COLUMNS, grammar, 0, 0);
    fprintf(out, "\nExample:\n  bstune ctl %s\n", bst_command_example(k));
}

/* Bytes of the first one, without its full stop: a name such as report.html has none. */
static int sentence(const char *text)
{
    const char *end = strstr(text, ". ");
    return (int)(end ? (size_t)(end - text) : strlen(text) - 1);
}

void tui_cli_help(enum tui_verb verb, FILE *out)
{
    if (verb >= TUI_N_VERBS) {
        fprintf(out, "usage: bstune COMMAND [ARGUMENTS]\n\nTune a training run while it runs.\n\n");
        for (int i = 0; i < TUI_N_VERBS; i++) {
            int at = fprintf(out, "  %s %s", verbs[i].word, verbs[i].operands);
            char first[256];
            snprintf(first, sizeof first, "%.*s", sentence(verbs[i].text), verbs[i].text);
            if (at >= 25) {
                fprintf(out, "\n");
                at = 0;
            }
            tui_print_wrapped(out, HELP_COLUMNS, first, 26, at);
        }
        fprintf(out, "\n'bstune COMMAND --help' says more; bstune(1) says all.\n");
        return;
    }
    fprintf(out, "usage: bstune %s%s%s [OPTIONS]\n\n", verbs[verb].word,
            *verbs[verb].operands ? " " : "", verbs[verb].operands);
    tui_print_wrapped(out, HELP_COLUMNS, verbs[verb].text, 0, 0);
    bool any = false;
    for (int i = 0; i < TUI_N_OPTIONS; i++) {
        if (!has(verb, i))
            continue;
        fprintf(out, "%s", any ? "" : "\n");
        any = true;
        print_option(&options[i], out);
    }
    if (verb == TUI_VERB_CTL) {
        fprintf(out, "\n");
        tui_cli_commands(out);
    }
}
