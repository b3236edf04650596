#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "tui/app.h"
#include "tui/pane.h"
#include "tui/render.h"

enum { SCREEN_CAP = 8 << 20, CSV_CAP = 512 << 20 };

/* screen-001.txt, the first number that is free in the run's folder. */
static void free_name(const char *dir, char *out, size_t room)
{
    for (int i = 1; i < 1000; i++) {
        snprintf(out, room, "%s/screen-%03d.txt", dir, i);
        if (!bst_io_exists(out))
            return;
    }
}

static void csv_name(const char *screen, const char *pane, char *out, size_t room)
{
    size_t n = strlen(screen);
    if (n > 4 && !strcmp(screen + n - 4, ".txt"))
        n -= 4;
    snprintf(out, room, "%.*s-%s.csv", (int)n, screen, pane);
}

void tui_save(struct tui_app *app, const char *file)
{
    struct tui_model *m = &app->model;
    const struct tui_pane *pane = tui_panes[m->view.focus];
    char screen[1024], csv[1100] = "";
    struct bst_sb text;
    bst_sb_init(&text, SCREEN_CAP);
    if (file[0])
        snprintf(screen, sizeof screen, "%s", file);
    else
        free_name(app->cfg->run_dir, screen, sizeof screen);
    /* What is saved is what the person sees, less the prompt that asked for it. */
    tui_render(m, &app->frame);
    tui_frame_text(&app->frame, &text);
    enum bst_err err = bst_io_replace_file(screen, text.data, text.len);
    bst_sb_fini(&text);
    if (!err && pane->csv) {
        csv_name(screen, pane->name, csv, sizeof csv);
        bst_sb_init(&text, CSV_CAP);
        pane->csv(m, &text);
        err = bst_io_replace_file(csv, text.data, text.len);
        bst_sb_fini(&text);
    }
    if (err)
        tui_say(m, TUI_BAD, "not saved: %s", bst_err_text());
    else
        tui_say(m, TUI_GOOD, "saved %s%s%s", screen, csv[0] ? " and " : "", csv);
}
