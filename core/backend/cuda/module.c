/* The module: one function to be seen from outside, and core/base's functions as calls to the
 * program's own, so that an error's text, the panic hook and the counted memory are the same. */
#include "core/backend/module.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/backend/cuda/cuda.h"
#include "core/backend/cuda/dnn_graph.h"
#include "core/base/alloc.h"

#undef bst_fail
#undef bst_fail_in

static const struct bst_module_host *host;

enum bst_err bst_fail(enum bst_err code, const char *fmt, ...)
{
    char text[BST_ERR_TEXT];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return host->fail(code, text);
}

enum bst_err bst_fail_in(enum bst_err code, const char *fmt, ...)
{
    char text[BST_ERR_TEXT];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return host->fail_in(code, text);
}

void bst_panic(const char *file, int line, const char *fmt, ...)
{
    char text[BST_ERR_TEXT];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    host->panic(file, line, text);
    __builtin_unreachable();
}

const char *bst_err_text(void)
{
    return host->err_text();
}

const char *bst_err_name(enum bst_err code)
{
    return host->err_name(code);
}

void *bst_xalloc(size_t bytes)
{
    return host->xalloc(bytes);
}

void *bst_xcalloc(size_t n, size_t size)
{
    return host->xcalloc(n, size);
}

char *bst_xstrdup(const char *s)
{
    return host->xstrdup(s);
}

char *bst_xasprintf(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = host->xalloc((size_t)n + 1);
    va_start(args, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, args);
    va_end(args);
    return text;
}

bool bst_mul_size(size_t a, size_t b, size_t *out)
{
    return host->mul_size(a, b, out);
}

bool bst_add_size(size_t a, size_t b, size_t *out)
{
    return host->add_size(a, b, out);
}

void *bst_xrealloc(void *p, size_t n, size_t size)
{
    return host->xrealloc(p, n, size);
}

void bst_free(void *p)
{
    host->free(p);
}

enum bst_err bst_alloc(size_t bytes, void **out)
{
    return host->alloc(bytes, out);
}

void bst_alloc_free(void *p, size_t bytes)
{
    host->alloc_free(p, bytes);
}

static bool fits(const struct bst_module_build *a, const struct bst_module_build *b)
{
    return !strcmp(a->version, b->version) && a->backend_bytes == b->backend_bytes &&
           a->program_bytes == b->program_bytes && a->step_bytes == b->step_bytes;
}

__attribute__((visibility("default"))) bst_module_entry_fn bst_module_entry;

const struct bst_module *bst_module_entry(const struct bst_module_host *h)
{
    static const struct bst_module module = {BST_MODULE_BUILD, &bst_backend_cuda, cuda_dnn_version};

    if (!fits(&h->build, &module.build))
        return NULL;
    host = h;
    return &module;
}
