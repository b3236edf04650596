#include "core/backend/cuda/plan.h"

#include <dlfcn.h>
#include <stdio.h>

#include "core/backend/cuda/answers.h"
#include "core/base/alloc.h"

enum bst_err cuda_plan_open(const struct bst_be_cfg *cfg, struct bst_be **out)
{
    const struct bst_plan_for *f = cfg->plan_for;
    struct bst_be *be = bst_xalloc(sizeof *be);

    be->plan_for = *f;
    cuda_set_precision(be, cfg->precision);
    be->answers = cuda_keep_open("plans", f->properties, f->n_properties, f->cache);
    *out = be;
    return BST_OK;
}

void cuda_plan_close(struct bst_be *be)
{
    cuda_keep_close(be->answers);
    cuda_dnn_device_free(be->device_props);
    bst_free(be);
}

/* cuDNN loads NVRTC anew for every engine that it would have to compile, and gives it back: held,
 * it is loaded once, and a plan in 16 bits takes seconds, not half a minute. Not found, it is only
 * slow. */
static void hold_nvrtc(void)
{
    char name[32];
    snprintf(name, sizeof name, "libnvrtc.so.%d", CUDART_VERSION / 1000);
    dlopen(name, RTLD_LAZY | RTLD_LOCAL);
}

/* The device is opened by the first question without an answer: loading what of cuDNN that takes is
 * most of the time that a plan needs. */
static enum bst_err ask_cudnn(struct bst_be *be, const struct cuda_conv_ask *ask,
                              struct cuda_answer *out)
{
    struct cuda_dnn_plan p = {0};
    int n = 0;

    if (!be->device_props) {
        hold_nvrtc();
        BST_TRY(cuda_dnn_device_parse(be->plan_for.properties, be->plan_for.n_properties,
                                      &be->device_props));
    }
    enum bst_err err = cuda_conv_plans(ask, be->device_props, &p, 1, &n);
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

static enum bst_err find_answer(struct bst_be *be, const struct cuda_conv_ask *ask,
                                struct cuda_dnn_plan *out)
{
    struct cuda_answer a = {0};
    char key[CUDA_CONV_KEY];

    cuda_conv_key(ask, key);
    if (!cuda_answers_find(be->answers, key, &a)) {
        BST_TRY(ask_cudnn(be, ask, &a));
        cuda_answers_add(be->answers, key, &a);
    }
    if (!a.accepted)
        return bst_fail(BST_E_UNSUPPORTED, "cuDNN has no plan on that GPU for the convolution %s",
                        key);
    *out = (struct cuda_dnn_plan){
        .workspace = a.workspace, .engine = a.engine, .numerical = a.notes, .fallback = a.fallback};
    return BST_OK;
}

enum bst_err cuda_conv_find(struct bst_be *be, const struct cuda_conv_ask *ask,
                            struct cuda_dnn_plan *out)
{
    int n = 0;

    if (be->answers)
        return find_answer(be, ask, out);
    return cuda_conv_plans(ask, be->device_props, out, 1, &n);
}
