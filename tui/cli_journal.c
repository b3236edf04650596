#include <inttypes.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/io.h"
#include "core/run/journal_changes.h"
#include "core/run/run_dir.h"
#include "tui/verbs.h"

enum { PRESET_CAP = 1 << 20, JOURNAL_CAP = 64 << 20, TEXT_INDENT = 6 };

/* `j` NULL: the run ended before it had a journal. */
static void print_text(const struct tui_call *c, const struct bst_journal *j)
{
    int n = j ? bst_journal_count(j) : 0;
    for (int i = 0; i < n; i++) {
        const struct bst_journal_entry *e = bst_journal_at(j, i);
        char when[32];
        bst_clock_iso(e->wall, when);
        int at = fprintf(c->out, "%4" PRIu64 "  %s  update %-8" PRIu64 " %-8s %-24s ", e->seq, when,
                         e->update, e->outcome, e->command);
        at += fprintf(c->out, "%s%s", e->code, e->code[0] ? ": " : "");
        tui_print_text(c->out, e->text, TEXT_INDENT, at);
    }
    if (!n)
        fprintf(c->err, "nothing was changed in this run\n");
}

static enum bst_err print_json(const struct tui_call *c, const char *path)
{
    char *text;
    size_t n;
    BST_TRY(bst_io_read_file(path, JOURNAL_CAP, &text, &n));
    fwrite(text, 1, n, c->out);
    bst_free(text);
    return BST_OK;
}

/* The preset as the run was started, with what was changed since as changes of its own. */
static enum bst_err export_preset(const struct tui_call *c, const char *dir,
                                  const struct bst_journal *j, const char *path)
{
    char file[768];
    struct bst_preset_errors errs;
    struct bst_preset *preset = bst_xalloc(sizeof *preset);
    struct bst_preset_env *env = bst_preset_env_new(c->nets);
    struct bst_sb text;
    bst_run_path(dir, "preset.yaml", file);
    bst_preset_errors_init(&errs);
    bst_sb_init(&text, PRESET_CAP);
    enum bst_err err =
        bst_io_exists(file)
            ? bst_preset_load(env, file, NULL, 0, preset, &errs)
            : bst_fail(BST_E_STATE,
                       "%s: is not there, and what was changed is half of a preset: put back the "
                       "one that the run was started with",
                       file);
    if (!err && j)
        err = bst_journal_to_preset(j, preset);
    if (!err) {
        bst_preset_write(preset, &text);
        if (strcmp(path, "-"))
            err = bst_io_replace_file(path, text.data, text.len);
        else
            fputs(text.data, c->out);
    }
    bst_sb_fini(&text);
    bst_preset_errors_fini(&errs);
    bst_preset_env_free(env);
    bst_free(preset);
    return err;
}

/* *out is NULL when the run ended before it had one; one that trained has had one. */
static enum bst_err open_journal(const char *dir, char path[768], struct bst_journal **out)
{
    char metrics[768];
    bst_run_path(dir, "journal.jsonl", path);
    bst_run_path(dir, "metrics.jsonl", metrics);
    if (bst_io_exists(path))
        return bst_journal_view(path, out);
    if (bst_io_exists(metrics))
        return bst_fail(BST_E_STATE, "%s: is not there, so nobody knows what was changed", path);
    return BST_OK;
}

int tui_verb_journal(const struct tui_call *c)
{
    char dir[512];
    char path[768];
    struct bst_journal *j = NULL;
    const char *preset = tui_value(c, TUI_OPTION_EXPORT_PRESET);
    int code = tui_check_new(c, TUI_OPTION_EXPORT_PRESET);
    if (code)
        return code;
    enum bst_err err = tui_find_run(c, BST_RUN_RECORD, dir);
    if (!err) {
        err = open_journal(dir, path, &j);
    }
    if (!err && preset)
        err = export_preset(c, dir, j, preset);
    else if (!err && tui_given(c, TUI_OPTION_JSON))
        err = j ? print_json(c, path) : BST_OK;
    else if (!err)
        print_text(c, j);
    bst_journal_close(j);
    return err ? tui_fail(c, tui_code_of(err)) : TUI_EXIT_DONE;
}
