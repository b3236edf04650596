/* Errors as values. A fallible function returns enum bst_err and leaves one line of text for the
 * calling thread; the text stays until the next bst_fail() on that thread. BST_OK is 0. */
#ifndef BST_BASE_ERR_H
#define BST_BASE_ERR_H

#define BST_ERRORS(X)                                                                              \
    X(OK, "ok")                                                                                    \
    X(NOMEM, "out of memory")                                                                      \
    X(ARG, "bad argument")                                                                         \
    X(SHAPE, "shapes do not fit")                                                                  \
    X(RANGE, "out of range")                                                                       \
    X(PARSE, "malformed input")                                                                    \
    X(IO, "input or output failed")                                                                \
    X(NOTFOUND, "not found")                                                                       \
    X(EXISTS, "exists already")                                                                    \
    X(UNSUPPORTED, "not supported")                                                                \
    X(STATE, "not possible now")                                                                   \
    X(DENIED, "not permitted")                                                                     \
    X(DIVERGED, "training diverged")                                                               \
    X(CANCELLED, "cancelled")                                                                      \
    X(CORRUPT, "damaged data")                                                                     \
    X(LIBRARY, "a library failed")                                                                 \
    X(CONTEXT, "a device's context is lost")                                                       \
    X(DEVICE, "a device is lost")                                                                  \
    X(PEER, "another process of the run is lost")

enum bst_err {
#define X(name, text) BST_E_##name,
    BST_ERRORS(X)
#undef X
};
#define BST_OK BST_E_OK

#define BST_MUST_USE __attribute__((warn_unused_result))
#define BST_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Stores the text for this thread and returns `code`: return bst_fail(BST_E_SHAPE, "conv1: …"). */
enum bst_err bst_fail(enum bst_err code, const char *fmt, ...) BST_PRINTF(2, 3);

/* Puts "prefix: " before the text of the error that is on its way up, and returns `code`. */
enum bst_err bst_fail_in(enum bst_err code, const char *fmt, ...) BST_PRINTF(2, 3);

/* The calling thread's last text; never NULL. Borrowed until the next bst_fail() of this thread. */
const char *bst_err_text(void);
const char *bst_err_name(enum bst_err code);

/* An error that is put aside, code and text, while other calls of this thread may fail in their
 * turn. Another thread may put back what one has kept. */
enum { BST_ERR_TEXT = 1024 };
struct bst_failure {
    enum bst_err err;
    char text[BST_ERR_TEXT]; /* "" with BST_OK */
};
/* `err` with the calling thread's last text. */
struct bst_failure bst_err_keep(enum bst_err err);
/* The calling thread's error again; returns its code. BST_OK leaves the thread's text alone. */
enum bst_err bst_err_restore(const struct bst_failure *f);

#ifdef __clang_analyzer__
/* The analyser does not look into other files; without this it takes every error for a BST_OK. */
#define bst_fail(code, ...) (bst_fail(code, __VA_ARGS__), (code))
#define bst_fail_in(code, ...) (bst_fail_in(code, __VA_ARGS__), (code))
#define bst_err_restore(f) (bst_err_restore(f), (f)->err)
#endif

#define BST_TRY(expr)                                                                              \
    do {                                                                                           \
        enum bst_err bst_try_err_ = (expr);                                                        \
        if (bst_try_err_)                                                                          \
            return bst_try_err_;                                                                   \
    } while (0)

/* For bugs only; always on. Runs the panic hook (the console's: leave curses), prints, aborts. */
#define BST_ASSERT(cond)                                                                           \
    do {                                                                                           \
        if (!(cond))                                                                               \
            bst_panic(__FILE__, __LINE__, "assertion failed: " #cond);                             \
    } while (0)
void bst_panic(const char *file, int line, const char *fmt, ...) BST_PRINTF(3, 4)
    __attribute__((noreturn));
void bst_panic_hook(void (*hook)(void));

#endif
