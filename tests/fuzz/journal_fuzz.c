/* A journal's line, also with a checksum that is right, since that is no defence against a writer.
 */
#include "fuzz.h"

#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/crc32c.h"
#include "core/run/journal.h"

static void read_line(const char *line, size_t n)
{
    struct bst_journal_entry *e = bst_xalloc(sizeof *e);
    if (!bst_journal_parse(line, n, e)) {
        BST_ASSERT(e->seq > 0 && e->command[0]);
        for (int i = 0; i < e->n_changes; i++)
            BST_ASSERT(e->changes[i].key == e->keys[i]);
        if (e->has_live)
            BST_ASSERT(e->live.schedule.n_milestones <= BST_MILESTONES_MAX);
    }
    bst_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 16384)
        return 0;
    char *line = bst_xalloc(size + 32);
    if (size)
        memcpy(line, data, size);
    read_line(line, size);
    snprintf(line + size, 32, ",\"crc\":\"%08x\"}", (unsigned)bst_crc32c(0, line, size));
    read_line(line, size + strlen(line + size));
    bst_free(line);
    return 0;
}
