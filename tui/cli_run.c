#include "tui/cli_run.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/run/crew.h"
#include "core/run/journal.h"
#include "core/run/run_dir.h"
#include "core/run/status.h"

enum { JOURNAL_CAP = 64 << 20 };

static void gather_advice(const struct tui_call *c, struct tui_run *r)
{
    const char *advise = tui_value(c, TUI_OPTION_ADVISE);
    if (advise)
        r->sets[r->n_sets++] = !strcmp(advise, "off")  ? "advise=none"
                               : !strcmp(advise, "on") ? "advise=show"
                                                       : "advise=log";
    if (tui_given(c, TUI_OPTION_AUTOPILOT))
        r->sets[r->n_sets++] = "autopilot=true";
}

/* --init FILE is the key of the same name. */
static int gather_sets(const struct tui_call *c, struct tui_run *r)
{
    const char *init = tui_value(c, TUI_OPTION_INIT);
    for (int i = 0; i < c->cli->n_sets; i++)
        r->sets[r->n_sets++] = c->cli->sets[i];
    gather_advice(c, r);
    if (!init)
        return TUI_EXIT_DONE;
    if (snprintf(r->init, sizeof r->init, "init=%s", init) >= (int)sizeof r->init)
        return tui_usage(c, "--init: a path of at most %d bytes", BST_PRESET_PATH - 1);
    r->sets[r->n_sets++] = r->init;
    return TUI_EXIT_DONE;
}

/* An error of a key that nobody set names the option that did. */
static void name_option(const struct tui_run *r, struct bst_preset_errors *errs)
{
    char *set = r->own_set && r->own_said ? bst_xasprintf("--set %s: ", r->own_set) : NULL;
    const char *at = errs->text.data, *found;
    struct bst_sb text;
    if (!set)
        return;
    bst_sb_init(&text, errs->text.cap);
    for (; (found = strstr(at, set)) != NULL; at = found + strlen(set)) {
        bst_sb_addn(&text, at, (size_t)(found - at));
        bst_sb_addf(&text, "%s: ", r->own_said);
    }
    bst_sb_add(&text, at);
    bst_sb_clear(&errs->text);
    bst_sb_add(&errs->text, text.data);
    bst_sb_fini(&text);
    bst_free(set);
}

static int load(const struct tui_call *c, struct tui_run *r, const char *name, int n_sets)
{
    struct bst_preset_errors errs;
    int code = TUI_EXIT_DONE;
    bst_preset_errors_init(&errs);
    enum bst_err err = bst_preset_load(r->env, name, r->sets, n_sets, &r->preset, &errs);
    if (!err || err == BST_E_PARSE) {
        enum bst_err start = bst_preset_check_start(&r->preset, name, &errs);
        err = err ? err : start;
    }
    if (err) {
        name_option(r, &errs);
        code = tui_refuse_preset(c, &errs);
    }
    bst_preset_errors_fini(&errs);
    return code;
}

/* A run's length may be set anew; it becomes a change like any other. */
static void ask_length(struct tui_run *r, const struct bst_preset *given)
{
    char text[32];
    bst_interval_format(bst_preset_length(given), text);
    snprintf(r->first, sizeof r->first, "length =%s", text);
}

/* What a run was started with is what it goes on with: of the keys given now, those that differ are
 * named. The length is taken, also the one that the run was started with: it may have another by
 * now. */
static void compare_sets(const struct tui_call *c, struct tui_run *r,
                         const struct bst_preset *given)
{
    struct bst_preset_difference diff[BST_N_PARAMS];
    int n = bst_preset_diff(&r->preset, given, diff);
    for (int i = 0; i < BST_N_PARAMS; i++)
        if (bst_param_at((enum bst_param_id)i)->live == BST_PARAM_LENGTH &&
            given->origin[i] == BST_ORIGIN_SET)
            ask_length(r, given);
    for (int i = 0; i < n; i++) {
        const struct bst_param_info *key = bst_param_at(diff[i].id);
        if (given->origin[diff[i].id] == BST_ORIGIN_SET && key->live != BST_PARAM_LENGTH)
            fprintf(c->err, "bstune run: %s stays %s, as the run was started%s\n", key->key,
                    diff[i].before, key->live == BST_PARAM_LIVE ? "; `bstune ctl` changes it" : "");
    }
}

/* Samples that the length asked for comes to; 0: none was. */
static double wanted_samples(const struct tui_run *r, const struct bst_preset *given,
                             const struct bst_status *s)
{
    struct bst_interval length = bst_preset_length(given);
    double unit =
        length.unit == BST_UNIT_STEPS ? (double)s->global_batch : (double)s->samples_per_epoch;
    return r->first[0] ? length.value * unit : 0;
}

/* Where nothing is left to do, that and how to go on is said in place of an end at once. */
static void look_finished(const struct tui_call *c, struct tui_run *r,
                          const struct bst_preset *given)
{
    char weights[768];
    struct bst_run_info info;
    struct bst_status *s = bst_xalloc(sizeof *s);
    struct bst_interval length = bst_preset_length(given);
    bool steps = length.unit == BST_UNIT_STEPS;
    bst_run_path(r->dir, "weights.safetensors", weights);
    r->finished = !bst_run_info_read(r->dir, &info) && !strcmp(info.state, "done") &&
                  !bst_status_load(r->dir, s) && s->samples_total &&
                  s->samples >= s->samples_total && bst_io_exists(weights) &&
                  wanted_samples(r, given, s) <= (double)s->samples;
    if (r->finished)
        tui_print(c->out,
                  "%s has finished: %.4g epochs, %" PRIu64 " updates; its weights are in %s\n"
                  "To go on, make it longer: bstune run --resume --run-dir %s --set %s=%.0f\n",
                  info.name, s->epoch, s->update, weights, r->dir,
                  steps ? "max_steps" : "max_epochs",
                  2 * ceil(steps ? (double)s->update : s->epoch));
    bst_free(s);
}

static int resume(const struct tui_call *c, struct tui_run *r)
{
    char path[768];
    struct bst_preset given;
    bst_run_path(r->dir, "preset.yaml", path);
    if (access(path, F_OK)) {
        if (c->cli->n_operands)
            return TUI_EXIT_DONE;
        if (bst_run_dir_used(r->dir))
            return tui_usage(c,
                             "%s: is not there, so nobody knows what to resume: put the run's own "
                             "back, or give the PRESET that it was started with",
                             path);
        return tui_usage(c, "%s: no run to resume, and no PRESET to start one", r->dir);
    }
    int code = load(c, r, path, r->n_sets);
    given = r->preset;
    if (!code)
        code = load(c, r, path, 0);
    if (code)
        return code;
    compare_sets(c, r, &given);
    look_finished(c, r, &given);
    return TUI_EXIT_DONE;
}

/* A run of this folder with its preset's name and a number; quickstart-text-1 is none of
 * quickstart's, and what lives elsewhere is somebody else's. */
static bool is_of(const struct tui_run *r, const struct bst_run_info *run)
{
    size_t n = strlen(r->preset.id);
    const char *number = run->name + n + 1;
    return !strncmp(run->name, r->preset.id, n) && run->name[n] == '-' && *number &&
           strspn(number, "0123456789") == strlen(number) &&
           bst_run_is_here(BST_RUNS_ROOT, run->dir);
}

static int newest_of(const struct tui_call *c, struct tui_run *r)
{
    struct bst_run_info *list;
    int n, found = -1;
    if (bst_run_list(BST_RUNS_ROOT, &list, &n))
        return tui_fail(c, TUI_EXIT_FAILED);
    for (int i = 0; i < n && found < 0; i++)
        if (is_of(r, &list[i]))
            found = i;
    if (found >= 0)
        snprintf(r->dir, sizeof r->dir, "%s", list[found].dir);
    bst_free(list);
    if (found >= 0)
        return TUI_EXIT_DONE;
    tui_print(c->err, "bstune run: no run of %s under %s/ to resume\n", r->preset.id,
              BST_RUNS_ROOT);
    return TUI_EXIT_NO_RUN;
}

static int choose_dir(const struct tui_call *c, struct tui_run *r)
{
    const char *given = tui_value(c, TUI_OPTION_RUN_DIR);
    const char *name = r->preset.id[0] ? r->preset.id : "run";
    bool again = tui_given(c, TUI_OPTION_RESUME);
    if (!given && again) {
        int code = newest_of(c, r);
        return code ? code : resume(c, r);
    }
    if (given ? bst_run_dir_at(given, r->dir, &r->made)
              : bst_run_dir_new(BST_RUNS_ROOT, name, r->dir, &r->made))
        return tui_fail(c, TUI_EXIT_FAILED);
    return again ? resume(c, r) : TUI_EXIT_DONE;
}

/* The lock first: two that start at once must not both find the folder unused. */
static int claim(const struct tui_call *c, struct tui_run *r)
{
    int code = choose_dir(c, r);
    if (code || r->finished)
        return code;
    r->had = bst_run_dir_had(r->dir);
    if (bst_run_lock(r->dir, &r->lock))
        return tui_fail(c, TUI_EXIT_FAILED);
    r->claimed = tui_given(c, TUI_OPTION_RESUME) || !bst_run_dir_used(r->dir);
    if (r->claimed)
        return TUI_EXIT_DONE;
    return tui_usage(c, "%s has a run already; --resume goes on with it", r->dir);
}

/* A run with this journal and no checkpoint is one that has everything still to do. */
static int copy_journal(const struct tui_call *c, const struct tui_run *r)
{
    char path[768], *text;
    size_t n;
    if (!r->journal)
        return TUI_EXIT_DONE;
    bst_run_path(r->dir, "journal.jsonl", path);
    enum bst_err err = bst_io_read_file(r->journal, JOURNAL_CAP, &text, &n);
    if (!err) {
        err = bst_io_replace_file(path, text, n);
        bst_free(text);
    }
    return err ? tui_fail(c, TUI_EXIT_FAILED) : TUI_EXIT_DONE;
}

static bool is_journal(const char *operand)
{
    const char *end = strrchr(operand, '.');
    return end && !strcmp(end, ".jsonl");
}

/* The preset stands beside the journal. */
static int load_repeat(const struct tui_call *c, struct tui_run *r)
{
    char dir[512], path[768];
    struct bst_run_info info;
    struct bst_journal *j;
    const char *slash = strrchr(r->journal, '/');
    if (tui_given(c, TUI_OPTION_RESUME))
        return tui_usage(c, "--resume goes on with a run, %s repeats one", r->journal);
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - r->journal) : 1,
             slash ? r->journal : ".");
    if (bst_journal_view(r->journal, &j))
        return tui_fail(c, TUI_EXIT_USAGE);
    bst_journal_close(j);
    bst_run_path(dir, "preset.yaml", path);
    if (!bst_io_exists(path))
        return tui_usage(c,
                         "%s: is not there; a journal is repeated with the preset.yaml of its run, "
                         "which stands beside it: copy that from the run's folder, too",
                         path);
    int code = load(c, r, path, r->n_sets);
    if (!code && !bst_run_info_read(dir, &info))
        snprintf(r->preset.id, sizeof r->preset.id, "%s", info.preset_id);
    return code;
}

static int prepare(const struct tui_call *c, struct tui_run *r)
{
    bool from_dir = tui_given(c, TUI_OPTION_RESUME) && tui_given(c, TUI_OPTION_RUN_DIR);
    if (!c->cli->n_operands && !from_dir)
        return tui_usage(c, "PRESET is missing");
    if (!c->cli->n_operands)
        return TUI_EXIT_DONE;
    if (!is_journal(c->cli->operands[0]))
        return load(c, r, c->cli->operands[0], r->n_sets);
    r->journal = c->cli->operands[0];
    return load_repeat(c, r);
}

/* A resumed run has a folder that was a run's, unless it had to be made. */
void tui_run_clear_up(const struct tui_call *c, const struct tui_run *r, int code)
{
    bool failed = code == TUI_EXIT_FAILED || code == TUI_EXIT_USAGE, mine = r->lock >= 0;
    if (!failed || !r->dir[0] || (!r->made && (!mine || tui_given(c, TUI_OPTION_RESUME))))
        return;
    /* Its place was taken by something else while it ran. */
    if (mine && !bst_run_lock_is_there(r->dir, r->lock))
        return;
    if (r->claimed && !bst_run_dir_untrained(r->dir))
        return;
    bst_run_dir_discard(r->dir, r->made, mine ? r->had : ~0u);
    if (r->claimed)
        tui_print(c->err, "bstune run: nothing had been trained, so nothing is left of it in %s\n",
                  r->dir);
}

int tui_run_preset(const struct tui_call *c, struct tui_run *r, const char *last)
{
    r->lock = -1;
    r->env = bst_preset_env_new(c->nets);
    int code = gather_sets(c, r);
    if (last)
        r->sets[r->n_sets++] = last;
    r->own_set = last;
    return code ? code : load(c, r, c->cli->operands[0], r->n_sets);
}

/* Whoever came to nothing by itself has said so already. */
static int meet(const struct tui_call *c, struct tui_run *r, int code)
{
    bool again = tui_given(c, TUI_OPTION_RESUME) || r->journal;
    bool said = code != TUI_EXIT_DONE || r->finished;
    if (!r->crew)
        return code;
    if (!code && r->finished)
        code = BST_CREW_NOTHING;
    if (bst_crew_meet(r->crew, r->env, again, &r->preset, &code) && !said &&
        !bst_crew_follows(r->crew))
        tui_fail(c, code);
    return code;
}

static int follow(const struct tui_call *c, struct tui_run *r, int code)
{
    bool tell = false;
    code = meet(c, r, code);
    if (!code)
        code = bst_crew_follow(r->crew, &r->preset, c->nets, &tell);
    if (tell)
        return tui_fail(c, code);
    return code == BST_CREW_NOTHING ? TUI_EXIT_DONE : code;
}

static int run_here(const struct tui_call *c, struct tui_run *r, int code)
{
    if (!code)
        code = claim(c, r);
    if (!code && !r->finished)
        code = copy_journal(c, r);
    code = meet(c, r, code);
    if (code == BST_CREW_NOTHING || r->finished)
        return code == BST_CREW_NOTHING ? TUI_EXIT_DONE : code;
    if (!code)
        code = tui_run_here(c, r);
    if (!r->handed_over)
        tui_run_clear_up(c, r, code);
    return code;
}

int tui_verb_run(const struct tui_call *c)
{
    struct tui_run *r = bst_xalloc(sizeof *r);
    struct bst_cluster *crew;
    r->lock = -1;
    r->env = bst_preset_env_new(c->nets);
    int code = tui_check_numbers(c);
    if (!code)
        code = gather_sets(c, r);
    if (!code && bst_crew_open(&r->crew))
        code = tui_fail(c, TUI_EXIT_FAILED);
    if (!code)
        code = prepare(c, r);
    if (bst_crew_follows(r->crew))
        code = follow(c, r, code);
    else if (!code && !r->crew && !tui_given(c, TUI_OPTION_HEADLESS) && tui_has_terminal())
        code = tui_run_spawn(c, r);
    else if (!code || r->crew)
        code = run_here(c, r, code);
    bst_run_unlock(r->lock);
    bst_preset_env_free(r->env);
    crew = r->crew;
    bst_free(r);
    bst_crew_close(crew, code);
    return code;
}
