#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/run/run_dir.h"
#include "core/run/standing.h"
#include "tui/cli_client.h"
#include "tui/format.h"

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

enum bst_err tui_read_status(const char *dir, struct bst_run_info *info, struct bst_status *out)
{
    BST_TRY(bst_run_info_read(dir, info));
    if (info->live) {
        enum bst_err err = ask(dir, out);
        /* Between being looked up and being asked, the run may have ended. */
        if (err != BST_E_NOTFOUND || bst_run_is_live(dir))
            return err;
        BST_TRY(bst_run_info_read(dir, info));
    }
    return bst_standing_load(info, out);
}

/* Of a run that was killed early, its metrics alone may be there: what they do not say is left out.
 */
static void print_progress(FILE *out, const struct bst_status *s)
{
    fprintf(out, "  update %llu", (unsigned long long)s->update);
    if (s->update || s->samples_total)
        fprintf(out, "  epoch %.3f", s->epoch);
    if (s->epochs_total > 0)
        fprintf(out, " of %.6g", s->epochs_total);
    fprintf(out, "  samples %llu", (unsigned long long)s->samples);
    if (s->samples_total)
        fprintf(out, " of %llu", (unsigned long long)s->samples_total);
    fputc('\n', out);
    if (s->global_batch > 0 && s->n_devices)
        fprintf(out, "  batch %lld = %d per device x %d accumulated x %d devices\n",
                (long long)s->global_batch, s->micro_batch, s->accumulation, s->n_devices);
    else if (s->global_batch > 0)
        fprintf(out, "  batch %lld\n", (long long)s->global_batch);
}

static void print_sentence(FILE *out, const char *code, const char *text)
{
    int at = fprintf(out, "  %s%s", code, *code ? ": " : "");
    tui_print_text(out, text, 2, at);
}

static void print_text(FILE *out, const struct bst_status *s, const struct bst_run_info *info)
{
    char span[32], flight[120];
    tui_print(out, "%s  %s  %s\n", s->run, bst_phase_name(s->phase), s->preset);
    print_progress(out, s);
    if (s->loss.valid)
        fprintf(out, "  loss %.4f  learning rate %.5g  gradient norm %.3g\n", s->loss.value,
                s->learning_rate.value, s->grad_norm.valid ? s->grad_norm.value : NAN);
    if (s->eval_accuracy.valid)
        fprintf(out, "  accuracy %.2f %%  best %.2f %%", 100 * s->eval_accuracy.value,
                100 * s->best_accuracy.value);
    if (s->eval_exact.valid)
        fprintf(out, "  exact %.2f %%", 100 * s->eval_exact.value);
    if (s->eval_accuracy.valid)
        fputc('\n', out);
    if (info->live && s->samples_per_sec.valid) {
        bst_clock_span(s->eta_seconds.valid ? s->eta_seconds.value : NAN, span, sizeof span);
        fprintf(out, "  %.0f samples/s  left %s\n", s->samples_per_sec.value, span);
    }
    if (info->live && tui_in_flight(s, flight, sizeof flight))
        fprintf(out, "  %s\n", flight);
    if (s->lease[0])
        fprintf(out, "  control held by %s\n", s->lease);
    if (s->search[0] && strcmp(s->search, s->note) != 0)
        print_sentence(out, "", s->search);
    if (s->note[0])
        print_sentence(out, s->note_code, s->note);
    tui_print(out, "  %s\n", info->dir);
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
    enum bst_err err = bst_run_find(BST_RUNS_ROOT, tui_run_operand(c), BST_RUN_STATE, dir);
    if (!err)
        err = tui_read_status(dir, &info, s);
    if (!err && tui_given(c, TUI_OPTION_JSON))
        print_json(c->out, s);
    else if (!err)
        print_text(c->out, s, &info);
    bst_free(s);
    return err ? tui_fail(c, tui_code_of(err)) : TUI_EXIT_DONE;
}
