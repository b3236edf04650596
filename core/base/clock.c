#include "core/base/clock.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static atomic_bool faked;
static _Atomic double fake_seconds;

static double read_clock(clockid_t id)
{
    struct timespec t;
    if (atomic_load(&faked))
        return atomic_load(&fake_seconds);
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double bst_clock_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double bst_clock_wall(void)
{
    return read_clock(CLOCK_REALTIME);
}

void bst_clock_fake(bool on, double seconds)
{
    atomic_store(&fake_seconds, seconds);
    atomic_store(&faked, on);
}

void bst_clock_iso(double wall, char out[32])
{
    struct tm tm;
    time_t t = isfinite(wall) && fabs(wall) < 1e11 ? (time_t)floor(wall) : 0;
    gmtime_r(&t, &tm);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

void bst_clock_span(double seconds, char *out, size_t room)
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e12) {
        snprintf(out, room, "n/a");
        return;
    }
    long long s = llround(seconds);
    if (s < 60)
        snprintf(out, room, "%llds", s);
    else if (s < 3600)
        snprintf(out, room, "%lldm%02llds", s / 60, s % 60);
    else if (s < 100 * 3600)
        snprintf(out, room, "%lldh%02lldm", s / 3600, s / 60 % 60);
    else
        snprintf(out, room, "%lldd%02lldh", s / 86400, s / 3600 % 24);
}

void bst_clock_span_fine(double seconds, char *out, size_t room)
{
    if (seconds >= 0 && seconds < 9.95)
        snprintf(out, room, "%.*fs", seconds < 0.995 ? 2 : 1, seconds);
    else
        bst_clock_span(seconds, out, room);
}
