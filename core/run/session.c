#include "core/run/session.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/io.h"
#include "core/base/log.h"
#include "core/run/crew.h"
#include "core/run/field.h"
#include "core/run/session_inner.h"
#include "core/train/checkpoint.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_PREEMPTED = 75 };
enum { PAUSE_POLL_MS = 1000 };

static void fill_identity(struct bst_session *s)
{
    struct bst_status *st = &s->status;
    struct bst_run_info *info = &s->info;
    const char *base = strrchr(s->cfg.dir, '/');
    if (gethostname(info->host, sizeof info->host - 1))
        info->host[0] = '\0';
    bst_copy_text(info->name, sizeof info->name, base ? base + 1 : s->cfg.dir);
    bst_copy_text(info->dir, sizeof info->dir, s->cfg.dir);
    bst_copy_text(info->preset, sizeof info->preset,
                  s->preset.name[0] ? s->preset.name : s->preset.id);
    bst_copy_text(info->preset_id, sizeof info->preset_id, s->preset.id);
    info->pid = getpid();
    info->started = bst_clock_wall();
    bst_copy_text(st->run, sizeof st->run, info->name);
    bst_copy_text(st->dir, sizeof st->dir, info->dir);
    bst_copy_text(st->host, sizeof st->host, info->host);
    bst_copy_text(st->preset, sizeof st->preset, info->preset);
    bst_copy_text(st->net, sizeof st->net, s->preset.model.name);
    bst_copy_text(st->data, sizeof st->data, s->preset.data.format);
    bst_copy_text(st->optimizer, sizeof st->optimizer,
                  bst_optimizer_info((enum bst_optimizer)s->preset.optimizer)->name);
    bst_copy_text(st->precision, sizeof st->precision,
                  bst_precision_name((enum bst_precision)s->preset.precision));
    st->pid = info->pid;
    if (s->preset.grad_norm_band.n == 2) {
        st->grad_low = (struct bst_metric){s->preset.grad_norm_band.v[0], true};
        st->grad_high = (struct bst_metric){s->preset.grad_norm_band.v[1], true};
    }
    bst_advisor_init(&s->advisor);
    bst_watch_init(&s->watch, (struct bst_band){st->grad_low.value, st->grad_high.value});
}

static void usr1(void *arg)
{
    bst_server_check_socket(arg);
}

/* What the process before has left in run.json. */
static void read_before(struct bst_session *s)
{
    struct bst_run_info before;
    if (!s->cfg.resume || bst_run_info_read(s->cfg.dir, &before))
        return;
    s->killed_pid = before.ended > 0 ? 0 : before.pid;
    /* The preset was read from the run's own folder, whose file is not called what it was. */
    bst_copy_text(s->preset.id, sizeof s->preset.id, before.preset_id);
    bst_copy_text(s->info.preset_id, sizeof s->info.preset_id, before.preset_id);
}

/* Socket and run.json first: whoever started the run can attach while the data are still read. */
static enum bst_err open_control(struct bst_session *s)
{
    struct bst_server_cfg cfg = {
        .run = s->info.name,
        .dir = s->info.dir,
        .readonly = s->cfg.readonly,
        .wake_fd = s->wake_fd,
        .interrupt = &s->interrupt,
    };
    BST_TRY(bst_session_folder_open(s));
    read_before(s);
    BST_TRY(bst_server_open(&cfg, &s->server));
    bst_signals_on_usr1(s->signals, usr1, s->server);
    bst_copy_text(s->info.socket, sizeof s->info.socket, bst_server_path(s->server));
    bst_server_publish(s->server, &s->status);
    BST_TRY(bst_session_write_info(s, "running"));
    bst_run_register(&s->info);
    BST_TRY(bst_session_write_preset(s));
    if (s->cfg.ready)
        s->cfg.ready(s->cfg.arg);
    return BST_OK;
}

static void open_monitor(struct bst_session *s)
{
    struct bst_device_info info[BST_MAX_DEVICES];
    const char *uuids[BST_MAX_DEVICES];
    for (int i = 0; i < s->status.n_devices; i++) {
        bst_trainer_device(s->trainer, i, &info[i]);
        uuids[i] = info[i].uuid;
    }
    s->monitor = bst_monitor_open(uuids, s->status.n_devices, NULL);
}

static enum bst_err open_trainer(struct bst_session *s)
{
    enum bst_err err = bst_start_train_cfg(&s->preset, s->cfg.nets, &s->start, &s->train_cfg);
    if (!err)
        err = bst_start_spread(s->cfg.crew, &s->start, &s->train_cfg);
    BST_TRY(bst_crew_agree(s->cfg.crew, err));
    s->train_cfg.trace_path = s->cfg.trace_path;
    s->status.n_devices = s->train_cfg.ranks;
    bst_copy_text(s->status.backend, sizeof s->status.backend, s->train_cfg.backend->name);
    BST_TRY(bst_start_say_data(&s->preset, bst_trainer_open(&s->train_cfg, &s->trainer)));
    open_monitor(s);
    BST_TRY(bst_start_check_data(&s->preset, bst_trainer_data(s->trainer)));
    s->env = bst_start_env(&s->preset, &s->train_cfg, s->trainer);
    if (s->preset.noise_scale == BST_MEASURE_SPLIT && s->train_cfg.ranks == 1)
        s->env.least_accumulate = 2;
    bst_noise_init(&s->at.noise, BST_NOISE_SPAN);
    return BST_OK;
}

static enum bst_err interval(const struct bst_session *s, struct bst_interval iv, uint64_t *out)
{
    struct bst_scale scale = {s->env.dataset, s->live_start.batch, s->live_start.schedule.total};
    *out = 0;
    if (!(iv.value > 0))
        return BST_OK;
    BST_TRY(bst_interval_samples(iv, &scale, out));
    if (!*out)
        *out = 1;
    return BST_OK;
}

static enum bst_err set_marks(struct bst_session *s)
{
    BST_TRY(interval(s, s->preset.eval_interval, &s->eval_every));
    BST_TRY(interval(s, s->preset.checkpoint_interval, &s->checkpoint_every));
    s->at.next_eval = s->eval_every ? s->eval_every : UINT64_MAX >> 1;
    s->at.next_checkpoint = s->checkpoint_every ? s->checkpoint_every : UINT64_MAX >> 1;
    return BST_OK;
}

static enum bst_err load_init(struct bst_session *s)
{
    char note[200] = "";
    if (!s->preset.init[0])
        return BST_OK;
    enum bst_err err =
        bst_trainer_load(s->trainer, BST_STATE_WEIGHTS, s->preset.init, true, note, sizeof note);
    if (err)
        return bst_fail_in(err, "BST-405");
    if (note[0])
        bst_session_note(s, BST_DIAG_INIT_HEAD_NEW, "%s", note);
    return BST_OK;
}

static void say_notes(struct bst_session *s, const struct bst_sb *notes)
{
    char line[400];
    for (const char *p = notes->data; *p;) {
        size_t n = strcspn(p, "\n");
        const char *text = line;
        bst_copy_text(line, n + 1 < sizeof line ? n + 1 : sizeof line, p);
        p += n + (p[n] == '\n');
        enum bst_diag code = bst_session_code_of(BST_DIAG_NONE, &text);
        bst_session_note(s, code, "%s", text);
    }
}

static void say_data(struct bst_session *s)
{
    const struct bst_data_info *d = bst_trainer_data(s->trainer);
    int64_t code = 0;
    if (!d->note[0])
        return;
    if (d->diagnostic && strlen(d->diagnostic) == 7 && !bst_int_parse(d->diagnostic + 4, &code))
        code = 0;
    bst_session_note(s, (enum bst_diag)code, "%s", d->note);
}

/* What is as it was asked for, and likely not as it was meant. */
static void say_doubts(struct bst_session *s)
{
    if (s->env.no_momentum && s->live.schedule.peak > BST_ADAPTIVE_RATE_USUAL)
        bst_session_note(s, BST_DIAG_RATE_ADAPTIVE,
                         "a peak rate of %.3g is high for %s; one such as 0.1 is meant for sgd, "
                         "for %s set learning_rate too",
                         s->live.schedule.peak, s->status.optimizer, s->status.optimizer);
    struct bst_sb text;
    struct bst_plan_env env = s->env;
    env.samples = s->at.samples;
    bst_sb_init(&text, 1024);
    bst_start_unfinished(&s->preset, &env, &s->live, &text);
    if (text.len)
        bst_session_note(s, BST_DIAG_WARMUP_UNFINISHED, "%s", text.data);
    bst_sb_clear(&text);
    bst_start_unused(&s->preset, s->train_cfg.backend, &text);
    if (text.len)
        bst_session_note(s, BST_DIAG_KEY_UNUSED, "%s", text.data);
    bst_sb_fini(&text);
}

static enum bst_err open_state(struct bst_session *s, struct bst_sb *notes)
{
    char dir[768];
    bst_run_path(s->cfg.dir, "checkpoints", dir);
    if (bst_io_exists(dir))
        BST_TRY(bst_checkpoint_sweep(dir));
    BST_TRY(bst_journal_open(s->cfg.dir, notes, &s->journal));
    BST_TRY(bst_start_live(&s->preset, &s->env, &s->live_start));
    s->live = s->live_start;
    BST_TRY(set_marks(s));
    BST_TRY(bst_session_plan_changes(s));
    if (s->cfg.resume)
        BST_TRY(bst_session_resume(s, notes));
    else
        BST_TRY(bst_metrics_open(s->cfg.dir, 0, notes, &s->metrics));
    if (!s->saved)
        BST_TRY(load_init(s));
    BST_TRY(bst_session_fit(s, &s->live));
    return bst_trainer_set_split(s->trainer, (int64_t)s->live.batch, (int)s->live.split.accumulate,
                                 NULL);
}

static enum bst_err open_all(struct bst_session *s)
{
    struct bst_sb notes;
    bst_session_phase(s, BST_PHASE_STARTING);
    BST_TRY(open_control(s));
    BST_TRY(open_trainer(s));
    bst_sb_init(&notes, 8192);
    enum bst_err err = open_state(s, &notes);
    s->opened = bst_clock_now();
    if (!err && bst_recorder_open(s->cfg.dir, &s->recorder))
        bst_log(BST_LOG_WARN, "%s", bst_err_text());
    if (!err) {
        if (s->killed_pid)
            bst_session_note(s, BST_DIAG_KILLED_BEFORE, "process %d ended without being asked to",
                             s->killed_pid);
        say_notes(s, &notes);
        say_data(s);
        say_doubts(s);
    }
    bst_sb_fini(&notes);
    return err;
}

static bool asked_to_end(const struct bst_session *s)
{
    return bst_signals_asked(s->signals) != 0;
}

static uint64_t next_mark(uint64_t every, uint64_t samples)
{
    return every ? (samples / every + 1) * every : UINT64_MAX >> 1;
}

static void answer_all(struct bst_session *s, struct bst_inbound *list, int *n, const char *outcome,
                       enum bst_diag code, const char *text)
{
    for (int i = 0; i < *n; i++) {
        bst_session_journal(s, &list[i], outcome, code, text);
        bst_session_answer_text(s, &list[i], outcome, code, text);
    }
    *n = 0;
}

/* BST_E_CANCELLED: still due. */
static enum bst_err do_eval(struct bst_session *s)
{
    char text[200];
    enum bst_err err = bst_session_eval(s);
    if (err)
        return err;
    s->at.next_eval = next_mark(s->eval_every, s->at.samples);
    s->at.last_eval = s->at.samples;
    int n = snprintf(text, sizeof text, "loss %.4f, accuracy %.2f %%", s->at.eval_loss.value,
                     100 * s->at.eval_accuracy.value);
    if (s->at.eval_exact.valid)
        snprintf(text + n, sizeof text - (size_t)n, ", exact %.2f %%",
                 100 * s->at.eval_exact.value);
    answer_all(s, s->eval_for, &s->n_eval_for, "done", BST_DIAG_NONE, text);
    return BST_OK;
}

static void do_checkpoint(struct bst_session *s)
{
    char text[400];
    uint64_t mark = s->at.next_checkpoint;
    s->at.next_checkpoint = next_mark(s->checkpoint_every, s->at.samples);
    if (bst_session_save(s)) {
        s->at.next_checkpoint = mark;
        bst_copy_text(text, sizeof text, bst_err_text());
        answer_all(s, s->checkpoint_for, &s->n_checkpoint_for, "refused",
                   BST_DIAG_CHECKPOINT_FAILING, text);
        return;
    }
    snprintf(text, sizeof text, "checkpoint at update %" PRIu64, s->at.update);
    answer_all(s, s->checkpoint_for, &s->n_checkpoint_for, "done", BST_DIAG_NONE, text);
}

static bool checkpoint_due_at(const struct bst_session *s, uint64_t samples)
{
    bool marked = samples >= s->at.next_checkpoint || s->folder.save;
    return (marked && bst_clock_now() >= s->save_again) || s->n_checkpoint_for;
}

static bool checkpoint_due(const struct bst_session *s)
{
    return checkpoint_due_at(s, s->at.samples);
}

/* At its mark, and at the end of the run whatever the mark; never when the preset says never. */
static bool eval_due_at(const struct bst_session *s, uint64_t samples)
{
    bool last = samples >= s->live.schedule.total && s->at.last_eval < samples;
    return s->n_eval_for || (s->eval_every && (samples >= s->at.next_eval || last));
}

static bool eval_due(const struct bst_session *s)
{
    return eval_due_at(s, s->at.samples);
}

/* What is due behind the updates that are on their way, but another update, waits for them. */
static enum bst_err settle_for_others(struct bst_session *s)
{
    uint64_t samples = bst_session_sent_to(s);
    bool more = !asked_to_end(s) && !s->stopping && !s->lost && !s->paused && !s->find_waiting &&
                !s->autopilot[0] && s->next_replay == s->n_replay &&
                (!s->cfg.first_command || s->first_given) && samples < s->live.schedule.total;
    if (more && !eval_due_at(s, samples) && !checkpoint_due_at(s, samples) &&
        !bst_session_planned_due(s, samples))
        return BST_OK;
    return bst_session_settle(s);
}

static void wait_paused(struct bst_session *s)
{
    uint64_t count;
    struct pollfd p = {.fd = s->wake_fd, .events = POLLIN};
    bst_session_phase(s, BST_PHASE_PAUSED);
    bst_session_publish(s, true);
    if (poll(&p, 1, PAUSE_POLL_MS) > 0 && read(s->wake_fd, &count, sizeof count) < 0 &&
        errno != EAGAIN)
        bst_log(BST_LOG_WARN, "eventfd: %s", strerror(errno));
}

/* One turn between updates and the update itself. BST_E_CANCELLED: somebody wants something. */
static enum bst_err turn(struct bst_session *s)
{
    bool due = (eval_due(s) || checkpoint_due(s)) && !s->paused;
    /* What is due belongs to the settings before the next change. */
    BST_TRY(bst_session_commands(s, due && !s->pending));
    if (s->stopping || s->lost)
        return BST_OK;
    BST_TRY(settle_for_others(s));
    if (!s->pending && (s->n_eval_for || (!s->paused && eval_due(s))))
        BST_TRY(do_eval(s));
    bool hurry = s->n_checkpoint_for || (s->folder.save && checkpoint_due(s));
    /* What became due since it was looked at waits for the next turn. */
    if (!s->pending && !s->n_sent && (hurry || (!s->paused && checkpoint_due(s))))
        do_checkpoint(s);
    if (!s->pending && s->find_waiting) {
        BST_TRY(bst_session_find(s));
        return BST_OK;
    }
    if (s->paused) {
        wait_paused(s);
        return BST_OK;
    }
    if (s->at.samples >= s->live.schedule.total)
        return BST_OK;
    bst_session_phase(s, BST_PHASE_TRAINING);
    return bst_session_update(s);
}

/* A process is lost: what of the updates on their way has happened is known before the run ends. */
static enum bst_err check_crew(struct bst_session *s)
{
    enum bst_err err = s->cfg.crew ? bst_cluster_check(s->cfg.crew) : BST_OK;
    if (!err)
        return BST_OK;
    const struct bst_failure why = bst_err_keep(err);
    if (bst_session_settle(s))
        bst_log(BST_LOG_DEBUG, "%s", bst_err_text());
    return bst_err_restore(&why);
}

static enum bst_err train(struct bst_session *s)
{
    for (;;) {
        atomic_store(&s->interrupt, 0);
        /* First: the launcher's signal to the others is then no wish that this run should end. */
        BST_TRY(check_crew(s));
        BST_TRY(settle_for_others(s));
        if (asked_to_end(s) || s->stopping)
            return bst_session_settle(s);
        if (s->lost)
            return bst_fail(BST_E_STATE, "a rewind was written down and could not be done");
        /* Before the end is looked at: a change put back may move it. */
        bool replaying = s->next_replay < s->n_replay;
        BST_TRY(bst_session_replay(s));
        bst_session_planned(s, replaying);
        bst_session_first_command(s);
        bst_session_folder_look(s, false);
        bst_session_autopilot(s);
        if (s->at.samples >= s->live.schedule.total && !s->pending && !s->paused && !eval_due(s))
            return BST_OK;
        enum bst_err err = turn(s);
        if (err && err != BST_E_CANCELLED)
            return err;
    }
}

static void drop_waiting(struct bst_session *s, const char *why)
{
    struct bst_inbound in;
    if (s->pending)
        bst_session_take_back(s, "dropped", BST_DIAG_NONE, why);
    answer_all(s, s->eval_for, &s->n_eval_for, "dropped", BST_DIAG_NONE, why);
    answer_all(s, s->checkpoint_for, &s->n_checkpoint_for, "dropped", BST_DIAG_NONE, why);
    bst_session_find_drop(s, why);
    while (s->server && bst_server_next(s->server, false, &in))
        bst_session_answer_text(s, &in, "dropped", BST_DIAG_NONE, why);
}

static int end_preempted(struct bst_session *s)
{
    bst_session_phase(s, BST_PHASE_STOPPING);
    drop_waiting(s, "the process was asked to end");
    if (bst_session_save(s)) {
        bst_session_phase(s, BST_PHASE_FAILED);
        return EXIT_FAILED;
    }
    bst_session_note(s, BST_DIAG_PREEMPTED, "asked to end by a signal, saved at update %" PRIu64,
                     s->at.update);
    bst_session_phase(s, BST_PHASE_PREEMPTED);
    return EXIT_PREEMPTED;
}

static int end_stopped(struct bst_session *s)
{
    char text[300];
    bst_session_phase(s, BST_PHASE_STOPPING);
    enum bst_err err = bst_session_save(s);
    if (!err)
        err = bst_session_write_weights(s);
    if (err)
        bst_copy_text(text, sizeof text, bst_err_text());
    else
        snprintf(text, sizeof text, "stopped at update %" PRIu64 " with a checkpoint",
                 s->at.update);
    /* Before the answer: whoever has it may look at once. */
    bst_session_phase(s, err ? BST_PHASE_FAILED : BST_PHASE_STOPPED);
    bst_session_journal(s, &s->stop_for, err ? "refused" : "done", BST_DIAG_NONE, text);
    bst_session_answer_text(s, &s->stop_for, err ? "refused" : "done", BST_DIAG_NONE, text);
    drop_waiting(s, "the run was stopped");
    return err ? EXIT_FAILED : EXIT_DONE;
}

static int end_done(struct bst_session *s)
{
    bst_session_planned_end(s);
    s->at.next_checkpoint = next_mark(s->checkpoint_every, s->at.samples);
    enum bst_err err = bst_session_save(s);
    if (!err)
        err = bst_session_write_weights(s);
    bst_session_advice_end(s);
    drop_waiting(s, "the run is done");
    bst_session_phase(s, err ? BST_PHASE_FAILED : BST_PHASE_DONE);
    return err ? EXIT_FAILED : EXIT_DONE;
}

/* Skipped updates moved nothing, so what is there is the last good state. */
static int end_failed(struct bst_session *s, enum bst_err err)
{
    char why[400];
    bst_copy_text(why, sizeof why, bst_err_text());
    if (err == BST_E_DIVERGED && bst_session_save(s))
        bst_log(BST_LOG_ERROR, "%s", bst_err_text());
    drop_waiting(s, why);
    bst_session_fault_end(s, err, why, sizeof why);
    char code[8];
    bst_copy_text(s->status.note, sizeof s->status.note, bst_session_split_code(why, code));
    bst_copy_text(s->status.note_code, sizeof s->status.note_code, code);
    bst_session_phase(s, BST_PHASE_FAILED);
    bst_fail(err, "%s", why);
    return EXIT_FAILED;
}

static int run_all(struct bst_session *s, const char **state)
{
    enum bst_err err = open_all(s);
    *state = "failed";
    if (err) {
        int code = end_failed(s, err);
        return code == EXIT_FAILED && bst_start_is_usage(err) ? EXIT_USAGE : code;
    }
    err = train(s);
    if (err)
        return end_failed(s, err);
    int code;
    if (asked_to_end(s)) {
        code = end_preempted(s);
        *state = code == EXIT_PREEMPTED ? "preempted" : "failed";
    } else if (s->stopping) {
        code = end_stopped(s);
        *state = code == EXIT_DONE ? "stopped" : "failed";
    } else {
        code = end_done(s);
        *state = code == EXIT_DONE ? "done" : "failed";
    }
    return code;
}

static void close_all(struct bst_session *s, const char *state)
{
    char why[400];
    bst_copy_text(why, sizeof why, bst_err_text());
    if (s->server) {
        bst_session_publish(s, true); /* with the last entry of the journal */
        if (!bst_session_folder_look(s, true)) {
            bst_session_write_status(s);
            if (bst_session_write_info(s, state))
                bst_log(BST_LOG_ERROR, "%s", bst_err_text());
        }
        bst_run_unregister(&s->info);
    }
    if (s->signals)
        bst_signals_on_usr1(s->signals, NULL, NULL);
    bst_server_close(s->server, state);
    bst_monitor_close(s->monitor);
    bst_trainer_close(s->trainer);
    if (s->trainer) /* the others have been told */
        bst_cluster_busy(s->cfg.crew, false);
    bst_metrics_close(s->metrics);
    bst_recorder_close(s->recorder);
    bst_journal_close(s->journal);
    bst_session_folder_close(s);
    bst_free(s->replay);
    bst_signals_stop(s->signals);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    bst_fail(BST_E_STATE, "%s", why);
}

int bst_session_run(const struct bst_session_cfg *cfg)
{
    const char *state = "failed";
    struct bst_session *s = bst_xalloc(sizeof *s);
    int code = EXIT_FAILED;
    s->cfg = *cfg;
    s->preset = *cfg->preset;
    s->at.momentum_factor = 1;
    s->loss_last = s->loss_mean = s->held_loss = NAN;
    s->folder.fd = -1;
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fill_identity(s);
    if (s->wake_fd < 0)
        bst_fail(BST_E_IO, "eventfd: %s", strerror(errno));
    else if (!bst_signals_start(&s->interrupt, s->wake_fd, &s->signals))
        code = run_all(s, &state);
    close_all(s, state);
    bst_free(s);
    return code;
}
