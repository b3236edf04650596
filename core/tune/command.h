/* The words of a live change, the same at the console's prompt, in `bstune ctl`, on the socket and
 * in the journal: text to struct and back. Pure; any thread.
 *
 *   batch +20% | -20% | +20%^3 | =512 | 512 | x2 | *0.5
 *   warmup +1ep | -500st | +10% (of its length) | =10% (of the run) | =2ep | x1.5    [--jump]
 *   lr *0.5 | x0.5 | /1.1 | *1.1^3 | +10% | =0.1 | 0.1
 *   decay cosine [=0.01]  (end rate / peak)      length =20ep | +1ep
 *   accumulate =4 | auto      clip =1.0 | off
 *   weight-decay | momentum | label-smoothing =V
 *   preset NAME [--with-length]      undo [--rewind]      redo
 *   fit [MOST]      lrfind [UPDATES [REPEATS]]      trial UPDATES COMMAND      cancel
 *   pause  resume  eval  checkpoint  stop */
#ifndef BST_TUNE_COMMAND_H
#define BST_TUNE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"
#include "core/base/sb.h"
#include "core/tune/interval.h"
#include "core/tune/schedule.h"

/* X(NAME, word, operand shown in usage, an example that no shell takes apart, one line of help) */
#define BST_COMMANDS(X)                                                                            \
    X(BATCH, "batch", "+20%|-20%|=N|xK", "batch +20%", "change the global batch")                  \
    X(WARMUP, "warmup", "+1ep|-500st|=10%|xK [--jump]", "warmup +1ep",                             \
      "change the warm-up's length")                                                               \
    X(LR, "lr", "*K|/K|=V", "lr x0.5", "scale or set the peak learning rate")                      \
    X(DECAY, "decay", "KIND [=RATIO]", "decay linear 0.01",                                        \
      "change the decay's shape and end rate")                                                     \
    X(LENGTH, "length", "+1ep|=20ep|=5000st", "length +1ep", "change the length of the run")       \
    X(ACCUMULATE, "accumulate", "=K|auto", "accumulate 4",                                         \
      "fix the micro-batches of an update, or free them")                                          \
    X(CLIP, "clip", "=V|off", "clip 1.0", "clip the gradient's norm")                              \
    X(WEIGHT_DECAY, "weight-decay", "=V|*K", "weight-decay 0.0005", "change the weight decay")     \
    X(MOMENTUM, "momentum", "=V", "momentum 0.9", "change the momentum")                           \
    X(SMOOTHING, "label-smoothing", "=V", "label-smoothing 0.1", "change the label smoothing")     \
    X(PRESET, "preset", "NAME [--with-length]", "preset a100x4-ddp-2048",                          \
      "apply another preset's live keys")                                                          \
    X(PAUSE, "pause", "", "pause", "hold the run after this update")                               \
    X(RESUME, "resume", "", "resume", "let a held run go on")                                      \
    X(EVAL, "eval", "", "eval", "evaluate now")                                                    \
    X(CHECKPOINT, "checkpoint", "", "checkpoint", "save a checkpoint now")                         \
    X(UNDO, "undo", "[--rewind]", "undo --rewind",                                                 \
      "take the last change back; --rewind also the weights")                                      \
    X(REDO, "redo", "", "redo", "apply again what undo took back")                                 \
    X(FIT, "fit", "[MOST]", "fit 512", "find the largest micro-batch that runs; the run waits")    \
    X(LRFIND, "lrfind", "[UPDATES [REPEATS]]", "lrfind 100 3", "LR range test; the run waits")     \
    X(TRIAL, "trial", "UPDATES COMMAND", "trial 200 batch +20%",                                   \
      "try a change and its absence; the run waits")                                               \
    X(CANCEL, "cancel", "", "cancel", "end a search that is on")                                   \
    X(STOP, "stop", "", "stop", "end the run, with a checkpoint")

enum bst_command_kind {
#define X(name, ...) BST_COMMAND_##name,
    BST_COMMANDS(X)
#undef X
        BST_N_COMMANDS
};

enum bst_operand {
    BST_OPERAND_NONE,    /* the command has no operand */
    BST_OPERAND_SET,     /* =V; `off` and `auto` are =0 */
    BST_OPERAND_TIMES,   /* *V^presses; presses < 0 divides */
    BST_OPERAND_PERCENT, /* +V%^presses, or -V%^-presses when presses < 0 */
    BST_OPERAND_ADD,     /* +interval */
    BST_OPERAND_TAKE,    /* -interval */
};

enum { BST_TRIED_ROOM = 128 }; /* a command that is tried, and its NUL */
enum { BST_NAME_ROOM = 65 };   /* a preset's name and its NUL: bst_text_is_name */

struct bst_command {
    enum bst_command_kind kind;
    enum bst_operand op;
    double value;                 /* SET, TIMES, PERCENT */
    int presses;                  /* TIMES, PERCENT: never 0 */
    struct bst_interval interval; /* warmup, length: SET, ADD, TAKE */
    enum bst_schedule_kind decay;
    bool has_value; /* decay: an end ratio was given, in `value` */
    bool jump, with_length, rewind;
    char preset[BST_NAME_ROOM];
    int64_t count;              /* fit: most; lrfind, trial: updates; 0: the usual */
    int repeats;                /* lrfind; 0: the usual */
    char tried[BST_TRIED_ROOM]; /* trial: a change other than undo and redo, as it is formatted */
};

const char *bst_command_word(enum bst_command_kind kind);
const char *bst_command_operand(enum bst_command_kind kind);
const char *bst_command_example(enum bst_command_kind kind);
const char *bst_command_help(enum bst_command_kind kind);
/* The command that was likely meant by a word that is none: mistyped, or what a preset's key or
 * another program calls it; NULL: nobody knows. */
const char *bst_command_near(const char *word);
/* True for what goes through a proposal and can be undone; false for pause, eval, stop, … */
bool bst_command_is_change(enum bst_command_kind kind);

/* BST_E_PARSE, BST_E_RANGE or BST_E_NOTFOUND (unknown word, with the nearest one). */
BST_MUST_USE enum bst_err bst_command_parse(const char *text, struct bst_command *out);
/* The canonical text; parsing it gives the same command. */
void bst_command_format(const struct bst_command *cmd, struct bst_sb *out);

#endif
