/* The console in a real terminal over the made-up run, for what only a terminal can show:
 *   tui_fake [--kind KIND] [--moving] [--refresh S] [--frames N] [--ascii] [--mouse] [--readonly]
 * [--no-color] */
#include <stdlib.h>
#include <string.h>

#include "tests/tui/fake.h"
#include "tui/over.h"

static int kind;

static enum bst_err open_fake(const struct tui_console_cfg *cfg, struct tui_link **out)
{
    (void)cfg;
    *out = fake_open((enum fake_kind)kind);
    return BST_OK;
}

int main(int argc, char **argv)
{
    struct tui_console_cfg cfg = {.run_dir = "runs/quickstart-1"};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--kind") && i + 1 < argc)
            kind = fake_kind_by_name(argv[++i]);
        else if (!strcmp(argv[i], "--frames") && i + 1 < argc)
            cfg.frames = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--moving"))
            kind = FAKE_MOVING;
        else if (!strcmp(argv[i], "--refresh") && i + 1 < argc)
            cfg.refresh = atof(argv[++i]);
        else if (!strcmp(argv[i], "--ascii"))
            cfg.ascii = true;
        else if (!strcmp(argv[i], "--mouse"))
            cfg.mouse = true;
        else if (!strcmp(argv[i], "--readonly"))
            cfg.readonly = true;
        else if (!strcmp(argv[i], "--no-color"))
            cfg.color = TUI_COLOR_NEVER;
        else
            return 2;
    }
    return kind < 0 ? 2 : tui_console_over(&cfg, open_fake);
}
