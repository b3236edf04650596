/* Runs a key script over the made-up run, with a clock that stands still, and prints what it saves:
 *   tui_script SCRIPT [--kind KIND] [--ascii] [--symbols braille|block|ascii] [--readonly] */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "tests/tui/fake.h"
#include "tui/script.h"

static const struct tui_preset presets[] = {
    {"quickstart", "quickstart", "A small ResNet on Fashion-MNIST: minutes on a laptop."},
    {"a100x4-ddp-2048", "A100×4 DDP 2048",
     "ResNet-50 on four A100s; its numbers are meant for ImageNet and a global batch of 2048."},
    {"rtx3090-128", "RTX 3090 single 128", "ResNet-50 on one card with 24 GB."},
};

int main(int argc, char **argv)
{
    struct tui_console_cfg cfg = {
        .run_dir = "tests/tui/run", .fake_time = "1796000000", .presets = presets, .n_presets = 3};
    int kind = FAKE_USUAL;
    const char *script = NULL;
    enum tui_chart_symbols symbols = TUI_DOTS_BRAILLE;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--kind") && i + 1 < argc)
            kind = fake_kind_by_name(argv[++i]);
        else if (!strcmp(argv[i], "--ascii"))
            cfg.ascii = true, symbols = TUI_DOTS_ASCII;
        else if (!strcmp(argv[i], "--block"))
            symbols = TUI_DOTS_BLOCK;
        else if (!strcmp(argv[i], "--readonly"))
            cfg.readonly = true;
        else
            script = argv[i];
    }
    if (!script || kind < 0 || !setlocale(LC_CTYPE, "C.UTF-8"))
        return 2;
    bst_clock_fake(true, 1796000000);
    struct tui_link *link = fake_open((enum fake_kind)kind);
    struct tui_app *app = bst_xalloc(sizeof *app);
    tui_app_init(app, &cfg, link);
    app->frame.ascii = cfg.ascii;
    app->frame.symbols = symbols;
    enum bst_err err = tui_script_run(app, script);
    if (err)
        fprintf(stderr, "%s\n", bst_err_text());
    tui_app_fini(app);
    bst_free(app);
    link->ops->close(link);
    return err != BST_OK;
}
