/* Files that describe GPUs: those shipped, one's own, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/io.h"
#include "core/run/gpu.h"
#include "nets/nets.h"

static struct bst_preset_env *env;
static char path[] = "/tmp/bst-gpu-XXXXXX.json";

static enum bst_err load_text(const char *text, struct bst_gpu *g)
{
    assert_int_equal(bst_io_replace_file(path, text, strlen(text)), BST_OK);
    return bst_gpu_load(env, path, g);
}

static void shipped_ones_are_whole(void **state)
{
    static const struct {
        const char *name;
        int capability;
        double gib;
    } all[] = {{"t4", 75, 14.7}, {"a100", 80, 79.2},  {"l40", 89, 44.5},
               {"h100", 90, 79}, {"h200", 90, 139.8}, {"b200", 100, 178.4}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct bst_gpu g;
        if (bst_gpu_load(env, all[i].name, &g))
            fail_msg("%s", bst_err_text());
        double gib = (double)g.memory / (1 << 30);
        assert_string_equal(g.id, all[i].name);
        assert_int_equal(g.capability, all[i].capability);
        assert_true(gib > all[i].gib - 0.3 && gib < all[i].gib + 0.3);
        assert_true(g.memory_gb_s > 100 && g.tensor16_tflops > 50);
        assert_true(g.title[0] && strlen(g.properties) == g.n_properties);
        assert_null(strstr(g.properties, "sources"));
        assert_non_null(strstr(g.properties, "\"multiProcessorCount\":"));
        bst_gpu_fini(&g);
    }
}

static void ones_own_may_be_as_cudnn_writes_it(void **state)
{
    (void)state;
    struct bst_gpu g;
    assert_int_equal(
        load_text("{\"deviceVer\":860,\"deviceName\":\"Mine\",\"totalGlobalMem\":25438126080}", &g),
        BST_OK);
    assert_string_equal(g.title, "Mine");
    assert_int_equal(g.capability, 86);
    assert_true(g.memory == 25438126080u);
    assert_true(g.memory_gb_s == 0);
    bst_gpu_fini(&g);
}

static void what_is_none_is_told(void **state)
{
    static const struct {
        const char *text, *word;
    } bad[] = {{"", "expected"},
               {"[]", "not a JSON object"},
               {"{\"deviceVer\":900}", "totalGlobalMem"},
               {"{\"properties\":{\"totalGlobalMem\":1}}", "deviceVer"},
               {"{\"deviceVer\":900,\"totalGlobalMem\":-1}", "not a device"}};
    (void)state;
    struct bst_gpu g;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(load_text(bad[i].text, &g), BST_E_PARSE);
        if (!strstr(bst_err_text(), bad[i].word))
            fail_msg("%s", bst_err_text());
        assert_null(g.properties);
    }
    assert_int_equal(bst_gpu_load(env, "a1000", &g), BST_E_NOTFOUND);
    assert_non_null(strstr(bst_err_text(), "a100, b200, h100, h200, l40, t4"));
    assert_int_equal(bst_gpu_load(env, "/nowhere/a.json", &g), BST_E_NOTFOUND);
}

static int open_env(void **state)
{
    (void)state;
    int fd = mkstemps(path, 5);
    setenv("BSTUNE_PRESET_DIR", "presets", 1); /* tests run in the source folder */
    env = bst_preset_env_new(&net_table);
    return fd < 0;
}

static int close_env(void **state)
{
    (void)state;
    bst_preset_env_free(env);
    return remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_ones_are_whole),
        cmocka_unit_test(ones_own_may_be_as_cudnn_writes_it),
        cmocka_unit_test(what_is_none_is_told),
    };
    return cmocka_run_group_tests(tests, open_env, close_env);
}
