#include "core/run/doctor.h"

#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/backend/nvml.h"
#include "core/backend/plan_for.h"
#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/comm/cluster.h"
#include "core/run/field.h"
#include "core/run/start.h"
#include "core/train/host.h"

struct examination {
    const struct bst_doctor_cfg *cfg;
    struct bst_doctor *d;
    struct bst_preset preset;
    struct bst_start start;
    struct bst_train_cfg train;
    int n_gpus; /* on the bus */
    int wanted; /* GPUs that the preset asks for */
};

const char *bst_finding_state_name(enum bst_finding_state state)
{
    static const char *const names[] = {
#define X(name, word) word,
        BST_FINDING_STATES(X)
#undef X
    };
    return (size_t)state < sizeof names / sizeof names[0] ? names[state] : "?";
}

void bst_doctor_add(struct bst_doctor *d, const char *name, enum bst_finding_state state,
                    const char *fmt, ...)
{
    struct bst_sb text;
    va_list ap;
    if (d->n == BST_DOCTOR_FINDINGS)
        return;
    struct bst_finding *f = &d->findings[d->n++];
    bst_sb_init(&text, 4096);
    va_start(ap, fmt);
    bst_sb_addv(&text, fmt, ap);
    va_end(ap);
    *f = (struct bst_finding){.state = state};
    bst_copy_text(f->name, sizeof f->name, name);
    bst_copy_clean(f->text, sizeof f->text, text.data);
    bst_sb_fini(&text);
    d->n_missing += state == BST_FINDING_MISSING;
    d->n_bad += state == BST_FINDING_BAD;
}

/* Missing where a GPU is here to be used, or asked for; else none. */
static enum bst_finding_state lacking(const struct examination *x)
{
    return x->n_gpus || x->wanted ? BST_FINDING_MISSING : BST_FINDING_NONE;
}

static void look_at_cpu(struct examination *x)
{
    const struct bst_backend *b = bst_backend_find("cpu");
    const struct bst_be_cfg cfg = {.threads = 1};
    struct bst_be *be = NULL;
    struct bst_device_info info;
    char memory[32];
    if (b->open(&cfg, &be)) {
        bst_doctor_add(x->d, "processor", BST_FINDING_MISSING, "%s", bst_err_text());
        return;
    }
    b->info(be, &info);
    b->close(be);
    int cores = bst_host_cores();
    bst_doctor_add(x->d, "processor", BST_FINDING_OK, "%s, %d core%s to use, vector code: %s",
                   info.name, cores, cores == 1 ? "" : "s", info.isa);
    bst_text_bytes(bst_host_memory(), memory);
    bst_doctor_add(x->d, "memory", BST_FINDING_OK, "%s to use", memory);
    bst_doctor_add(x->d, "oneDNN", BST_FINDING_OK, "%s", info.library);
}

static bool file_begins(const char *folder, const char *device, const char *file, const char *with)
{
    char *path = bst_xasprintf("%s/%s/%s", folder, device, file), *text = NULL;
    size_t n = 0;
    bool same = !bst_io_read_file(path, 256, &text, &n) && !strncmp(text, with, strlen(with));
    bst_free(text);
    bst_free(path);
    return same;
}

/* NVIDIA's display controllers on the bus (class 0x03…), whether a driver knows them or not. */
static int count_gpus(const char *root)
{
    char *folder = bst_xasprintf("%s/sys/bus/pci/devices", root);
    DIR *dir = opendir(folder);
    int n = 0;
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        n += e->d_name[0] != '.' && file_begins(folder, e->d_name, "vendor", "0x10de") &&
             file_begins(folder, e->d_name, "class", "0x03");
    }
    if (dir)
        closedir(dir);
    bst_free(folder);
    return n;
}

static const char *mode(enum bst_nvml_mode m)
{
    return m == BST_NVML_ON ? "on" : m == BST_NVML_OFF ? "off" : "n/a";
}

static void look_at_device(struct examination *x, struct bst_nvml *n, int i)
{
    const struct bst_nvml_identity *id = bst_nvml_at(n, i);
    struct bst_nvml_reading r;
    char memory[32] = "n/a", name[24], why[96];
    struct bst_sb text;
    bst_nvml_read(n, i, &r);
    snprintf(name, sizeof name, "device %d", i);
    if (r.lost) {
        bst_doctor_add(x->d, name, BST_FINDING_MISSING,
                       "%s %s has fallen off the bus: restart the machine", id->name, id->uuid);
        return;
    }
    if (id->memory.valid)
        bst_text_bytes((uint64_t)id->memory.value, memory);
    bst_sb_init(&text, 1024);
    bst_sb_addf(&text, "%s %s, %s, MIG %s, ECC %s", id->name, id->uuid, memory, mode(id->mig),
                mode(id->ecc));
    if (r.ecc_uncorrected.valid && r.ecc_uncorrected.value > 0)
        bst_sb_addf(&text, ", %.0f memory errors not corrected since the driver was loaded",
                    r.ecc_uncorrected.value);
    if (r.temperature.valid)
        bst_sb_addf(&text, ", %.0f °C", r.temperature.value);
    bst_nvml_throttle_text(r.throttle, why);
    if (r.throttle_valid && *why)
        bst_sb_addf(&text, ", slowed down: %s", why);
    bst_doctor_add(x->d, name, BST_FINDING_OK, "%s", text.data);
    bst_sb_fini(&text);
}

static void look_at_gpus(struct examination *x)
{
    struct bst_nvml *n = NULL;
    enum bst_err err = bst_nvml_open(x->cfg->nvml, &n);
    int count = err ? 0 : bst_nvml_count(n);
    x->n_gpus = count_gpus(x->cfg->root ? x->cfg->root : "");
    if (x->n_gpus < count)
        x->n_gpus = count; /* in a container that does not see the bus */
    /* devices.count is the whole run's; how many are this machine's is known when it is dealt. */
    if (x->n_gpus < x->wanted && x->n_gpus && bst_cluster_asked())
        bst_doctor_add(
            x->d, "GPU", BST_FINDING_OK,
            "%d on the bus; %s asks for %d in all (devices.count), dealt to the processes "
            "in equal parts",
            x->n_gpus, x->cfg->preset, x->wanted);
    else if (x->n_gpus && x->wanted > x->n_gpus && x->wanted % x->n_gpus == 0)
        bst_doctor_add(x->d, "GPU", BST_FINDING_MISSING,
                       "%s asks for %d in all (devices.count), %d %s on the bus: enough as one of "
                       "%d such machines (mpirun or srun), not alone",
                       x->cfg->preset, x->wanted, x->n_gpus, x->n_gpus == 1 ? "is" : "are",
                       x->wanted / x->n_gpus);
    else if (x->n_gpus < x->wanted)
        bst_doctor_add(x->d, "GPU", BST_FINDING_MISSING,
                       "%s asks for %d (devices.backend: cuda), %d %s on the bus", x->cfg->preset,
                       x->wanted, x->n_gpus, x->n_gpus == 1 ? "is" : "are");
    else if (!x->n_gpus)
        bst_doctor_add(x->d, "GPU", BST_FINDING_NONE,
                       "no NVIDIA device on the bus; nets train on the processor");
    if (err)
        bst_doctor_add(x->d, "driver", lacking(x), "%s", bst_err_text());
    else
        bst_doctor_add(x->d, "driver", BST_FINDING_OK, "NVIDIA %s, for CUDA up to %d.%d",
                       bst_nvml_driver(n), bst_nvml_cuda(n) / 1000, bst_nvml_cuda(n) % 1000 / 10);
    if (!err && x->n_gpus && !count)
        bst_doctor_add(x->d, "GPU", BST_FINDING_MISSING,
                       "%d on the bus, but the driver gives none to this user or container",
                       x->n_gpus);
    for (int i = 0; i < count; i++)
        look_at_device(x, n, i);
    bst_nvml_close(n);
}

static void look_at_cudnn(struct examination *x)
{
    char version[32];
    if (bst_backend_cudnn_version(version))
        bst_doctor_add(x->d, "cuDNN", lacking(x), "%s", bst_err_text());
    else
        bst_doctor_add(x->d, "cuDNN", BST_FINDING_OK, "%s", version);
}

/* By its own function, since no header of it is known here. */
static void look_at_nccl(struct examination *x)
{
    void *library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL), *at = NULL;
    int (*get)(int *version) = NULL;
    int v = 0;
    if (library && (at = dlsym(library, "ncclGetVersion")))
        memcpy(&get, &at, sizeof get);
    if (get && !get(&v))
        bst_doctor_add(x->d, "NCCL", BST_FINDING_OK, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    else
        bst_doctor_add(x->d, "NCCL",
                       x->n_gpus > 1 || x->wanted > 1 ? BST_FINDING_MISSING : BST_FINDING_NONE,
                       "not installed (no libnccl.so.2); several GPUs need it");
    if (library)
        dlclose(library);
}

/* One process needs none. */
static void look_at_mpi(struct examination *x)
{
    char text[200];
    if (bst_cluster_library(text, sizeof text))
        bst_doctor_add(x->d, "MPI", BST_FINDING_NONE, "%s; a run is one process without it",
                       bst_err_text());
    else
        bst_doctor_add(x->d, "MPI", BST_FINDING_OK, "%s", text);
}

static void look_at_backend(struct examination *x)
{
    const struct bst_backend *b = NULL;
    if (!bst_backend_get("cuda", &b))
        bst_doctor_add(x->d, "CUDA backend", BST_FINDING_OK, "in this build");
    else if (*BST_CUDA_MISSING)
        bst_doctor_add(x->d, "CUDA backend", lacking(x),
                       "not in this build; not found when it was made: %s", BST_CUDA_MISSING);
    else /* built, and not to be loaded: the library that it misses, or where it was looked for */
        bst_doctor_add(x->d, "CUDA backend", lacking(x), "%s", bst_err_text());
}

/* Keys that change nothing with the preset's backend, which may not be here. */
static void look_at_keys(struct examination *x)
{
    static const struct bst_backend cuda = {.name = "cuda", .own_memory = true};
    struct bst_sb unused;
    bst_sb_init(&unused, 1024);
    bst_start_unused(&x->preset, x->wanted ? &cuda : x->train.backend, &unused);
    if (unused.len)
        bst_doctor_add(x->d, "preset", BST_FINDING_NONE, "%s", unused.data);
    bst_sb_fini(&unused);
}

static void look_at_data(struct examination *x)
{
    struct bst_dataset *ds = NULL;
    x->train.data.input = x->train.net->input;
    enum bst_err err = bst_start_say_data(&x->preset, bst_dataset_open(&x->train.data, &ds));
    if (err) {
        /* Without a path there is nothing that could be wrong. */
        bool missing = err == BST_E_NOTFOUND || !x->train.data.path;
        bst_doctor_add(x->d, "data", missing ? BST_FINDING_MISSING : BST_FINDING_BAD,
                       "%s of %s: %s", x->preset.data.format, x->cfg->preset, bst_err_text());
        return;
    }
    const struct bst_data_info *i = bst_dataset_info(ds);
    if (i->streams)
        bst_doctor_add(x->d, "data", BST_FINDING_OK,
                       "%s of %s: %" PRId64 " sequences to train on, %" PRId64
                       " to evaluate, of %d tokens, vocabulary %d",
                       x->preset.data.format, x->cfg->preset, i->n[BST_TRAIN], i->n[BST_EVAL],
                       i->length[0], i->classes);
    else
        bst_doctor_add(x->d, "data", i->note[0] ? BST_FINDING_NONE : BST_FINDING_OK,
                       "%s of %s: %" PRId64 " images to train on, %" PRId64
                       " to evaluate, %dx%dx%d, %d classes%s%s",
                       x->preset.data.format, x->cfg->preset, i->n[BST_TRAIN], i->n[BST_EVAL],
                       i->channels, i->height, i->width, i->classes, i->note[0] ? "; " : "",
                       i->note);
    bst_dataset_close(ds);
}

/* What cannot be loaded is a finding, and no reason to look no further. */
static void take_wishes(struct examination *x)
{
    if (strcmp(x->preset.devices.backend, "cuda") != 0)
        return;
    x->wanted = (int)x->preset.devices.count;
    bst_copy_text(x->preset.devices.backend, sizeof x->preset.devices.backend, "auto");
}

enum bst_err bst_doctor_examine(const struct bst_doctor_cfg *cfg, struct bst_doctor *out,
                                struct bst_preset_errors *errs)
{
    struct examination *x = bst_xalloc(sizeof *x);
    *out = (struct bst_doctor){0};
    x->cfg = cfg;
    x->d = out;
    enum bst_err err =
        bst_preset_load(cfg->presets, cfg->preset, cfg->sets, cfg->n_sets, &x->preset, errs);
    if (!err)
        take_wishes(x);
    if (!err)
        err = bst_start_train_cfg(&x->preset, cfg->nets, &x->start, &x->train);
    if (!err) {
        look_at_cpu(x);
        look_at_keys(x);
        look_at_gpus(x);
        look_at_backend(x);
        look_at_cudnn(x);
        look_at_nccl(x);
        look_at_mpi(x);
        look_at_data(x);
    }
    bst_free(x);
    return err;
}

void bst_doctor_print_json(const struct bst_doctor *d, struct bst_sb *out)
{
    struct bst_json j;
    bst_json_init(&j, out);
    bst_json_open(&j, NULL, '{');
    bst_json_open(&j, "findings", '[');
    for (int i = 0; i < d->n; i++) {
        const struct bst_finding *f = &d->findings[i];
        bst_json_open(&j, NULL, '{');
        bst_json_str(&j, "name", f->name);
        bst_json_str(&j, "state", bst_finding_state_name(f->state));
        bst_json_str(&j, "text", f->text);
        bst_json_close(&j, '}');
    }
    bst_json_close(&j, ']');
    bst_json_int(&j, "missing", d->n_missing);
    bst_json_int(&j, "bad", d->n_bad);
    bst_json_close(&j, '}');
}
