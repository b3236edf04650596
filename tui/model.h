/* All that a screen depends on, as one value: facts from the run, the change being prepared, and
 * how the person looks at it. tui_render() draws from this and nothing else. Owned by the console;
 * one thread. */
#ifndef TUI_MODEL_H
#define TUI_MODEL_H

#include "core/tune/health.h"
#include "tui/console.h"
#include "tui/layout.h"
#include "tui/link.h"
#include "tui/style.h"

enum tui_armed_state {
    TUI_ARMED_NONE,
    TUI_ARMED_ASKING,   /* the trainer is working the proposal out */
    TUI_ARMED_PROPOSED, /* waits for y or Esc */
    TUI_ARMED_REFUSED,  /* the trainer says why not; waits for Esc or another key */
    TUI_ARMED_APPLYING, /* sent; waits for the values to be read back */
};

/* What repeated presses add up on. */
enum tui_armed_kind { TUI_ARMED_BATCH, TUI_ARMED_WARMUP, TUI_ARMED_LR, TUI_ARMED_TEXT };

struct tui_wish {
    enum tui_armed_kind kind;
    int presses;    /* net; TEXT: 1; 0: there is none */
    char text[160]; /* the command */
};

enum { TUI_WAITING = 4 };

struct tui_armed {
    enum tui_armed_state state;
    struct tui_wish wish;
    struct tui_wish next[TUI_WAITING]; /* asked for meanwhile; armed in turn, once it is in force */
    int n_next;
    uint64_t id;    /* of the request awaited */
    double pressed; /* when it was armed or last altered */
    bool early;     /* y came before the proposal could be read, and was not taken */
    struct bst_reply reply;
};

enum tui_x { TUI_X_EPOCH, TUI_X_UPDATE, TUI_X_TIME, TUI_N_X };

enum tui_overlay {
    TUI_OVERLAY_NONE,
    TUI_OVERLAY_HELP,
    TUI_OVERLAY_PRESETS,
    TUI_OVERLAY_SETTINGS,
    TUI_OVERLAY_STOP,
    TUI_OVERLAY_ADVICE,
    TUI_OVERLAY_LRFIND,
    TUI_OVERLAY_OPTIONS,
};

/* How this console draws and rings, from its start on; see tui/options.c. */
struct tui_options {
    double refresh; /* seconds between two frames */
    bool bell;
};

struct tui_view {
    int focus;      /* enum tui_pane_id */
    unsigned shown; /* bit 1 << pane */
    bool maximised, smooth, autoscale, layers, frozen;
    unsigned log; /* bit 1 << pane: logarithmic */
    enum tui_x x;
    double span; /* samples shown; 0: the whole run so far */
    double end;  /* last sample shown; 0: follow */
    char filter[48];
    int event;               /* one past the index of the event that is looked at; 0: none */
    int scroll[TUI_N_PANES]; /* lines from the newest or the worst */
    enum tui_overlay overlay;
    int overlay_scroll, overlay_select;
};

enum { TUI_LINE = 240, TUI_PAST = 50 };

/* A line being typed at the bottom: a command, or a filter. */
struct tui_prompt {
    char mark; /* ':' or '/'; 0: closed */
    char line[TUI_LINE];
    int len, at;          /* bytes, on a character's edge */
    char *past[TUI_PAST]; /* oldest first */
    int n_past, recall;   /* recall == n_past: the fresh line */
    char fresh[TUI_LINE];
    char hint[TUI_LINE];
};

/* What the picker knows of the presets: the dry run's answer, asked when one is selected. */
struct tui_preset_answer {
    bool asked, come;
    uint64_t id;
    struct bst_reply reply;
};

struct tui_model {
    double now;    /* bst_clock_now of this frame */
    bool readonly; /* --readonly or :readonly */
    bool has_status;
    struct bst_status status;
    enum tui_link_state link_state;
    char link_why[256];
    const char *fixed; /* why nothing can be changed here at all; "": it can */
    double ended;      /* s since 1970; 0: not, or not known when */
    char holder[80];   /* of the lease */
    bool has_lease;
    bool behind;                               /* the history is still being read */
    const struct bst_history *history;         /* borrowed from the link */
    int n_updates, n_evals, n_events, n_noise; /* of it that are shown; less than all when frozen */
    struct tui_armed armed;
    struct tui_view view;
    struct tui_options options;
    struct tui_prompt prompt;
    char message[600];
    enum tui_style message_style;
    bool message_own; /* an answer to somebody here, not news of the run */
    double message_until;
    const struct tui_preset *presets;
    int n_presets;
    struct tui_preset_answer preset_answer;
    struct bst_health_track layers[BST_MAX_LAYERS]; /* each layer's norm against its own past */
    int n_layers;
    uint64_t layers_update;   /* of the status last added to them */
    char *settings;           /* preset.yaml's text, for the settings view; NULL: not read */
    struct tui_layout layout; /* of the last frame */
};

void tui_model_init(struct tui_model *m);
void tui_model_fini(struct tui_model *m);
/* Shown in the footer for a few seconds: what came of something done here. */
void tui_say(struct tui_model *m, enum tui_style style, const char *fmt, ...) BST_PRINTF(3, 4);
/* The same for news of the run. */
void tui_notice(struct tui_model *m, enum tui_style style, const char *fmt, ...) BST_PRINTF(3, 4);
/* Whether tui_say() spoke in the last 4 s: news that can wait does not take its place. */
bool tui_said_lately(const struct tui_model *m);
/* Takes over what the link knows now, unless the display is frozen. */
void tui_model_follow(struct tui_model *m, struct tui_link *link);
/* May this console change the run? Else *why says why not. */
bool tui_model_may_change(const struct tui_model *m, char *why, size_t room);

#endif
