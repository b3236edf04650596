#include "core/base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/text.h"

enum { LINE_CAP = 4096 };

static const char *const level_names[] = {"debug", "info", "warning", "error"};

static void to_stderr(void *arg, enum bst_log_level level, const char *line)
{
    (void)arg;
    struct bst_sb sb;
    bst_sb_init(&sb, LINE_CAP + 32);
    bst_sb_addf(&sb, "%s: %s\n", level_names[level], line);
    /* Nowhere is left to report a failing standard error to. */
    if (bst_io_write_full(STDERR_FILENO, sb.data, sb.len, "standard error"))
        bst_sb_clear(&sb);
    bst_sb_fini(&sb);
}

/* Held while a sink runs, so lines never mix; a sink must not log. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bst_log_sink *sink_now = to_stderr;
static void *sink_arg;
static atomic_int threshold = BST_LOG_INFO;

void bst_log_to(bst_log_sink *sink, void *arg)
{
    pthread_mutex_lock(&lock);
    sink_now = sink ? sink : to_stderr;
    sink_arg = arg;
    pthread_mutex_unlock(&lock);
}

void bst_log_threshold(enum bst_log_level least)
{
    atomic_store(&threshold, (int)least);
}

void bst_log(enum bst_log_level level, const char *fmt, ...)
{
    if ((int)level < atomic_load(&threshold))
        return;
    struct bst_sb raw, line;
    bst_sb_init(&raw, LINE_CAP);
    bst_sb_init(&line, LINE_CAP);
    va_list ap;
    va_start(ap, fmt);
    bst_sb_addv(&raw, fmt, ap);
    va_end(ap);
    bst_text_clean(&line, raw.data, raw.len);
    pthread_mutex_lock(&lock);
    sink_now(sink_arg, level, line.data);
    pthread_mutex_unlock(&lock);
    bst_sb_fini(&raw);
    bst_sb_fini(&line);
}
