/* bst_command_parse: any bytes give an answer; what is accepted has one canonical text, which is
 * accepted too and means the same; a plan made from it is whole or refused with a code. */
#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/tune/plan.h"
#include "tests/fuzz/fuzz.h"

static struct bst_live some_live(const struct bst_plan_env *env)
{
    struct bst_live live = {.batch = 256, .rule = BST_LR_RULE_LINEAR, .momentum = 0.9};
    struct bst_schedule_spec spec = {
        .peak = 0.1, .kind = BST_SCHEDULE_COSINE, .warmup = {1, BST_UNIT_EPOCHS}};
    struct bst_scale scale = {env->dataset, live.batch, 10 * env->dataset};
    BST_ASSERT(!bst_schedule_make(&spec, &scale, &live.schedule));
    BST_ASSERT(!bst_plan_split(&live, env));
    return live;
}

static void check_plan(const struct bst_command *cmd)
{
    struct bst_plan_env env = {60000, 30000, 2, 64, BST_MOMENTUM_RATE_INSIDE, 0, 0, false};
    struct bst_live live = some_live(&env);
    struct bst_plan plan;
    enum bst_diag why;
    if (bst_plan_command(&live, cmd, &env, &plan)) {
        BST_ASSERT(plan.after.batch == live.batch && plan.n_changes == 0);
        return;
    }
    BST_ASSERT(!bst_plan_check(&plan.after, &why));
    BST_ASSERT(plan.after.split.batch == plan.after.batch && plan.after.split.micro <= env.fit);
    BST_ASSERT(isfinite(plan.lr_after) && plan.lr_after >= 0);
    BST_ASSERT(isfinite(plan.momentum_factor));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = bst_xalloc(size + 1);
    struct bst_command cmd, again;
    struct bst_sb once, twice;
    memcpy(text, data, size);
    bst_sb_init(&once, 1000);
    bst_sb_init(&twice, 1000);
    if (!bst_command_parse(text, &cmd)) {
        bst_command_format(&cmd, &once);
        BST_ASSERT(!once.full);
        BST_ASSERT(!bst_command_parse(once.data, &again));
        bst_command_format(&again, &twice);
        BST_ASSERT(!strcmp(once.data, twice.data));
        BST_ASSERT(cmd.value == again.value && cmd.presses == again.presses);
        check_plan(&cmd);
    }
    bst_sb_fini(&once);
    bst_sb_fini(&twice);
    bst_free(text);
    return 0;
}
