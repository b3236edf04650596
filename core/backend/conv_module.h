/* Modules: parts that need libraries a machine may lack, opened at run time. They lie beside the
 * program in the build folder, in lib/bstune where it is installed. Any thread. */
#ifndef BST_BACKEND_CONV_MODULE_H
#define BST_BACKEND_CONV_MODULE_H

#include "core/base/err.h"

/* Opens `file` ("plan_cuda.so") from $BSTUNE_MODULE_DIR alone, where it is set, else the program's
 * folder or lib/bstune, and finds `symbol` in it. BST_E_NOTFOUND: there is no such file;
 * BST_E_LIBRARY: it cannot be loaded, most often since a library that it needs is not here, which
 * the text names. It stays loaded. */
BST_MUST_USE enum bst_err bst_conv_module_open(const char *file, const char *symbol, void **out);

#endif
