#include "tests/cudnn/planner.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/backend/plan_for.h"
#include "nets/nets.h"

const char *device, *folder;
bool all;
struct bst_gpu gpu;
const struct bst_backend *planner;

int with_planner(int argc, char **argv, int (*tests)(void))
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s DEVICE FOLDER [all]\n", argv[0]);
        return 2;
    }
    device = argv[1];
    folder = argv[2];
    all = argc > 3;
    setenv("BSTUNE_PRESET_DIR", "presets", 1); /* tests run in the source folder */
    struct bst_preset_env *env = bst_preset_env_new(&net_table);
    int failed = 1;
    if (bst_backend_get_planner(&planner)) {
        printf("skipped: %s\n", bst_err_text());
        failed = 77;
    } else if (bst_gpu_load(env, device, &gpu)) {
        printf("%s\n", bst_err_text());
    } else {
        failed = tests();
    }
    bst_gpu_fini(&gpu);
    bst_preset_env_free(env);
    return failed;
}
