/* What the files preset*.c share; nobody else includes it. */
#ifndef BST_RUN_PRESET_IMPL_H
#define BST_RUN_PRESET_IMPL_H

#include "core/run/preset.h"
#include "core/run/yaml.h"

void *bst_param_field(struct bst_preset *p, enum bst_param_id id);
/* bytes may be NULL. */
const void *bst_param_field_view(const struct bst_preset *p, enum bst_param_id id, size_t *bytes);
/* "linear, sqrt or none" */
void bst_param_list_words(struct bst_sb *out, const char *const *words, int n);

/* What one item of a list must be. */
void bst_param_allowed_item(enum bst_param_id id, struct bst_sb *out);

/* A value into its field; false, with a complaint that says what was found and what is allowed. */
bool bst_param_read(struct bst_preset *p, enum bst_param_id id, const struct bst_yaml *node,
                    struct bst_complaints *c);

/* The value of `changes`, read and written. */
bool bst_changes_read(const struct bst_yaml *node, struct bst_preset_changes *out,
                      struct bst_complaints *c);
void bst_changes_write(struct bst_sb *out, const struct bst_preset_changes *changes);
/* A string as YAML takes it, quoted where it has to be. */
void bst_preset_write_text(struct bst_sb *out, const char *text);

/* A preset that was read, as far as it could be. */
struct bst_preset_read {
    const struct bst_preset *p;
    bool unknown[BST_N_PARAMS]; /* the value given was refused, so the field holds another */
    struct bst_place places[BST_N_PARAMS];      /* where a key was given */
    struct bst_place groups[BST_PRESET_GROUPS]; /* where the pattern of a group was */
};

/* Contradictions between keys and names that nothing knows, as far as the values that each needs
 * are known: on those that were refused a remark would be about the defaults. */
void bst_preset_cross_check(const struct bst_preset_read *r, const struct bst_preset_env *env,
                            struct bst_complaints *c);
/* Of two keys that contradict each other, the place of the one to look at: what a --set gave rather
 * than what stands in the file, then `id` before `other`. */
struct bst_place bst_preset_place(const struct bst_preset_read *r, enum bst_param_id id,
                                  enum bst_param_id other);
/* Builds the net, for images of the format's usual size where the preset leaves it open: complains
 * when it cannot be built, or a pattern of lr_groups or recompute fits nothing in it. */
void bst_preset_check_net(const struct bst_preset_read *r, const struct bst_net_table *nets,
                          struct bst_complaints *c);

#endif
