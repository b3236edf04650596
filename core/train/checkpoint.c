#include "core/train/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/train/checkpoint_dir.h"
#include "core/train/manifest.h"

#define MANIFEST_CAP 4096 /* bytes */

/* A checkpoint that is being made. */
struct making {
    const struct bst_checkpoint_req *req;
    struct bst_manifest m;
    char *temp, *final;
};

static enum bst_err fail_errno(const char *what)
{
    return bst_fail(BST_E_IO, "%s: %s", what, strerror(errno));
}

static enum bst_err write_file(const char *dir, const char *name, const char *data, size_t n)
{
    char *path = bst_xasprintf("%s/%s", dir, name);
    int fd = -1;
    enum bst_err err = bst_io_open_write(path, O_EXCL, 0666, &fd);
    if (!err)
        err = bst_io_write_full(fd, data, n, path);
    if (!err && fsync(fd))
        err = fail_errno(path);
    if (fd >= 0 && close(fd) && !err)
        err = fail_errno(path);
    bst_free(path);
    return err;
}

static enum bst_err save_tensors(struct bst_trainer *t, const char *dir, enum bst_state what)
{
    char *path = bst_xasprintf("%s/%s", dir, bst_manifest_names[what]);
    enum bst_err err = bst_trainer_save(t, what, path);
    bst_free(path);
    return err;
}

/* Better to refuse at once than to fill the disk and then take it all back. */
static enum bst_err check_space(const struct bst_trainer *t, const struct bst_checkpoint_req *req)
{
    struct statvfs fs;
    char need_text[32], free_text[32];
    if (statvfs(req->dir, &fs))
        return fail_errno(req->dir);
    /* Tensors, the session's text, and headers, names and directories on top. */
    uint64_t need = bst_trainer_state_bytes(t) + strlen(req->state) + (256 << 10);
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (room >= need)
        return BST_OK;
    bst_text_bytes(need, need_text);
    bst_text_bytes(room, free_text);
    return bst_fail(BST_E_IO, "%s: a checkpoint needs %s, %s are free", req->dir, need_text,
                    free_text);
}

static enum bst_err next_seq(const char *dir, uint64_t *seq)
{
    struct bst_entry *all = NULL;
    int n = 0;
    BST_TRY(bst_checkpoint_scan(dir, &all, &n));
    *seq = n ? all[0].seq + 1 : 1;
    bst_free(all);
    return BST_OK;
}

static enum bst_err write_manifest(struct making *mk)
{
    struct bst_sb text;
    BST_TRY(bst_manifest_scan(mk->temp, &mk->m, false));
    bst_sb_init(&text, 4096);
    bst_manifest_write(&mk->m, &text);
    enum bst_err err = write_file(mk->temp, "MANIFEST", text.data, text.len);
    bst_sb_fini(&text);
    return err;
}

/* In this order, so that whatever is cut off, a MANIFEST stands only for what is there. */
static enum bst_err write_all(struct bst_trainer *t, struct making *mk)
{
    if (mkdir(mk->temp, 0777))
        return fail_errno(mk->temp);
    BST_TRY(save_tensors(t, mk->temp, BST_STATE_WEIGHTS));
    BST_TRY(save_tensors(t, mk->temp, BST_STATE_OPTIMIZER));
    BST_TRY(write_file(mk->temp, bst_manifest_names[2], mk->req->state, strlen(mk->req->state)));
    BST_TRY(bst_io_sync_dir(mk->temp));
    BST_TRY(write_manifest(mk));
    BST_TRY(bst_io_sync_dir(mk->temp));
    if (rename(mk->temp, mk->final))
        return fail_errno(mk->final);
    return bst_io_sync_dir(mk->req->dir);
}

/* Takes away what a save that failed has made; the failure's text stays. */
static enum bst_err undo(const struct making *mk, enum bst_err why)
{
    const struct bst_failure failure = bst_err_keep(why);
    enum bst_err err = BST_OK;
    if (bst_io_exists(mk->final) && rename(mk->final, mk->temp))
        err = bst_io_remove_tree(mk->final);
    if (!err && bst_io_exists(mk->temp))
        err = bst_io_remove_tree(mk->temp);
    (void)err; /* what cannot be removed now is swept when the run next starts */
    return bst_err_restore(&failure);
}

/* Out of sight first, so that what is half deleted is no candidate. */
static enum bst_err delete_one(const char *dir, const char *name)
{
    char *path = bst_xasprintf("%s/%s", dir, name);
    char *gone = bst_xasprintf("%s.tmp-%ld", path, (long)getpid());
    enum bst_err err = rename(path, gone) ? fail_errno(path) : bst_io_remove_tree(gone);
    bst_free(gone);
    bst_free(path);
    return err;
}

static enum bst_err prune(const struct bst_checkpoint_req *req)
{
    struct bst_entry *all = NULL;
    int n = 0, kept = 0, keep = req->keep < 2 ? 2 : req->keep;
    BST_TRY(bst_checkpoint_scan(req->dir, &all, &n));
    enum bst_err err = BST_OK;
    for (int i = 0; i < n && !err; i++) {
        if (all[i].kind != BST_ENTRY_COMMITTED || kept++ < keep || all[i].seq == req->pinned)
            continue;
        err = delete_one(req->dir, all[i].name);
    }
    bst_free(all);
    return err;
}

static void describe(const char *path, const struct bst_manifest *m, struct bst_checkpoint *out)
{
    *out = (struct bst_checkpoint){.seq = m->seq, .update = m->update, .samples = m->samples};
    for (int i = 0; i < MANIFEST_FILES; i++)
        out->bytes += m->file[i].bytes;
    snprintf(out->path, sizeof out->path, "%s", path);
}

static enum bst_err check_req(const struct bst_checkpoint_req *req)
{
    if (strlen(req->state) > BST_CHECKPOINT_STATE_CAP)
        return bst_fail(BST_E_RANGE, "a checkpoint's state text of %zu bytes", strlen(req->state));
    /* The longest name below it, and the files in that. */
    if (strlen(req->dir) > sizeof((struct bst_checkpoint *)0)->path - 128)
        return bst_fail(BST_E_RANGE, "%s: too long a path for checkpoints", req->dir);
    return BST_OK;
}

/* The folder itself must survive a power cut too. */
static enum bst_err make_dir(const char *dir)
{
    if (bst_io_exists(dir))
        return BST_OK;
    BST_TRY(bst_io_make_dirs(dir, 0777));
    char *parent = bst_xasprintf("%s/..", dir);
    enum bst_err err = bst_io_sync_dir(parent);
    bst_free(parent);
    return err;
}

static enum bst_err save(struct bst_trainer *t, struct making *mk, struct bst_checkpoint *out)
{
    const struct bst_checkpoint_req *req = mk->req;
    mk->final = bst_xasprintf("%s/%" PRIu64 "-update-%" PRIu64, req->dir, mk->m.seq, req->update);
    mk->temp = bst_xasprintf("%s.tmp-%ld", mk->final, (long)getpid());
    enum bst_err err = write_all(t, mk);
    if (err)
        err = undo(mk, err);
    else if (out)
        describe(mk->final, &mk->m, out);
    bst_free(mk->temp);
    bst_free(mk->final);
    return err;
}

enum bst_err bst_checkpoint_save(struct bst_trainer *t, const struct bst_checkpoint_req *req,
                                 struct bst_checkpoint *out)
{
    struct making mk = {.req = req, .m = {.update = req->update, .samples = req->samples}};
    BST_TRY(check_req(req));
    BST_TRY(make_dir(req->dir));
    BST_TRY(next_seq(req->dir, &mk.m.seq));
    BST_TRY(check_space(t, req));
    BST_TRY(save(t, &mk, out));
    if (prune(req)) /* the new one is safe; an old one that cannot be deleted costs only room */
        bst_log(BST_LOG_WARN, "%s", bst_err_text());
    return BST_OK;
}

static enum bst_err read_manifest(const char *path, struct bst_manifest *m)
{
    char *file = bst_xasprintf("%s/MANIFEST", path);
    char *text = NULL;
    size_t n = 0;
    struct stat st;
    enum bst_err err = BST_OK;
    if (lstat(file, &st))
        err = errno == ENOENT ? bst_fail(BST_E_CORRUPT, "MANIFEST is missing") : fail_errno(file);
    else if (!S_ISREG(st.st_mode) || st.st_size > MANIFEST_CAP)
        err = bst_fail(BST_E_CORRUPT, "MANIFEST is not a file of a few lines");
    if (!err)
        err = bst_io_read_file(file, MANIFEST_CAP, &text, &n);
    if (!err)
        err = bst_manifest_read(text, n, m);
    bst_free(text);
    bst_free(file);
    return err;
}

enum bst_err bst_checkpoint_verify(const char *path, struct bst_checkpoint *out)
{
    struct bst_manifest m;
    enum bst_err err = read_manifest(path, &m);
    if (!err)
        err = bst_manifest_scan(path, &m, true);
    if (err)
        return bst_fail_in(err, "%s", path);
    if (out)
        describe(path, &m, out);
    return BST_OK;
}

enum bst_err bst_checkpoint_list(const char *dir, struct bst_checkpoint **out, int *n)
{
    struct bst_entry *all = NULL;
    int n_all = 0;
    *out = NULL;
    *n = 0;
    BST_TRY(bst_checkpoint_scan(dir, &all, &n_all));
    *out = bst_xcalloc((size_t)n_all + 1, sizeof **out);
    for (int i = 0; i < n_all; i++) {
        struct bst_manifest m = {0};
        if (all[i].kind != BST_ENTRY_COMMITTED)
            continue;
        char *path = bst_xasprintf("%s/%s", dir, all[i].name);
        if (read_manifest(path, &m)) /* listed all the same: it is there */
            m = (struct bst_manifest){.seq = all[i].seq, .update = all[i].update};
        describe(path, &m, &(*out)[(*n)++]);
        bst_free(path);
    }
    bst_free(all);
    return BST_OK;
}
