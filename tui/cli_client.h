/* A verb's talk with a trainer: opened, waited for, closed. One thread. */
#ifndef TUI_CLI_CLIENT_H
#define TUI_CLI_CLIENT_H

#include "core/run/client.h"
#include "core/run/run_dir.h"
#include "tui/verbs.h"

/* Waits for an event of this kind; gives BST_CLIENT_CLOSED when the trainer went away first. */
enum bst_client_event tui_wait_for(struct bst_client *client, enum bst_client_event kind);

/* Gives one command to the run in `dir` (with --dry-run: asks for the proposal) and prints what it
 * came to; the exit code. */
int tui_give_command(const struct tui_call *c, const char *dir, const char *text);
/* What a run is and where it stands: from its trainer, or from the files that the last one left. */
BST_MUST_USE enum bst_err tui_read_status(const char *dir, struct bst_run_info *info,
                                          struct bst_status *out);

/* Of a verb with the operands [RUN] COMMAND: the run's folder, and COMMAND in one line behind what
 * `text` holds. Gives 0, or the exit code when the reason has been said. */
int tui_run_and_command(const struct tui_call *c, char dir[512], char text[256]);

#endif
