/* A backend as a loadable module: what bstune gives it and gets from it. The module is built with
 * bstune, from one tree; it is found beside the program or in its library folder, and refused where
 * it is of another build. The errors, the log and the memory of both are bstune's: a module has
 * none of its own. Any thread. */
#ifndef BST_BACKEND_MODULE_H
#define BST_BACKEND_MODULE_H

#include "core/backend/backend.h"

#define BST_MODULE_ENTRY "bst_module_entry"

/* What differs between builds whose structs do not fit together. */
struct bst_module_build {
    const char *version; /* BST_VERSION */
    size_t backend_bytes, program_bytes, step_bytes;
};
#define BST_MODULE_BUILD                                                                           \
    {                                                                                              \
        BST_VERSION, sizeof(struct bst_backend),                                                   \
            sizeof(struct bst_program) + sizeof(struct bst_instr) + sizeof(struct bst_value),      \
            sizeof(struct bst_step)                                                                \
    }

/* The functions of core/base that modules use, the program's own. */
struct bst_module_host {
    struct bst_module_build build;
    enum bst_err (*fail)(enum bst_err code, const char *text);
    enum bst_err (*fail_in)(enum bst_err code, const char *text);
    const char *(*err_text)(void);
    const char *(*err_name)(enum bst_err code);
    void (*panic)(const char *file, int line, const char *text);
    void *(*xalloc)(size_t bytes);
    void *(*xcalloc)(size_t n, size_t size);
    void *(*xrealloc)(void *p, size_t n, size_t size);
    char *(*xstrdup)(const char *s);
    void (*free)(void *p);
    enum bst_err (*alloc)(size_t bytes, void **out);
    void (*alloc_free)(void *p, size_t bytes);
    bool (*mul_size)(size_t a, size_t b, size_t *out);
    bool (*add_size)(size_t a, size_t b, size_t *out);
};

struct bst_module {
    struct bst_module_build build;
    const struct bst_backend *backend;
    void (*cudnn_version)(char out[32]); /* of the one that is loaded, "9.19.0" */
};

/* The module's one function that can be seen from outside. NULL: of another build. `host` is kept.
 */
typedef const struct bst_module *bst_module_entry_fn(const struct bst_module_host *host);

/* Loads NAME.so, once; later calls give the same. `needs` says in words what has to be installed
 * for it. The module stays loaded until the program ends. */
BST_MUST_USE enum bst_err bst_module_load(const char *name, const char *needs,
                                          const struct bst_module **out);

/* A module that is no backend: NAME.so, found in the same places, and the address of its one
 * symbol. It stays loaded. Whoever asks checks that it is of this build. */
BST_MUST_USE enum bst_err bst_module_symbol(const char *name, const char *needs, const char *symbol,
                                            void **out);

/* What both do: the file, found and opened; and closed again, an error, where it does not fit. */
enum { BST_MODULE_PATH = 4096 };
BST_MUST_USE enum bst_err bst_module_open(const char *name, const char *needs,
                                          char path[BST_MODULE_PATH], void **library);
BST_MUST_USE enum bst_err bst_module_refuse(void *library, const char *path);

#endif
