/* A verb's talk with a trainer: opened, waited for, closed. */
#ifndef TUI_CLI_CLIENT_H
#define TUI_CLI_CLIENT_H

#include "core/run/client.h"
#include "tui/verbs.h"

/* Waits for an event of this kind; gives BST_CLIENT_CLOSED when the trainer went away first. */
enum bst_client_event tui_wait_for(struct bst_client *client, enum bst_client_event kind);

#endif
