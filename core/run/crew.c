#include "core/run/crew.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/crc32c.h"
#include "core/base/io.h"
#include "core/comm/cluster.h"
#include "core/run/field.h"
#include "core/run/preset_impl.h"
#include "core/run/start.h"
#include "core/train/train.h"
#include "core/tune/diagnostics.h"

enum { EXE_CAP = 512 << 20, TEXT = 400, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* A process's first words. */
struct said {
    int32_t code;
    uint32_t build; /* checksum of the program */
    uint64_t preset_bytes;
    char version[32];
};

static const enum bst_param_id own_keys[] = {BST_PARAM_devices_memory, BST_PARAM_devices_threads,
                                             BST_PARAM_devices_list, BST_PARAM_data_path};

enum bst_err bst_crew_open(struct bst_cluster **out)
{
    return bst_cluster_open(out);
}

void bst_crew_close(struct bst_cluster *c, int code)
{
    bst_cluster_close(c, code);
}

bool bst_crew_follows(const struct bst_cluster *c)
{
    return c && bst_cluster_info(c)->process > 0;
}

static uint32_t own_build(void)
{
    char *bytes = NULL;
    size_t n = 0;
    uint32_t crc = 0;
    if (bst_io_read_file("/proc/self/exe", EXE_CAP, &bytes, &n))
        return 0; /* then the version alone tells */
    crc = bst_crc32c(0, bytes, n);
    bst_free(bytes);
    return crc;
}

static bool is_own(enum bst_param_id id)
{
    for (size_t i = 0; i < sizeof own_keys / sizeof *own_keys; i++)
        if (own_keys[i] == id)
            return true;
    return false;
}

/* Keys of one machine that stay this process's own when it takes over process 0's preset. */
static void keep_own(struct bst_preset *to, const struct bst_preset *from, bool given_alone)
{
    for (size_t i = 0; i < sizeof own_keys / sizeof *own_keys; i++) {
        enum bst_param_id id = own_keys[i];
        size_t bytes = 0;
        const void *field = bst_param_field_view(from, id, &bytes);
        if (given_alone && from->origin[id] != BST_ORIGIN_SET)
            continue;
        memcpy(bst_param_field(to, id), field, bytes);
        to->origin[id] = from->origin[id];
    }
}

static enum bst_err compare(int process, const struct bst_preset *lead,
                            const struct bst_preset *mine)
{
    struct bst_preset_difference diff[BST_N_PARAMS];
    int n = bst_preset_diff(lead, mine, diff);
    for (int i = 0; i < n; i++)
        if (!is_own(diff[i].id))
            return bst_fail(BST_E_ARG,
                            "process %d was started with %s: %s, process 0 with %s: all have to "
                            "have the same preset",
                            process, bst_param_at(diff[i].id)->key, diff[i].after, diff[i].before);
    return BST_OK;
}

/* On a process that follows: process 0's preset, compared with its own and taken over. */
static enum bst_err take_preset(struct bst_cluster *c, const struct bst_preset_env *env, bool again,
                                size_t bytes, struct bst_preset *preset)
{
    struct bst_preset_errors errs;
    struct bst_preset *lead = bst_xalloc(sizeof *lead);
    char *text = bst_xalloc(bytes + 1);
    enum bst_err err = bst_cluster_hear(c, text, bytes);
    bst_preset_errors_init(&errs);
    if (!err)
        err = bst_preset_parse(env, "process 0's preset", text, bytes, NULL, 0, lead, &errs);
    bst_preset_errors_fini(&errs);
    if (!err && !again)
        err = compare(bst_cluster_info(c)->process, lead, preset);
    if (!err) {
        keep_own(lead, preset, again);
        bst_copy_text(lead->id, sizeof lead->id, preset->id);
        *preset = *lead;
    }
    bst_free(text);
    bst_free(lead);
    return err;
}

static enum bst_err check_build(const struct said *all, int n)
{
    for (int p = 1; p < n; p++)
        if (strcmp(all[p].version, all[0].version) != 0 || all[p].build != all[0].build)
            return bst_fail(BST_E_ARG,
                            "process %d is bstune %s of build %08x, process 0 is %s of build %08x: "
                            "all have to be the same program",
                            p, all[p].version, all[p].build, all[0].version, all[0].build);
    return BST_OK;
}

/* Process 0's code is everybody's; another's is told there. */
static enum bst_err check_codes(const struct said *all, int n, int *code)
{
    for (int p = 0; p < n; p++)
        if (all[p].code) {
            *code = all[p].code;
            return bst_fail(BST_E_STATE, "process %d could not start; it has said why", p);
        }
    return BST_OK;
}

enum bst_err bst_crew_agree(struct bst_cluster *c, enum bst_err err)
{
    struct {
        int32_t err;
        char text[TEXT];
    } mine, *all;
    if (!c)
        return err;
    const int n = bst_cluster_info(c)->n_processes;
    memset(&mine, 0, sizeof mine);
    mine.err = (int)err;
    if (err)
        bst_copy_text(mine.text, sizeof mine.text, bst_err_text());
    all = bst_xcalloc((size_t)n, sizeof mine);
    enum bst_err met = bst_cluster_gather(c, &mine, all, sizeof mine);
    for (int p = 0; p < n && !met; p++)
        if (all[p].err)
            met = p ? bst_fail((enum bst_err)all[p].err, "process %d: %s", p, all[p].text)
                    : bst_fail((enum bst_err)all[p].err, "%s", all[p].text);
    bst_free(all);
    return met;
}

static enum bst_err share_preset(struct bst_cluster *c, const struct bst_preset_env *env,
                                 bool again, const struct said *all, const char *text,
                                 struct bst_preset *preset)
{
    size_t bytes = (size_t)all[0].preset_bytes;
    enum bst_err err = bst_crew_follows(c) ? take_preset(c, env, again, bytes, preset)
                                           : bst_cluster_tell(c, text, bytes);
    if (err == BST_E_PEER)
        return err;
    return bst_crew_agree(c, err);
}

enum bst_err bst_crew_meet(struct bst_cluster *c, const struct bst_preset_env *env, bool again,
                           struct bst_preset *preset, int *code)
{
    const int n = bst_cluster_info(c)->n_processes;
    struct said mine, *all = bst_xcalloc((size_t)n, sizeof *all);
    struct bst_sb text;
    bst_sb_init(&text, 1 << 20);
    if (!*code && preset->origin[BST_PARAM_devices_count] == BST_ORIGIN_DEFAULT &&
        !preset->devices.list[0])
        preset->devices.count = n;
    if (!*code && !bst_crew_follows(c))
        bst_preset_write(preset, &text);
    memset(&mine, 0, sizeof mine);
    mine.code = *code;
    mine.build = own_build();
    mine.preset_bytes = text.len;
    bst_copy_text(mine.version, sizeof mine.version, BST_VERSION);
    enum bst_err err = bst_cluster_gather(c, &mine, all, sizeof mine);
    if (!err)
        err = check_codes(all, n, code);
    if (!err) {
        err = check_build(all, n);
        if (!err)
            err = share_preset(c, env, again, all, text.data, preset);
        if (err)
            *code = err == BST_E_PEER ? EXIT_FAILED : EXIT_USAGE;
    } else if (err == BST_E_PEER) {
        *code = EXIT_FAILED;
    }
    bst_sb_fini(&text);
    bst_free(all);
    if (!err)
        bst_cluster_busy(c, true);
    return err;
}

/* The launcher ends all its processes with a signal, and process 0 knows what to do with it: it
 * saves and tells the others. */
static void leave_signals_to_process_0(void)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE, SIGXFSZ};
    struct sigaction act = {.sa_handler = SIG_IGN};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &act, NULL);
}

int bst_crew_follow(struct bst_cluster *c, const struct bst_preset *preset,
                    const struct bst_net_table *nets, bool *tell)
{
    struct bst_start start;
    struct bst_train_cfg cfg;
    struct bst_trainer *t = NULL;
    leave_signals_to_process_0();
    *tell = false;
    enum bst_err err = bst_start_train_cfg(preset, nets, &start, &cfg);
    if (!err)
        err = bst_start_spread(c, &start, &cfg);
    err = bst_crew_agree(c, err);
    if (!err)
        err = bst_trainer_open(&cfg, &t);
    if (!err)
        err = bst_trainer_follow(t);
    if (err == BST_E_PEER) {
        const struct bst_failure why = bst_err_keep(err);
        bst_trainer_close(t);
        char code[16];
        bst_diag_code(BST_DIAG_PROCESS_LOST, code);
        bst_fail(err, "%s: %s; process 0 saves what there is, and --resume goes on from it", code,
                 why.text);
        *tell = true;
        return EXIT_FAILED;
    }
    bst_trainer_close(t);
    bst_cluster_busy(c, false);
    return err ? EXIT_FAILED : 0;
}
