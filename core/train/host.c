#include "core/train/host.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"

#define FILE_CAP (64u << 10)

/* Text of root/path, or NULL; freed by the caller. */
static char *read_text(const char *root, const char *path)
{
    char *full = bst_xasprintf("%s/%s", root, path);
    char *text = NULL;
    size_t n = 0;
    enum bst_err err = bst_io_read_file(full, FILE_CAP, &text, &n);
    bst_free(full);
    return err ? NULL : text;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a && (!b || a < b) ? a : b;
}

/* One cgroup's limit on what `file` says; 0: none. */
typedef uint64_t limit_reader(const char *root, const char *group);

static uint64_t number_in(const char *root, const char *group, const char *file)
{
    char *path = bst_xasprintf("%s/%s", group, file);
    char *text = read_text(root, path);
    uint64_t v = 0;
    /* "max" (v2) and the page-rounded INT64_MAX of v1 both mean no limit; -1 is v1's for a quota.
     */
    if (!text || sscanf(text, "%" SCNu64, &v) != 1 || v > INT64_MAX / 2)
        v = 0;
    bst_free(text);
    bst_free(path);
    return v;
}

static uint64_t memory_v2(const char *root, const char *group)
{
    return number_in(root, group, "memory.max");
}

static uint64_t memory_v1(const char *root, const char *group)
{
    return number_in(root, group, "memory.limit_in_bytes");
}

/* Whole cores; a share of one counts as one. */
static uint64_t cores_of(uint64_t quota, uint64_t period)
{
    if (!quota || !period)
        return 0;
    return quota / period ? quota / period : 1;
}

static uint64_t cores_v2(const char *root, const char *group)
{
    char *path = bst_xasprintf("%s/cpu.max", group);
    char *text = read_text(root, path);
    uint64_t quota = 0, period = 0;
    if (!text || sscanf(text, "%" SCNu64 " %" SCNu64, &quota, &period) != 2)
        quota = 0;
    bst_free(text);
    bst_free(path);
    return cores_of(quota, period);
}

static uint64_t cores_v1(const char *root, const char *group)
{
    return cores_of(number_in(root, group, "cpu.cfs_quota_us"),
                    number_in(root, group, "cpu.cfs_period_us"));
}

/* The least limit from mount/path up to the mount itself: a parent's binds its children. */
static uint64_t up_the_tree(const char *root, const char *mount, const char *path,
                            limit_reader *read)
{
    uint64_t limit = 0;
    char *group = bst_xasprintf("%s%s", mount, path);
    size_t floor = strlen(mount);
    for (;;) {
        limit = least(limit, read(root, group));
        char *slash = strrchr(group, '/');
        if (strlen(group) <= floor || !slash)
            break;
        *slash = '\0';
    }
    bst_free(group);
    return limit;
}

/* Whether `name` is one of the comma-separated controllers. */
static bool has_controller(const char *list, size_t n, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i + len <= n; i++) {
        if ((i == 0 || list[i - 1] == ',') && !strncmp(list + i, name, len) &&
            (i + len == n || list[i + len] == ','))
            return true;
    }
    return false;
}

/* A line of /proc/self/cgroup is "id:controllers:path"; no controllers: version 2. */
static uint64_t cgroup_limit(const char *root, const char *controller, const char *mount_v1,
                             limit_reader *v1, limit_reader *v2)
{
    uint64_t limit = 0;
    char *text = read_text(root, "proc/self/cgroup");
    char *save = NULL;
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        list++;
        /* In a container the path is the host's while the mount shows the container's own group. */
        if (path == list) {
            limit = least(limit, up_the_tree(root, "sys/fs/cgroup", path + 1, v2));
        } else if (has_controller(list, (size_t)(path - list), controller)) {
            limit = least(limit, up_the_tree(root, mount_v1, path + 1, v1));
        }
    }
    bst_free(text);
    return limit;
}

int bst_host_cores_at(const char *root, int mask)
{
    uint64_t quota = cgroup_limit(root, "cpu", "sys/fs/cgroup/cpu", cores_v1, cores_v2);
    int n = mask < 1 ? 1 : mask;
    return quota && quota < (uint64_t)n ? (int)quota : n;
}

uint64_t bst_host_memory_at(const char *root)
{
    uint64_t available = 0;
    char *text = read_text(root, "proc/meminfo");
    const char *at = text ? strstr(text, "MemAvailable:") : NULL;
    if (at && sscanf(at, "MemAvailable: %" SCNu64, &available) == 1)
        available *= 1024; /* the file counts KiB */
    bst_free(text);
    return least(available,
                 cgroup_limit(root, "memory", "sys/fs/cgroup/memory", memory_v1, memory_v2));
}

int bst_host_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int mask = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return bst_host_cores_at("", mask);
}

uint64_t bst_host_memory(void)
{
    return bst_host_memory_at("");
}

uint64_t bst_host_resident(void)
{
    uint64_t kib = 0;
    char *text = read_text("", "proc/self/status");
    const char *at = text ? strstr(text, "VmRSS:") : NULL;
    if (at && sscanf(at, "VmRSS: %" SCNu64, &kib) == 1)
        kib *= 1024;
    bst_free(text);
    return kib;
}
