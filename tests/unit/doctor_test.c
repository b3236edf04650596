/* `bstune doctor` on machines that are not this one: with no GPU, with GPUs and no driver, with a
 * driver that gives them. argv[1] is the fake NVML. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/run/doctor.h"
#include "nets/nets.h"

#define NOWHERE "/nowhere/libnvidia-ml.so.1"

static const char *fake;
static struct bst_preset_env *env;
static char root[] = "/tmp/bst-doctor-XXXXXX";

static void put(const char *device, const char *file, const char *text)
{
    char *dir = bst_xasprintf("%s/sys/bus/pci/devices/%s", root, device);
    char *path = bst_xasprintf("%s/%s", dir, file);
    assert_int_equal(bst_io_make_dirs(dir, 0777), BST_OK);
    assert_int_equal(bst_io_replace_file(path, text, strlen(text)), BST_OK);
    bst_free(path);
    bst_free(dir);
}

static struct bst_doctor *examine_sets(const char *nvml, const char *preset,
                                       const char *const *sets, int n_sets)
{
    struct bst_doctor *d = bst_xalloc(sizeof *d);
    struct bst_preset_errors errs;
    const struct bst_doctor_cfg cfg = {.presets = env,
                                       .nets = &net_table,
                                       .preset = preset,
                                       .sets = sets,
                                       .n_sets = n_sets,
                                       .nvml = nvml,
                                       .root = root};
    bst_preset_errors_init(&errs);
    if (bst_doctor_examine(&cfg, d, &errs))
        fail_msg("%s", bst_err_text());
    bst_preset_errors_fini(&errs);
    return d;
}

static struct bst_doctor *examine_with(const char *nvml, const char *preset, const char *set)
{
    return examine_sets(nvml, preset, &set, set ? 1 : 0);
}

static struct bst_doctor *examine(const char *nvml, const char *preset)
{
    return examine_with(nvml, preset, NULL);
}

static const struct bst_finding *find(const struct bst_doctor *d, const char *name)
{
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->findings[i].name, name))
            return &d->findings[i];
    return NULL;
}

static void must_be(const struct bst_doctor *d, const char *name, enum bst_finding_state state,
                    const char *word)
{
    const struct bst_finding *f = find(d, name);
    if (!f || f->state != state || !strstr(f->text, word))
        fail_msg("%s is %s: %s", name, f ? bst_finding_state_name(f->state) : "not there",
                 f ? f->text : "");
}

static void without_a_gpu_nothing_of_it_is_missing(void **state)
{
    (void)state;
    struct bst_doctor *d = examine(NOWHERE, "quickstart");
    must_be(d, "processor", BST_FINDING_OK, "core");
    must_be(d, "memory", BST_FINDING_OK, "iB to use");
    must_be(d, "oneDNN", BST_FINDING_OK, "oneDNN 2");
    must_be(d, "GPU", BST_FINDING_NONE, "no NVIDIA device");
    must_be(d, "driver", BST_FINDING_NONE, "not installed");
    assert_int_equal(d->n_missing, 0);
    bst_free(d);
}

/* What a preset asks for is needed, whether it is here or not. */
static void a_gpu_that_is_asked_for_is_missing(void **state)
{
    (void)state;
    struct bst_doctor *d = examine_with(NOWHERE, "quickstart", "devices.backend=cuda");
    must_be(d, "GPU", BST_FINDING_MISSING, "quickstart asks for 1 (devices.backend: cuda), 0 are");
    must_be(d, "driver", BST_FINDING_MISSING, "not installed");
    must_be(d, "processor", BST_FINDING_OK, "core");
    must_be(d, "data", BST_FINDING_OK, "to train on");
    assert_true(d->n_missing >= 2);
    bst_free(d);
}

/* What changes nothing is told of a preset for GPUs as of one for the processor, here or not. */
static void keys_of_another_optimizer_are_told(void **state)
{
    static const char *const backends[] = {"devices.backend=cpu", "devices.backend=cuda"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *sets[] = {backends[i], "beta1=0.8"};
        struct bst_doctor *d = examine_sets(NOWHERE, "quickstart", sets, 2);
        must_be(d, "preset", BST_FINDING_NONE, "beta1 is no setting of sgd, and changes nothing");
        bst_free(d);
    }
    const char *capture[] = {"devices.backend=cuda", "devices.capture=true"};
    struct bst_doctor *d = examine_sets(NOWHERE, "quickstart", capture, 2);
    assert_null(find(d, "preset"));
    bst_free(d);
}

/* devices.count is the whole run's: two such machines may have together what one has not. */
static void a_run_over_several_machines_is_no_lack_of_one(void **state)
{
    const char *sets[] = {"devices.backend=cuda", "devices.count=2"};
    (void)state;
    put("0000:3b:00.0", "vendor", "0x10de\n");
    put("0000:3b:00.0", "class", "0x030200\n");
    struct bst_doctor *d = examine_sets(NOWHERE, "quickstart", sets, 2);
    must_be(d, "GPU", BST_FINDING_MISSING,
            "asks for 2 in all (devices.count), 1 is on the bus: enough "
            "as one of 2 such machines");
    bst_free(d);
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    d = examine_sets(NOWHERE, "quickstart", sets, 2);
    must_be(d, "GPU", BST_FINDING_OK, "1 on the bus; quickstart asks for 2 in all");
    bst_free(d);
    unsetenv("SLURM_STEP_NUM_TASKS");
}

/* A network card of NVIDIA's and another maker's display are no GPUs of NVIDIA's. */
static void what_is_on_the_bus_needs_its_driver(void **state)
{
    (void)state;
    put("0000:01:00.0", "vendor", "0x10de\n");
    put("0000:01:00.0", "class", "0x020000\n");
    put("0000:02:00.0", "vendor", "0x1002\n");
    put("0000:02:00.0", "class", "0x030000\n");
    struct bst_doctor *d = examine(NOWHERE, "quickstart");
    must_be(d, "driver", BST_FINDING_NONE, "not installed");
    bst_free(d);
    put("0000:3b:00.0", "vendor", "0x10de\n");
    put("0000:3b:00.0", "class", "0x030200\n");
    d = examine(NOWHERE, "quickstart");
    assert_null(find(d, "GPU"));
    must_be(d, "driver", BST_FINDING_MISSING, "not installed");
    assert_true(d->n_missing >= 1);
    bst_free(d);
}

static void devices_are_told_by_uuid(void **state)
{
    (void)state;
    struct bst_doctor *d = examine(fake, "quickstart");
    must_be(d, "driver", BST_FINDING_OK, "NVIDIA 570.86.15, for CUDA up to 12.8");
    must_be(d, "device 0", BST_FINDING_OK,
            "NVIDIA A100-SXM4-80GB GPU-11111111-2222-3333-4444-555555555555, 80.00 GiB, MIG off, "
            "ECC on, 1 memory errors not corrected since the driver was loaded, 61 °C, slowed "
            "down: power limit, overheated");
    must_be(d, "device 1", BST_FINDING_OK,
            "MIG-88888888-2222-3333-4444-555555555555, 40.00 GiB, "
            "MIG on, ECC n/a");
    must_be(d, "device 3", BST_FINDING_OK, "NVIDIA H200");
    assert_null(find(d, "device 4"));
    struct bst_sb text;
    bst_sb_init(&text, 1 << 16);
    bst_doctor_print_json(d, &text);
    assert_non_null(strstr(text.data, "{\"name\":\"device 3\",\"state\":\"ok\",\"text\":\"NVIDIA"));
    bst_sb_fini(&text);
    bst_free(d);
}

static void data_that_are_not_here_are_missing(void **state)
{
    (void)state;
    struct bst_doctor *d = examine(NOWHERE, "resnet50-256");
    must_be(d, "data", BST_FINDING_MISSING, "imagefolder of resnet50-256");
    bst_free(d);
    d = examine(NOWHERE, "bert-8192");
    must_be(d, "data", BST_FINDING_MISSING, "tokens of bert-8192");
    bst_free(d);
    d = examine_with(NOWHERE, "gpt2-124m", "data.path=/nowhere/at.all");
    must_be(d, "data", BST_FINDING_MISSING, "/nowhere/at.all");
    bst_free(d);
    d = examine(NOWHERE, "quickstart-addition");
    must_be(d, "data", BST_FINDING_OK, "100000 sequences to train on, 2000 to evaluate, of 12");
    bst_free(d);
    struct bst_preset_errors errs;
    struct bst_doctor none;
    const struct bst_doctor_cfg cfg = {.presets = env, .nets = &net_table, .preset = "no-such"};
    bst_preset_errors_init(&errs);
    assert_int_equal(bst_doctor_examine(&cfg, &none, &errs), BST_E_NOTFOUND);
    assert_int_equal(errs.n, 1);
    bst_preset_errors_fini(&errs);
}

/* A file that is there is not missing: three bytes are no tokens of two. */
static void data_that_cannot_be_used_are_bad(void **state)
{
    (void)state;
    char *path = bst_xasprintf("%s/odd.bin", root), *set = bst_xasprintf("data.path=%s", path);
    assert_int_equal(bst_io_replace_file(path, "abc", 3), BST_OK);
    struct bst_doctor *d = examine_with(NOWHERE, "gpt2-124m", set);
    must_be(d, "data", BST_FINDING_BAD, "3 bytes are not whole tokens of 2 bytes");
    assert_int_equal(d->n_bad, 1);
    struct bst_sb text;
    bst_sb_init(&text, 1 << 16);
    bst_doctor_print_json(d, &text);
    assert_non_null(strstr(text.data, "{\"name\":\"data\",\"state\":\"bad\""));
    assert_non_null(strstr(text.data, "\"bad\":1}"));
    bst_sb_fini(&text);
    bst_free(d);
    bst_free(set);
    bst_free(path);
}

/* What a key asks of another backend or another optimizer is said, not done. */
static void keys_that_change_nothing_are_said(void **state)
{
    (void)state;
    static const char *const sets[][2] = {
        {"devices.capture=true", "devices.capture is for cuda, and changes nothing on cpu"},
        {"deterministic=false", "deterministic is for cuda, and changes nothing on cpu"},
        {"momentum=0.8", "momentum is no setting of adamw, and changes nothing"},
        {"devices.capture=false", NULL},
        {"beta1=0.8", NULL},
        {"warmup_steps=10", NULL},
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct bst_doctor *d = examine_with(NOWHERE, "quickstart-addition", sets[i][0]);
        if (sets[i][1])
            must_be(d, "preset", BST_FINDING_NONE, sets[i][1]);
        else
            assert_null(find(d, "preset"));
        bst_free(d);
    }
}

static int open_env(void **state)
{
    (void)state;
    setenv("BSTUNE_PRESET_DIR", "presets", 1); /* tests run in the source folder */
    env = bst_preset_env_new(&net_table);
    return mkdtemp(root) ? 0 : -1;
}

static int close_env(void **state)
{
    (void)state;
    bst_preset_env_free(env);
    return bst_io_remove_tree(root) ? -1 : 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_gpu_nothing_of_it_is_missing),
        cmocka_unit_test(a_gpu_that_is_asked_for_is_missing),
        cmocka_unit_test(keys_of_another_optimizer_are_told),
        cmocka_unit_test(what_is_on_the_bus_needs_its_driver),
        cmocka_unit_test(a_run_over_several_machines_is_no_lack_of_one),
        cmocka_unit_test(devices_are_told_by_uuid),
        cmocka_unit_test(data_that_are_not_here_are_missing),
        cmocka_unit_test(data_that_cannot_be_used_are_bad),
        cmocka_unit_test(keys_that_change_nothing_are_said),
    };
    fake = argc > 1 ? argv[1] : "";
    return cmocka_run_group_tests(tests, open_env, close_env);
}
