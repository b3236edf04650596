#include "core/run/monitor.h"

#include "core/backend/nvml.h"
#include "core/base/alloc.h"

#define PERIOD_SECONDS 1.0

struct bst_monitor {
    struct bst_nvml_watch *watch;
    int n;
};

struct bst_monitor *bst_monitor_open(const char *const *uuids, int n, const char *nvml)
{
    struct bst_nvml *library = NULL;
    struct bst_nvml_watch *watch = NULL;
    bool any = false;
    for (int i = 0; i < n; i++)
        any |= uuids[i][0] != '\0';
    if (!any || bst_nvml_open(nvml, &library) ||
        bst_nvml_watch_open(library, uuids, n, PERIOD_SECONDS, &watch))
        return NULL;
    struct bst_monitor *m = bst_xalloc(sizeof *m);
    *m = (struct bst_monitor){watch, n};
    return m;
}

void bst_monitor_close(struct bst_monitor *m)
{
    if (!m)
        return;
    bst_nvml_watch_close(m->watch);
    bst_free(m);
}

static struct bst_metric metric(struct bst_nvml_value v)
{
    return (struct bst_metric){v.value, v.valid};
}

bool bst_monitor_fill(struct bst_monitor *m, int device, struct bst_status_device *d)
{
    struct bst_nvml_reading r;
    if (!m || device >= m->n)
        return false;
    if (!bst_nvml_watch_read(m->watch, device, &r))
        return true; /* nothing yet */
    d->driver_memory_used = metric(r.memory_used);
    d->driver_memory_total = metric(r.memory_total);
    d->utilisation = metric(r.utilisation);
    d->temperature = metric(r.temperature);
    d->power = metric(r.power);
    d->sm_clock = metric(r.sm_clock);
    d->memory_clock = metric(r.memory_clock);
    d->ecc_uncorrected = metric(r.ecc_uncorrected);
    bst_nvml_throttle_text(r.throttle, d->throttle);
    return true;
}

bool bst_monitor_error(struct bst_monitor *m, int *device, unsigned *xid)
{
    struct bst_nvml_xid x;
    if (!m || !bst_nvml_watch_xid(m->watch, &x))
        return false;
    *device = x.device;
    *xid = (unsigned)x.xid;
    return true;
}
