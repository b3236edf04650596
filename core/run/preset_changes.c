/* The key `changes`: what is changed while a run goes on, by when. */
#include <string.h>

#include "core/run/preset_impl.h"
#include "core/tune/command.h"

static bool read_at(const struct bst_yaml *node, struct bst_interval *out)
{
    return !bst_interval_parse(node->text, out);
}

static bool read_command(const struct bst_yaml *node, char out[128])
{
    struct bst_command cmd;
    struct bst_sb text;
    if (bst_command_parse(node->text, &cmd))
        return false;
    if (!bst_command_is_change(cmd.kind)) {
        (void)bst_fail(BST_E_PARSE, "'%s' changes no setting", bst_command_word(cmd.kind));
        return false;
    }
    if (cmd.rewind) {
        (void)bst_fail(BST_E_PARSE, "a preset cannot rewind a run");
        return false;
    }
    bst_sb_init(&text, 128);
    bst_command_format(&cmd, &text);
    bool fits = !text.full;
    if (fits)
        memcpy(out, text.data, text.len + 1);
    else
        (void)bst_fail(BST_E_RANGE, "longer than 127 bytes");
    bst_sb_fini(&text);
    return fits;
}

static bool read_part(const struct bst_yaml *node, struct bst_preset_change *out,
                      struct bst_complaints *c)
{
    bool at = strcmp(node->key, "at") == 0, command = strcmp(node->key, "command") == 0;
    struct bst_sb found;
    bst_sb_init(&found, 512);
    bst_quote(&found, at || command ? node->kind == BST_YAML_SCALAR ? node->text : "" : node->key);
    bool ok = false;
    if (!at && !command)
        bst_complain(c, node->key_at, "changes: unknown key %s; at and command exist", found.data);
    else if (node->kind != BST_YAML_SCALAR)
        bst_complain(c, node->at, "changes: %s is a %s; it must be a text", node->key,
                     node->kind == BST_YAML_LIST ? "list" : "mapping");
    else if (!(ok = at ? read_at(node, &out->at) : read_command(node, out->command)))
        bst_complain(c, node->at, "changes: %s: %s", node->key, bst_err_text());
    bst_sb_fini(&found);
    return ok;
}

static bool read_change(const struct bst_yaml *item, struct bst_preset_change *out,
                        struct bst_complaints *c)
{
    bool ok = true, at = false, command = false;
    for (const struct bst_yaml *part = item->child; part; part = part->next) {
        at |= strcmp(part->key, "at") == 0;
        command |= strcmp(part->key, "command") == 0;
        ok &= !part->bad && read_part(part, out, c);
    }
    if (!at || !command)
        bst_complain(c, item->at, "changes: a change without %s", at ? "command" : "at");
    return ok && at && command;
}

bool bst_changes_read(const struct bst_yaml *node, struct bst_preset_changes *out,
                      struct bst_complaints *c)
{
    struct bst_preset_changes got = {0};
    bool ok = true;
    if (node->kind != BST_YAML_LIST) {
        bst_complain(c, node->at, "changes: must be a list of {at, command}");
        return false;
    }
    for (const struct bst_yaml *item = node->child; item; item = item->next) {
        if (item->bad || item->kind != BST_YAML_MAP) {
            if (!item->bad)
                bst_complain(c, item->at, "changes: must be a mapping {at, command}");
            ok = false;
        } else if (got.n == BST_PRESET_CHANGES) {
            bst_complain(c, item->at, "changes: more than %d changes", BST_PRESET_CHANGES);
            return false;
        } else {
            ok &= read_change(item, &got.v[got.n++], c);
        }
    }
    if (ok)
        *out = got;
    return ok;
}

void bst_changes_write(struct bst_sb *out, const struct bst_preset_changes *changes)
{
    bst_sb_addc(out, '[');
    for (int i = 0; i < changes->n; i++) {
        char at[32];
        bst_interval_format(changes->v[i].at, at);
        bst_sb_addf(out, "%s{at: %s, command: ", i ? ", " : "", at);
        bst_preset_write_text(out, changes->v[i].command);
        bst_sb_addc(out, '}');
    }
    bst_sb_addc(out, ']');
}
