/* The command line: arguments to a plain value, and --help, both from cli.def. One thread. */
#ifndef TUI_CLI_H
#define TUI_CLI_H

#include <stdbool.h>
#include <stdio.h>

enum tui_verb {
#define TUI_VERB(name, ...) TUI_VERB_##name,
#define TUI_OPTION(...)
#include "tui/cli.def"
    TUI_N_VERBS,
    TUI_VERB_HELP = TUI_N_VERBS, /* --help, -h, help [VERB] */
    TUI_VERB_VERSION,            /* --version, -V */
};

enum tui_option {
#define TUI_VERB(...)
#define TUI_OPTION(name, ...) TUI_OPTION_##name,
#include "tui/cli.def"
    TUI_N_OPTIONS
};

enum { TUI_ARGS_MAX = 64 };

struct tui_cli {
    enum tui_verb verb;
    enum tui_verb about; /* under TUI_VERB_HELP: the verb asked about, TUI_N_VERBS for all */
    /* Argument of an option, "" of a switch, NULL when not given. */
    const char *option[TUI_N_OPTIONS];
    const char *sets[TUI_ARGS_MAX]; /* every --set */
    int n_sets;
    const char *operands[TUI_ARGS_MAX];
    int n_operands;
    /* Under TUI_VERB_PRESET everything after the verb, unread. */
    char **rest;
    int n_rest;
};

enum tui_takes {
    TUI_TAKES_NOTHING,
    TUI_TAKES_PRESET,
    TUI_TAKES_RUN,
    TUI_TAKES_RUN_AND_COMMAND,
    TUI_TAKES_PRESET_VERB,
};

struct tui_verb_info {
    const char *word, *operands;
    int least, most;
    enum tui_takes takes;
    const char *text;
};

struct tui_option_info {
    const char *name;
    char letter;          /* 0: none */
    const char *argument; /* "": a switch */
    unsigned verbs;       /* bit 1 << enum tui_verb */
    const char *text;
};

const struct tui_verb_info *tui_verb_at(enum tui_verb verb);
const struct tui_option_info *tui_option_at(enum tui_option option);

/* 0, or 2 with the reason on err. Strings are argv's own. Options may stand anywhere; what follows
 * -- is an operand, and under `ctl` so is any word that is not an option of ctl: `ctl RUN batch
 * -20%`. */
int tui_cli_parse(int argc, char **argv, struct tui_cli *out, FILE *err);
/* All verbs (TUI_N_VERBS), or one with its options. */
void tui_cli_help(enum tui_verb verb, FILE *out);
/* The commands of a run, with their grammar and examples; or one of them, an enum bst_command_kind.
 */
void tui_cli_commands(FILE *out);
void tui_cli_command(int kind, FILE *out);

#endif
