#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/run/run_dir.h"
#include "tui/cli_client.h"

enum { STATUS_CAP = 1 << 20 };

static enum bst_err ask(const char *dir, struct bst_status *out)
{
    struct bst_client *client;
    BST_TRY(bst_client_open(dir, "status", true, &client));
    bst_client_ask_status(client, true);
    enum bst_client_event e = tui_wait_for(client, BST_CLIENT_STATUS);
    if (e == BST_CLIENT_STATUS)
        *out = *bst_client_status(client);
    bst_client_close(client);
    return e == BST_CLIENT_STATUS ? BST_OK : bst_fail(BST_E_NOTFOUND, "the trainer went away");
}

enum bst_err tui_read_status(const char *dir, const struct bst_run_info *info,
                             struct bst_status *out)
{
    enum bst_err err = info->live ? ask(dir, out) : bst_status_load(dir, out);
    /* Between being looked up and being asked, the run may have ended. */
    if (err == BST_E_NOTFOUND && info->live && !bst_run_is_live(dir))
        err = bst_status_load(dir, out);
    return err;
}

static void print_text(FILE *out, const struct bst_status *s, const struct bst_run_info *info)
{
    char span[32];
    fprintf(out, "%s  %s  %s\n", s->run, info->live ? bst_phase_name(s->phase) : info->state,
            s->preset);
    fprintf(out, "  update %llu  epoch %.3f of %.6g  samples %llu of %llu\n",
            (unsigned long long)s->update, s->epoch, s->epochs_total,
            (unsigned long long)s->samples, (unsigned long long)s->samples_total);
    fprintf(out, "  batch %lld = %d per device x %d accumulated x %d devices\n",
            (long long)s->global_batch, s->micro_batch, s->accumulation, s->n_devices);
    if (s->loss.valid)
        fprintf(out, "  loss %.4f  learning rate %.5g  gradient norm %.3g\n", s->loss.value,
                s->learning_rate.value, s->grad_norm.valid ? s->grad_norm.value : NAN);
    if (s->eval_accuracy.valid)
        fprintf(out, "  accuracy %.2f %%  best %.2f %%\n", 100 * s->eval_accuracy.value,
                100 * s->best_accuracy.value);
    if (info->live && s->samples_per_sec.valid) {
        bst_clock_span(s->eta_seconds.valid ? s->eta_seconds.value : NAN, span, sizeof span);
        fprintf(out, "  %.0f samples/s  left %s\n", s->samples_per_sec.value, span);
    }
    if (s->lease[0])
        fprintf(out, "  control held by %s\n", s->lease);
    if (s->search[0] && strcmp(s->search, s->note) != 0)
        fprintf(out, "  %s\n", s->search);
    if (s->note[0])
        fprintf(out, "  %s%s%s\n", s->note_code, s->note_code[0] ? ": " : "", s->note);
    fprintf(out, "  %s\n", info->dir);
}

static void print_json(FILE *out, const struct bst_status *s)
{
    struct bst_sb sb;
    bst_sb_init(&sb, STATUS_CAP);
    bst_status_print(s, &sb, true);
    fprintf(out, "%s\n", sb.data);
    bst_sb_fini(&sb);
}

int tui_verb_status(const struct tui_call *c)
{
    char dir[512];
    struct bst_run_info info;
    struct bst_status *s = bst_xalloc(sizeof *s);
    enum bst_err err = bst_run_find(BST_RUNS_ROOT, tui_run_operand(c), dir);
    if (!err)
        err = bst_run_info_read(dir, &info);
    if (!err)
        err = tui_read_status(dir, &info, s);
    if (!err && !info.live && !strcmp(info.state, "killed"))
        s->phase = BST_PHASE_FAILED;
    if (!err && tui_given(c, TUI_OPTION_JSON))
        print_json(c->out, s);
    else if (!err)
        print_text(c->out, s, &info);
    bst_free(s);
    return err ? tui_fail(c, tui_code_of(err)) : TUI_EXIT_DONE;
}
