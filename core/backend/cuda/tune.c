#include "core/backend/cuda/tune.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend/cuda/keep.h"
#include "core/base/alloc.h"

enum {
    PLANS_MOST = 16,
    TIMES = 3, /* of each plan that count, behind one that does not */
};

/* Of one device's properties; contexts share it. */
struct cuda_tuned {
    struct cuda_tuned *next;
    char *heading; /* cuDNN's version and the properties, on one line */
    struct cuda_keep *known, *used;
    int n_users;
};

static struct cuda_tuned *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void flatten(char *text)
{
    for (; *text; text++)
        if (*text == '\n' || *text == '\r')
            *text = ' ';
}

static struct cuda_tuned *find_or_add(const char *heading, const char *properties,
                                      const char *folder)
{
    struct cuda_tuned *t = all;

    while (t && strcmp(t->heading, heading) != 0)
        t = t->next;
    if (t)
        return t;
    t = bst_xalloc(sizeof *t);
    t->heading = bst_xstrdup(heading);
    t->known = cuda_keep_open("tuned", properties, strlen(properties), folder);
    t->used = cuda_keep_open("used", "", 0, "");
    t->next = all;
    all = t;
    return t;
}

enum bst_err cuda_tuned_open(cudnnBackendDescriptor_t device, const char *folder,
                             struct cuda_tuned **out)
{
    char cudnn[32], *properties = NULL;

    *out = NULL;
    BST_TRY(cuda_dnn_device_json(device, &properties));
    cuda_dnn_version(cudnn);
    flatten(properties);
    char *heading = bst_xasprintf("cuDNN %s, %s", cudnn, properties);
    pthread_mutex_lock(&lock);
    *out = find_or_add(heading, properties, folder);
    (*out)->n_users++;
    pthread_mutex_unlock(&lock);
    bst_free(heading);
    bst_free(properties);
    return BST_OK;
}

void cuda_tuned_close(struct cuda_tuned *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&lock);
    if (!--t->n_users) {
        struct cuda_tuned **at = &all;

        while (*at != t)
            at = &(*at)->next;
        *at = t->next;
        cuda_keep_close(t->known);
        cuda_keep_close(t->used);
        bst_free(t->heading);
        bst_free(t);
    }
    pthread_mutex_unlock(&lock);
}

void cuda_tuned_write(struct cuda_tuned *t)
{
    pthread_mutex_lock(&lock);
    cuda_keep_write(t->known);
    pthread_mutex_unlock(&lock);
}

void cuda_tuned_print(struct cuda_tuned *t, struct bst_sb *out)
{
    const char *key, *text;
    size_t at = 0;

    pthread_mutex_lock(&lock);
    bst_sb_addf(out, "%s\n", t->heading);
    while (cuda_keep_next(t->used, &at, &key, &text))
        bst_sb_addf(out, "%s = %s\n", key, text);
    pthread_mutex_unlock(&lock);
}

static void take_line(struct cuda_tuned *t, const char *line, size_t n)
{
    static const char between[] = " = ";
    const char *is = memmem(line, n, between, strlen(between));
    char key[CUDA_KEEP_KEY];

    if (!is || is - line >= (ptrdiff_t)sizeof key)
        return;
    snprintf(key, sizeof key, "%.*s", (int)(is - line), line);
    const char *from = is + strlen(between);
    char *text = bst_xasprintf("%.*s", (int)(line + n - from), from);
    cuda_keep_add(t->used, key, text);
    bst_free(text);
}

void cuda_tuned_take(struct cuda_tuned *t, const char *text)
{
    const size_t n = strlen(t->heading);

    if (strncmp(text, t->heading, n) != 0 || text[n] != '\n')
        return;
    pthread_mutex_lock(&lock);
    for (const char *line = text + n + 1, *end; (end = strchr(line, '\n')); line = end + 1)
        take_line(t, line, (size_t)(end - line));
    pthread_mutex_unlock(&lock);
}

/* Heap; NULL: nothing is known. */
static char *find_choice(struct cuda_tuned *t, const char *key)
{
    pthread_mutex_lock(&lock);
    const char *text = cuda_keep_find(t->used, key);
    if (!text)
        text = cuda_keep_find(t->known, key);
    char *copy = text ? bst_xstrdup(text) : NULL;
    pthread_mutex_unlock(&lock);
    return copy;
}

/* The first of those that measured the same decides, unless what it said was of no use; heap, what
 * holds from now on. */
static char *agree(struct cuda_tuned *t, const char *key, const char *text, bool replace)
{
    pthread_mutex_lock(&lock);
    (replace ? cuda_keep_set : cuda_keep_add)(t->known, key, text);
    cuda_keep_set(t->used, key, cuda_keep_find(t->known, key));
    char *copy = bst_xstrdup(cuda_keep_find(t->used, key));
    pthread_mutex_unlock(&lock);
    return copy;
}

static void mark_used(struct cuda_tuned *t, const char *key, const char *text)
{
    pthread_mutex_lock(&lock);
    cuda_keep_add(t->used, key, text);
    pthread_mutex_unlock(&lock);
}

/* A text that cuDNN does not take, or whose workspace is not the one that it had, is none. */
static bool use(struct bst_be *be, const char *text, size_t room, struct cuda_dnn_plan *plan)
{
    struct cuda_dnn_plan p = {0};

    if (cuda_dnn_plan_parse(text, strlen(text), be->device_props, &p))
        return false;
    if (p.workspace < 0 || (size_t)p.workspace > room) {
        cuda_dnn_plan_fini(&p);
        return false;
    }
    cuda_dnn_plan_fini(plan);
    *plan = p;
    return true;
}

struct trial {
    struct cuda_dnn_plan plan;
    float ms[TIMES];
    bool out; /* it cannot run after all */
};

struct stopwatch {
    cudaEvent_t from, to;
};

enum bst_err cuda_conv_run(struct bst_be *be, const struct cuda_dnn_plan *plan,
                           const struct cuda_conv_places *c)
{
    static const int64_t id[] = {0, 1, 2, 3, 4};

    return cuda_dnn_run(be->dnn, plan, c->n, id, c->at, c->workspace);
}

/* A refusal by cuDNN is the plan's; a failure of the device, the context's. */
static enum bst_err time_once(struct bst_be *be, const struct stopwatch *w, struct trial *t,
                              const struct cuda_conv_places *c, float *ms)
{
    BST_TRY(cuda_fail(cudaEventRecord(w->from, be->stream), "timing"));
    t->out = cuda_conv_run(be, &t->plan, c) != BST_OK;
    BST_TRY(cuda_fail(cudaEventRecord(w->to, be->stream), "timing"));
    BST_TRY(cuda_wait(be));
    return cuda_fail(cudaEventElapsedTime(ms, w->from, w->to), "timing");
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static float median(const struct trial *t)
{
    float sorted[TIMES];

    memcpy(sorted, t->ms, sizeof sorted);
    qsort(sorted, TIMES, sizeof *sorted, by_value);
    return sorted[TIMES / 2];
}

/* In turn, so that a clock that changes meets all of them alike; the first turn warms up. */
static enum bst_err time_all(struct bst_be *be, struct trial *t, int n,
                             const struct cuda_conv_places *c)
{
    struct stopwatch w = {NULL, NULL};
    float unused;
    enum bst_err err = cuda_fail(cudaEventCreate(&w.from), "timing");

    if (!err)
        err = cuda_fail(cudaEventCreate(&w.to), "timing");
    for (int turn = -1; turn < TIMES && !err; turn++)
        for (int i = 0; i < n && !err; i++)
            if (!t[i].out)
                err = time_once(be, &w, &t[i], c, turn < 0 ? &unused : &t[i].ms[turn]);
    if (w.from)
        cudaEventDestroy(w.from);
    if (w.to)
        cudaEventDestroy(w.to);
    return err;
}

/* -1: none can run. */
static int fastest(const struct trial *t, int n)
{
    int best = -1;

    for (int i = 0; i < n; i++)
        if (!t[i].out && (best < 0 || median(&t[i]) < median(&t[best])))
            best = i;
    return best;
}

static int list_trials(struct bst_be *be, const struct cuda_conv_ask *ask, size_t room,
                       struct trial *t)
{
    struct cuda_dnn_plan plans[PLANS_MOST];
    int n = 0, kept = 0;

    if (cuda_conv_plans(ask, be->device_props, plans, PLANS_MOST, &n))
        return 0;
    for (int i = 0; i < n; i++) {
        if ((size_t)plans[i].workspace <= room)
            t[kept++] = (struct trial){.plan = plans[i]};
        else
            cuda_dnn_plan_fini(&plans[i]);
    }
    return kept;
}

/* Heap text of the fastest; NULL where there is none that could be measured or written down. */
static enum bst_err measure(struct bst_be *be, const struct cuda_conv_ask *ask,
                            const struct cuda_conv_places *c, char **out)
{
    struct trial t[PLANS_MOST];
    const int n = list_trials(be, ask, c->room, t);
    size_t bytes = 0;

    *out = NULL;
    enum bst_err err = n ? time_all(be, t, n, c) : BST_OK;
    const int best = err ? -1 : fastest(t, n);
    if (best >= 0 && cuda_dnn_plan_json(&t[best].plan, out, &bytes))
        *out = NULL;
    if (*out)
        flatten(*out);
    for (int i = 0; i < n; i++)
        cuda_dnn_plan_fini(&t[i].plan);
    return err;
}

enum bst_err cuda_tune(struct bst_be *be, const struct cuda_conv_ask *ask,
                       const struct cuda_conv_places *places, struct cuda_dnn_plan *plan)
{
    char key[CUDA_CONV_KEY], *text;
    bool known, useless;

    cuda_conv_key(ask, key);
    text = find_choice(be->tuned, key);
    known = text && use(be, text, places->room, plan);
    useless = text && !known;
    if (known)
        mark_used(be->tuned, key, text);
    bst_free(text);
    if (known)
        return BST_OK;
    BST_TRY(measure(be, ask, places, &text));
    if (!text)
        return BST_OK;
    char *agreed = agree(be->tuned, key, text, useless);
    if (!use(be, agreed, places->room, plan))
        use(be, text, places->room, plan);
    bst_free(agreed);
    bst_free(text);
    return BST_OK;
}
