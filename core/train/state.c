/* A run's state out of the trainer and back: named tensors in a file, a hash. Between updates the
 * gradient block and the staged statistics hold nothing that is needed: a file is read into them
 * first and only becomes the state once all of it was read. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/crc32c.h"
#include "core/base/safetensors.h"
#include "core/base/text.h"
#include "core/train/rank.h"

#define HEAD "fc." /* what another number of classes changes */

struct file_job {
    enum bst_state what;
    const char *path;
    bool lenient;
    struct bst_sb *note;
};

/* Momenta are of the trained parameters alone. */
static int n_tensors(const struct rank *k, enum bst_state what)
{
    return what == BST_STATE_WEIGHTS ? k->params->n_slots : k->params->n_trained;
}

static void tensor_name(const struct rank *k, enum bst_state what, int i, struct bst_sb *name)
{
    bst_sb_clear(name);
    bst_sb_addf(name, "%s%s", what == BST_STATE_WEIGHTS ? "" : "momentum.",
                k->params->slots[i].name);
}

/* Of the largest parameter, as doubles. */
static size_t plain_bytes(const struct rank *k)
{
    int64_t most = 1;
    for (int i = 0; i < k->params->n_slots; i++) {
        int64_t n = bst_shape_count(&k->params->slots[i].shape);
        most = n > most ? n : most;
    }
    return (size_t)most * sizeof(double);
}

uint64_t bst_trainer_save_bytes(const struct bst_trainer *t)
{
    return plain_bytes(&t->ranks[0]);
}

/* Host room for it. */
static enum bst_err plain_room(const struct rank *k, double **out, size_t *bytes)
{
    void *p = NULL;
    *bytes = plain_bytes(k);
    enum bst_err err = bst_alloc(*bytes, &p);
    *out = p;
    return err;
}

/* Calls `each` with every tensor of the state in plain order. */
typedef enum bst_err tensor_fn(void *arg, const char *name, const double *x, int64_t n);

static enum bst_err for_each(struct rank *k, enum bst_state what, tensor_fn *each, void *arg)
{
    double *plain = NULL;
    size_t bytes = 0;
    struct bst_sb name;
    BST_TRY(plain_room(k, &plain, &bytes));
    bst_sb_init(&name, 4096);
    void *block = what == BST_STATE_WEIGHTS ? k->weight : k->momentum;
    enum bst_err err = BST_OK;
    for (int i = 0; i < n_tensors(k, what) && !err; i++) {
        const struct bst_param_slot *slot = &k->params->slots[i];
        err = k->t->cfg.backend->export_plain(k->be, slot, bst_slot_at(k, block, i), plain);
        tensor_name(k, what, i, &name);
        if (!err)
            err = each(arg, name.data, plain, bst_shape_count(&slot->shape));
    }
    bst_sb_fini(&name);
    bst_alloc_free(plain, bytes);
    return err;
}

static enum bst_err put_tensor(void *arg, const char *name, const double *x, int64_t n)
{
    /* A state that cannot be trained on must not become what a run comes back to. */
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return bst_fail(BST_E_DIVERGED, "%s is not finite: not saved", name);
    return bst_tensors_writer_put(arg, x, n);
}

static enum bst_err save_job(struct rank *k, void *arg)
{
    const struct file_job *job = arg;
    struct bst_sb name;
    struct bst_tensors_writer *w =
        bst_tensors_writer_new(k->t->cfg.backend->elem_bytes == 8 ? BST_DT_F64 : BST_DT_F32);
    bst_sb_init(&name, 4096);
    for (int i = 0; i < n_tensors(k, job->what); i++) {
        const struct bst_shape *s = &k->params->slots[i].shape;
        tensor_name(k, job->what, i, &name);
        bst_tensors_writer_add(w, name.data, s->rank, s->d);
    }
    enum bst_err err = bst_tensors_writer_start(w, job->path);
    if (!err)
        err = for_each(k, job->what, put_tensor, w);
    if (!err)
        err = bst_tensors_writer_finish(w);
    bst_tensors_writer_free(w);
    bst_sb_fini(&name);
    return err;
}

enum bst_err bst_trainer_save(struct bst_trainer *t, enum bst_state what, const char *path)
{
    struct file_job job = {.what = what, .path = path};
    if (atomic_load(&t->broken))
        return bst_fail(BST_E_STATE, "the trainer's state was lost in an update that failed");
    return bst_ranks_do(t, 1, save_job, &job);
}

uint64_t bst_trainer_state_bytes(const struct bst_trainer *t)
{
    const struct bst_param_table *p = t->ranks[0].params;
    uint64_t n = 0;
    for (int i = 0; i < p->n_slots; i++)
        n += (uint64_t)bst_shape_count(&p->slots[i].shape) * (i < p->n_trained ? 2 : 1);
    return n * (uint64_t)t->cfg.backend->elem_bytes;
}

static bool same_shape(const struct bst_tensor *t, const struct bst_shape *s)
{
    return t->rank == s->rank && !memcmp(t->d, s->d, (size_t)s->rank * sizeof *s->d);
}

static void shape_text(int rank, const int64_t *d, struct bst_sb *out)
{
    bst_sb_addc(out, '[');
    for (int i = 0; i < rank; i++)
        bst_sb_addf(out, "%s%lld", i ? ", " : "", (long long)d[i]);
    bst_sb_addc(out, ']');
}

/* What the file has for a parameter that it does not fit; "nothing" when it has none. */
static enum bst_err misfit(const struct file_job *job, const char *name, const struct bst_tensor *t,
                           const struct bst_shape *want)
{
    struct bst_sb sb;
    bst_sb_init(&sb, 400);
    if (t) {
        shape_text(t->rank, t->d, &sb);
        bst_sb_add(&sb, ", the net has ");
        shape_text(want->rank, want->d, &sb);
    }
    enum bst_err err =
        t ? bst_fail(BST_E_SHAPE, "%s: tensor \"%s\" is %s", job->path, name, sb.data)
          : bst_fail(BST_E_NOTFOUND, "%s: no tensor \"%s\"", job->path, name);
    bst_sb_fini(&sb);
    return err;
}

/* Where parameter i waits until everything is read. */
static void *waiting_place(const struct rank *k, int i)
{
    const struct bst_param_slot *slot = &k->params->slots[i];
    return i < k->params->n_trained ? (char *)k->grad + slot->offset
                                    : (char *)k->staged + (slot->offset - k->params->trained_bytes);
}

static void note_new_head(const struct file_job *job, const char *name, const struct bst_tensor *t,
                          const struct bst_shape *want)
{
    bst_sb_addf(job->note, "%s%s starts anew", job->note->len ? ", " : "", name);
    if (!t)
        return;
    bst_sb_add(job->note, " (the file has ");
    shape_text(t->rank, t->d, job->note);
    bst_sb_add(job->note, ", the net ");
    shape_text(want->rank, want->d, job->note);
    bst_sb_addc(job->note, ')');
}

static enum bst_err read_tensor(struct rank *k, const struct file_job *job, struct bst_tensors *r,
                                int i, const char *name, double *plain)
{
    const struct bst_param_slot *slot = &k->params->slots[i];
    const struct bst_tensor *t = bst_tensors_find(r, name);
    if (!t || !same_shape(t, &slot->shape)) {
        if (!job->lenient || strncmp(name, HEAD, strlen(HEAD)))
            return misfit(job, name, t, &slot->shape);
        note_new_head(job, name, t, &slot->shape);
        return bst_init_parameter(k, i, waiting_place(k, i));
    }
    BST_TRY(bst_tensors_read(r, t, plain));
    return k->t->cfg.backend->import_plain(k->be, slot, plain, waiting_place(k, i));
}

/* A tensor that the net has no place for: another net's file, or a typing error in a name.
 * PyTorch's count of batches seen is the one exception; nothing here depends on it. */
static enum bst_err check_unknown(const struct rank *k, const struct file_job *job,
                                  const struct bst_tensors *r)
{
    enum bst_err err = BST_OK;
    for (int i = 0; i < bst_tensors_count(r) && !err; i++) {
        const char *name = bst_tensors_at(r, i)->name, *own = name;
        if (job->what == BST_STATE_OPTIMIZER)
            own = strncmp(name, "momentum.", 9) ? "" : name + 9;
        if (bst_param_table_find(k->params, own) >= 0 || !fnmatch("*.num_batches_tracked", own, 0))
            continue;
        struct bst_sb clean;
        bst_sb_init(&clean, 200);
        bst_text_clean(&clean, name, strlen(name));
        err = bst_fail(BST_E_NOTFOUND, "%s: tensor \"%s\" belongs to no parameter of the net",
                       job->path, clean.data);
        bst_sb_fini(&clean);
    }
    return err;
}

static enum bst_err read_all(struct rank *k, const struct file_job *job, struct bst_tensors *r)
{
    double *plain = NULL;
    size_t bytes = 0;
    struct bst_sb name;
    BST_TRY(check_unknown(k, job, r));
    BST_TRY(plain_room(k, &plain, &bytes));
    bst_sb_init(&name, 4096);
    enum bst_err err = BST_OK;
    for (int i = 0; i < n_tensors(k, job->what) && !err; i++) {
        tensor_name(k, job->what, i, &name);
        err = read_tensor(k, job, r, i, name.data, plain);
    }
    bst_sb_fini(&name);
    bst_alloc_free(plain, bytes);
    return err;
}

static enum bst_err load_job(struct rank *k, void *arg)
{
    const struct file_job *job = arg;
    const struct bst_backend *b = k->t->cfg.backend;
    const struct bst_param_table *p = k->params;
    struct bst_tensors *r = NULL;
    BST_TRY(bst_tensors_open(job->path, &r));
    enum bst_err err = read_all(k, job, r);
    bst_tensors_close(r);
    if (err)
        return err;
    if (job->what == BST_STATE_OPTIMIZER)
        return b->copy(k->be, k->momentum, k->grad, p->trained_bytes);
    BST_TRY(b->copy(k->be, k->weight, k->grad, p->trained_bytes));
    return p->state_bytes
               ? b->copy(k->be, (char *)k->weight + p->trained_bytes, k->staged, p->state_bytes)
               : BST_OK;
}

enum bst_err bst_state_share(struct rank *k, void *arg)
{
    (void)arg;
    const struct bst_param_table *p = k->params;
    BST_TRY(k->comm->ops->broadcast(k->comm, k->weight, p->trained_bytes + p->state_bytes, 0));
    return k->comm->ops->broadcast(k->comm, k->momentum, p->trained_bytes, 0);
}

enum bst_err bst_trainer_load(struct bst_trainer *t, enum bst_state what, const char *path,
                              bool lenient, char *note, size_t note_room)
{
    struct bst_sb sb;
    bst_sb_init(&sb, note_room > 1 ? note_room - 1 : 1);
    struct file_job job = {.what = what, .path = path, .lenient = lenient, .note = &sb};
    enum bst_err err = bst_ranks_do(t, 1, load_job, &job);
    if (!err)
        err = bst_ranks_do(t, t->cfg.ranks, bst_state_share, NULL);
    t->weight_norms = false;
    if (note && note_room)
        snprintf(note, note_room, "%s", err ? "" : sb.data);
    bst_sb_fini(&sb);
    return err;
}

static enum bst_err hash_tensor(void *arg, const char *name, const double *x, int64_t n)
{
    uint32_t *crc = arg;
    (void)name;
    *crc = bst_crc32c(*crc, x, (size_t)n * sizeof *x);
    return BST_OK;
}

static enum bst_err hash_job(struct rank *k, void *arg)
{
    uint32_t *crc = (uint32_t *)arg + k->rank;
    *crc = 0;
    BST_TRY(for_each(k, BST_STATE_WEIGHTS, hash_tensor, crc));
    return for_each(k, BST_STATE_OPTIMIZER, hash_tensor, crc);
}

enum bst_err bst_trainer_hash(struct bst_trainer *t, uint32_t *out)
{
    return bst_ranks_do(t, 1, hash_job, out);
}

enum bst_err bst_trainer_compare_ranks(struct bst_trainer *t)
{
    uint32_t *crc = bst_xcalloc((size_t)t->cfg.ranks, sizeof *crc);
    enum bst_err err = bst_ranks_do(t, t->cfg.ranks, hash_job, crc);
    for (int r = 1; r < t->cfg.ranks && !err; r++)
        if (crc[r] != crc[0])
            err = bst_fail(BST_E_CORRUPT, "rank %d's state is not rank 0's (%08x, %08x)", r, crc[r],
                           crc[0]);
    bst_free(crc);
    return err;
}
