/* The verbs of the command line: each a file with one function, which gives the process's exit
 * code; and what they share. One thread. */
#ifndef TUI_VERBS_H
#define TUI_VERBS_H

#include "core/base/err.h"
#include "core/run/run_dir.h"
#include "tui/cli.h"
#include "tui/print.h"

enum {
    TUI_EXIT_DONE = 0,
    TUI_EXIT_FAILED = 1,
    TUI_EXIT_USAGE = 2,
    TUI_EXIT_PROBLEMS = 3,
    TUI_EXIT_NO_RUN = 4
};

struct bst_net_table;

struct tui_call {
    const struct tui_cli *cli;
    const struct bst_net_table *nets; /* from main, which alone knows them */
    FILE *out, *err;
};

int tui_verb_run(const struct tui_call *c);
int tui_verb_attach(const struct tui_call *c);
int tui_verb_list(const struct tui_call *c);
int tui_verb_mem(const struct tui_call *c);
int tui_verb_doctor(const struct tui_call *c);
int tui_verb_status(const struct tui_call *c);
int tui_verb_ctl(const struct tui_call *c);
int tui_verb_stop(const struct tui_call *c);
int tui_verb_fit(const struct tui_call *c);
int tui_verb_lrfind(const struct tui_call *c);
int tui_verb_preset(const struct tui_call *c);
int tui_verb_journal(const struct tui_call *c);
int tui_verb_replay(const struct tui_call *c);
int tui_verb_sweep(const struct tui_call *c);
int tui_verb_report(const struct tui_call *c);
int tui_verb_trial(const struct tui_call *c);
int tui_verb_export(const struct tui_call *c);
int tui_verb_keys(const struct tui_call *c);
int tui_verb_config(const struct tui_call *c);

bool tui_given(const struct tui_call *c, enum tui_option o);
const char *tui_value(const struct tui_call *c, enum tui_option o); /* NULL: not given */
/* The RUN operand, NULL when it was left out. */
const char *tui_run_operand(const struct tui_call *c);
/* The run that a verb looks at; one that was not named is said on standard error, with its folder
 * where that is not this one. For verbs whose answer does not say it. */
BST_MUST_USE enum bst_err tui_find_run(const struct tui_call *c, enum bst_run_use use,
                                       char dir[512]);
/* "bstune VERB: " and the last error's text; gives `code`. With --json also
 * {"outcome":"refused","code":…,"text":…} on standard output, as do the next two. */
int tui_fail(const struct tui_call *c, int code);
/* "bstune VERB: " and a text of one's own; gives TUI_EXIT_USAGE. */
int tui_usage(const struct tui_call *c, const char *fmt, ...) BST_PRINTF(2, 3);
struct bst_preset_errors;
/* Every line of a preset that was refused, or, where there is none, the last error's text; gives
 * TUI_EXIT_USAGE. */
int tui_refuse_preset(const struct tui_call *c, const struct bst_preset_errors *errs);
/* Whether the file that an option names may be written: one that is there already is replaced with
 * --force alone. Gives 0, or the exit code when the reason has been said. */
int tui_check_new(const struct tui_call *c, enum tui_option o);
/* What an error of a client or a look-up means to a script. */
int tui_code_of(enum bst_err err);

#endif
