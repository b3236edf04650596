/* Whether this machine has what a preset needs: processor, libraries, NVIDIA's driver and devices,
 * the data. Looks, and changes nothing. The terminal is the caller's to add (core/run knows none).
 * One thread. */
#ifndef BST_RUN_DOCTOR_H
#define BST_RUN_DOCTOR_H

#include "core/run/preset.h"

enum { BST_DOCTOR_FINDINGS = 96 };

/* NONE: it is not here, and nothing here needs it. MISSING: something here, or what was asked for,
 * does. BAD: it is here and cannot be used. */
#define BST_FINDING_STATES(X) X(OK, "ok") X(NONE, "none") X(MISSING, "missing") X(BAD, "bad")

enum bst_finding_state {
#define X(name, word) BST_FINDING_##name,
    BST_FINDING_STATES(X)
#undef X
};
const char *bst_finding_state_name(enum bst_finding_state state);

struct bst_finding {
    char name[16]; /* what was looked for: "cuDNN" */
    enum bst_finding_state state;
    char text[320]; /* what was found, or what to do; cleaned */
};

struct bst_doctor {
    struct bst_finding findings[BST_DOCTOR_FINDINGS];
    int n, n_missing, n_bad;
};

struct bst_doctor_cfg { /* borrowed */
    const struct bst_preset_env *presets;
    const struct bst_net_table *nets;
    const char *preset;      /* whose data and devices are looked for */
    const char *const *sets; /* key=value, as for bst_preset_load */
    int n_sets;
    const char *nvml; /* tests: another library than the driver's; NULL */
    const char *root; /* tests: another root than "/"; NULL */
};

/* BST_E_PARSE, BST_E_NOTFOUND: the preset, with all lines in errs. */
BST_MUST_USE enum bst_err bst_doctor_examine(const struct bst_doctor_cfg *cfg,
                                             struct bst_doctor *out,
                                             struct bst_preset_errors *errs);
void bst_doctor_add(struct bst_doctor *d, const char *name, enum bst_finding_state state,
                    const char *fmt, ...) BST_PRINTF(4, 5);
/* {"findings":[{"name":…,"state":…,"text":…},…],"missing":n,"bad":n} */
void bst_doctor_print_json(const struct bst_doctor *d, struct bst_sb *out);

#endif
