#include "core/backend/cuda/plan.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/backend/cuda/answers.h"
#include "core/base/alloc.h"

enum bst_err cuda_plan_open(const struct bst_be_cfg *cfg, struct bst_be **out)
{
    const struct bst_plan_for *f = cfg->plan_for;
    struct bst_be *be = bst_xalloc(sizeof *be);

    be->plan_for = *f;
    cuda_set_precision(be, cfg->precision);
    be->is_steady = !cfg->autotune;
    be->answers = cuda_keep_open("plans", f->properties, f->n_properties, f->cache);
    *out = be;
    return BST_OK;
}

void cuda_plan_close(struct bst_be *be)
{
    cuda_shared_free(be);
    cuda_keep_close(be->answers);
    cuda_dnn_device_free(be->device_props);
    bst_free(be);
}

enum { SHARED_UNUSED_MOST = 32 };

/* What cuDNN compiles for a device it hands to the driver, to be laid out. A driver knows no code
 * but its own device's, and there may be none: ours takes any, under the driver's name. Not where
 * another is in this process already. */
static bool hold_driver(void)
{
    Dl_info self;
    char path[PATH_MAX];

    if (!dladdr((void *)(uintptr_t)hold_driver, &self) || !self.dli_fname)
        return false;
    const char *slash = strrchr(self.dli_fname, '/');
    const int n = snprintf(path, sizeof path, "%.*slibcuda_plan.so",
                           slash ? (int)(slash + 1 - self.dli_fname) : 0, self.dli_fname);
    const void *ours = n > 0 && n < (int)sizeof path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    return ours && dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) == ours;
}

/* A question to cuDNN. */
struct question {
    char key[CUDA_KEEP_KEY];
    const char *what;
    const void *ask;
    enum bst_err (*plan)(const void *ask, cudnnBackendDescriptor_t device,
                         struct cuda_dnn_plan *out);
};

/* The device is opened by the first question without an answer: loading what of cuDNN that takes is
 * most of the time that a plan needs. */
static enum bst_err ask_cudnn(struct bst_be *be, const struct question *q, struct cuda_answer *out)
{
    struct cuda_dnn_plan p = {0};

    if (!be->device_props) {
        be->compiles = cuda_dnn_hold_nvrtc() && hold_driver();
        BST_TRY(cuda_dnn_device_parse(be->plan_for.properties, be->plan_for.n_properties,
                                      &be->device_props));
    }
    enum bst_err err = q->plan(q->ask, be->device_props, &p);
    if (err && err != BST_E_UNSUPPORTED)
        return err;
    *out = (struct cuda_answer){.accepted = !err,
                                .fallback = p.fallback,
                                .workspace = p.workspace,
                                .engine = p.engine,
                                .notes = p.numerical};
    cuda_dnn_plan_fini(&p);
    return BST_OK;
}

static enum bst_err find_answer(struct bst_be *be, const struct question *q,
                                struct cuda_dnn_plan *out)
{
    struct cuda_answer a = {0};

    if (!cuda_answers_find(be->answers, q->key, &a)) {
        BST_TRY(ask_cudnn(be, q, &a));
        if (a.accepted || be->compiles) /* what could not be compiled here may be elsewhere */
            cuda_answers_add(be->answers, q->key, &a);
    }
    if (!a.accepted)
        return bst_fail(BST_E_UNSUPPORTED, "cuDNN has no plan on that GPU for the %s %s", q->what,
                        q->key);
    *out = (struct cuda_dnn_plan){
        .workspace = a.workspace, .engine = a.engine, .numerical = a.notes, .fallback = a.fallback};
    return BST_OK;
}

static enum bst_err find(struct bst_be *be, const struct question *q, struct cuda_dnn_plan *out)
{
    return be->answers ? find_answer(be, q, out) : q->plan(q->ask, be->device_props, out);
}

static enum bst_err conv_plan(const void *ask, cudnnBackendDescriptor_t device,
                              struct cuda_dnn_plan *out)
{
    int n = 0;

    return cuda_conv_plans(ask, device, out, 1, &n);
}

enum bst_err cuda_conv_find(struct bst_be *be, const struct cuda_conv_ask *ask,
                            struct cuda_dnn_plan *out)
{
    struct question q = {.what = "convolution", .ask = ask, .plan = conv_plan};

    cuda_conv_key(ask, q.key);
    return find(be, &q, out);
}

/* --- shared ones --- */

struct cuda_shared {
    struct cuda_dnn_plan plan; /* first: what users have is its address */
    struct cuda_shared *next;
    char key[CUDA_KEEP_KEY];
    bool refused;
    int n_users;
};

/* The oldest that nothing has go, but for some. */
static void drop_unused(struct bst_be *be)
{
    int n = 0;

    for (struct cuda_shared **at = &be->shared; *at;) {
        struct cuda_shared *s = *at;

        if (s->n_users || n++ < SHARED_UNUSED_MOST) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        cuda_dnn_plan_fini(&s->plan);
        bst_free(s);
    }
}

static enum bst_err find_shared(struct bst_be *be, const struct question *q,
                                const struct cuda_dnn_plan **out)
{
    struct cuda_shared *s = be->shared;

    while (s && strcmp(s->key, q->key) != 0)
        s = s->next;
    if (!s) {
        struct cuda_dnn_plan plan = {0};
        const enum bst_err err = find(be, q, &plan);

        if (err && err != BST_E_UNSUPPORTED)
            return err;
        drop_unused(be);
        s = bst_xalloc(sizeof *s);
        *s = (struct cuda_shared){.plan = plan, .next = be->shared, .refused = err != BST_OK};
        memcpy(s->key, q->key, sizeof s->key);
        be->shared = s;
    }
    if (s->refused)
        return bst_fail(BST_E_UNSUPPORTED, "cuDNN has no plan for the %s %s", q->what, q->key);
    s->n_users++;
    *out = &s->plan;
    return BST_OK;
}

static enum bst_err attn_plan(const void *ask, cudnnBackendDescriptor_t device,
                              struct cuda_dnn_plan *out)
{
    return cuda_attn_plan(ask, device, out);
}

enum bst_err cuda_attn_find(struct bst_be *be, const struct cuda_attn_ask *ask,
                            const struct cuda_dnn_plan **out)
{
    struct question q = {.what = "attention", .ask = ask, .plan = attn_plan};

    cuda_attn_key(ask, q.key);
    return find_shared(be, &q, out);
}

void cuda_shared_give(struct bst_be *be, const struct cuda_dnn_plan *plan)
{
    (void)be;
    if (plan)
        ((struct cuda_shared *)(uintptr_t)plan)->n_users--;
}

void cuda_shared_free(struct bst_be *be)
{
    while (be->shared) {
        struct cuda_shared *next = be->shared->next;

        cuda_dnn_plan_fini(&be->shared->plan);
        bst_free(be->shared);
        be->shared = next;
    }
}
