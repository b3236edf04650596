/* The view of a batch sweep: a row and a curve for each batch, side by side. Keys in, frames out,
 * without a terminal; tui/study_screen.h puts it on one. Owned by its driver; one thread. */
#ifndef TUI_STUDY_H
#define TUI_STUDY_H

#include "core/run/study.h"
#include "tui/app.h"
#include "tui/frame.h"
#include "tui/keys.h"

/* Beside those of tui/app.h: the console on tui_study_chosen(), the sweep's end. */
enum { TUI_DO_OPEN = 64, TUI_DO_STOP = 128 };

enum tui_study_y { TUI_STUDY_ACCURACY, TUI_STUDY_LOSS, TUI_STUDY_N_Y };
enum tui_study_x { TUI_STUDY_BOTH, TUI_STUDY_SAMPLES, TUI_STUDY_TIME, TUI_STUDY_N_X };

struct tui_study {
    const struct bst_study *study; /* borrowed */
    int batch[BST_SWEEP_BATCHES];  /* its batches by size, as numbers in the plan */
    int selected;                  /* of them; -1: none */
    enum tui_study_y y;
    enum tui_study_x x;
    bool log;
    bool stoppable; /* this command started it */
    bool at_rest;   /* nobody trains, for longer than it takes to start the next run */
    bool asking;    /* whether to stop it */
    bool pasting;   /* what is pasted is no key */
    bool help;
    int help_scroll;
    char message[400]; /* until the next key */
    enum tui_style message_style;
};

/* What the view answers to, and what that means here. */
struct tui_study_key {
    enum tui_request req;
    const char *label, *help;
};
extern const struct tui_study_key tui_study_keys[];
extern const int tui_n_study_keys;

void tui_study_init(struct tui_study *v, const struct bst_study *study);
unsigned tui_study_press(struct tui_study *v, int key); /* TUI_DO_… */
void tui_study_draw(const struct tui_study *v, struct tui_frame *f);

/* The run that Enter opens: of the selected batch, without one of all, the one that trains, else
 * the latest that was begun; NULL: none was. */
const struct bst_study_run *tui_study_chosen(const struct tui_study *v);

/* Parts. */
void tui_study_table_draw(const struct tui_study *v, struct tui_area a);
/* Titles of the columns that a table so wide has no room for, ", " between. */
void tui_study_hidden(int width, struct bst_sb *out);
void tui_study_charts_draw(const struct tui_study *v, struct tui_area a);
wchar_t tui_study_letter(int row);
enum tui_style tui_study_style(int row);
/* The run of a row's batch that trains now; NULL: none. */
const struct bst_study_run *tui_study_live(const struct tui_study *v, int row);
/* The i-th run of a row's batch. */
const struct bst_study_run *tui_study_run(const struct tui_study *v, int row, int i);

#endif
