/* What every fuzz target defines; libFuzzer or replay.c calls it. A bug aborts. */
#ifndef BST_TESTS_FUZZ_H
#define BST_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
