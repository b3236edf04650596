/* Coming back: the newest checkpoint that is whole. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/train/checkpoint_dir.h"
#include "core/train/manifest.h"

struct search {
    struct bst_trainer *t; /* NULL: only look */
    const char *dir;
    bst_checkpoint_accept *accept;
    void *arg;
    struct bst_checkpoint *out;
    char **state;
    struct bst_sb *notes;
};

static enum bst_err load_tensors(struct bst_trainer *t, const char *path, enum bst_state what)
{
    char *file = bst_xasprintf("%s/%s", path, bst_manifest_names[what]);
    enum bst_err err = bst_trainer_load(t, what, file, false, NULL, 0);
    bst_free(file);
    /* What is whole but does not fit is another net's, and no reason to go further back. */
    return err == BST_E_NOTFOUND ? bst_fail_in(BST_E_SHAPE, "checkpoint") : err;
}

static enum bst_err try_one(const struct search *s, const char *path)
{
    struct bst_checkpoint c;
    char *state = NULL;
    size_t n = 0;
    BST_TRY(bst_checkpoint_verify(path, &c));
    char *file = bst_xasprintf("%s/%s", path, bst_manifest_names[2]);
    enum bst_err err = bst_io_read_file(file, BST_CHECKPOINT_STATE_CAP, &state, &n);
    bst_free(file);
    if (!err && strlen(state) != n)
        err = bst_fail(BST_E_CORRUPT, "%s: state.json holds a NUL", path);
    if (!err && s->accept)
        err = s->accept(s->arg, &c, state);
    if (!err && s->t)
        err = load_tensors(s->t, path, BST_STATE_WEIGHTS);
    if (!err && s->t)
        err = load_tensors(s->t, path, BST_STATE_OPTIMIZER);
    if (!err && s->out)
        *s->out = c;
    if (!err && s->state)
        *s->state = state;
    else
        bst_free(state);
    return err;
}

/* Renamed, never deleted: somebody may still want to look at it. */
static void quarantine(const char *dir, const char *name)
{
    char *from = bst_xasprintf("%s/%s", dir, name);
    char *to = bst_xasprintf("%s.bad", from);
    for (int i = 2; bst_io_exists(to); i++) {
        bst_free(to);
        to = bst_xasprintf("%s.bad.%d", from, i);
    }
    /* On a read-only disk it stays, and is passed over again the next time. */
    if (!rename(from, to) && bst_io_sync_dir(dir))
        errno = 0;
    bst_free(to);
    bst_free(from);
}

static void note(const struct search *s, const char *what)
{
    if (s->notes)
        bst_sb_addf(s->notes, "%s: %s\n", what, bst_err_text());
}

static enum bst_err find(const struct search *s)
{
    struct bst_entry *all = NULL;
    int n = 0, seen = 0;
    BST_TRY(bst_checkpoint_scan(s->dir, &all, &n));
    enum bst_err err = BST_E_NOTFOUND;
    for (int i = 0; i < n; i++) {
        if (all[i].kind == BST_ENTRY_TEMP)
            continue;
        seen++;
        if (all[i].kind == BST_ENTRY_BAD)
            continue;
        char *path = bst_xasprintf("%s/%s", s->dir, all[i].name);
        err = try_one(s, path);
        bst_free(path);
        if (err == BST_E_IO) { /* unreadable now is not damaged */
            note(s, "passed over");
        } else if (err == BST_E_CORRUPT || err == BST_E_PARSE) {
            note(s, "set aside as damaged");
            quarantine(s->dir, all[i].name);
        } else {
            break;
        }
        err = BST_E_NOTFOUND;
    }
    bst_free(all);
    if (err != BST_E_NOTFOUND)
        return err;
    if (seen)
        return bst_fail(
            BST_E_CORRUPT,
            "%s: %d checkpoints, none of which can be used; the run does not start over "
            "by itself",
            s->dir, seen);
    return bst_fail(BST_E_NOTFOUND, "%s: no checkpoint", s->dir);
}

enum bst_err bst_checkpoint_load(struct bst_trainer *t, const char *dir,
                                 bst_checkpoint_accept *accept, void *arg,
                                 struct bst_checkpoint *out, char **state, struct bst_sb *notes)
{
    struct search s = {.t = t,
                       .dir = dir,
                       .accept = accept,
                       .arg = arg,
                       .out = out,
                       .state = state,
                       .notes = notes};
    return find(&s);
}

enum bst_err bst_checkpoint_peek(const char *dir, struct bst_checkpoint *out, char **state,
                                 struct bst_sb *notes)
{
    struct search s = {.dir = dir, .out = out, .state = state, .notes = notes};
    return find(&s);
}
