/* The preset reader: any text is a preset or a list of errors, each with its place; a preset that
 * was read is written out and read back the same. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/run/preset.h"
#include "tests/fuzz/fuzz.h"

static const char *const nets[] = {"resnet8", "resnet50", NULL};
static const char *const formats[] = {"auto", "idx", "shapes", NULL};
static const char *const backends[] = {"auto", "cpu", "ref", NULL};
static const char *const dirs[] = {NULL};
static const struct bst_preset_env env = {
    .dirs = dirs, .nets = nets, .formats = formats, .backends = backends};

static void check_errors(const struct bst_preset_errors *errs)
{
    BST_ASSERT(errs->n > 0 && errs->text.len > 0);
    int n_lines = 0;
    for (const char *p = errs->text.data; *p; p++)
        n_lines += *p == '\n';
    BST_ASSERT(errs->text.full || n_lines == errs->n);
    BST_ASSERT(!strncmp(errs->text.data, "fuzz:", 5) || !strncmp(errs->text.data, "fuzz: ", 6));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bst_preset *p = bst_xalloc(sizeof *p), *again = bst_xalloc(sizeof *again);
    struct bst_preset_errors errs;
    bst_preset_errors_init(&errs);
    if (bst_preset_parse(&env, "fuzz", (const char *)data, size, NULL, 0, p, &errs)) {
        check_errors(&errs);
    } else {
        struct bst_sb once, twice;
        bst_sb_init(&once, 1 << 18);
        bst_sb_init(&twice, 1 << 18);
        bst_preset_write(p, &once);
        BST_ASSERT(!once.full);
        if (bst_preset_parse(&env, "again", once.data, once.len, NULL, 0, again, &errs))
            bst_panic(__FILE__, __LINE__, "%s\n%s", errs.text.data, once.data);
        bst_preset_write(again, &twice);
        BST_ASSERT(!strcmp(once.data, twice.data));
        bst_sb_fini(&once);
        bst_sb_fini(&twice);
    }
    bst_preset_errors_fini(&errs);
    bst_free(p);
    bst_free(again);
    return 0;
}
