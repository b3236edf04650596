/* NVML's readings once a period on a thread of their own: a call into a driver that is in trouble
 * may take seconds, and must not hold up an update. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/backend/nvml_calls.h"
#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/thread.h"

#define CLOSE_SECONDS 3.0
enum { XIDS = 32 };

struct bst_nvml_watch {
    struct bst_nvml *n; /* the thread's */
    nvml_handle events; /* NULL: the driver has none */
    int n_devices;
    int devices[BST_NVML_DEVICES]; /* in n, or -1 */
    double period;
    pthread_t thread;

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t wake;
    bool stop, read;
    struct bst_nvml_reading readings[BST_NVML_DEVICES];
    struct bst_nvml_xid xids[XIDS]; /* a ring; of more than fit the oldest stay */
    int first_xid, n_xids;
};

static int device_of(const struct bst_nvml_watch *w, nvml_handle d)
{
    for (int i = 0; i < w->n_devices; i++) {
        if (w->devices[i] >= 0 && w->n->handles[w->devices[i]] == d)
            return i;
    }
    return -1;
}

static void take_events(struct bst_nvml_watch *w)
{
    struct nvml_event e;
    /* One that is at hand; a wait of 0 ms comes back at once with a time-out when there is none. */
    while (w->events && !NVML_CALL(w->n, EventSetWait_v2, w->events, &e, 0)) {
        if (e.type != NVML_EVENT_XID)
            continue;
        pthread_mutex_lock(&w->lock);
        if (w->n_xids < XIDS)
            w->xids[(w->first_xid + w->n_xids++) % XIDS] =
                (struct bst_nvml_xid){device_of(w, e.device), e.data, bst_clock_now()};
        pthread_mutex_unlock(&w->lock);
    }
}

static void read_all(struct bst_nvml_watch *w)
{
    struct bst_nvml_reading r[BST_NVML_DEVICES];
    memset(r, 0, sizeof r);
    for (int i = 0; i < w->n_devices; i++) {
        if (w->devices[i] >= 0)
            bst_nvml_read(w->n, w->devices[i], &r[i]);
    }
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < w->n_devices; i++)
        w->readings[i] = r[i];
    w->read = true;
    pthread_mutex_unlock(&w->lock);
}

/* Until the next turn is due; false: it is to stop. */
static bool sleep_until_due(struct bst_nvml_watch *w)
{
    struct timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    double seconds = (double)due.tv_nsec / 1e9 + w->period;
    due.tv_sec += (time_t)seconds;
    due.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9);
    pthread_mutex_lock(&w->lock);
    while (!w->stop && pthread_cond_timedwait(&w->wake, &w->lock, &due) != ETIMEDOUT)
        ;
    bool go_on = !w->stop;
    pthread_mutex_unlock(&w->lock);
    return go_on;
}

static void *run(void *arg)
{
    struct bst_nvml_watch *w = arg;
    pthread_setname_np(pthread_self(), "bst-nvml");
    do {
        take_events(w);
        read_all(w);
    } while (sleep_until_due(w));
    return NULL;
}

static void register_events(struct bst_nvml_watch *w)
{
    if (NVML_CALL(w->n, EventSetCreate, &w->events)) {
        w->events = NULL;
        return;
    }
    for (int i = 0; i < w->n_devices; i++) {
        /* An instance of MIG has none of its own; its errors are known by other ways. */
        if (w->devices[i] >= 0)
            (void)NVML_CALL(w->n, DeviceRegisterEvents, w->n->handles[w->devices[i]],
                            NVML_EVENT_XID, w->events);
    }
}

static enum bst_err start(struct bst_nvml_watch *w)
{
    pthread_condattr_t attr;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &attr);
    pthread_condattr_destroy(&attr);
    return bst_thread_start(&w->thread, run, w);
}

static void free_watch(struct bst_nvml_watch *w)
{
    if (w->events)
        (void)NVML_CALL(w->n, EventSetFree, w->events);
    bst_nvml_close(w->n);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    bst_free(w);
}

enum bst_err bst_nvml_watch_open(struct bst_nvml *n, const char *const *uuids, int n_uuids,
                                 double period, struct bst_nvml_watch **out)
{
    BST_ASSERT(n_uuids <= BST_NVML_DEVICES);
    struct bst_nvml_watch *w = bst_xalloc(sizeof *w);
    *out = NULL;
    w->n = n;
    w->period = period;
    w->n_devices = n_uuids;
    for (int i = 0; i < n_uuids; i++)
        w->devices[i] = bst_nvml_find(n, uuids[i]);
    register_events(w);
    enum bst_err err = start(w);
    if (err)
        free_watch(w);
    else
        *out = w;
    return err;
}

void bst_nvml_watch_close(struct bst_nvml_watch *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    if (bst_thread_join_within(w->thread, CLOSE_SECONDS))
        free_watch(w);
}

bool bst_nvml_watch_read(struct bst_nvml_watch *w, int i, struct bst_nvml_reading *out)
{
    BST_ASSERT(i >= 0 && i < w->n_devices);
    pthread_mutex_lock(&w->lock);
    bool read = w->read;
    *out = w->readings[i];
    pthread_mutex_unlock(&w->lock);
    return read;
}

bool bst_nvml_watch_xid(struct bst_nvml_watch *w, struct bst_nvml_xid *out)
{
    pthread_mutex_lock(&w->lock);
    bool any = w->n_xids > 0;
    if (any) {
        *out = w->xids[w->first_xid];
        w->first_xid = (w->first_xid + 1) % XIDS;
        w->n_xids--;
    }
    pthread_mutex_unlock(&w->lock);
    return any;
}
