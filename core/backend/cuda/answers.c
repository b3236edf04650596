#include "core/backend/cuda/answers.h"

#include <inttypes.h>
#include <stdio.h>

bool cuda_answers_find(const struct cuda_keep *k, const char *key, struct cuda_answer *out)
{
    const char *text = cuda_keep_find(k, key);
    int accepted = 0, fallback = 0;

    *out = (struct cuda_answer){0};
    if (!text ||
        sscanf(text, "%d %d %" SCNd64 " %" SCNd64 " %u", &accepted, &fallback, &out->workspace,
               &out->engine, &out->notes) != 5 ||
        out->workspace < 0)
        return false;
    out->accepted = accepted;
    out->fallback = fallback;
    return true;
}

void cuda_answers_add(struct cuda_keep *k, const char *key, const struct cuda_answer *a)
{
    char text[96];

    snprintf(text, sizeof text, "%d %d %" PRId64 " %" PRId64 " %u", a->accepted, a->fallback,
             a->workspace, a->engine, a->notes);
    cuda_keep_add(k, key, text);
}
