/* A run of several processes, at its start and its end. Process 0 has the run: its folder, socket,
 * journal and checkpoints, and the session, which is as in a run of one process. The others have
 * ranks and a trainer that follows (core/train/crew.c). The process's main thread. */
#ifndef BST_RUN_CREW_H
#define BST_RUN_CREW_H

#include "core/run/preset.h"

struct bst_cluster;
struct bst_net_table;

enum { BST_CREW_NOTHING = -1 };

/* *out NULL: this process is alone. */
BST_MUST_USE enum bst_err bst_crew_open(struct bst_cluster **out);
/* The last thing of all; may not return (core/comm/cluster.h). NULL is fine. */
void bst_crew_close(struct bst_cluster *c, int code);
bool bst_crew_follows(const struct bst_cluster *c);

/* All meet before anything is opened. `*code`: what this process has come to by itself, 0 or an
 * exit code; afterwards what all have. Refused, with a text: another build, another preset. The
 * keys that say what a machine has are each process's own: devices.memory, .threads and .list,
 * data.path. `again`: a resume or a repetition, whose preset process 0 alone has; the others take
 * it over. Where the preset says no devices.count it is one for each process. */
BST_MUST_USE enum bst_err bst_crew_meet(struct bst_cluster *c, const struct bst_preset_env *env,
                                        bool again, struct bst_preset *preset, int *code);
/* What each has come to, as one error for all. */
BST_MUST_USE enum bst_err bst_crew_agree(struct bst_cluster *c, enum bst_err err);

/* The whole of a process that follows; gives its exit code. bst_err_text() says why where it is not
 * 0 and the error is this process's to tell: *tell. */
int bst_crew_follow(struct bst_cluster *c, const struct bst_preset *preset,
                    const struct bst_net_table *nets, bool *tell);

#endif
