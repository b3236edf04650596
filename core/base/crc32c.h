/* CRC-32C (Castagnoli), chained: crc = bst_crc32c(crc, more, n), starting at 0. Pure; any
 * thread. */
#ifndef BST_BASE_CRC32C_H
#define BST_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t bst_crc32c(uint32_t crc, const void *data, size_t n);
/* The same without the processor's instruction; what other machines run, kept for the test. */
uint32_t bst_crc32c_portable(uint32_t crc, const void *data, size_t n);

#endif
