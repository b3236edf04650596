/* The console's configuration and its keys, as a file would have them. */
#include "core/base/io.h"
#include "tui/cli_run.h"
#include "tui/config.h"

enum { TEXT_CAP = 64 << 10 };

int tui_verb_keys(const struct tui_call *c)
{
    struct tui_config config;
    struct bst_sb text;
    int code = tui_read_config(c, &config);
    if (code)
        return code;
    bst_sb_init(&text, TEXT_CAP);
    tui_config_print_keys(&text);
    fputs(text.data, c->out);
    bst_sb_fini(&text);
    return TUI_EXIT_DONE;
}

/* Wanted most when what is in the file keeps everything else from starting. */
static int print_path(const struct tui_call *c)
{
    struct tui_config config = {0};
    tui_config_find(&config);
    if (!config.path[0])
        tui_print(c->out, "no file is read\n");
    else
        tui_print(c->out, "%s%s\n", config.path, bst_io_exists(config.path) ? "" : " (not there)");
    return TUI_EXIT_DONE;
}

int tui_verb_config(const struct tui_call *c)
{
    struct tui_config config;
    struct bst_sb text;
    int code = TUI_EXIT_DONE;
    if (tui_given(c, TUI_OPTION_PATHS))
        return print_path(c);
    if (tui_given(c, TUI_OPTION_PRINT_DEFAULT))
        tui_config_default(&config);
    else
        code = tui_read_config(c, &config);
    if (code)
        return code;
    bst_sb_init(&text, TEXT_CAP);
    tui_config_print(&config, &text);
    fputs(text.data, c->out);
    bst_sb_fini(&text);
    return TUI_EXIT_DONE;
}
