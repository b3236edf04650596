#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/io.h"
#include "core/report/csv.h"
#include "core/report/prometheus.h"
#include "core/report/tensorboard.h"
#include "tui/cli_client.h"

enum {
    POLL_US = 200000,
    PROMETHEUS_EVERY = 25 /* polls */,
    SHEET_MAX = 1 << 20,
    FLUSH_AT = 1 << 16
};

struct export
{
    const struct tui_call *call;
    char dir[512];
    struct bst_run_info info;
    struct bst_history *history;
    struct bst_rows rows;
    struct bst_sb text; /* not written yet */
    int fd;
    char path[1024];
    double wall; /* when the run's own time was 0 */
};

static enum bst_err flush(struct export *e)
{
    enum bst_err err = bst_io_write_full(e->fd, e->text.data, e->text.len, e->path);
    bst_sb_clear(&e->text);
    return err;
}

/* All rows there are now. */
static enum bst_err write_rows(struct export *e, bool tensorboard)
{
    bool more = true;
    while (more) {
        more = bst_history_poll(e->history);
        for (;;) {
            struct bst_row row = bst_rows_next(&e->rows);
            if (row.kind == BST_ROW_NONE)
                break;
            if (tensorboard)
                bst_tensorboard_row(&e->text, &row, e->wall);
            else
                bst_csv_row(&e->text, &row);
            if (e->text.len > FLUSH_AT)
                BST_TRY(flush(e));
        }
    }
    return flush(e);
}

/* The run's own time leaves out the pauses between two trainers, so its end is what is known. */
static double wall_at_start(const struct export *e)
{
    struct stat st;
    char path[768];
    const struct bst_history *h = e->history;
    bst_run_path(e->dir, "metrics.jsonl", path);
    double end = stat(path, &st) ? bst_clock_wall() : (double)st.st_mtime;
    return h->n_updates ? end - h->updates[h->n_updates - 1].seconds : end;
}

/* A file without a row would look like one of a run that did nothing. */
static enum bst_err need_rows(const struct export *e)
{
    char path[768];
    const struct bst_history *h = e->history;
    while (bst_history_poll(e->history)) {
    }
    if (h->n_updates || h->n_evals)
        return BST_OK;
    bst_run_path(e->dir, "metrics.jsonl", path);
    if (!bst_io_exists(path))
        return bst_fail(BST_E_STATE, "%s: is not there, so there is nothing to export", path);
    return bst_fail(BST_E_STATE, "%s: no update and no evaluation is in it%s", path,
                    bst_run_is_live(e->dir) ? " yet" : "");
}

/* What is not in the file that was written, and would have been. */
static void say_damage(const struct export *e)
{
    struct bst_history_damage d;
    bool over = !bst_run_is_live(e->dir), some = e->history->n_updates || e->history->n_evals;
    for (int i = 0; bst_history_damage(e->history, i, over, &d); i++)
        if (some && !bst_io_exists(d.path))
            tui_print(e->call->err, "bstune export: %s: is not there\n", d.path);
        else if (d.lines)
            tui_print(e->call->err,
                      "bstune export: %s:%" PRIu64 ": %s %" PRIu64 " line%s that cannot be read\n",
                      d.path, d.line,
                      d.lines > 1 ? "left out, this one and more:" : "left out:", d.lines,
                      d.lines > 1 ? "s" : "");
}

static enum bst_err open_output(struct export *e)
{
    const char *given = tui_value(e->call, TUI_OPTION_OUTPUT);
    if (!given) {
        e->fd = STDOUT_FILENO;
        snprintf(e->path, sizeof e->path, "standard output");
        return BST_OK;
    }
    snprintf(e->path, sizeof e->path, "%s", given);
    return bst_io_open_write(e->path, O_TRUNC, 0644, &e->fd);
}

static enum bst_err export_csv(struct export *e)
{
    BST_TRY(need_rows(e));
    BST_TRY(open_output(e));
    bst_csv_header(&e->text);
    return write_rows(e, false);
}

static enum bst_err export_tensorboard(struct export *e)
{
    const char *given = tui_value(e->call, TUI_OPTION_OUTPUT);
    char folder[768];
    bool follow = tui_given(e->call, TUI_OPTION_FOLLOW), live = true;
    enum bst_err none = need_rows(e);
    /* Of a run that goes on the rows may still come. */
    if (none && !(follow && bst_run_is_live(e->dir)))
        return none;
    e->wall = wall_at_start(e);
    if (given)
        snprintf(folder, sizeof folder, "%s", given);
    else
        bst_run_path(e->dir, "tensorboard", folder);
    BST_TRY(bst_io_make_dirs(folder, 0755));
    /* The name of a run's file is always the same, so that a second export takes its place. */
    snprintf(e->path, sizeof e->path, "%s/events.out.tfevents.%.0f.%s.bstune", folder,
             e->info.started, e->info.name);
    BST_TRY(bst_io_open_write(e->path, O_TRUNC, 0644, &e->fd));
    tui_print_path(e->call->out, e->path);
    fflush(e->call->out);
    bst_tensorboard_header(&e->text, e->wall);
    while (live) {
        live = follow && bst_run_is_live(e->dir);
        BST_TRY(write_rows(e, true));
        if (live)
            usleep(POLL_US);
    }
    return need_rows(e);
}

static enum bst_err write_sheet(struct export *e, struct bst_status *s)
{
    const char *given = tui_value(e->call, TUI_OPTION_OUTPUT);
    BST_TRY(tui_read_status(e->dir, &e->info, s));
    bst_sb_clear(&e->text);
    bst_prometheus_print(&e->text, s, e->info.live);
    if (given)
        return bst_io_replace_file(given, e->text.data, e->text.len);
    BST_TRY(open_output(e));
    return flush(e);
}

static enum bst_err export_prometheus(struct export *e)
{
    bool follow = tui_given(e->call, TUI_OPTION_FOLLOW);
    struct bst_status *s = bst_xalloc(sizeof *s);
    enum bst_err err;
    for (;;) {
        err = write_sheet(e, s);
        if (err || !e->info.live || !follow)
            break;
        for (int i = 0; i < PROMETHEUS_EVERY && bst_run_is_live(e->dir); i++)
            usleep(POLL_US);
    }
    bst_free(s);
    return err;
}

int tui_verb_export(const struct tui_call *c)
{
    static enum bst_err (*const ways[])(struct export *) = {export_csv, export_tensorboard,
                                                            export_prometheus};
    static const char *const names[] = {"csv", "tensorboard", "prometheus"};
    const char *format = tui_given(c, TUI_OPTION_FORMAT) ? tui_value(c, TUI_OPTION_FORMAT) : "csv";
    struct export e = {.call = c, .fd = -1};
    int way = 0;
    while (strcmp(names[way], format) != 0)
        way++;
    if (tui_given(c, TUI_OPTION_FOLLOW) && way != 1 &&
        (way == 0 || !tui_given(c, TUI_OPTION_OUTPUT)))
        return tui_usage(c, way ? "--follow needs --output FILE here"
                                : "--follow is for tensorboard and prometheus");
    int refused = way == 0 ? tui_check_new(c, TUI_OPTION_OUTPUT) : 0;
    if (refused)
        return refused;
    bst_sb_init(&e.text, SHEET_MAX);
    /* The numbers of now are a monitor's, which means what lives. */
    enum bst_run_use use = way == 2 ? BST_RUN_STATE : BST_RUN_RECORD;
    enum bst_err err = tui_find_run(c, use, e.dir);
    if (!err)
        err = bst_run_info_read(e.dir, &e.info);
    if (!err)
        err = bst_history_open(e.dir, &e.history);
    if (!err) {
        bst_rows_init(&e.rows, e.history);
        err = ways[way](&e);
    }
    if (e.fd > STDERR_FILENO && close(e.fd) && !err)
        err = bst_fail(BST_E_IO, "%s: %s", e.path, strerror(errno));
    int code = err ? tui_fail(c, tui_code_of(err)) : TUI_EXIT_DONE;
    if (way != 2 && e.history)
        say_damage(&e);
    bst_history_close(e.history);
    bst_sb_fini(&e.text);
    return code;
}
