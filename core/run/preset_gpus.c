/* The GPUs that a preset names. */
#include <ctype.h>
#include <string.h>

#include "core/run/preset.h"

static bool is_number(const char *s)
{
    return *s && strlen(s) <= 2 && strspn(s, "0123456789") == strlen(s);
}

static bool is_uuid(const char *s)
{
    bool kind = !strncmp(s, "GPU-", 4) || !strncmp(s, "MIG-", 4);
    return kind && s[4] && strspn(s + 4, "0123456789abcdef-/GPUMI") == strlen(s + 4);
}

bool bst_preset_gpus(const char *text, struct bst_preset_gpus *out)
{
    *out = (struct bst_preset_gpus){0};
    while (*text) {
        size_t n = strcspn(text, ",");
        const char *from = text;
        text += n + (text[n] == ',');
        while (n && isspace((unsigned char)*from)) {
            from++;
            n--;
        }
        while (n && isspace((unsigned char)from[n - 1]))
            n--;
        if (out->n == BST_PRESET_GPUS || n >= BST_PRESET_GPU)
            return false;
        char *word = out->word[out->n];
        memcpy(word, from, n);
        if (!is_number(word) && !is_uuid(word))
            return false;
        for (int i = 0; i < out->n; i++)
            if (!strcmp(out->word[i], word))
                return false;
        out->n++;
    }
    return true;
}
