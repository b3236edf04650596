#define NCURSES_WIDECHAR 1
#include "tui/screen.h"

#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "tui/keys.h"

/* Past curses' own key codes. */
enum { CODE_PASTE = KEY_MAX + 1, CODE_PASTE_END };

static struct {
    SCREEN *screen;
    WINDOW *keys; /* a pad: reading a key from stdscr would draw it */
    bool pastes, all;
    bool colored, ascii;
    enum tui_chart_symbols symbols;
    bool square;
    attr_t look[TUI_N_STYLES];
    short pair[TUI_N_STYLES];
    int mouse_x, mouse_y, mouse_button;
} the;

static bool starts(const char *s, const char *with)
{
    return !strncmp(s, with, strlen(with));
}

/* Whether there is an entry for the type, and whether it moves the cursor. */
static bool look_up(const char *term, bool *moves)
{
    int found = 0;
    if (setupterm(term, STDOUT_FILENO, &found) != OK)
        return false;
    *moves = cursor_address != NULL && clear_screen != NULL;
    del_curterm(cur_term);
    return true;
}

bool tui_screen_known(const char *term)
{
    bool moves = false;
    return term && *term && strcmp(term, "dumb") != 0 && look_up(term, &moves) && moves;
}

/* Tries TERM, then what nearly every terminal understands. */
static SCREEN *open_terminal(const char **warning)
{
    static const char *const stand_ins[] = {NULL, "xterm-256color", "xterm"};
    static char text[160];
    const char *term = getenv("TERM");
    if (!term || !*term || !strcmp(term, "dumb"))
        return NULL;
    for (int i = 0; i < 3; i++) {
        bool moves = false;
        /* newterm leaves when an entry is not there: asked first. */
        if (!look_up(stand_ins[i] ? stand_ins[i] : term, &moves))
            continue;
        if (!moves)
            return NULL;
        SCREEN *s = newterm(stand_ins[i], stdout, stdin);
        if (!s)
            continue;
        if (i)
            snprintf(text, sizeof text, "terminal type %.60s is not known here, used as %s", term,
                     stand_ins[i]);
        *warning = i ? text : NULL;
        return s;
    }
    snprintf(text, sizeof text, "terminal type %.60s is not known here: lines instead of a screen",
             term);
    *warning = text;
    return NULL;
}

static bool wants_color(enum tui_color color)
{
    const char *no = getenv("NO_COLOR");
    if (color == TUI_COLOR_NEVER || (color == TUI_COLOR_AUTO && no && *no))
        return false;
    return has_colors();
}

static void make_looks(void)
{
    static const struct {
        short fg;
        int look;
    } table[] = {
#define X(name, fg, look) {fg, look},
        TUI_STYLES(X)
#undef X
    };
    if (the.colored) {
        start_color();
        use_default_colors();
        for (short c = 0; c < 8; c++)
            init_pair((short)(c + 1), c, -1);
    }
    for (int i = 0; i < TUI_N_STYLES; i++) {
        the.look[i] = (table[i].look & TUI_LOOK_DIM ? A_DIM : 0) |
                      (table[i].look & TUI_LOOK_BOLD ? A_BOLD : 0) |
                      (table[i].look & TUI_LOOK_REVERSE ? A_REVERSE : 0);
        the.pair[i] = (short)(the.colored && table[i].fg >= 0 ? table[i].fg + 1 : 0);
    }
}

static void choose_symbols(const struct tui_console_cfg *cfg)
{
    const char *term = getenv("TERM");
    bool linux_console = term && starts(term, "linux");
    the.ascii = cfg->ascii || strcasecmp(nl_langinfo(CODESET), "UTF-8") != 0;
    /* The kernel's fonts have neither braille nor round corners. */
    the.symbols = linux_console ? TUI_DOTS_BLOCK : TUI_DOTS_BRAILLE;
    the.square = linux_console;
    if (cfg->symbols == TUI_SYMBOLS_BRAILLE)
        the.symbols = TUI_DOTS_BRAILLE;
    if (cfg->symbols == TUI_SYMBOLS_BLOCK)
        the.symbols = TUI_DOTS_BLOCK;
    if (the.ascii || cfg->symbols == TUI_SYMBOLS_ASCII)
        the.symbols = TUI_DOTS_ASCII;
}

/* Terminals that mark pasted text, so that a pasted y applies nothing. Others get no such request.
 */
static bool knows_paste(void)
{
    static const char *const kin[] = {"xterm", "screen", "tmux",    "rxvt", "alacritty",
                                      "foot",  "kitty",  "wezterm", "st-",  "putty"};
    const char *term = getenv("TERM");
    for (size_t i = 0; term && i < sizeof kin / sizeof kin[0]; i++)
        if (starts(term, kin[i]))
            return true;
    return false;
}

static void ask_paste(bool on)
{
    if (!the.pastes)
        return;
    fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
    fflush(stdout);
}

static void set_up_input(const struct tui_console_cfg *cfg)
{
    raw(); /* ^C, ^Z and ^\ are keys: a flag set in a handler would come too late to drop what is
              armed */
    noecho();
    nonl();
    set_escdelay(50);
    the.keys = newpad(1, 1);
    keypad(the.keys, TRUE);
    nodelay(the.keys, TRUE);
    define_key("\033[200~", CODE_PASTE);
    define_key("\033[201~", CODE_PASTE_END);
    if (cfg->mouse) {
        mousemask(BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
        mouseinterval(0);
    }
}

enum bst_err tui_screen_open(const struct tui_console_cfg *cfg, const char **warning)
{
    memset(&the, 0, sizeof the);
    *warning = NULL;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return bst_fail(BST_E_UNSUPPORTED, "not a terminal");
    the.screen = open_terminal(warning);
    if (!the.screen)
        return bst_fail(BST_E_UNSUPPORTED, "nothing can be drawn on this terminal");
    the.colored = wants_color(cfg->color);
    the.pastes = knows_paste();
    make_looks();
    choose_symbols(cfg);
    set_up_input(cfg);
    curs_set(0);
    ask_paste(true);
    return BST_OK;
}

void tui_screen_close(void)
{
    if (!the.screen)
        return;
    ask_paste(false);
    endwin();
    if (the.keys)
        delwin(the.keys);
    delscreen(the.screen);
    the.screen = NULL;
    the.keys = NULL;
}

void tui_screen_size(int *w, int *h)
{
    struct winsize size;
    if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col && size.ws_row) {
        if (size.ws_col != COLS || size.ws_row != LINES)
            resizeterm(size.ws_row, size.ws_col);
    }
    *w = COLS;
    *h = LINES;
}

void tui_screen_setup(struct tui_frame *f)
{
    f->ascii = the.ascii;
    f->symbols = the.symbols;
    f->square = the.square;
}

static int named_key(int code)
{
    static const struct {
        int code, key;
    } table[] = {
        {KEY_UP, TUI_KEY_UP},
        {KEY_DOWN, TUI_KEY_DOWN},
        {KEY_LEFT, TUI_KEY_LEFT},
        {KEY_RIGHT, TUI_KEY_RIGHT},
        {KEY_HOME, TUI_KEY_HOME},
        {KEY_END, TUI_KEY_END},
        {KEY_FIND, TUI_KEY_HOME},
        {KEY_SELECT, TUI_KEY_END},
        {KEY_PPAGE, TUI_KEY_PAGE_UP},
        {KEY_NPAGE, TUI_KEY_PAGE_DOWN},
        {KEY_BTAB, TUI_KEY_BACK_TAB},
        {KEY_BACKSPACE, TUI_KEY_BACKSPACE},
        {KEY_DC, TUI_KEY_DELETE},
        {KEY_ENTER, TUI_KEY_ENTER},
        {KEY_F(1), TUI_KEY_F1},
        {KEY_F(2), TUI_KEY_F2},
        {KEY_F(3), TUI_KEY_F3},
        {KEY_F(4), TUI_KEY_F4},
        {KEY_F(5), TUI_KEY_F5},
        {KEY_F(6), TUI_KEY_F6},
        {KEY_F(7), TUI_KEY_F7},
        {KEY_F(8), TUI_KEY_F8},
        {KEY_F(9), TUI_KEY_F9},
        {KEY_F(10), TUI_KEY_F10},
        {KEY_F(11), TUI_KEY_F11},
        {KEY_F(12), TUI_KEY_F12},
        {KEY_RESIZE, TUI_KEY_RESIZE},
        {CODE_PASTE, TUI_KEY_PASTE},
        {CODE_PASTE_END, TUI_KEY_PASTE_END},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].code == code)
            return table[i].key;
    return 0;
}

static int mouse_key(void)
{
    MEVENT e;
    if (getmouse(&e) != OK)
        return 0;
    the.mouse_x = e.x;
    the.mouse_y = e.y;
    the.mouse_button = e.bstate & BUTTON4_PRESSED ? 4 : e.bstate & BUTTON5_PRESSED ? 5 : 1;
    return TUI_KEY_MOUSE;
}

int tui_screen_key(void)
{
    wint_t c;
    int kind = wget_wch(the.keys, &c);
    if (kind == ERR)
        return -1;
    if (kind == KEY_CODE_YES)
        return c == KEY_MOUSE ? mouse_key() : named_key((int)c);
    return (int)c;
}

void tui_screen_mouse(int *x, int *y, int *button)
{
    *x = the.mouse_x;
    *y = the.mouse_y;
    *button = the.mouse_button;
}

static bool takes_output(void)
{
    struct pollfd p = {STDOUT_FILENO, POLLOUT, 0};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

bool tui_screen_flush(const struct tui_frame *f)
{
    if (!takes_output())
        return false;
    cchar_t *row = bst_xcalloc((size_t)f->w, sizeof *row);
    for (int y = 0; y < f->h && y < LINES; y++) {
        int n = 0;
        for (int x = 0; x < f->w; x++) {
            const struct tui_cell *c = &f->cells[y * f->w + x];
            wchar_t text[2] = {c->ch, 0};
            /* The right half of a wide character is part of its left. */
            if (c->ch)
                setcchar(&row[n++], text, the.look[c->style], the.pair[c->style], NULL);
        }
        mvadd_wchnstr(y, 0, row, n);
    }
    bst_free(row);
    bool cursor = f->cursor_x >= 0;
    curs_set(cursor);
    leaveok(stdscr, !cursor);
    if (cursor)
        move(f->cursor_y, f->cursor_x);
    if (the.all)
        clearok(stdscr, TRUE);
    the.all = false;
    wnoutrefresh(stdscr);
    doupdate();
    return true;
}

void tui_screen_redraw(void)
{
    the.all = true;
}

void tui_screen_bell(void)
{
    beep();
}

void tui_screen_suspend(void)
{
    ask_paste(false);
    endwin();
}

void tui_screen_resume(void)
{
    reset_prog_mode();
    ask_paste(true);
    the.all = true;
}
