#include "core/run/find_start.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/run/request.h"
#include "core/run/signals.h"

static enum bst_err open_trainer(const struct bst_preset *p, const struct bst_net_table *nets,
                                 struct bst_find_rig *rig)
{
    char note[200];
    BST_TRY(bst_start_train_cfg(p, nets, &rig->start, &rig->cfg));
    BST_TRY(bst_start_say_data(p, bst_trainer_open(&rig->cfg, &rig->trainer)));
    BST_TRY(bst_start_check_data(p, bst_trainer_data(rig->trainer)));
    if (!p->init[0])
        return BST_OK;
    enum bst_err err =
        bst_trainer_load(rig->trainer, BST_STATE_WEIGHTS, p->init, true, note, sizeof note);
    return err ? bst_fail_in(err, "BST-405") : BST_OK;
}

static void fill_find(const struct bst_preset *p, bool with_split, struct bst_find_rig *rig)
{
    rig->find = (struct bst_find){
        .trainer = rig->trainer,
        .ranks = rig->cfg.ranks,
        .stop = &rig->interrupt,
        .req = bst_request_of(&rig->live, 0),
    };
    rig->find.req.nesterov = p->nesterov;
    if (!with_split)
        rig->find.req.batch = rig->find.req.micro_batches = 0;
}

enum bst_err bst_find_rig_open(const struct bst_preset *preset, const struct bst_net_table *nets,
                               bool with_split, struct bst_find_rig *rig)
{
    *rig = (struct bst_find_rig){.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (rig->wake_fd < 0)
        return bst_fail(BST_E_IO, "eventfd: %s", strerror(errno));
    BST_TRY(bst_signals_start(&rig->interrupt, rig->wake_fd, &rig->signals));
    BST_TRY(open_trainer(preset, nets, rig));
    struct bst_plan_env env = bst_start_env(preset, &rig->cfg, rig->trainer);
    BST_TRY(bst_start_live(preset, &env, &rig->live));
    if (with_split) {
        struct bst_live *l = &rig->live;
        BST_TRY(bst_start_fit(rig->trainer, &env, l));
        BST_TRY(
            bst_trainer_set_split(rig->trainer, (int64_t)l->batch, (int)l->split.accumulate, NULL));
    }
    fill_find(preset, with_split, rig);
    return BST_OK;
}

void bst_find_rig_close(struct bst_find_rig *rig)
{
    bst_trainer_close(rig->trainer);
    bst_signals_stop(rig->signals);
    if (rig->wake_fd >= 0)
        close(rig->wake_fd);
    rig->trainer = NULL;
    rig->signals = NULL;
    rig->wake_fd = -1;
}
