/* Keys and what they ask for: one table, tui/keys.def, which the person's configuration may bind
 * otherwise before a view opens. Pure from then on. */
#ifndef TUI_KEYS_H
#define TUI_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"

/* A key is a Unicode code point, a control character (^A is 1), or one of these. */
#define TUI_NAMED_KEYS(X)                                                                          \
    X(UP, "Up")                                                                                    \
    X(DOWN, "Down")                                                                                \
    X(LEFT, "Left")                                                                                \
    X(RIGHT, "Right")                                                                              \
    X(HOME, "Home")                                                                                \
    X(END, "End")                                                                                  \
    X(PAGE_UP, "PageUp")                                                                           \
    X(PAGE_DOWN, "PageDown")                                                                       \
    X(BACK_TAB, "BackTab")                                                                         \
    X(BACKSPACE, "Backspace")                                                                      \
    X(DELETE, "Delete")                                                                            \
    X(F1, "F1")                                                                                    \
    X(F2, "F2")                                                                                    \
    X(F3, "F3")                                                                                    \
    X(F4, "F4")                                                                                    \
    X(F5, "F5")                                                                                    \
    X(F6, "F6")                                                                                    \
    X(F7, "F7")                                                                                    \
    X(F8, "F8")                                                                                    \
    X(F9, "F9")                                                                                    \
    X(F10, "F10")                                                                                  \
    X(F11, "F11")                                                                                  \
    X(F12, "F12")                                                                                  \
    X(PASTE, "Paste")        /* the terminal says that pasted text follows … */                  \
    X(PASTE_END, "PasteEnd") /* … and that it is over */                                         \
    X(MOUSE, "Mouse")                                                                              \
    X(RESIZE, "Resize")

enum tui_key {
    TUI_KEY_TAB = '\t',
    TUI_KEY_ENTER = '\r',
    TUI_KEY_ESC = 27,
    TUI_KEY_NAMED = 0x110000, /* past the last code point */
#define X(name, text) TUI_KEY_##name,
    TUI_NAMED_KEYS(X)
#undef X
};

enum { TUI_KEY_MUTATES = 1, TUI_KEY_ARMED = 2, TUI_KEY_FOOTER = 4 };

#define TUI_KEY_GROUPS(X)                                                                          \
    X(CHANGE, "Change the run")                                                                    \
    X(RUN, "The run")                                                                              \
    X(VIEW, "Panes")                                                                               \
    X(CHART, "Charts")                                                                             \
    X(LIST, "Lists")                                                                               \
    X(GENERAL, "General")                                                                          \
    X(SWEEP, "The view of a sweep")

enum tui_key_group {
#define X(name, heading) TUI_GROUP_##name,
    TUI_KEY_GROUPS(X)
#undef X
        TUI_N_GROUPS
};

enum tui_request {
#define X(name, keys, group, flags, label, help) TUI_REQ_##name,
#include "tui/keys.def"
#undef X
    TUI_N_REQUESTS,
    TUI_REQ_NONE = -1
};

struct tui_key_info {
    const char *name, *keys;
    enum tui_key_group group;
    unsigned flags;
    const char *label, *help;
};

extern const struct tui_key_info tui_keys[TUI_N_REQUESTS]; /* with the keys of the table */
const char *tui_group_heading(enum tui_key_group group);

/* What may be on the screen. A key means one thing in each, and maybe another in the other. */
enum tui_key_view { TUI_KEYS_CONSOLE, TUI_KEYS_SWEEP, TUI_N_KEY_VIEWS };
bool tui_keys_in(enum tui_key_view view, enum tui_request req);

/* The keys in force, as keys.def writes them; "": none. */
const char *tui_keys_of(enum tui_request req);
/* "batch-up", as the configuration calls it; TUI_REQ_NONE: nothing is called so. */
enum tui_request tui_request_by_name(const char *name);
void tui_request_name(enum tui_request req, char out[32]);
/* Binds it to other keys: blanks between them, "none" for no key. BST_E_PARSE: not keys. */
BST_MUST_USE enum bst_err tui_keys_bind(enum tui_request req, const char *keys);
/* A key that does two things in one view. */
struct tui_key_clash {
    enum tui_request which[2]; /* as in the table, one after the other */
    char key[24];              /* as keys.def writes it */
};
/* All there are among the keys in force; gives their number, of which `most` are in `out`. */
int tui_keys_clashes(struct tui_key_clash *out, int most);
void tui_keys_reset(void); /* all as in the table */

enum tui_request tui_key_request(enum tui_key_view view, int key);
/* One key as keys.def writes it, from *text onwards, which moves past it and the blanks after it;
 * -1 at the end or at nonsense. */
int tui_key_parse(const char **text);
/* All ways to type it, for people: without the brackets. */
void tui_keys_text(const char *keys, char *out, size_t room);
/* The first way to type it, as keys.def writes it without the brackets: "Esc", "+"; "" when no key
 * is bound to it. */
void tui_key_first(enum tui_request req, char *out, size_t room);

#endif
