#include "core/train/match.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "core/base/sb.h"
#include "core/base/text.h"

enum { NAME_ROOM = 1200 }; /* a tensor's name has 1024 bytes at most */

static const char *const own_buffers[] = {"*.num_batches_tracked", NULL};
static const char *const own_head[] = {"fc.*", NULL};

static bool any(const char *const *patterns, const char *name)
{
    for (; patterns && *patterns; patterns++)
        if (!fnmatch(*patterns, name, 0))
            return true;
    return false;
}

bool bst_match_is_head(const struct bst_net_names *names, const char *parameter)
{
    return any(names ? names->head : own_head, parameter);
}

/* The parameter's name as the net spells it, from a file's. */
static void respell(const char *tensor, char out[NAME_ROOM])
{
    static const char *const words[][2] = {{".gamma", ".weight"}, {".beta", ".bias"}};
    int n = (int)strlen(tensor);
    const char *end = "";
    for (int i = 0; i < 2; i++) {
        int k = (int)strlen(words[i][0]);
        if (n <= k || strcmp(tensor + n - k, words[i][0]) != 0)
            continue;
        end = words[i][1];
        n -= k;
        break;
    }
    snprintf(out, NAME_ROOM, "%.*s%s", n, tensor, end);
}

/* -1: no parameter's. */
static int slot_of(const struct bst_match *m, const char *tensor)
{
    char spelt[NAME_ROOM], whole[NAME_ROOM];
    const char *name = tensor;
    if (m->names && m->names->gamma_beta) {
        respell(tensor, spelt);
        name = spelt;
    }
    int slot = bst_param_table_find(m->params, name);
    if (slot >= 0 || !m->names || !m->names->prefix)
        return slot;
    snprintf(whole, sizeof whole, "%s%s", m->names->prefix, name);
    return bst_param_table_find(m->params, whole);
}

static bool is_copy(const struct bst_match *m, const char *tensor)
{
    for (const struct bst_net_tie *t = m->names ? m->names->ties : NULL; t && t->copy; t++)
        if (!strcmp(t->copy, tensor))
            return true;
    return false;
}

static enum bst_err fail_names(const struct bst_match *m, const char *a, const char *between,
                               const char *b, const char *behind)
{
    struct bst_sb clean[2];
    const char *const names[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        bst_sb_init(&clean[i], 200);
        bst_text_clean(&clean[i], names[i], strlen(names[i]));
    }
    enum bst_err err = bst_fail(BST_E_CORRUPT, "%s: \"%s\"%s\"%s\"%s", m->path, clean[0].data,
                                between, clean[1].data, behind);
    bst_sb_fini(&clean[0]);
    bst_sb_fini(&clean[1]);
    return err;
}

static enum bst_err fail_unknown(const struct bst_match *m, const char *tensor)
{
    struct bst_sb clean;
    bst_sb_init(&clean, 200);
    bst_text_clean(&clean, tensor, strlen(tensor));
    enum bst_err err = bst_fail(BST_E_NOTFOUND,
                                "%s: tensor \"%s\" belongs to no parameter of the "
                                "net",
                                m->path, clean.data);
    bst_sb_fini(&clean);
    return err;
}

/* Files leave out what is tied, or keep either name, or both. */
static enum bst_err tie(const struct bst_match *m, const struct bst_net_tie *tie,
                        const struct bst_tensor **of_slot)
{
    const struct bst_tensor *copy = bst_tensors_find(m->file, tie->copy);
    int slot = bst_param_table_find(m->params, tie->of);
    bool same = true;
    if (!copy || slot < 0)
        return BST_OK;
    if (!of_slot[slot]) {
        of_slot[slot] = copy;
        return BST_OK;
    }
    BST_TRY(bst_tensors_same(m->file, copy, of_slot[slot], &same));
    return same ? BST_OK
                : fail_names(m, tie->copy, " is not ", of_slot[slot]->name,
                             ", and the net has one parameter for both");
}

enum bst_err bst_match_weights(const struct bst_match *m, const struct bst_tensor **of_slot)
{
    const char *const *buffers = m->names ? m->names->buffers : own_buffers;
    for (int i = 0; i < m->params->n_slots; i++)
        of_slot[i] = NULL;
    for (int i = 0; i < bst_tensors_count(m->file); i++) {
        const struct bst_tensor *t = bst_tensors_at(m->file, i);
        int slot = slot_of(m, t->name);
        if (slot >= 0 && of_slot[slot])
            return fail_names(m, of_slot[slot]->name, " and ", t->name, " are the same parameter");
        if (slot >= 0)
            of_slot[slot] = t;
        else if (!any(buffers, t->name) && !is_copy(m, t->name))
            return fail_unknown(m, t->name);
    }
    for (const struct bst_net_tie *t = m->names ? m->names->ties : NULL; t && t->copy; t++)
        BST_TRY(tie(m, t, of_slot));
    return BST_OK;
}
