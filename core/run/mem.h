/* What a preset would need on a device, batch by batch: the trainer's own plan (the net compiled by
 * the backend, packed, counted), with nothing allocated and nothing run. Beside it the textbook's
 * estimate, and, apart from what is planned, what this process itself takes. One thread. */
#ifndef BST_RUN_MEM_H
#define BST_RUN_MEM_H

#include "core/run/preset.h"
#include "core/tune/memory_law.h"

enum { BST_MEM_LIST = 64 };

struct bst_mem_cfg { /* all borrowed */
    const struct bst_preset_env *presets;
    const struct bst_net_table *nets;
    const char *preset;
    const char *const *sets; /* key=value, as for bst_preset_load */
    int n_sets;
    const uint64_t *batches; /* global; none: a quarter, a half, once and twice the preset's own */
    int n_batches;
    const char *const *recomputes; /* as in a file: "auto", "{every: 2}"; none: the preset's own */
    int n_recomputes;
    const char *const *precisions; /* none: the preset's own */
    int n_precisions;
    uint64_t capacity;  /* bytes of one device; 0: devices.memory, or what this machine has */
    const char *device; /* a GPU that need not be here, as for bst_gpu_load(); NULL: this machine.
                           Precisions are then all there are */
};

/* Bytes of one device; the columns make up the total. */
struct bst_mem_row {
    uint64_t batch;
    int micro, micro_batches;
    char recompute[64], precision[8];
    bool known; /* else only that it does not fit, or why it cannot be */
    bool fits;
    char why[240];       /* it cannot be planned; "" otherwise */
    uint64_t parameters; /* batch norms' statistics too, committed and staged */
    uint64_t gradients, optimizer;
    uint64_t rewind; /* room for the state before a change; touched by the first change */
    uint64_t activations, recomputation; /* when most is alive */
    uint64_t data;
    uint64_t workspace; /* gradients of activations, scratch, gaps */
    uint64_t scratch;   /* of that: what one instruction needs for itself, a library's included */
    uint64_t total;
    uint64_t host; /* beside it, in the host's memory: images on their way to a GPU */
    /* Where one pass does not fit: what a run makes of the batch by itself, by accumulation. 0: it
     * fits, or nothing does, or the preset fixes the number of micro-batches. */
    int part, n_parts; /* largest micro-batch, and how many a device */
    uint64_t part_total;
    int n_again;        /* instructions that run a second time */
    double again_share; /* their estimated work, as a part of all the rest */
    double textbook;    /* bytes; 0: not known */
};

struct bst_mem_largest { /* in one pass a device */
    char recompute[64], precision[8];
    int micro;      /* 0: not even one sample fits */
    uint64_t batch; /* over all devices */
    uint64_t total;
};

struct bst_mem_report {
    char preset[BST_PRESET_LABEL], net[BST_PRESET_WORD], backend[16];
    int devices;
    uint64_t capacity;
    bool generated; /* the data were not found: sizes are those usual for the format */
    struct bst_textbook textbook;
    int fitted[2];    /* micro-batches of the two plans behind the factor; 0: there is none */
    uint64_t saving;  /* on top of a total while a checkpoint is written */
    uint64_t process; /* measured: resident here after a plan; 0: not known, or no matter */
    char device[96];  /* the GPU that was planned for; "": this machine */
    char cudnn[32];
    struct bst_mem_row *rows;
    int n_rows;
    struct bst_mem_largest *largest; /* a row for each precision and way of recomputing */
    int n_largest;
};

/* BST_E_PARSE, BST_E_NOTFOUND: the preset, with all lines in errs. Freed by the caller. */
BST_MUST_USE enum bst_err bst_mem_make(const struct bst_mem_cfg *cfg, struct bst_mem_report **out,
                                       struct bst_preset_errors *errs);
void bst_mem_free(struct bst_mem_report *r);
/* One object: the report, planned and measured apart. */
void bst_mem_print_json(const struct bst_mem_report *r, struct bst_sb *out);

#endif
