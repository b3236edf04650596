/* What the driver says of NVIDIA devices, through libnvidia-ml.so.1, opened at run time with own
 * prototypes: no header and no link of NVIDIA's, and a machine without a driver is an ordinary
 * outcome. Devices go by UUID, since NVML's order is neither CUDA's nor CUDA_VISIBLE_DEVICES'. A
 * reading that a device does not give (most of them under MIG) is not valid, never 0.
 *
 * A struct bst_nvml may be used by one thread at a time. The watch has a thread of its own, which
 * alone calls into the library; its readers may be of any thread. */
#ifndef BST_BACKEND_NVML_H
#define BST_BACKEND_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

enum { BST_NVML_DEVICES = 64 }; /* of one machine, each MIG instance counted */

struct bst_nvml_value {
    double value;
    bool valid;
};

enum bst_nvml_mode { BST_NVML_UNKNOWN, BST_NVML_OFF, BST_NVML_ON };

struct bst_nvml_identity {
    char uuid[96], name[96];
    bool instance; /* one of MIG's; its parent is not in the list */
    enum bst_nvml_mode mig, ecc;
    struct bst_nvml_value memory; /* bytes */
};

struct bst_nvml_reading {
    struct bst_nvml_value memory_used, memory_total; /* bytes; what the driver keeps is not used */
    struct bst_nvml_value utilisation;            /* 0…1, part of the last second with a kernel */
    struct bst_nvml_value memory_utilisation;     /* 0…1, part of it with memory being moved */
    struct bst_nvml_value sm_clock, memory_clock; /* MHz */
    struct bst_nvml_value power, power_limit;     /* W */
    struct bst_nvml_value temperature;            /* °C */
    struct bst_nvml_value ecc_corrected, ecc_uncorrected; /* since the driver was loaded */
    bool throttle_valid;
    uint64_t throttle; /* why clocks are lower than they might be, as bits; see the text */
    bool lost;         /* fallen off the bus: nothing else is known of it any more */
};

struct bst_nvml;

/* `path`: another library than libnvidia-ml.so.1 (tests); NULL. BST_E_NOTFOUND: there is no such
 * library, hence no driver. BST_E_LIBRARY: there is one that does not work; the text says what to
 * do. */
BST_MUST_USE enum bst_err bst_nvml_open(const char *path, struct bst_nvml **out);
void bst_nvml_close(struct bst_nvml *n);

/* "570.86.15", or "" ; CUDA's version that the driver goes up to, 13000 for 13.0, or 0. */
const char *bst_nvml_driver(const struct bst_nvml *n);
int bst_nvml_cuda(const struct bst_nvml *n);

/* Devices are found once, when the library is opened. */
int bst_nvml_count(const struct bst_nvml *n);
const struct bst_nvml_identity *bst_nvml_at(const struct bst_nvml *n, int device);
int bst_nvml_find(const struct bst_nvml *n, const char *uuid); /* -1: none */
void bst_nvml_read(struct bst_nvml *n, int device, struct bst_nvml_reading *out);

/* Words for the bits that slow a device down, ", " between them; "" when none is set. Idling and
 * clocks that somebody asked for are no such reason. */
void bst_nvml_throttle_text(uint64_t bits, char out[96]);

struct bst_nvml_xid { /* an error that the driver reported, by NVIDIA's number */
    int device;       /* as in uuids; -1: of another device */
    uint64_t xid;
    double when; /* bst_clock_now() at which it was seen */
};

struct bst_nvml_watch;

/* Reads the devices of these UUIDs every `period` seconds until closed. It owns the library from
 * now on, also on failure. A UUID that is not found has readings that are not valid. */
BST_MUST_USE enum bst_err bst_nvml_watch_open(struct bst_nvml *n, const char *const *uuids,
                                              int n_uuids, double period,
                                              struct bst_nvml_watch **out);
/* Waits for a call in progress, but not for a driver that hangs: then thread and library are left
 * behind. */
void bst_nvml_watch_close(struct bst_nvml_watch *w);
/* The last reading; false before the first one. */
bool bst_nvml_watch_read(struct bst_nvml_watch *w, int i, struct bst_nvml_reading *out);
/* Takes the oldest Xid that was not taken yet; false: there is none. */
bool bst_nvml_watch_xid(struct bst_nvml_watch *w, struct bst_nvml_xid *out);

#endif
