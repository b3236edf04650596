/* journal.jsonl: one line a command, in order, each with its own CRC-32C; on the disk before it is
 * acknowledged. It is what a resume puts the settings back from. Owner: the session, one thread. */
#ifndef BST_RUN_JOURNAL_H
#define BST_RUN_JOURNAL_H

#include "core/base/sb.h"
#include "core/tune/plan.h"

struct bst_journal_entry {
    uint64_t seq;     /* 1, 2, …; set by append */
    double wall;      /* seconds since 1970 */
    uint64_t samples; /* seen when it came: before the first update under it */
    uint64_t update;  /* the number of that update; of what changed nothing, of the last one made */
    char command[256], source[96];
    char outcome[12]; /* "applied", "done", "refused", "dropped" */
    char code[12];    /* "" when there is none */
    char text[512];
    struct bst_change changes[BST_CHANGES_MAX];
    char keys[BST_CHANGES_MAX][48]; /* what changes[].key points at, in entries that were read */
    int n_changes;
    bool has_live;
    struct bst_live live; /* the settings after it */
    bool rewind;          /* `samples` is then where the run went back to */
};

struct bst_journal;

/* Reads all there is. A torn last line is cut off, kept in journal.jsonl.torn and said in `notes`;
 * damage before it is BST_E_CORRUPT, and nothing is touched. */
BST_MUST_USE enum bst_err bst_journal_open(const char *dir, struct bst_sb *notes,
                                           struct bst_journal **out);
/* The entries of a file that another process may be writing: nothing is changed, a last line that
 * is not whole is left out, and nothing can be appended. */
BST_MUST_USE enum bst_err bst_journal_view(const char *path, struct bst_journal **out);
void bst_journal_close(struct bst_journal *j);

/* One write and an fsync. On failure the file is as it was before, or, where even that could not be
 * had, every later append fails too. Sets e->seq. */
BST_MUST_USE enum bst_err bst_journal_append(struct bst_journal *j, struct bst_journal_entry *e);

/* Its file is still where it was opened; what is not there takes no entry. */
bool bst_journal_is_there(const struct bst_journal *j);
/* After the file was removed: all entries into a new one, on the disk.
 */
BST_MUST_USE enum bst_err bst_journal_again(struct bst_journal *j);

uint64_t bst_journal_seq(const struct bst_journal *j); /* of the last entry; 0: none */
int bst_journal_count(const struct bst_journal *j);
const struct bst_journal_entry *bst_journal_at(const struct bst_journal *j,
                                               int i); /* oldest first */

/* One line of the file without its end; for the reader of a console, and the test. */
BST_MUST_USE enum bst_err bst_journal_parse(const char *line, size_t n,
                                            struct bst_journal_entry *out);

#endif
