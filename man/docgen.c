/* bst_docgen WHAT OUTPUT, or bst_docgen page INPUT OUTPUT: a line @NAME@ of a page is replaced by
 * the table of that name, @VERSION@ anywhere by the version. */
#include "man/docgen.h"

#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"

static const struct {
    const char *name;
    void (*make)(struct bst_sb *out);
} tables[] =
    {
        {"VERBS", doc_verbs},   {"COMMANDS", doc_commands},    {"PROMPT", doc_prompt},
        {"KEYS", doc_keys},     {"STUDYKEYS", doc_study_keys}, {"DIAGNOSTICS", doc_diagnostics},
        {"PARAMS", doc_params},
},
  files[] = {
      {"bash", doc_bash},
      {"zsh", doc_zsh},
      {"fish", doc_fish},
      {"schema", doc_schema},
};

/* One line of a page without its \n; false for an @NAME@ that does not exist. */
static bool fill_line(struct bst_sb *out, const char *line, size_t n)
{
    static const char version[] = "@VERSION@";
    if (n > 2 && line[0] == '@' && line[n - 1] == '@') {
        for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
            if (strlen(tables[i].name) == n - 2 && strncmp(tables[i].name, line + 1, n - 2) == 0) {
                tables[i].make(out);
                return true;
            }
        }
        return false;
    }
    const char *at = memmem(line, n, version, sizeof version - 1);
    if (at) {
        bst_sb_addn(out, line, (size_t)(at - line));
        bst_sb_add(out, BST_VERSION);
        size_t done = (size_t)(at - line) + sizeof version - 1;
        bst_sb_addn(out, line + done, n - done);
    } else {
        bst_sb_addn(out, line, n);
    }
    bst_sb_addc(out, '\n');
    return true;
}

static enum bst_err fill_page(struct bst_sb *out, const char *path)
{
    char *text;
    size_t n;
    BST_TRY(bst_io_read_file(path, 1 << 20, &text, &n));
    enum bst_err err = BST_OK;
    for (const char *p = text; *p && !err;) {
        size_t line = strcspn(p, "\n");
        if (!fill_line(out, p, line))
            err = bst_fail(BST_E_NOTFOUND, "%s: no table %.*s", path, (int)line, p);
        p += line + (p[line] == '\n');
    }
    bst_free(text);
    return err;
}

static enum bst_err make(int argc, char **argv, struct bst_sb *out)
{
    if (argc == 4 && strcmp(argv[1], "page") == 0)
        return fill_page(out, argv[2]);
    for (size_t i = 0; argc == 3 && i < sizeof files / sizeof files[0]; i++) {
        if (strcmp(argv[1], files[i].name) == 0) {
            files[i].make(out);
            return BST_OK;
        }
    }
    return bst_fail(BST_E_ARG, "usage: docgen page INPUT OUTPUT | bash|zsh|fish|schema OUTPUT");
}

int main(int argc, char **argv)
{
    struct bst_sb out;
    bst_sb_init(&out, 4 << 20);
    enum bst_err err = make(argc, argv, &out);
    if (!err)
        err = bst_io_replace_file(argv[argc - 1], out.data, out.len);
    if (err)
        fprintf(stderr, "docgen: %s\n", bst_err_text());
    bst_sb_fini(&out);
    return err ? 1 : 0;
}
