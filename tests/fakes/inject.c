#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/core.h"
#include "tests/fakes/runtime.h"

enum { RULES_MAX = 64, CALLS_MAX = 192 };

struct rule {
    char call[64];
    int device; /* -1: any */
    unsigned long nth;
    bool onwards;
    struct fake_verdict verdict;
    unsigned long seen;
};

static struct rule rules[RULES_MAX];
static int n_rules;
static _Thread_local struct fake_verdict now;
static struct fake_call_count calls[CALLS_MAX];
static int n_calls;
static unsigned long n_hits, n_hits_captured;

static bool read_what(const char *text, struct fake_verdict *out)
{
    char *end;
    *out = (struct fake_verdict){0};
    if (!strcmp(text, "hang")) {
        out->what = FAKE_HANG;
        return true;
    }
    if (!strcmp(text, "lost")) {
        out->what = FAKE_LOST;
        return true;
    }
    const char *is = strchr(text, '=');
    out->what = !is                          ? FAKE_RETURN
                : !strncmp(text, "late=", 5) ? FAKE_LATE
                : !strncmp(text, "xid=", 4)  ? FAKE_XID
                                             : FAKE_PASS;
    text = is ? is + 1 : text;
    out->code = (int)strtol(text, &end, 10);
    return end != text && !*end && out->code != 0 && out->what != FAKE_PASS;
}

/* CALL[@DEVICE]:NTH[+]:WHAT */
static bool read_rule(char *text, struct rule *r)
{
    *r = (struct rule){.device = -1};
    char *nth = strchr(text, ':');
    char *what = nth ? strchr(nth + 1, ':') : NULL;
    if (!what)
        return false;
    *nth++ = 0;
    *what++ = 0;
    char *at = strchr(text, '@');
    if (at) {
        *at = 0;
        r->device = (int)strtol(at + 1, NULL, 10);
    }
    snprintf(r->call, sizeof r->call, "%s", text);
    char *end;
    r->nth = strtoul(nth, &end, 10);
    r->onwards = *end == '+';
    return r->nth && !end[r->onwards] && read_what(what, &r->verdict);
}

void fake_count_call(const char *call, int device)
{
    int i = 0;
    while (i < n_calls && strcmp(calls[i].name, call))
        i++;
    if (i == CALLS_MAX || device >= FAKE_DEVICES_MAX)
        return;
    if (i == n_calls)
        snprintf(calls[n_calls++].name, sizeof calls[i].name, "%s", call);
    calls[i].n[device]++;
}

int fake_calls_get(struct fake_call_count *out, int room)
{
    fake_lock();
    int n = n_calls < room ? n_calls : room;
    memcpy(out, calls, (size_t)n * sizeof *out);
    fake_unlock();
    return n;
}

static unsigned long read_count(const unsigned long *count)
{
    fake_lock();
    unsigned long n = *count;
    fake_unlock();
    return n;
}

unsigned long fake_hits(void)
{
    return read_count(&n_hits);
}

unsigned long fake_hits_captured(void)
{
    return read_count(&n_hits_captured);
}

void fake_calls_reset(void)
{
    memset(calls, 0, sizeof calls);
    n_calls = 0;
    n_hits = n_hits_captured = 0;
}

void fake_fail_set(const char *text)
{
    fake_lock();
    char copy[sizeof fake_set.fail];
    snprintf(copy, sizeof copy, "%s", text);
    n_rules = 0;
    char *save = NULL;
    for (char *part = strtok_r(copy, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
        char said[128];
        snprintf(said, sizeof said, "%s", part);
        if (n_rules < RULES_MAX && read_rule(part, &rules[n_rules]))
            n_rules++;
        else
            fake_report("cannot read '%s' of BST_FAKE_FAIL", said);
    }
    fake_unlock();
}

struct fake_verdict fake_judge(const char *call, int device)
{
    struct fake_verdict verdict = {0};
    if (device < 0)
        device = fake_current_device();
    fake_count_call(call, device);
    for (int i = 0; i < n_rules; i++) {
        struct rule *r = &rules[i];
        if (strcmp(r->call, call) || (r->device >= 0 && r->device != device))
            continue;
        r->seen++;
        if (r->seen == r->nth || (r->onwards && r->seen > r->nth)) {
            verdict = r->verdict;
            n_hits++;
            n_hits_captured += capture_is_open_here();
        }
    }
    if (verdict.what == FAKE_XID) {
        fake_xid(device, (unsigned)verdict.code);
        verdict.what = FAKE_PASS;
    }
    now = verdict;
    return verdict;
}

struct fake_verdict fake_verdict_now(void)
{
    return now;
}

int fake_refuse(const char *call, int device)
{
    fake_lock();
    int at = device < 0 ? fake_current_device() : device;
    struct fake_verdict v = fake_judge(call, at);
    if (v.what == FAKE_LOST)
        fake_lose(at);
    fake_unlock();
    return v.what == FAKE_RETURN || v.what == FAKE_LATE ? v.code : 0;
}
