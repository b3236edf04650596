#include "core/base/err.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef bst_fail
#undef bst_fail_in

static _Thread_local char text[BST_ERR_TEXT];
static _Atomic(void (*)(void)) panic_hook;

static const char *const err_names[] = {
#define X(name, words) words,
    BST_ERRORS(X)
#undef X
};

enum bst_err bst_fail(enum bst_err code, const char *fmt, ...)
{
    /* Built apart, since the arguments may point into the old text. */
    char fresh[BST_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(fresh, sizeof fresh, fmt, ap);
    va_end(ap);
    memcpy(text, fresh, strlen(fresh) + 1);
    return code;
}

enum bst_err bst_fail_in(enum bst_err code, const char *fmt, ...)
{
    char fresh[BST_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(fresh, sizeof fresh - 2, fmt, ap);
    va_end(ap);
    size_t used = strlen(fresh);
    memcpy(fresh + used, ": ", 2);
    used += 2;
    size_t rest = strnlen(text, sizeof fresh - used - 1);
    memcpy(fresh + used, text, rest);
    fresh[used + rest] = '\0';
    memcpy(text, fresh, used + rest + 1);
    return code;
}

const char *bst_err_text(void)
{
    return text;
}

const char *bst_err_name(enum bst_err code)
{
    size_t i = (size_t)code;
    return i < sizeof err_names / sizeof err_names[0] ? err_names[i] : "unknown error";
}

void bst_panic_hook(void (*hook)(void))
{
    atomic_store(&panic_hook, hook);
}

void bst_panic(const char *file, int line, const char *fmt, ...)
{
    /* Taken out first: a hook that panics itself must not come back here. */
    void (*hook)(void) = atomic_exchange(&panic_hook, NULL);
    if (hook)
        hook();
    char words[BST_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    dprintf(STDERR_FILENO, "bstune: bug at %s:%d: %s\n", file, line, words);
    abort();
}
