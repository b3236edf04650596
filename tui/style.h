/* What a piece of the screen means. Panes name a style, only tui/screen.c knows how it looks; no
 * meaning is carried by colour alone. Plain values. */
#ifndef TUI_STYLE_H
#define TUI_STYLE_H

/* X(NAME, foreground, attributes): colours 0–7, -1 the terminal's own. */
#define TUI_STYLES(X)                                                                              \
    X(NORMAL, -1, 0)                                                                               \
    X(DIM, -1, TUI_LOOK_DIM)                                                                       \
    X(STRONG, -1, TUI_LOOK_BOLD)                                                                   \
    X(RULE, -1, TUI_LOOK_DIM)                                                                      \
    X(TITLE, -1, 0)                                                                                \
    X(FOCUS, 6, TUI_LOOK_BOLD)                                                                     \
    X(KEY, 6, TUI_LOOK_BOLD)                                                                       \
    X(GOOD, 2, 0)                                                                                  \
    X(WARN, 3, TUI_LOOK_BOLD)                                                                      \
    X(BAD, 1, TUI_LOOK_BOLD)                                                                       \
    X(TRAIN, 6, 0)                                                                                 \
    X(EVAL, 3, TUI_LOOK_BOLD)                                                                      \
    X(SPEED, 2, 0)                                                                                 \
    X(NORM, 5, 0)                                                                                  \
    X(RATE, 4, TUI_LOOK_BOLD)                                                                      \
    X(PENDING, 3, TUI_LOOK_BOLD)                                                                   \
    X(BAND, 2, TUI_LOOK_DIM)                                                                       \
    X(BAR_USED, 2, 0)                                                                              \
    X(BAR_PLANNED, 4, 0)                                                                           \
    X(ARMED, 3, TUI_LOOK_REVERSE | TUI_LOOK_BOLD)                                                  \
    X(HEADER, -1, TUI_LOOK_BOLD)                                                                   \
    X(SELECT, -1, TUI_LOOK_REVERSE)                                                                \
    X(LINE_1, 6, 0) /* of several alike, each with a letter besides */                             \
    X(LINE_2, 3, 0)                                                                                \
    X(LINE_3, 2, 0)                                                                                \
    X(LINE_4, 5, 0)                                                                                \
    X(LINE_5, 4, TUI_LOOK_BOLD)                                                                    \
    X(LINE_6, 1, 0)

enum { TUI_LOOK_DIM = 1, TUI_LOOK_BOLD = 2, TUI_LOOK_REVERSE = 4 };

enum tui_style {
#define X(name, fg, look) TUI_##name,
    TUI_STYLES(X)
#undef X
        TUI_N_STYLES
};

#endif
