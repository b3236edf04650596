/* Where a run's socket lives and how it comes to be there: $BSTUNE_SOCKET_DIR, else
 * /tmp/bstune-$UID; a folder of ours alone (0700, checked by lstat as tmux does). One thread. */
#ifndef BST_RUN_SOCKET_H
#define BST_RUN_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/base/err.h"

enum { BST_SOCKET_PATH = 108 }; /* sun_path and its NUL */

struct bst_socket {
    int fd;
    char path[BST_SOCKET_PATH];
    dev_t dev;
    ino_t ino;
};

/* The folder of this user's sockets, whether it is there or not. BST_E_RANGE when too long. */
BST_MUST_USE enum bst_err bst_socket_dir(char out[BST_SOCKET_PATH]);

/* The path for a run, a function of the host's name and the run's folder. BST_E_RANGE when it does
 * not fit a socket's address. */
BST_MUST_USE enum bst_err bst_socket_path(const char *run_dir, char out[BST_SOCKET_PATH]);

/* Binds at `path`, non-blocking. A socket that nobody answers at is replaced; one that lives is
 * BST_E_EXISTS. Only the holder of the run's lock calls this. */
BST_MUST_USE enum bst_err bst_socket_listen(struct bst_socket *s, const char *path);
/* The file at the path is still the one bound here. */
bool bst_socket_is_there(const struct bst_socket *s);
/* Closes, and removes the file if it is ours. */
void bst_socket_close(struct bst_socket *s);

/* Connected, blocking, close-on-exec. BST_E_NOTFOUND when nobody is there. */
BST_MUST_USE enum bst_err bst_socket_connect(const char *path, int *fd);

#endif
