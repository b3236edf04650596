/* From a preset to what the layers below take: the trainer's configuration and the live settings of
 * a run at its start. Pure but for bst_start_fit(); any thread. */
#ifndef BST_RUN_START_H
#define BST_RUN_START_H

#include "core/run/preset.h"
#include "core/train/train.h"
#include "core/tune/plan.h"

struct bst_start { /* storage that a bst_train_cfg borrows from; as long-lived as the trainer */
    struct bst_lr_group groups[BST_PRESET_GROUPS];
    const char *layers[BST_PRESET_LAYERS];
    struct bst_preset_gpus gpus;
    const char *devices[BST_PRESET_GPUS];
};

/* `preset` is borrowed too. The data's own size, channels and classes fill what the preset leaves
 * open. BST_E_NOTFOUND: no such net or backend; BST_E_RANGE: the net and the data do not fit. */
BST_MUST_USE enum bst_err bst_start_train_cfg(const struct bst_preset *preset,
                                              const struct bst_net_table *nets,
                                              struct bst_start *store, struct bst_train_cfg *out);

/* For one process of several: the ranks are dealt to them in equal parts, and so is devices.list
 * where it names one for each rank; one that is as long as a process's part is each process's own.
 * NULL: one process. */
struct bst_cluster;
BST_MUST_USE enum bst_err bst_start_spread(struct bst_cluster *c, const struct bst_start *store,
                                           struct bst_train_cfg *cfg);

/* What of it concerns the data, but for the net's input. */
struct bst_data_cfg bst_start_data_cfg(const struct bst_preset *p);

/* The live settings a run of this preset starts with, over `dataset` samples an epoch. `env` gives
 * the ranks and what fits; the split is worked out. */
BST_MUST_USE enum bst_err bst_start_live(const struct bst_preset *preset,
                                         const struct bst_plan_env *env, struct bst_live *out);

/* What plans of this preset go by at its start: the data's size, the ranks, what is counted. */
struct bst_plan_env bst_start_env(const struct bst_preset *p, const struct bst_train_cfg *cfg,
                                  const struct bst_trainer *t);

/* Settings that fit: as asked, or with the largest micro-batch that does where nothing fixes their
 * number. `env` as it is at this point of the run, its `fit` left at 0. On the trainer's thread. */
BST_MUST_USE enum bst_err bst_start_fit(struct bst_trainer *t, const struct bst_plan_env *env,
                                        struct bst_live *live);

/* BST_E_ARG when the preset normalises more channels than the images have, or fewer. */
BST_MUST_USE enum bst_err bst_start_check_data(const struct bst_preset *p,
                                               const struct bst_data_info *info);

/* Where the run ends before its warm-up does, that and what helps; else nothing is added. */
void bst_start_unfinished(const struct bst_preset *p, const struct bst_plan_env *env,
                          const struct bst_live *live, struct bst_sb *out);

/* What a trainer or a data set could not be opened with: where that was the preset's data.path, the
 * text gets how to give another. The same error. */
BST_MUST_USE enum bst_err bst_start_say_data(const struct bst_preset *p, enum bst_err err);

/* A start that failed so is to be mended in the preset or its data, not by trying again. */
bool bst_start_is_usage(enum bst_err err);

/* Keys that were given and ask for what this backend or this optimizer has not: "devices.capture is
 * of cuda, and cpu has none"; "" when there is none. Nothing comes of them, which is no error. */
void bst_start_unused(const struct bst_preset *p, const struct bst_backend *b, struct bst_sb *out);

#endif
