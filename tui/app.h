/* The console without its terminal: keys in, frames out. Both the real screen and a test's script
 * drive it. Owned by its driver; one thread. */
#ifndef TUI_APP_H
#define TUI_APP_H

#include "tui/frame.h"
#include "tui/keys.h"
#include "tui/model.h"

/* What a key or an event makes necessary. */
enum {
    TUI_DO_DRAW = 1,
    TUI_DO_CLEAR = 2,   /* the terminal may show something else: draw all of it */
    TUI_DO_REFRESH = 4, /* ask the trainer now, not at the next tick */
    TUI_DO_SUSPEND = 8,
    TUI_DO_LEAVE = 16,
    TUI_DO_BELL = 32,
};

struct tui_app {
    struct tui_model model;
    struct tui_link *link;
    struct tui_frame frame;
    const struct tui_console_cfg *cfg;
    bool pasting;
    uint64_t direct_id; /* a command sent without being armed; its answer is shown */
    uint64_t trial_id;  /* a trial of a change; that is armed again when it has been answered */
    struct tui_wish tried;
    double opened;           /* when a dialog that asks was opened */
    uint64_t nonfinite_seen; /* for the bell */
    char note_seen[256];
    bool note_begun; /* a status has been seen */
    bool had_lease;  /* when the model last looked */
};

void tui_app_init(struct tui_app *app, const struct tui_console_cfg *cfg, struct tui_link *link);
void tui_app_fini(struct tui_app *app); /* drops what is armed, gives the lease back */
unsigned tui_app_key(struct tui_app *app, int key);
unsigned tui_app_mouse(struct tui_app *app, int x, int y, int button); /* 1; 4, 5: the wheel */
unsigned tui_app_events(struct tui_app *app);                          /* everything the link has */
unsigned tui_app_tick(struct tui_app *app);                            /* time has passed */
void tui_app_draw(struct tui_app *app);
/* Seconds until something on the screen changes by time alone; negative: nothing does. */
double tui_app_next(const struct tui_app *app);

/* Parts. */
unsigned tui_prompt_key(struct tui_app *app, int key);
void tui_prompt_open(struct tui_app *app, char mark);
void tui_prompt_paste(struct tui_app *app, int key);
unsigned tui_words_run(struct tui_app *app, const char *line);
unsigned tui_request_run(struct tui_app *app, enum tui_request req);
void tui_preset_ask(struct tui_app *app); /* the selected preset's dry run */
unsigned tui_direct(struct tui_app *app, const char *command);
/* The overlay of options; false when the key is none of its own. */
bool tui_options_key(struct tui_app *app, enum tui_request req);
void tui_save(struct tui_app *app, const char *file);

#endif
