#include "core/run/journal_changes.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/run/field.h"
#include "core/tune/command.h"

int bst_journal_surviving(const struct bst_journal *j, int *out)
{
    int n = 0;
    for (int i = 0; i < bst_journal_count(j); i++) {
        const struct bst_journal_entry *e = bst_journal_at(j, i);
        if (!e->has_live || strcmp(e->outcome, "applied"))
            continue;
        while (e->rewind && n && bst_journal_at(j, out[n - 1])->samples >= e->samples)
            n--;
        out[n++] = i;
    }
    return n;
}

static enum bst_err add(const struct bst_journal_entry *e, bool rewound, struct bst_preset *preset)
{
    struct bst_preset_changes *all = &preset->changes;
    struct bst_command cmd;
    BST_TRY(bst_command_parse(e->command, &cmd));
    /* The state is as if what it took away had never been. */
    if (e->rewind)
        return BST_OK;
    if (cmd.kind == BST_COMMAND_REDO && rewound)
        return bst_fail(BST_E_STATE,
                        "entry %" PRIu64 " applies again what a rewind had taken away, which no "
                        "command can say; `bstune run .../journal.jsonl` repeats it",
                        e->seq);
    if (all->n == BST_PRESET_CHANGES)
        return bst_fail(BST_E_RANGE, "more than %d changes", BST_PRESET_CHANGES);
    struct bst_preset_change *c = &all->v[all->n++];
    c->at = (struct bst_interval){(double)e->samples, BST_UNIT_SAMPLES};
    bst_copy_text(c->command, sizeof c->command, e->command);
    return BST_OK;
}

enum bst_err bst_journal_to_preset(const struct bst_journal *j, struct bst_preset *preset)
{
    int *list = bst_xcalloc((size_t)bst_journal_count(j) + 1, sizeof *list);
    int n = bst_journal_surviving(j, list);
    enum bst_err err = BST_OK;
    bool rewound = false;
    preset->changes.n = 0;
    preset->origin[BST_PARAM_changes] = BST_ORIGIN_FILE;
    for (int i = 0; i < n && !err; i++) {
        const struct bst_journal_entry *e = bst_journal_at(j, list[i]);
        err = add(e, rewound, preset);
        rewound |= e->rewind;
    }
    bst_free(list);
    return err;
}
