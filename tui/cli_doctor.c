#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/run/doctor.h"
#include "tui/layout.h"
#include "tui/screen.h"
#include "tui/verbs.h"

/* What the console would draw on. A pipe is no fault: then lines are written. */
static void look_at_terminal(struct bst_doctor *d)
{
    const char *term = getenv("TERM");
    struct winsize size = {0};
    struct tui_layout layout;
    setlocale(LC_CTYPE, "");
    bool utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size)) {
        bst_doctor_add(d, "terminal", BST_FINDING_NONE, "standard output is no terminal");
        return;
    }
    if (!tui_screen_known(term)) {
        bst_doctor_add(d, "terminal", BST_FINDING_MISSING,
                       "TERM is %s, which cannot be drawn on: set it, or install ncurses-term",
                       term && *term ? term : "not set");
        return;
    }
    const struct tui_layout_in in = {
        .w = size.ws_col, .h = size.ws_row, .shown = TUI_PANES_SHOWN, .n_devices = 1};
    tui_layout_make(&in, &layout);
    bst_doctor_add(d, "terminal", BST_FINDING_OK, "%s, %dx%d%s, %s", term, in.w, in.h,
                   layout.size == TUI_SIZE_LINE ? " (too small for panes)" : "",
                   utf8 ? "UTF-8" : "no UTF-8 (LANG, LC_ALL): drawn with ASCII");
}

static void print_text(const struct tui_call *c, const struct bst_doctor *d)
{
    for (int i = 0; i < d->n; i++) {
        const struct bst_finding *f = &d->findings[i];
        fprintf(c->out, "%-13s %-8s %s\n", f->name, bst_finding_state_name(f->state), f->text);
    }
}

int tui_verb_doctor(const struct tui_call *c)
{
    struct bst_doctor *d = bst_xalloc(sizeof *d);
    struct bst_preset_env *env = bst_preset_env_new(c->nets);
    struct bst_preset_errors errs;
    const struct bst_doctor_cfg cfg = {
        .presets = env,
        .nets = c->nets,
        .preset = c->cli->n_operands ? c->cli->operands[0] : "quickstart",
        .sets = c->cli->sets,
        .n_sets = c->cli->n_sets,
    };
    bst_preset_errors_init(&errs);
    enum bst_err err = bst_doctor_examine(&cfg, d, &errs);
    int code;
    if (err) {
        code = tui_refuse_preset(c, &errs);
    } else {
        look_at_terminal(d);
        code = d->n_missing || d->n_bad ? TUI_EXIT_PROBLEMS : TUI_EXIT_DONE;
        if (tui_given(c, TUI_OPTION_JSON)) {
            struct bst_sb text;
            bst_sb_init(&text, 1 << 20);
            bst_doctor_print_json(d, &text);
            fprintf(c->out, "%s\n", text.data);
            bst_sb_fini(&text);
        } else {
            print_text(c, d);
        }
    }
    bst_preset_errors_fini(&errs);
    bst_preset_env_free(env);
    bst_free(d);
    return code;
}
