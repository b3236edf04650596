/* cuda.mutants: the CUDA backend with one thing broken, in a process of its own each time. What the
 * other tests compare (losses, norms and weights beside the reference, ranks beside each other) has
 * to notice it, under one of a few orders of the streams at least, and the whole one has to pass
 * under all. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nccl.h>

#include "core/backend/cuda/be.h"
#include "core/backend/cuda/cuda.h"
#include "tests/fakes/fake.h"
#include "tests/unit/train_support.h"

enum mutant {
    WHOLE,
    NO_EVENT_WAIT,
    NO_COPY_WAIT,
    EARLY_BLOCK,
    NO_ALL_REDUCE,
    HOST_READ,
    UNSCALED_NORM,
    N_MUTANTS,
};
static const char *const names[N_MUTANTS] = {"whole",
                                             "no wait for an event",
                                             "no wait for a micro-batch's copy",
                                             "a micro-batch's block given back early",
                                             "no all-reduce",
                                             "device memory read by the host",
                                             "norm of gradients still scaled"};
enum { RANKS = 4, UPDATES = 4, BATCH = 24, ORDERS = 16 };
#define ALLOWED 2e-4

static enum mutant mutant;

/* --- the backend, with a slot of its own --- */

static struct bst_backend broken;
static struct bst_be *contexts[RANKS];

static enum bst_err open_context(const struct bst_be_cfg *cfg, struct bst_be **out)
{
    BST_TRY(bst_backend_cuda.open(cfg, out));
    contexts[cfg->rank] = *out;
    return BST_OK;
}

static enum bst_err steps_left(struct bst_be *be, int most)
{
    if (mutant != EARLY_BLOCK)
        return bst_backend_cuda.steps_left(be, most);
    be->steps.n_done = be->steps.n_begun;
    return BST_OK;
}

static bool is_of_copy(cudaEvent_t event)
{
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < BST_STEP_SLOTS && contexts[r]; i++)
            if (contexts[r]->steps.copied[i] == event)
                return true;
    return false;
}

/* --- the linker's wrappers: what the backend calls is here --- */

cudaError_t __real_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t __wrap_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t __wrap_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    if (mutant == NO_EVENT_WAIT || (mutant == NO_COPY_WAIT && is_of_copy(event)))
        return cudaSuccess;
    return __real_cudaStreamWaitEvent(stream, event, flags);
}

cudaError_t __real_cudaMemcpyAsync(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind,
                                   cudaStream_t stream);
cudaError_t __wrap_cudaMemcpyAsync(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind,
                                   cudaStream_t stream);
cudaError_t __wrap_cudaMemcpyAsync(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind,
                                   cudaStream_t stream)
{
    if (mutant == HOST_READ && kind == cudaMemcpyDeviceToHost) {
        memcpy(dst, src, n);
        return cudaSuccess;
    }
    return __real_cudaMemcpyAsync(dst, src, n, kind, stream);
}

ncclResult_t __real_ncclAllReduce(const void *src, void *dst, size_t n, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t __wrap_ncclAllReduce(const void *src, void *dst, size_t n, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t __wrap_ncclAllReduce(const void *src, void *dst, size_t n, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    /* The first one, of a single number, connects. */
    if (mutant == NO_ALL_REDUCE && n > 1)
        return ncclSuccess;
    return __real_ncclAllReduce(src, dst, n, type, op, comm, stream);
}

/* As if the loss had been scaled by 2 and nobody had taken it out of the norm. */
static void scaled_squares(dim3 grid, dim3 block, void *const *args)
{
    const struct kern_grad_squares *a = args[0];
    const struct fake_kernel *k = fake_kernels;

    while (strcmp(k->name, "bst_grad_squares"))
        k++;
    k->run(grid, block, args);
    for (int i = 0; i < a->n * KERN_SQUARES_BLOCKS; i++)
        a->partial[i] *= 4;
}

static const struct fake_kernel scaled = {
    .name = "bst_grad_squares",
    .run = scaled_squares,
    .n_args = 1,
    .arg_bytes = {sizeof(struct kern_grad_squares)},
};

/* --- what is compared --- */

static bool is_near(double got, double want)
{
    return fabs(got - want) <= ALLOWED * fmax(fabs(want), 1e-3);
}

static bool same_way(struct bst_trainer *got, struct bst_trainer *want)
{
    int n = 0, m = 0;
    const struct bst_layer_norm *x = bst_trainer_layers(got, &n), *y = bst_trainer_layers(want, &m);

    for (int i = 0; i < n; i++)
        if (!is_near(x[i].grad_norm, y[i].grad_norm) ||
            !is_near(x[i].weight_norm, y[i].weight_norm))
            return false;
    return n == m;
}

static struct bst_update_req req_of(int i)
{
    struct bst_update_req req = train_req((uint64_t)i * BATCH, BATCH, 1);

    req.max_grad_norm = 0.5; /* so that the norm has a part in the weights */
    return req;
}

static bool same_result(const struct bst_update_result *a, const struct bst_update_result *b)
{
    return is_near(a->loss, b->loss) && is_near(a->grad_norm, b->grad_norm);
}

/* Each update waited for, and looked at. */
static bool one_by_one(struct bst_trainer *t, struct bst_trainer *want)
{
    for (int i = 0; i < UPDATES; i++) {
        const struct bst_update_req req = req_of(i);
        struct bst_update_result a, b;

        if (bst_trainer_update(t, &req, NULL, &a) || bst_trainer_update(want, &req, NULL, &b) ||
            !same_result(&a, &b) || !same_way(t, want) || bst_trainer_compare_ranks(t))
            return false;
    }
    return true;
}

/* Sent one behind another. */
static bool late(struct bst_trainer *t, struct bst_trainer *want)
{
    for (int i = 0, n = 0; n < UPDATES; i++) {
        const struct bst_update_req req = req_of(i);
        struct bst_update_result a, b;

        if (i < UPDATES && bst_trainer_send(t, &req, NULL))
            return false;
        for (; bst_trainer_sent(t) > (i < UPDATES ? bst_trainer_late(t) : 0); n++) {
            const struct bst_update_req old = req_of(n);

            if (bst_trainer_take(t, &a) || bst_trainer_update(want, &old, NULL, &b) ||
                !same_result(&a, &b))
                return false;
        }
    }
    return same_way(t, want) && !bst_trainer_compare_ranks(t);
}

static bool check(uint64_t seed)
{
    struct fake_settings s;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "cuda"),
                         ref = train_cfg(&train_bn_net, "ref");
    bool good = true;

    fake_settings_env(&s);
    s.devices = RANKS;
    s.seed = seed;
    s.hang_ms = 10000;
    s.quiet = true;
    broken = bst_backend_cuda;
    broken.open = open_context;
    broken.steps_left = steps_left;
    cfg.backend = &broken;
    cfg.ranks = ref.ranks = RANKS;
    cfg.wait_seconds = 20;
    for (int way = 0; way < 2 && good; way++) {
        memset(contexts, 0, sizeof contexts);
        fake_reset(&s);
        if (mutant == UNSCALED_NORM)
            fake_kernel_add(&scaled);
        struct bst_trainer *t = train_open(&cfg), *want = train_open(&ref);
        good = way ? late(t, want) : one_by_one(t, want);
        bst_trainer_close(t);
        bst_trainer_close(want);
        good &= !fake_leaks();
    }
    return good;
}

/* 0: what is compared was as it should be. */
static int in_a_child(enum mutant m, uint64_t seed)
{
    int status = 0;

    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        const int null = open("/dev/null", O_WRONLY);
        mutant = m;
        if (m != WHOLE && null >= 0)
            dup2(null, STDERR_FILENO);
        signal(SIGSEGV, SIG_DFL);
        _exit(check(seed) ? 0 : 1);
    }
    return pid < 0 || waitpid(pid, &status, 0) != pid ? -1 : status;
}

int main(void)
{
    int failures = 0;

    for (enum mutant m = WHOLE; m < N_MUTANTS; m++) {
        int n_caught = 0, by_signal = 0;

        for (uint64_t seed = 0; seed < ORDERS; seed++) {
            const int status = in_a_child(m, seed);
            n_caught += status != 0;
            by_signal += WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
        }
        printf("%s: noticed under %d of %d orders%s\n", names[m], n_caught, ORDERS,
               by_signal ? ", by a fault" : "");
        failures += m == WHOLE ? n_caught > 0 : n_caught == 0;
        failures += m == HOST_READ && by_signal == 0;
    }
    return failures ? 1 : 0;
}
