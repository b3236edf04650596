#include "core/base/alloc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/text.h"

static const size_t huge_page = (size_t)2 << 20;

static atomic_size_t held;
static atomic_size_t peak;
static _Thread_local int64_t here;

bool bst_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool bst_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

void *bst_xalloc(size_t bytes)
{
    return bst_xcalloc(1, bytes);
}

void *bst_xcalloc(size_t n, size_t size)
{
    void *p = calloc(n && size ? n : 1, n && size ? size : 1);
    if (!p)
        bst_panic(__FILE__, __LINE__, "out of memory: %zu × %zu bytes", n, size);
    return p;
}

void *bst_xrealloc(void *p, size_t n, size_t size)
{
    size_t bytes = 0;
    if (!bst_mul_size(n, size, &bytes))
        bst_panic(__FILE__, __LINE__, "out of memory: %zu × %zu bytes", n, size);
    p = realloc(p, bytes ? bytes : 1);
    if (!p)
        bst_panic(__FILE__, __LINE__, "out of memory: %zu bytes", bytes);
    return p;
}

char *bst_xstrdup(const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(bst_xalloc(n), s, n);
}

char *bst_xasprintf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    BST_ASSERT(n >= 0);
    char *s = bst_xalloc((size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(s, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return s;
}

void bst_free(void *p)
{
    free(p);
}

static enum bst_err no_memory(size_t bytes)
{
    char words[32];
    bst_text_bytes(bytes, words);
    return bst_fail(BST_E_NOMEM, "cannot map %s (%zu bytes): %s", words, bytes, strerror(errno));
}

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* A mapping that starts on a huge page: mapped too large, then trimmed at both ends. */
static void *map_huge(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t whole = 0, wide = 0;
    if (!bst_add_size(bytes, page - 1, &whole) || !bst_add_size(whole, huge_page, &wide)) {
        errno = ENOMEM;
        return NULL;
    }
    whole -= whole % page;
    wide = whole + huge_page;
    char *raw = map(wide);
    if (!raw)
        return NULL;
    size_t head = (huge_page - (uintptr_t)raw % huge_page) % huge_page;
    if (head)
        munmap(raw, head);
    if (wide - head > whole)
        munmap(raw + head + whole, wide - head - whole);
    /* Advice only: a kernel without huge pages says no, and nothing is lost. */
    (void)madvise(raw + head, whole, MADV_HUGEPAGE);
    return raw + head;
}

enum bst_err bst_alloc(size_t bytes, void **out)
{
    *out = NULL;
    if (!bytes)
        return BST_OK;
    void *p = bytes >= huge_page ? map_huge(bytes) : map(bytes);
    if (!p)
        return no_memory(bytes);
    size_t now = atomic_fetch_add(&held, bytes) + bytes;
    size_t most = atomic_load(&peak);
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now))
        ;
    here += (int64_t)bytes;
    *out = p;
    return BST_OK;
}

void bst_alloc_free(void *p, size_t bytes)
{
    if (!p)
        return;
    if (munmap(p, bytes))
        bst_panic(__FILE__, __LINE__, "munmap(%p, %zu): %s", p, bytes, strerror(errno));
    size_t before = atomic_fetch_sub(&held, bytes);
    if (before < bytes)
        bst_panic(__FILE__, __LINE__, "freed %zu bytes of %zu held", bytes, before);
    here -= (int64_t)bytes;
}

int64_t bst_alloc_held_here(void)
{
    return here;
}

size_t bst_alloc_held(void)
{
    return atomic_load(&held);
}

size_t bst_alloc_peak(void)
{
    return atomic_load(&peak);
}
