#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/core.h"

/* "64M" → bytes. What cannot be read is the default, and said. */
static size_t read_size(const char *text, size_t otherwise)
{
    char *end;
    unsigned long long v = strtoull(text, &end, 0);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (end == text || (shift ? end[1] : end[0])) {
        fprintf(stderr, "fake cuda: cannot read '%s'\n", text);
        return otherwise;
    }
    return (size_t)v << shift;
}

static size_t env_size(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? read_size(text, otherwise) : otherwise;
}

static void env_text(const char *name, char *out, size_t room)
{
    const char *text = getenv(name);
    if (text)
        snprintf(out, room, "%s", text);
}

/* One size for all, or one a device, separated by commas; the last one goes on. */
static void env_mem(struct fake_settings *s)
{
    char text[256] = "";
    env_text("BST_FAKE_MEM", text, sizeof text);
    char *save = NULL;
    char *part = strtok_r(text, ",", &save);
    for (int i = 0; i < FAKE_DEVICES_MAX; i++) {
        s->mem_bytes[i] = i ? s->mem_bytes[i - 1] : (size_t)64 << 20;
        if (part) {
            s->mem_bytes[i] = read_size(part, s->mem_bytes[i]);
            part = strtok_r(NULL, ",", &save);
        }
    }
}

static enum fake_guard env_guard(void)
{
    const char *text = getenv("BST_FAKE_GUARD");
    if (!text || !strcmp(text, "auto"))
        return FAKE_GUARD_AUTO;
    if (!strcmp(text, "keys"))
        return FAKE_GUARD_KEYS;
    if (!strcmp(text, "off"))
        return FAKE_GUARD_OFF;
    return FAKE_GUARD_PAGES;
}

void fake_settings_env(struct fake_settings *s)
{
    *s = (struct fake_settings){.name = "Fake H100", .sm_major = 9};
    s->devices = (int)env_size("BST_FAKE_DEVICES", 1);
    if (s->devices < 0 || s->devices > FAKE_DEVICES_MAX)
        s->devices = FAKE_DEVICES_MAX;
    env_mem(s);
    s->context_bytes = env_size("BST_FAKE_CONTEXT", 0);
    s->nccl_bytes = env_size("BST_FAKE_NCCL", 0);
    s->seed = env_size("BST_FAKE_SEED", 0);
    s->guard = env_guard();
    s->hang_ms = (int)env_size("BST_FAKE_HANG_MS", 60000);
    s->quiet = env_size("BST_FAKE_QUIET", 0) != 0;
    s->leaks = env_size("BST_FAKE_LEAKS", 0) != 0;
    env_text("BST_FAKE_NAME", s->name, sizeof s->name);
    int sm = (int)env_size("BST_FAKE_SM", 90);
    s->sm_major = sm / 10;
    s->sm_minor = sm % 10;
    env_text("BST_FAKE_FAIL", s->fail, sizeof s->fail);
    env_text("BST_FAKE_KERNELS", s->kernels, sizeof s->kernels);
}
