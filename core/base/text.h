/* Text from outside made safe to show: control characters, invalid UTF-8, bidi and zero-width
 * characters become visible escapes. Everything that reaches a terminal or a log passes here. Pure;
 * any thread. */
#ifndef BST_BASE_TEXT_H
#define BST_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/sb.h"

/* Bytes of the UTF-8 sequence at s and its code point; 0 when it is not valid UTF-8 (RFC 3629). */
size_t bst_text_utf8(const char *s, size_t n, uint32_t *point);

void bst_text_clean(struct bst_sb *out, const char *s, size_t n);
/* Edit distance for "did you mean": index of the nearest of `names` within 3 edits and half the
 * word, or -1. */
int bst_text_nearest(const char *word, const char *const *names, int n_names);
/* Whether `word` is one of the words of `list`, which has blanks between them. */
bool bst_text_in_list(const char *list, const char *word);
/* Names of presets and runs: ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$ */
bool bst_text_is_name(const char *s);
/* The end of a noun behind its number: "" of one, "s" of any other; "%d device%s". */
const char *bst_text_plural(uint64_t n);
/* So many a second: "120.5", "11820" */
void bst_text_rate(double rate, char out[32]);
/* "1.95 GiB", "512 B" */
void bst_text_bytes(uint64_t bytes, char out[32]);
/* "8GiB", "512MiB", "1000" → bytes; binary and decimal units up to EiB and EB. */
bool bst_text_parse_bytes(const char *s, uint64_t *out);

#endif
