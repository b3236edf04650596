/* The log: one line a message, to whatever sink was set (default: standard error). Thread-safe. */
#ifndef BST_BASE_LOG_H
#define BST_BASE_LOG_H

#include "core/base/err.h"

enum bst_log_level { BST_LOG_DEBUG, BST_LOG_INFO, BST_LOG_WARN, BST_LOG_ERROR };

typedef void bst_log_sink(void *arg, enum bst_log_level level, const char *line);
void bst_log_to(bst_log_sink *sink, void *arg);
void bst_log_threshold(enum bst_log_level least);
void bst_log(enum bst_log_level level, const char *fmt, ...) BST_PRINTF(2, 3);

#endif
