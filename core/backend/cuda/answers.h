/* What cuDNN answered about convolutions for one device, by their keys (conv_ask.h), kept on disk
 * (keep.h): planning for a GPU that is not here asks a question once. One thread at a time. */
#ifndef BST_BACKEND_CUDA_ANSWERS_H
#define BST_BACKEND_CUDA_ANSWERS_H

#include "core/backend/cuda/keep.h"

struct cuda_answer {
    bool accepted; /* else nothing else is known */
    bool fallback; /* by no engine of the heuristics, but by one that takes whatever comes */
    int64_t workspace;
    int64_t engine;
    unsigned notes; /* numerical ones, cuDNN's bits */
};

/* One that cannot be read is not there. */
bool cuda_answers_find(const struct cuda_keep *k, const char *key, struct cuda_answer *out);
void cuda_answers_add(struct cuda_keep *k, const char *key, const struct cuda_answer *answer);

#endif
