/* Runs a key script over the view of a made-up sweep and prints what it saves:
 *   tui_study SCRIPT [--kind usual|few|over] [--ascii]
 * Directives: size W H, keys K K …, expect TEXT, refuse TEXT, save. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "tui/keys.h"
#include "tui/study.h"

enum { EPOCHS = 5, PER_EPOCH = 8000, POINTS = 40 };
enum kind { USUAL, FEW, OVER };

/* Something that goes up and down, the same everywhere. */
static double wobble(uint64_t x)
{
    x = (x ^ 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
    return (double)(x >> 40) / (double)(1 << 24) - 0.5;
}

static void train(struct bst_study_run *run, double epochs)
{
    double pace = 1.2 / sqrt((double)run->batch / 32), speed = 2000 * pow((double)run->batch, 0.3);
    run->epoch = epochs;
    run->samples_per_epoch = PER_EPOCH;
    run->points = bst_xcalloc(EPOCHS * POINTS, sizeof *run->points);
    run->evals = bst_xcalloc(EPOCHS, sizeof *run->evals);
    run->n_points = (int)(epochs * POINTS);
    run->n_evals = (int)epochs;
    for (int i = 0; i < run->n_points; i++) {
        double at = (i + 1.0) / POINTS, samples = at * PER_EPOCH;
        run->points[i] = (struct bst_study_point){
            samples, samples / speed,
            0.3 + 2 * exp(-pace * at) +
                0.1 * wobble(run->batch * 1000 + run->seed * 77 + (uint64_t)i)};
    }
    for (int i = 0; i < run->n_evals; i++)
        run->evals[i] = (struct bst_sweep_eval){
            (i + 1.0) * PER_EPOCH, (i + 1.0) * PER_EPOCH / speed,
            0.92 - 0.3 * exp(-pace * (i + 1)) + 0.004 * wobble(run->batch + run->seed)};
}

static void end(struct bst_study_run *run)
{
    train(run, EPOCHS);
    double seconds = run->evals[0].seconds;
    run->state = BST_STUDY_DONE;
    run->result = (struct bst_sweep_run){
        .batch = run->batch,
        .epoch_seconds = seconds,
        .samples_per_sec = PER_EPOCH / seconds,
        .memory_planned = 1.4e6 * (double)run->batch,
        .memory_peak = NAN,
        .accuracy = run->evals[EPOCHS - 1].accuracy,
        .best_accuracy = run->evals[EPOCHS - 1].accuracy,
        .loss = 0.4,
        .eval_samples = 2000,
        .whole = run->batch < 512,
        .evals = run->evals,
        .n_evals = EPOCHS,
    };
}

static void fill(struct bst_study *s, enum kind kind)
{
    struct bst_sweep_run done[32];
    s->n_runs = s->plan.n_batches * s->plan.repeats;
    s->runs = bst_xcalloc((size_t)s->n_runs, sizeof *s->runs);
    for (int i = 0; i < s->n_runs; i++) {
        struct bst_study_run *run = &s->runs[i];
        run->batch = s->plan.batches[i % s->plan.n_batches];
        run->seed = 1 + (uint64_t)(i / s->plan.n_batches);
        run->epoch = run->left = NAN;
        run->epochs = EPOCHS;
        int so_far = kind == OVER ? s->n_runs : kind == FEW ? 0 : 9;
        if (run->batch == 512 && kind != FEW) {
            run->state = BST_STUDY_FAILED;
            snprintf(run->why, sizeof run->why, "a batch of 512 needs 716 MiB of 512 MiB");
            s->n_failed++;
        } else if (i < so_far) {
            end(run);
            done[s->n_done++] = run->result;
        } else if (i == so_far) {
            train(run, 1.3);
            run->state = BST_STUDY_LIVE;
            run->left = 62;
        }
    }
    bst_sweep_table(&s->sweep, done, s->n_done);
}

static void save(const struct tui_frame *f)
{
    struct bst_sb text;
    bst_sb_init(&text, 1 << 20);
    tui_frame_text(f, &text);
    fputs(text.data, stdout);
    bst_sb_fini(&text);
}

static bool shows(const struct tui_frame *f, const char *text)
{
    struct bst_sb screen;
    bst_sb_init(&screen, 1 << 20);
    tui_frame_text(f, &screen);
    bool found = strstr(screen.data, text) != NULL;
    bst_sb_fini(&screen);
    return found;
}

/* "NAME KEYS", as a line of the configuration. */
static bool bind(char *line)
{
    const char *name = strsep(&line, " ");
    enum tui_request req = tui_request_by_name(name);
    return req != TUI_REQ_NONE && line && !tui_keys_bind(req, line);
}

static bool run_line(struct tui_study *v, struct tui_frame *f, char *line)
{
    int w, h;
    if (!*line || *line == '#')
        return true;
    if (sscanf(line, "size %d %d", &w, &h) == 2)
        tui_frame_resize(f, w, h);
    else if (!strncmp(line, "keys ", 5))
        for (const char *s = line + 5; *s;)
            tui_study_press(v, tui_key_parse(&s));
    else if (!strncmp(line, "bind ", 5))
        return bind(line + 5);
    else if (!strncmp(line, "expect ", 7))
        return shows(f, line + 7);
    else if (!strncmp(line, "refuse ", 7))
        return !shows(f, line + 7);
    else if (!strcmp(line, "save"))
        save(f);
    else
        return false;
    tui_study_draw(v, f);
    return true;
}

int main(int argc, char **argv)
{
    struct bst_study s = {.plan = {.dir = "/runs/sweep-quickstart-1",
                                   .preset = "quickstart",
                                   .batches = {256, 32, 64, 128, 512, 1024},
                                   .n_batches = 6,
                                   .repeats = 2,
                                   .epochs = EPOCHS},
                          .sweep = {.delta = -1, .target = NAN}};
    struct tui_study v;
    struct tui_frame f;
    const char *script = NULL;
    char *text = NULL;
    size_t n;
    enum kind kind = USUAL;
    bool ascii = false, good = true;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--ascii"))
            ascii = true;
        else if (!strcmp(argv[i], "--kind") && i + 1 < argc)
            kind = !strcmp(argv[++i], "few") ? FEW : !strcmp(argv[i], "over") ? OVER : USUAL;
        else
            script = argv[i];
    }
    if (!script || !setlocale(LC_CTYPE, "C.UTF-8") || bst_io_read_file(script, 1 << 16, &text, &n))
        return 2;
    fill(&s, kind);
    tui_study_init(&v, &s);
    tui_frame_init(&f, 80, 24);
    f.ascii = ascii;
    f.symbols = ascii ? TUI_DOTS_ASCII : TUI_DOTS_BRAILLE;
    char *rest = text;
    for (char *line; good && (line = strsep(&rest, "\n"));) {
        good = run_line(&v, &f, line);
        if (!good)
            fprintf(stderr, "not so: %s\n", line);
    }
    tui_frame_fini(&f);
    bst_free(text);
    for (int i = 0; i < s.n_runs; i++) {
        bst_free(s.runs[i].points);
        bst_free(s.runs[i].evals);
    }
    bst_free(s.runs);
    return !good;
}
