/* A run's state out of the trainer and back: named tensors in a file, a hash. Between updates the
 * gradient block and the staged statistics hold nothing that is needed: a file is read into them
 * first and only becomes the state once all of it was read. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/crc32c.h"
#include "core/base/safetensors.h"
#include "core/base/text.h"
#include "core/train/match.h"
#include "core/train/rank.h"
#include "core/tune/loss_scale.h"

/* The count of steps, as numbers below 2^20 that every dtype holds: high part, low part. */
#define STEPS "step"
#define STEPS_LOW 1048576.0
/* Where the loss is scaled: the scale, and the updates that were used since it last changed. */
#define LOSS_SCALE "loss_scale"

struct file_job {
    enum bst_state what;
    const char *path;
    bool lenient;
    struct bst_sb *note;
};

static const struct bst_optimizer_info *optimizer_of(const struct rank *k)
{
    return bst_optimizer_info(k->t->cfg.optim.kind);
}

/* The optimizer's blocks one after the other, of the trained parameters alone. */
static int n_tensors(const struct rank *k, enum bst_state what)
{
    return what == BST_STATE_WEIGHTS ? k->params->n_slots
                                     : optimizer_of(k)->n_blocks * k->params->n_trained;
}

/* What tensor i is: a parameter's slot, and the block it lies in. */
struct place {
    int slot;
    const char *block; /* name; NULL: the weights themselves */
    size_t offset;     /* of the block within the memory of its kind */
};

static struct place place_of(const struct rank *k, enum bst_state what, int i)
{
    const struct bst_param_table *p = k->params;
    if (what == BST_STATE_WEIGHTS)
        return (struct place){.slot = i};
    int block = i / p->n_trained;
    return (struct place){i % p->n_trained, optimizer_of(k)->blocks[block],
                          (size_t)block * p->trained_bytes};
}

static void tensor_name(const struct rank *k, struct place at, struct bst_sb *name)
{
    bst_sb_clear(name);
    bst_sb_addf(name, "%s%s%s", at.block ? at.block : "", at.block ? "." : "",
                k->params->slots[at.slot].name);
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
    void *block = what == BST_STATE_WEIGHTS ? k->weight : k->optim;
    enum bst_err err = BST_OK;
    for (int i = 0; i < n_tensors(k, what) && !err; i++) {
        struct place at = place_of(k, what, i);
        const struct bst_param_slot *slot = &k->params->slots[at.slot];
        err = k->t->cfg.backend->export_plain(
            k->be, slot, bst_slot_at(k, (char *)block + at.offset, at.slot), plain);
        tensor_name(k, at, &name);
        if (!err)
            err = each(arg, name.data, plain, bst_shape_count(&slot->shape));
    }
    if (!err && what == BST_STATE_OPTIMIZER && optimizer_of(k)->adaptive) {
        double t = (double)k->t->commits.steps;
        const double steps[2] = {floor(t / STEPS_LOW), fmod(t, STEPS_LOW)};
        err = each(arg, STEPS, steps, 2);
    }
    if (!err && what == BST_STATE_OPTIMIZER && k->t->scales_loss) {
        const double scale[2] = {k->t->commits.loss_scale, k->t->commits.good};
        err = each(arg, LOSS_SCALE, scale, 2);
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
        struct place at = place_of(k, job->what, i);
        const struct bst_shape *s = &k->params->slots[at.slot].shape;
        tensor_name(k, at, &name);
        bst_tensors_writer_add(w, name.data, s->rank, s->d);
    }
    if (job->what == BST_STATE_OPTIMIZER && optimizer_of(k)->adaptive)
        bst_tensors_writer_add(w, STEPS, 1, (const int64_t[]){2});
    if (job->what == BST_STATE_OPTIMIZER && k->t->scales_loss)
        bst_tensors_writer_add(w, LOSS_SCALE, 1, (const int64_t[]){2});
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
    BST_TRY(bst_none_sent(t));
    if (atomic_load(&t->broken))
        return bst_fail(BST_E_STATE, "the trainer's state was lost in an update that failed");
    return bst_ranks_do(t, 1, save_job, &job);
}

uint64_t bst_trainer_state_bytes(const struct bst_trainer *t)
{
    const struct bst_param_table *p = t->ranks[0].params;
    const struct bst_optimizer_info *info = bst_optimizer_info(t->cfg.optim.kind);
    uint64_t n = 2 * (uint64_t)(info->adaptive + t->scales_loss);
    uint64_t copies = 1 + (uint64_t)info->n_blocks;
    for (int i = 0; i < p->n_slots; i++)
        n += (uint64_t)bst_shape_count(&p->slots[i].shape) * (i < p->n_trained ? copies : 1);
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

/* What is being read: where it waits until all of it was. */
struct reading {
    struct bst_tensors *r;
    const struct bst_tensor **of_slot; /* weights: each parameter's; the optimizer's: NULL */
    int n_new;                         /* parameters that start anew */
    void *blocks; /* the optimizer's second block on; the gradients' take in the first */
    size_t bytes;
    uint64_t steps;
    double loss_scale;
    uint32_t good;
    double *plain;
};

static void *waiting_place(const struct rank *k, const struct reading *rd, struct place at)
{
    const struct bst_param_table *p = k->params;
    size_t offset = p->slots[at.slot].offset;
    if (at.offset)
        return (char *)rd->blocks + (at.offset - p->trained_bytes) + offset;
    return at.slot < p->n_trained ? (char *)k->grad + offset
                                  : (char *)k->staged + (offset - p->trained_bytes);
}

/* The first two; of the others how many there are. */
static void note_new_head(const struct file_job *job, struct reading *rd, const char *name,
                          const struct bst_tensor *t, const struct bst_shape *want)
{
    if (rd->n_new++ >= 2)
        return;
    bst_sb_addf(job->note, "%s%s starts anew", job->note->len ? ", " : "", name);
    if (!t)
        return;
    bst_sb_add(job->note, " (the file has ");
    shape_text(t->rank, t->d, job->note);
    bst_sb_add(job->note, ", the net ");
    shape_text(want->rank, want->d, job->note);
    bst_sb_addc(job->note, ')');
}

static enum bst_err read_tensor(struct rank *k, const struct file_job *job, struct reading *rd,
                                struct place at, const char *name)
{
    const struct bst_param_slot *slot = &k->params->slots[at.slot];
    const struct bst_tensor *t = rd->of_slot ? rd->of_slot[at.slot] : bst_tensors_find(rd->r, name);
    void *to = waiting_place(k, rd, at);
    if (!t || !same_shape(t, &slot->shape)) {
        if (!job->lenient || !bst_match_is_head(k->t->cfg.net->names, name))
            return misfit(job, t ? t->name : name, t, &slot->shape);
        note_new_head(job, rd, name, t, &slot->shape);
        return bst_init_parameter(k, at.slot, to);
    }
    BST_TRY(bst_tensors_read(rd->r, t, rd->plain));
    return k->t->cfg.backend->import_plain(k->be, slot, rd->plain, to);
}

static enum bst_err read_two(const struct file_job *job, const struct reading *rd, const char *name,
                             double n[2])
{
    static const struct bst_shape want = {1, {2}};
    const struct bst_tensor *t = bst_tensors_find(rd->r, name);
    if (!t || !same_shape(t, &want))
        return misfit(job, name, t, &want);
    return bst_tensors_read(rd->r, t, n);
}

static enum bst_err read_loss_scale(const struct file_job *job, struct reading *rd)
{
    double n[2];
    BST_TRY(read_two(job, rd, LOSS_SCALE, n));
    if (!(n[0] > 0 && isfinite(n[0]) && n[1] >= 0 && n[1] < BST_LOSS_SCALE_EVERY &&
          n[1] == floor(n[1])))
        return bst_fail(BST_E_CORRUPT, "%s: \"%s\" is %g, %g", job->path, LOSS_SCALE, n[0], n[1]);
    rd->loss_scale = n[0];
    rd->good = (uint32_t)n[1];
    return BST_OK;
}

static enum bst_err read_steps(const struct file_job *job, struct reading *rd)
{
    double n[2];
    BST_TRY(read_two(job, rd, STEPS, n));
    for (int i = 0; i < 2; i++)
        if (!(n[i] >= 0 && n[i] < STEPS_LOW && n[i] == floor(n[i])))
            return bst_fail(BST_E_CORRUPT, "%s: \"%s\" is %g, %g", job->path, STEPS, n[0], n[1]);
    rd->steps = (uint64_t)(n[0] * STEPS_LOW + n[1]);
    return BST_OK;
}

/* The parameter's name in that of a tensor of the optimizer's; "" where it is none. */
static const char *own_name(const struct rank *k, const char *name)
{
    const struct bst_optimizer_info *info = optimizer_of(k);
    for (int i = 0; i < info->n_blocks; i++) {
        size_t n = strlen(info->blocks[i]);
        if (!strncmp(name, info->blocks[i], n) && name[n] == '.')
            return name + n + 1;
    }
    return "";
}

/* A tensor of the optimizer's that the net has no place for: another net's file. */
static enum bst_err check_unknown(const struct rank *k, const struct file_job *job,
                                  const struct bst_tensors *r)
{
    enum bst_err err = BST_OK;
    for (int i = 0; i < bst_tensors_count(r) && !err; i++) {
        const char *name = bst_tensors_at(r, i)->name;
        if (bst_param_table_find(k->params, own_name(k, name)) >= 0 ||
            (optimizer_of(k)->adaptive && !strcmp(name, STEPS)) ||
            (k->t->scales_loss && !strcmp(name, LOSS_SCALE)))
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

static enum bst_err match(const struct rank *k, const struct file_job *job, struct reading *rd)
{
    if (job->what == BST_STATE_OPTIMIZER)
        return check_unknown(k, job, rd->r);
    const struct bst_match m = {k->t->cfg.net->names, k->params, rd->r, job->path};
    rd->of_slot = bst_xcalloc((size_t)k->params->n_slots + 1, sizeof *rd->of_slot);
    return bst_match_weights(&m, rd->of_slot);
}

static enum bst_err read_all(struct rank *k, const struct file_job *job, struct reading *rd)
{
    size_t bytes = 0;
    struct bst_sb name;
    BST_TRY(match(k, job, rd));
    BST_TRY(plain_room(k, &rd->plain, &bytes));
    bst_sb_init(&name, 4096);
    enum bst_err err = BST_OK;
    for (int i = 0; i < n_tensors(k, job->what) && !err; i++) {
        struct place at = place_of(k, job->what, i);
        tensor_name(k, at, &name);
        err = read_tensor(k, job, rd, at, name.data);
    }
    if (!err && job->what == BST_STATE_OPTIMIZER && optimizer_of(k)->adaptive)
        err = read_steps(job, rd);
    if (!err && job->what == BST_STATE_OPTIMIZER && k->t->scales_loss)
        err = read_loss_scale(job, rd);
    if (!err && rd->n_new > 2)
        bst_sb_addf(job->note, " and %d more", rd->n_new - 2);
    bst_sb_fini(&name);
    bst_alloc_free(rd->plain, bytes);
    return err;
}

/* What was read becomes the state. */
static enum bst_err take_over(struct rank *k, const struct file_job *job, const struct reading *rd)
{
    const struct bst_backend *b = k->t->cfg.backend;
    const struct bst_param_table *p = k->params;
    if (job->what == BST_STATE_WEIGHTS) {
        BST_TRY(b->copy(k->be, k->weight, k->grad, p->trained_bytes));
        return p->state_bytes
                   ? b->copy(k->be, (char *)k->weight + p->trained_bytes, k->staged, p->state_bytes)
                   : BST_OK;
    }
    BST_TRY(b->copy(k->be, k->optim, k->grad, p->trained_bytes));
    if (rd->bytes)
        BST_TRY(b->copy(k->be, (char *)k->optim + p->trained_bytes, rd->blocks, rd->bytes));
    k->t->commits.steps = rd->steps;
    if (k->t->scales_loss) {
        k->t->commits.loss_scale = rd->loss_scale;
        k->t->commits.good = rd->good;
    }
    return BST_OK;
}

static enum bst_err load_job(struct rank *k, void *arg)
{
    const struct file_job *job = arg;
    const struct bst_backend *b = k->t->cfg.backend;
    struct reading rd = {0};
    BST_TRY(bst_tensors_open(job->path, &rd.r));
    enum bst_err err = BST_OK;
    if (job->what == BST_STATE_OPTIMIZER && k->t->optim_bytes > k->params->trained_bytes) {
        rd.bytes = k->t->optim_bytes - k->params->trained_bytes;
        err = b->alloc(k->be, rd.bytes, &rd.blocks);
    }
    if (!err)
        err = read_all(k, job, &rd);
    bst_tensors_close(rd.r);
    if (!err)
        err = take_over(k, job, &rd);
    b->free(k->be, rd.blocks, rd.bytes);
    bst_free(rd.of_slot);
    return err;
}

enum bst_err bst_state_share(struct rank *k, void *arg)
{
    (void)arg;
    const struct bst_param_table *p = k->params;
    BST_TRY(k->comm->ops->broadcast(k->comm, k->weight, p->trained_bytes + p->state_bytes, 0));
    BST_TRY(k->comm->ops->broadcast(k->comm, k->optim, k->t->optim_bytes, 0));
    return bst_state_push_commits(k);
}

enum bst_err bst_state_share_all(struct bst_trainer *t, bool whole)
{
    const struct crew_request r = {.op = CREW_SHARE, .u.share = {t->commits, whole}};
    BST_TRY(bst_crew_lead(t, &r));
    BST_TRY(bst_ranks_all(t, bst_state_share, NULL));
    t->apart = false;
    if (whole)
        atomic_store(&t->broken, false);
    return BST_OK;
}

enum bst_err bst_state_push_commits(struct rank *k)
{
    const struct bst_backend *b = k->t->cfg.backend;
    return b->set_commit_state ? b->set_commit_state(k->be, &k->t->commits) : BST_OK;
}

enum bst_err bst_trainer_load(struct bst_trainer *t, enum bst_state what, const char *path,
                              bool lenient, char *note, size_t note_room)
{
    struct bst_sb sb;
    BST_TRY(bst_none_sent(t));
    bst_sb_init(&sb, note_room > 1 ? note_room - 1 : 1);
    struct file_job job = {.what = what, .path = path, .lenient = lenient, .note = &sb};
    enum bst_err err = bst_ranks_do(t, 1, load_job, &job);
    if (!err)
        err = bst_state_share_all(t, false);
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
    uint32_t *crc = arg;
    *crc = 0;
    BST_TRY(for_each(k, BST_STATE_WEIGHTS, hash_tensor, crc));
    return for_each(k, BST_STATE_OPTIMIZER, hash_tensor, crc);
}

enum bst_err bst_trainer_hash(struct bst_trainer *t, uint32_t *out)
{
    BST_TRY(bst_none_sent(t));
    return bst_ranks_do(t, 1, hash_job, out);
}

static enum bst_err compare_job(struct rank *k, void *arg)
{
    uint32_t crc;
    (void)arg;
    BST_TRY(hash_job(k, &crc));
    double mine = crc, *all = bst_xcalloc((size_t)k->comm->n_ranks, sizeof *all);
    enum bst_err err = k->comm->ops->gather(k->comm, &mine, 1, all);
    for (int r = 1; r < k->comm->n_ranks && !err; r++)
        if (all[r] != all[0])
            err = bst_fail(BST_E_CORRUPT, "rank %d's state is not rank 0's (%08x, %08x)", r,
                           (uint32_t)all[r], (uint32_t)all[0]);
    bst_free(all);
    return err;
}

enum bst_err bst_trainer_compare_ranks(struct bst_trainer *t)
{
    const struct crew_request r = {.op = CREW_COMPARE};
    BST_TRY(bst_made_alike(t));
    BST_TRY(bst_crew_lead(t, &r));
    return bst_ranks_all(t, compare_job, NULL);
}
