#include <stdio.h>
#include <string.h>

#include "core/tune/command.h"
#include "tui/keys.h"
#include "tui/render.h"
#include "tui/words.h"

/* One line of the view: a heading, or what to type and what it does. Both empty: a blank line. */
struct line {
    char left[64];
    const char *right;
    char note[100];
    bool heading;
};

enum { NOTES = 8 };

static const char *const notes[NOTES] = {
    "A change is armed first: the footer shows what it comes to.",
    NULL, /* the keys that apply it and drop it */
    "Another kind of change asked for meanwhile waits, and is armed next.",
    "Batch = per device × accumulation × devices; ≤ where parts differ by one.",
    "◆ evaluation   ! not finite   ▲ ▼ far above or below a layer's usual norm",
    "║ in the schedule: what lies ahead of the other charts, at its own scale",
    "The run goes on whatever happens to this screen.",
    "With --mouse, hold Shift to select text.",
};

static void say_armed_keys(struct line *l)
{
    char apply[16], drop[16];
    tui_key_first(TUI_REQ_APPLY, apply, sizeof apply);
    tui_key_first(TUI_REQ_DROP, drop, sizeof drop);
    snprintf(l->note, sizeof l->note,
             "%s applies it, %s drops it, and so do ten seconds without an answer.", apply, drop);
}

static bool key_line(int i, struct line *l)
{
    for (int g = 0; g < TUI_N_GROUPS; g++) {
        if (g == TUI_GROUP_SWEEP) /* has a list of its own, over its own view */
            continue;
        if (i-- == 0) {
            snprintf(l->left, sizeof l->left, "%s", tui_group_heading((enum tui_key_group)g));
            l->heading = true;
            return true;
        }
        for (int k = 0; k < TUI_N_REQUESTS; k++) {
            if ((int)tui_keys[k].group != g || i-- != 0)
                continue;
            tui_keys_text(tui_keys_of((enum tui_request)k), l->left, sizeof l->left);
            l->right = tui_keys[k].help;
            return true;
        }
        if (i-- == 0)
            return true;
    }
    return false;
}

/* Groups have a heading and a blank line. */
static int count_key_lines(void)
{
    int n = 2 * (TUI_N_GROUPS - 1);
    for (int k = 0; k < TUI_N_REQUESTS; k++)
        n += tui_keys_in(TUI_KEYS_CONSOLE, (enum tui_request)k);
    return n;
}

static int count_lines(void)
{
    return count_key_lines() + 2 + BST_N_COMMANDS + tui_n_words + NOTES;
}

static void word_line(int i, struct line *l)
{
    const char *word, *operand;
    if (i < BST_N_COMMANDS) {
        word = bst_command_word((enum bst_command_kind)i);
        operand = bst_command_operand((enum bst_command_kind)i);
        l->right = bst_command_help((enum bst_command_kind)i);
    } else {
        word = tui_words[i - BST_N_COMMANDS].word;
        operand = tui_words[i - BST_N_COMMANDS].operand;
        l->right = tui_words[i - BST_N_COMMANDS].help;
    }
    snprintf(l->left, sizeof l->left, ":%s %s", word, operand);
}

static void make_line(int i, struct line *l)
{
    *l = (struct line){.right = ""};
    if (i < NOTES) {
        l->right = notes[i] ? notes[i] : l->note;
        if (!notes[i])
            say_armed_keys(l);
        return;
    }
    i -= NOTES;
    if (i-- == 0 || key_line(i, l))
        return;
    i -= count_key_lines();
    if (i == 0) {
        snprintf(l->left, sizeof l->left, "Commands after `:`, the same in `bstune ctl`");
        l->heading = true;
    } else if (i - 1 < BST_N_COMMANDS + tui_n_words) {
        word_line(i - 1, l);
    }
}

void tui_help_draw(const struct tui_model *m, struct tui_area a)
{
    struct tui_area in = tui_dialog(a, 100, count_lines() + 2, " Help: Up, Down, Esc closes ");
    int n = count_lines(), first = m->view.overlay_scroll;
    first = first > n - in.h ? n - in.h : first;
    first = first < 0 ? 0 : first;
    int tab = in.w >= 64 ? 16 : 12;
    for (int y = 0; y < in.h && first + y < n; y++) {
        struct line l;
        make_line(first + y, &l);
        if (l.heading) {
            tui_put_cut(in, 0, y, in.w, TUI_FOCUS, l.left);
            continue;
        }
        int x = tui_put_cut(in, 0, y, in.w, TUI_KEY, l.left);
        int at = !l.left[0] ? 0 : x + 2 > tab ? (x + 2 > 2 * tab ? x + 2 : 2 * tab) : tab;
        tui_put_cut(in, at, y, in.w - at, TUI_NORMAL, l.right);
    }
}
