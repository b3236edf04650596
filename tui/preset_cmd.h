/* `bstune preset list|show|check|diff`. Prints where main says; one thread. */
#ifndef TUI_PRESET_CMD_H
#define TUI_PRESET_CMD_H

#include <stdio.h>

struct bst_net_table;

/* argv[0] is the word after "preset". Returns the exit code: 0 done, 2 usage or a preset that does
 * not load, 3 check found problems. */
int tui_preset_cmd(int argc, char **argv, const struct bst_net_table *nets, FILE *out, FILE *err);

#endif
