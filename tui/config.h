/* The person's own settings of the console: config.yaml, read before it opens; what the command
 * line says goes before it. Not of a run, whose settings are its preset's. One thread. */
#ifndef TUI_CONFIG_H
#define TUI_CONFIG_H

#include "core/base/err.h"
#include "core/base/sb.h"
#include "tui/console.h"

struct tui_config {
    char path[1024]; /* $BSTUNE_CONFIG, or bstune/config.yaml under $XDG_CONFIG_HOME; "": none */
    bool there;
    enum tui_color color;
    enum tui_symbols symbols;
    bool ascii, mouse, bell;
    double refresh; /* seconds between frames, TUI_REFRESH_LEAST to TUI_REFRESH_MOST */
};

void tui_config_default(struct tui_config *out);
/* Only out->path, whether or not there is such a file. */
void tui_config_find(struct tui_config *out);
/* What the file says, over the defaults, and its keys bound (keys.h). One that is not there says
 * nothing, unless it was named by $BSTUNE_CONFIG. BST_E_PARSE: `errs` has every complaint on a line
 * of its own. */
BST_MUST_USE enum bst_err tui_config_read(struct tui_config *out, struct bst_sb *errs);
/* As a file that says the same: all settings, then the keys in force. */
void tui_config_print(const struct tui_config *c, struct bst_sb *out);
/* `keys:` and a line for each thing that a key may do, with what it is. */
void tui_config_print_keys(struct bst_sb *out);

#endif
