/* A preset: every setting of a run, read from YAML and --set, checked as a whole, written back so
 * that the file written is the same run. The keys are core/run/params.def. A preset is a plain
 * value that is copied freely; any thread. */
#ifndef BST_RUN_PRESET_H
#define BST_RUN_PRESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/backend/precision.h"
#include "core/base/err.h"
#include "core/base/sb.h"
#include "core/base/text.h"
#include "core/graph/net.h"
#include "core/tune/interval.h"
#include "core/tune/lr_rule.h"
#include "core/tune/optimizer.h"
#include "core/tune/schedule.h"
#include "core/tune/split.h"

enum {
    BST_PRESET_ID = 65, /* bst_text_is_name and a NUL */
    BST_PRESET_LABEL = 80,
    BST_PRESET_WORD = 40,
    BST_PRESET_PATH = 1024,
    BST_PRESET_TEXT = 2048,
    BST_PRESET_NUMBERS = BST_MILESTONES_MAX,
    BST_PRESET_GROUPS = 64,
    BST_PRESET_CHANGES = 64,
    BST_PRESET_LAYERS = 16,
};

/* Choices that no other module lists. */
#define BST_STEMS(X)                                                                               \
    X(DEFAULT, "auto") X(IMAGENET, "imagenet") X(CIFAR, "cifar") /* enum bst_stem */
#define BST_AUGMENTS(X) X(NONE, "none") X(STANDARD, "standard") X(STRONG, "strong")
#define BST_MEASURES(X) X(NONE, "none") X(AUTO, "auto") X(SPLIT, "split")

enum bst_augment {
#define X(name, text) BST_AUGMENT_##name,
    BST_AUGMENTS(X)
#undef X
};

#define BST_ADVISE(X) X(NONE, "none") X(SHOW, "show") X(LOG, "log")

enum bst_advise {
#define X(name, text) BST_ADVISE_##name,
    BST_ADVISE(X)
#undef X
};

/* Of the noise scale. */
enum bst_measure {
#define X(name, text) BST_MEASURE_##name,
    BST_MEASURES(X)
#undef X
};

struct bst_numbers {
    int n;
    double v[BST_PRESET_NUMBERS];
};

struct bst_preset_group { /* of lr_groups */
    char match[96];       /* anchored fnmatch pattern over parameter names */
    double factor;        /* of the learning rate; 0 freezes */
    double weight_decay;  /* < 0: the run's own */
};

struct bst_preset_groups {
    int n;
    struct bst_preset_group v[BST_PRESET_GROUPS];
};

struct bst_preset_change {  /* of changes */
    struct bst_interval at; /* RATIO: of the run */
    char command[128];      /* one that bst_command_is_change() */
};

struct bst_preset_changes {
    int n;
    struct bst_preset_change v[BST_PRESET_CHANGES];
};

struct bst_preset_recompute {
    int kind; /* enum bst_recompute_kind */
    int every;
    int n_layers;
    char layers[BST_PRESET_LAYERS][96]; /* anchored fnmatch patterns over layers' names */
};

/* What a key's value may be, and the field that holds it. */
#define BST_PARAM_KINDS(X)                                                                         \
    X(LABEL)                                                                                       \
    X(WORD)                                                                                        \
    X(PATH)                                                                                        \
    X(TEXT)                                                                                        \
    X(COUNT)                                                                                       \
    X(COUNT_OR_AUTO)                                                                               \
    X(BYTES_OR_AUTO)                                                                               \
    X(NUMBER)                                                                                      \
    X(NUMBER_OVER)                                                                                 \
    X(NUMBER_UNDER)                                                                                \
    X(TRUTH)                                                                                       \
    X(STEM)                                                                                        \
    X(OPTIMIZER)                                                                                   \
    X(PRECISION)                                                                                   \
    X(AUGMENT)                                                                                     \
    X(ADVISE)                                                                                      \
    X(BATCH_UNIT)                                                                                  \
    X(MEASURE)                                                                                     \
    X(LR_RULE)                                                                                     \
    X(SCHEDULE)                                                                                    \
    X(WARMUP)                                                                                      \
    X(INTERVAL)                                                                                    \
    X(CHANNELS)                                                                                    \
    X(MILESTONES)                                                                                  \
    X(PAIR)                                                                                        \
    X(GROUPS)                                                                                      \
    X(CHANGES)                                                                                     \
    X(RECOMPUTE)

enum bst_kind {
#define X(kind) BST_KIND_##kind,
    BST_PARAM_KINDS(X)
#undef X
        BST_N_KINDS
};

#define BST_FIELD_LABEL(f) char f[BST_PRESET_LABEL]
#define BST_FIELD_WORD(f) char f[BST_PRESET_WORD]
#define BST_FIELD_PATH(f) char f[BST_PRESET_PATH]
#define BST_FIELD_TEXT(f) char f[BST_PRESET_TEXT]
#define BST_FIELD_COUNT(f) int64_t f
#define BST_FIELD_COUNT_OR_AUTO(f) int64_t f  /* 0: auto */
#define BST_FIELD_BYTES_OR_AUTO(f) uint64_t f /* 0: auto */
#define BST_FIELD_NUMBER(f) double f          /* least ≤ value ≤ most */
#define BST_FIELD_NUMBER_OVER(f) double f     /* least < value ≤ most */
#define BST_FIELD_NUMBER_UNDER(f) double f    /* least ≤ value < most */
#define BST_FIELD_TRUTH(f) bool f
#define BST_FIELD_STEM(f) int f      /* enum bst_stem */
#define BST_FIELD_OPTIMIZER(f) int f /* enum bst_optimizer, and so on */
#define BST_FIELD_PRECISION(f) int f
#define BST_FIELD_AUGMENT(f) int f
#define BST_FIELD_MEASURE(f) int f
#define BST_FIELD_ADVISE(f) int f
#define BST_FIELD_BATCH_UNIT(f) int f
#define BST_FIELD_LR_RULE(f) int f
#define BST_FIELD_SCHEDULE(f) int f
#define BST_FIELD_WARMUP(f) int f
#define BST_FIELD_INTERVAL(f) struct bst_interval f  /* value 0: never */
#define BST_FIELD_CHANNELS(f) struct bst_numbers f   /* 1 to 4 */
#define BST_FIELD_MILESTONES(f) struct bst_numbers f /* any number of them, rising */
#define BST_FIELD_PAIR(f) struct bst_numbers f       /* two, rising */
#define BST_FIELD_GROUPS(f) struct bst_preset_groups f
#define BST_FIELD_CHANGES(f) struct bst_preset_changes f
#define BST_FIELD_RECOMPUTE(f) struct bst_preset_recompute f

/* Number of a key, in the order of params.def: BST_PARAM_momentum, BST_PARAM_model_name. */
enum bst_param_id {
#define BST_PARAM(field, ...) BST_PARAM_##field,
#define BST_PARAM_IN(section, field, ...) BST_PARAM_##section##_##field,
#define BST_SECTION(section, text)
#define BST_SECTION_END(section)
#include "core/run/params.def"
    BST_N_PARAMS
};

enum bst_origin { BST_ORIGIN_DEFAULT, BST_ORIGIN_FILE, BST_ORIGIN_SET };

/* Every key is a field of the same name: p.momentum, p.model.name. */
struct bst_preset {
#define BST_PARAM(field, kind, ...) BST_FIELD_##kind(field);
#define BST_PARAM_IN(section, field, kind, ...) BST_FIELD_##kind(field);
#define BST_SECTION(section, text) struct {
#define BST_SECTION_END(section)                                                                   \
    }                                                                                              \
    section;
#include "core/run/params.def"
    char id[BST_PRESET_ID];             /* file name without .yaml; "" when that is not a name */
    unsigned char origin[BST_N_PARAMS]; /* enum bst_origin, by enum bst_param_id */
};

/* The member of an either-or group that is in force. */
struct bst_interval bst_preset_warmup(const struct bst_preset *p); /* epochs, steps or a ratio */
struct bst_interval bst_preset_length(const struct bst_preset *p); /* epochs or steps */
/* Whether a key counts: of an either-or group the one given, of the optimizers' settings those that
 * this one has. */
bool bst_preset_in_force(const struct bst_preset *p, enum bst_param_id id);

/* Whether a live key's value is meant for one optimizer, so that it says nothing to another. */
bool bst_param_of_optimizer(enum bst_param_id id);

/* devices.list taken apart: numbers or UUIDs in rank order. False: it is no such list, or has one
 * twice. */
enum { BST_PRESET_GPUS = 16, BST_PRESET_GPU = 48 };
struct bst_preset_gpus {
    int n;
    char word[BST_PRESET_GPUS][BST_PRESET_GPU];
};
bool bst_preset_gpus(const char *text, struct bst_preset_gpus *out);

/* The base of lr_scaling sqrt-accumulate: the preset's micro-batch × devices; 0 where neither
 * micro_batch_size nor gradient_accumulation_steps is given (refused with that rule). */
int64_t bst_preset_accumulate_base(const struct bst_preset *p);

enum bst_live_kind { BST_PARAM_FIXED, BST_PARAM_LIVE, BST_PARAM_LENGTH };

/* One row of params.def, for whoever prints a table of them. */
struct bst_param_info {
    const char *key;     /* "model.name" */
    const char *section; /* "model", or NULL */
    enum bst_kind kind;
    double least, most;
    const char *initial; /* as in a file */
    const char *unit;
    enum bst_live_kind live;
    int one_of; /* group, 0: none */
    const char *text;
};

const struct bst_param_info *bst_param_at(enum bst_param_id id);
/* The words a key may have; NULL when it is not a choice. */
const char *const *bst_param_choices(enum bst_param_id id, int *n);
/* "a number from 0 to 1", "linear, sqrt or none": what a value must be. */
void bst_param_allowed(enum bst_param_id id, struct bst_sb *out);
struct bst_param_section {
    const char *name, *text;
};
const struct bst_param_section *bst_param_sections(int *n);
bool bst_param_by_key(const char *key, enum bst_param_id *out);
/* What other programs call it, without a section: "lr" is learning_rate. For hints. */
bool bst_param_by_other_name(const char *name, enum bst_param_id *out);

/* Where presets are looked for, first match first, and the names that keys may hold; what is NULL
 * is not checked. Borrowed. */
struct bst_preset_env {
    const char *const *dirs; /* NULL-terminated, as are the lists */
    const char *const *nets, *const *formats, *const *backends;
    const unsigned *precisions; /* of each backend beside fp32, a bit each; NULL: not checked */
    const struct bst_net_table *table; /* to build the net with, and see lr_groups fit it */
};

/* With this build's nets, data formats and backends, and the machine's folders: $BSTUNE_PRESET_DIR,
 * ../presets and ../share/bstune/presets beside the binary, $XDG_CONFIG_HOME/bstune/presets. */
struct bst_preset_env *bst_preset_env_new(const struct bst_net_table *nets);
void bst_preset_env_free(struct bst_preset_env *env);

/* All errors of a preset, in the order of the file: "presets/x.yaml:4:1: error: unknown key …". */
struct bst_preset_errors {
    struct bst_sb text; /* lines, each ending in \n */
    int n;
};

void bst_preset_errors_init(struct bst_preset_errors *e);
void bst_preset_errors_fini(struct bst_preset_errors *e);

void bst_preset_default(struct bst_preset *p);

/* `name`: a file name without .yaml in one of env->dirs, a display name there ("A100×4 DDP 2048",
 * also with x), or a path (has a slash or ends in .yaml). `sets` are key=value with dotted keys,
 * later ones win. On error *out is only good for bst_preset_check_start and errs holds every line;
 * bst_err_text() is the first one. BST_E_NOTFOUND: no such preset; BST_E_PARSE: refused. */
BST_MUST_USE enum bst_err bst_preset_load(const struct bst_preset_env *env, const char *name,
                                          const char *const *sets, int n_sets,
                                          struct bst_preset *out, struct bst_preset_errors *errs);
/* The same for text in memory; `label` stands for the file in messages. */
BST_MUST_USE enum bst_err bst_preset_parse(const struct bst_preset_env *env, const char *label,
                                           const char *yaml, size_t n, const char *const *sets,
                                           int n_sets, struct bst_preset *out,
                                           struct bst_preset_errors *errs);

/* The net's configuration as far as the preset says it; what it leaves to the data is 0. */
void bst_preset_net_cfg(const struct bst_preset *p, struct bst_net_cfg *cfg);
/* Sizes that the data decide, where the preset leaves them open: those of the format's usual files,
 * for a net that reads sequences or does not. */
BST_MUST_USE enum bst_err bst_preset_usual_shape(const struct bst_preset *p,
                                                 enum bst_net_input input, struct bst_net_cfg *cfg);
/* What the compiler takes; `layers` is storage for it, and the preset is borrowed. */
struct bst_recompute;
void bst_preset_recompute(const struct bst_preset *p, const char *layers[BST_PRESET_LAYERS],
                          struct bst_recompute *out);
/* Whether a run can be started from it as it is: BST_E_PARSE when init is `required`. */
BST_MUST_USE enum bst_err bst_preset_check_start(const struct bst_preset *p, const char *label,
                                                 struct bst_preset_errors *errs);

struct bst_preset_entry {
    char id[BST_PRESET_ID];
    char name[BST_PRESET_LABEL];
    char *about;  /* heap */
    char *path;   /* heap */
    int n_errors; /* > 0: it would not load, and name may be empty */
};
/* Every preset of env->dirs, one an id (the first dir wins), sorted by id. */
BST_MUST_USE enum bst_err bst_preset_list(const struct bst_preset_env *env,
                                          struct bst_preset_entry **out, int *n);
void bst_preset_list_free(struct bst_preset_entry *list, int n);

/* One value as it would stand in a file: "{every: 2}". */
void bst_preset_write_value(const struct bst_preset *p, enum bst_param_id id, struct bst_sb *out);
/* Resolved YAML, every key in force; parsing it gives the same values. */
void bst_preset_write(const struct bst_preset *p, struct bst_sb *out);

struct bst_preset_difference {
    enum bst_param_id id;
    char before[96], after[96]; /* "—" where the key is not in force; long values are cut with … */
};
/* Keys in force whose values differ, name, about and id left aside. At most BST_N_PARAMS lines;
 * returns their number. */
int bst_preset_diff(const struct bst_preset *from, const struct bst_preset *to,
                    struct bst_preset_difference *out);
/* Takes over the live keys of `from`, with_length also its length. */
void bst_preset_copy_live(struct bst_preset *to, const struct bst_preset *from, bool with_length);

#endif
