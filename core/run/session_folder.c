/* A run's folder that is removed while the run goes on: noticed, and made again with what a resume
 * and a reader need. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/io.h"
#include "core/base/log.h"
#include "core/run/field.h"
#include "core/run/session_inner.h"

#define LOOK_SECONDS 1.0
#define SAY_AGAIN_SECONDS 60.0

static bool exists(const struct bst_session *s, const char *file)
{
    char path[768];
    bst_run_path(s->cfg.dir, file, path);
    return bst_io_exists(path);
}

enum bst_err bst_session_replace_preset(const struct bst_session *s)
{
    struct bst_sb text;
    bst_sb_init(&text, 1 << 20);
    bst_preset_write(&s->preset, &text);
    enum bst_err err = bst_run_write(s->cfg.dir, "preset.yaml", &text);
    bst_sb_fini(&text);
    return err;
}

enum bst_err bst_session_write_preset(const struct bst_session *s)
{
    char path[768];
    bst_run_path(s->cfg.dir, "preset.yaml", path);
    if (s->cfg.resume && bst_io_exists(path))
        return BST_OK;
    return bst_session_replace_preset(s);
}

enum bst_err bst_session_write_info(struct bst_session *s, const char *state)
{
    bst_copy_text(s->info.state, sizeof s->info.state, state);
    if (strcmp(state, "running"))
        s->info.ended = bst_clock_wall();
    return bst_run_info_write(&s->info);
}

enum bst_err bst_session_folder_open(struct bst_session *s)
{
    int fd = open(s->cfg.dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return bst_fail(BST_E_IO, "%s: %s", s->cfg.dir, strerror(errno));
    if (s->folder.fd >= 0)
        close(s->folder.fd);
    s->folder.fd = fd;
    return BST_OK;
}

void bst_session_folder_close(struct bst_session *s)
{
    if (s->folder.fd >= 0)
        close(s->folder.fd);
    s->folder.fd = -1;
}

static bool all_there(const struct bst_session *s)
{
    return bst_io_is_at(s->folder.fd, s->cfg.dir) &&
           bst_run_lock_is_there(s->cfg.dir, s->cfg.lock) && bst_journal_is_there(s->journal) &&
           bst_metrics_is_there(s->metrics) &&
           (!s->recorder || bst_recorder_is_there(s->recorder)) && exists(s, "preset.yaml") &&
           exists(s, "run.json") && (!s->saved || exists(s, "checkpoints"));
}

/* What is in the way of putting a file back is not this run's, and may be somebody's only copy. */
static enum bst_err check_place(const struct bst_session *s)
{
    static const char *const of_a_run[] = {"preset.yaml", "run.json", "checkpoints"};
    bool own = bst_io_is_at(s->folder.fd, s->cfg.dir);
    const char *found = NULL;
    struct stat st;
    if (lstat(s->cfg.dir, &st))
        return errno == ENOENT || errno == ENOTDIR
                   ? BST_OK
                   : bst_fail(BST_E_IO, "%s: %s", s->cfg.dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return bst_fail(BST_E_EXISTS, "%s: is %s now", s->cfg.dir,
                        S_ISLNK(st.st_mode) ? "a link" : "a file");
    for (size_t i = 0; i < sizeof of_a_run / sizeof *of_a_run && !own; i++)
        if (exists(s, of_a_run[i]))
            found = of_a_run[i];
    if (!bst_journal_is_there(s->journal) && exists(s, "journal.jsonl"))
        found = "journal.jsonl";
    if (!bst_metrics_is_there(s->metrics) && exists(s, "metrics.jsonl"))
        found = "metrics.jsonl";
    return found ? bst_fail(BST_E_EXISTS, "%s: another %s than the run's is there now", s->cfg.dir,
                            found)
                 : BST_OK;
}

/* Nothing is written before the lock of the new folder is held: its owner may be another by now. */
static enum bst_err take_place(struct bst_session *s)
{
    int lock = s->cfg.lock;
    BST_TRY(check_place(s));
    BST_TRY(bst_io_make_dirs(s->cfg.dir, 0700));
    if (!bst_run_lock_is_there(s->cfg.dir, lock))
        BST_TRY(bst_run_lock(s->cfg.dir, &lock));
    enum bst_err err = bst_session_folder_open(s);
    if (err) {
        if (lock != s->cfg.lock)
            bst_run_unlock(lock);
        return err;
    }
    s->cfg.lock = lock;
    s->cfg.relocked(s->cfg.arg, lock);
    return BST_OK;
}

static enum bst_err write_files(struct bst_session *s, bool *metrics)
{
    if (!exists(s, "preset.yaml"))
        BST_TRY(bst_session_write_preset(s));
    if (!exists(s, "run.json"))
        BST_TRY(bst_session_write_info(s, "running"));
    if (!bst_journal_is_there(s->journal))
        BST_TRY(bst_journal_again(s->journal));
    *metrics = !bst_metrics_is_there(s->metrics);
    if (*metrics)
        BST_TRY(bst_metrics_again(s->metrics));
    if (s->recorder && !bst_recorder_is_there(s->recorder) && bst_recorder_again(s->recorder))
        bst_log(BST_LOG_WARN, "%s", bst_err_text());
    return bst_io_sync_dir(s->cfg.dir);
}

/* The numbers that speak of files: of those before, none is there. */
static void forget_files(struct bst_session *s, bool metrics)
{
    if (metrics)
        s->held_metrics = bst_metrics_bytes(s->metrics);
    if (exists(s, "checkpoints"))
        return;
    s->saved = false;
    s->held_checkpoint = s->checkpoint_seq = s->resumed_seq = 0;
    s->status.last_checkpoint_samples = (struct bst_metric){0};
    s->save_again = s->save_pause = 0;
    s->folder.save = true;
}

/* "deleted", or where it is. */
static void what_became(const struct bst_session *s, char out[600])
{
    char link[64], at[512];
    struct stat st;
    snprintf(link, sizeof link, "/proc/self/fd/%d", s->folder.fd);
    ssize_t n = readlink(link, at, sizeof at - 1);
    at[n > 0 ? n : 0] = '\0';
    if (bst_io_is_at(s->folder.fd, s->cfg.dir))
        snprintf(out, 600, "files of the run were deleted from its folder");
    else if (n > 0 && !fstat(s->folder.fd, &st) && st.st_nlink > 0 && !lstat(at, &st))
        snprintf(out, 600, "the run's folder was moved to %s", at);
    else
        snprintf(out, 600, "the run's folder was deleted");
}

static enum bst_err put_back(struct bst_session *s)
{
    char what[600];
    bool metrics = false;
    what_became(s, what);
    BST_TRY(take_place(s));
    BST_TRY(write_files(s, &metrics));
    bst_session_note(s, BST_DIAG_FOLDER_GONE,
                     "%s; made again, with %d journal entr%s%s, and a checkpoint follows", what,
                     bst_journal_count(s->journal),
                     bst_journal_count(s->journal) == 1 ? "y" : "ies",
                     metrics ? "; the metrics before this are lost" : "");
    forget_files(s, metrics);
    return BST_OK;
}

static void say_taken(struct bst_session *s, double now)
{
    char why[400];
    bst_copy_text(why, sizeof why, bst_err_text());
    bool news = !s->folder.lost || strcmp(why, s->folder.why) != 0;
    if (news || now - s->folder.said >= SAY_AGAIN_SECONDS) {
        s->folder.said = now;
        bst_copy_text(s->folder.why, sizeof s->folder.why, why);
        bst_session_note(s, BST_DIAG_FOLDER_TAKEN,
                         "the run's folder is gone and cannot be made again: %s; nothing is saved",
                         why);
    }
    s->folder.lost = true;
    bst_fail(BST_E_IO, "BST-609: %s", why);
}

enum bst_err bst_session_folder_look(struct bst_session *s, bool at_once)
{
    double now = bst_clock_now();
    if (!s->metrics || (!at_once && now < s->folder.next_look))
        return BST_OK;
    s->folder.next_look = now + LOOK_SECONDS;
    if (all_there(s)) {
        s->folder.lost = false;
        return BST_OK;
    }
    enum bst_err err = put_back(s);
    if (err)
        say_taken(s, now);
    else
        s->folder.lost = false;
    return err;
}
