/* File operations below a folder, made to fail, to be cut short, or to be the last ones before a
 * process or the power dies. Linked in with --wrap (see train.cmake). One thread's files. */
#ifndef TRAIN_IOFAULT_H
#define TRAIN_IOFAULT_H

#include <stdbool.h>

enum iofault {
    IOFAULT_NONE,
    IOFAULT_FAIL,     /* the operation returns an error: ENOSPC, or EIO where there is no ENOSPC */
    IOFAULT_FAIL_ALL, /* and so do all after it, but for removals: the disk is full */
    IOFAULT_SHORT,    /* a write writes half */
    IOFAULT_KILL_BEFORE, /* the process dies: _exit(9) */
    IOFAULT_KILL_AFTER,
};

/* What a dying machine loses of what was not synced. */
enum { POWER_KEEPS = 0, POWER_LOSES_DATA = 1, POWER_LOSES_NAMES = 2 };

/* The at-th operation (from 1) on a path below `root` from now on; root must be absolute and real.
 */
void iofault_arm(const char *root, enum iofault kind, int at, int power);
int iofault_count(void); /* operations since arm */
void iofault_disarm(void);
/* Everything that was not synced is lost now. */
void iofault_power_loss(int power);
/* A negative control: fsync says yes and does nothing. */
void iofault_ignore_fsync(bool on);

#endif
