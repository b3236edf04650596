/* What the completions of the three shells share. */
#include "man/docgen_shell.h"

#include <string.h>

#include "core/run/preset.h"
#include "core/tune/command.h"
#include "tui/cli.h"

const char doc_made[] = "# Made from bstune's own tables of verbs, options, commands and keys.\n";

bool doc_belongs(const struct tui_option_info *o, int verb)
{
    return o->verbs & (1u << verb);
}

/* Words of a|b|c with blanks between. */
void doc_choices(struct bst_sb *out, const char *choices)
{
    for (; *choices; choices++)
        bst_sb_addc(out, *choices == '|' ? ' ' : *choices);
}

void doc_verb_words(struct bst_sb *out)
{
    for (int v = 0; v < TUI_N_VERBS; v++)
        bst_sb_addf(out, "%s%s", v ? " " : "", tui_verb_at((enum tui_verb)v)->word);
}

void doc_command_words(struct bst_sb *out)
{
    for (int i = 0; i < BST_N_COMMANDS; i++)
        bst_sb_addf(out, "%s%s", i ? " " : "", bst_command_word((enum bst_command_kind)i));
}

void doc_key_words(struct bst_sb *out, const char *separator, const char *suffix)
{
    for (int i = 0; i < BST_N_PARAMS; i++)
        bst_sb_addf(out, "%s%s%s", i ? separator : "", bst_param_at((enum bst_param_id)i)->key,
                    suffix);
}

/* What a key may be, where that is a few words. */
void doc_values(struct bst_sb *out, enum bst_param_id id)
{
    int n;
    const char *const *words = bst_param_choices(id, &n);
    enum bst_kind kind = bst_param_at(id)->kind;
    for (int i = 0; i < n; i++)
        bst_sb_addf(out, "%s%s", i ? " " : "", words[i]);
    if (kind == BST_KIND_TRUTH)
        bst_sb_add(out, "true false");
    else if (kind == BST_KIND_COUNT_OR_AUTO || kind == BST_KIND_BYTES_OR_AUTO)
        bst_sb_add(out, "auto");
    else if (kind == BST_KIND_INTERVAL)
        bst_sb_add(out, "1ep never");
    else if (kind == BST_KIND_RECOMPUTE)
        bst_sb_add(out, "none auto");
}

/* Text within a zsh spec [..] in single quotes; for fish in single quotes only. */
void doc_quoted(struct bst_sb *out, const char *text, bool zsh)
{
    for (; *text; text++) {
        if (*text == '\'')
            bst_sb_add(out, zsh ? "'\\''" : "\\'");
        else if (zsh && strchr("[]:\\", *text))
            bst_sb_addf(out, "\\%c", *text);
        else if (!zsh && *text == '\\')
            bst_sb_add(out, "\\\\");
        else
            bst_sb_addc(out, *text);
    }
}

/* A help text without its last stop, as menus show it. */
void doc_brief(struct bst_sb *out, const char *text, bool zsh)
{
    struct bst_sb brief;
    const char *end = strstr(text, ". ");
    size_t n = end ? (size_t)(end - text) : strlen(text);
    bst_sb_init(&brief, 1024);
    bst_sb_addn(&brief, text, n && text[n - 1] == '.' ? n - 1 : n);
    doc_quoted(out, brief.data, zsh);
    bst_sb_fini(&brief);
}
