/* Completion for bash: one function, of use without the package bash-completion. */
#include "man/docgen.h"
#include "man/docgen_shell.h"

#include <string.h>

#include "core/run/preset.h"
#include "tui/cli.h"

/* A case pattern: the option in both its forms. */
static void add_pattern(struct bst_sb *out, const struct tui_option_info *o)
{
    bst_sb_addf(out, "--%s", o->name);
    if (o->letter)
        bst_sb_addf(out, "|-%c", o->letter);
}

static void bash_option_arguments(struct bst_sb *out)
{
    bst_sb_add(out, "    case $prev in\n");
    for (int i = 0; i < TUI_N_OPTIONS; i++) {
        const struct tui_option_info *o = tui_option_at((enum tui_option)i);
        if (!*o->argument)
            continue;
        bst_sb_add(out, "    ");
        add_pattern(out, o);
        bst_sb_add(out, ")\n        ");
        if (i == TUI_OPTION_SET) {
            bst_sb_add(out, "compopt -o nospace\n        COMPREPLY=($(compgen -W '");
            doc_key_words(out, " ", "=");
            bst_sb_add(out, "' -- \"$cur\"))");
        } else if (strchr(o->argument, '|')) {
            bst_sb_add(out, "COMPREPLY=($(compgen -W '");
            doc_choices(out, o->argument);
            bst_sb_add(out, "' -- \"$cur\"))");
        } else if (strcmp(o->argument, "DIR") == 0) {
            bst_sb_add(out, "compopt -o filenames\n        COMPREPLY=($(compgen -d -- \"$cur\"))");
        } else if (strcmp(o->argument, "FILE") == 0) {
            bst_sb_add(out, "compopt -o filenames\n        COMPREPLY=($(compgen -f -- \"$cur\"))");
        } else {
            bst_sb_add(out, "COMPREPLY=()");
        }
        bst_sb_add(out, "\n        return\n        ;;\n");
    }
    bst_sb_add(out, "    esac\n");
}

static void bash_values(struct bst_sb *out)
{
    bst_sb_add(out, "_bstune_values() {\n    case $1 in\n");
    for (int i = 0; i < BST_N_PARAMS; i++) {
        struct bst_sb values;
        bst_sb_init(&values, 1024);
        doc_values(&values, (enum bst_param_id)i);
        if (values.len)
            bst_sb_addf(out, "    %s) echo '%s' ;;\n", bst_param_at((enum bst_param_id)i)->key,
                        values.data);
        bst_sb_fini(&values);
    }
    bst_sb_add(out, "    esac\n}\n\n");
}

static void bash_operands(struct bst_sb *out)
{
    bst_sb_add(out, "    case $verb in\n");
    for (int v = 0; v < TUI_N_VERBS; v++) {
        const struct tui_verb_info *verb = tui_verb_at((enum tui_verb)v);
        bst_sb_addf(out, "    %s)\n        options='--help", verb->word);
        for (int i = 0; i < TUI_N_OPTIONS; i++)
            if (doc_belongs(tui_option_at((enum tui_option)i), v))
                bst_sb_addf(out, " --%s", tui_option_at((enum tui_option)i)->name);
        bst_sb_add(out, "'\n");
        switch (verb->takes) {
        case TUI_TAKES_NOTHING:
            break;
        case TUI_TAKES_PRESET:
            bst_sb_add(out, "        words=$(_bstune_presets)\n        files='*.yaml'\n");
            break;
        case TUI_TAKES_RUN:
            bst_sb_add(out, "        words=$(_bstune_runs)\n");
            break;
        case TUI_TAKES_RUN_AND_COMMAND:
            bst_sb_add(out, "        words=\"$(_bstune_runs) ");
            doc_command_words(out);
            bst_sb_add(out, "\"\n        [ \"$prev\" = preset ] && words=$(_bstune_presets)\n");
            break;
        case TUI_TAKES_PRESET_VERB:
            bst_sb_add(out, "        options='--help --json --set'\n"
                            "        words='list show check diff'\n"
                            "        [ \"$COMP_CWORD\" -gt 2 ] && words=$(_bstune_presets) "
                            "files='*.yaml'\n");
            break;
        }
        bst_sb_add(out, "        ;;\n");
    }
    bst_sb_add(out, "    *)\n        words='");
    doc_verb_words(out);
    bst_sb_add(out, " help'\n        options='--help --version'\n        ;;\n    esac\n");
}

void doc_bash(struct bst_sb *out)
{
    bst_sb_addf(out, "# bash completion for bstune(1).\n%s\n", doc_made);
    bst_sb_add(out, "_bstune_presets() {\n"
                    "    bstune preset list 2>/dev/null | cut -d ' ' -f 1\n}\n\n"
                    "_bstune_runs() {\n"
                    "    bstune list 2>/dev/null | cut -d ' ' -f 1\n}\n\n");
    bash_values(out);
    bst_sb_add(out,
               "_bstune() {\n"
               "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
               "    local verb=${COMP_WORDS[1]} words= options= files= key=\n"
               "    [ \"$COMP_CWORD\" -eq 1 ] && verb=\n"
               "    # = is a word of its own here: --set KEY = VALUE\n"
               "    if [ \"$cur\" = = ]; then\n"
               "        key=$prev cur=\n"
               "    elif [ \"$prev\" = = ]; then\n"
               "        key=${COMP_WORDS[COMP_CWORD-2]}\n"
               "    fi\n"
               "    if [ -n \"$key\" ]; then\n"
               "        case $key in\n"
               "        --*) prev=$key ;;\n"
               "        *)\n"
               "            COMPREPLY=($(compgen -W \"$(_bstune_values \"$key\")\" -- \"$cur\"))\n"
               "            return\n"
               "            ;;\n"
               "        esac\n"
               "    fi\n");
    bash_option_arguments(out);
    bash_operands(out);
    bst_sb_add(out, "    case $cur in\n"
                    "    -*) words=$options ;;\n"
                    "    esac\n"
                    "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                    "    if [ -n \"$files\" ] && [ \"${cur#-}\" = \"$cur\" ]; then\n"
                    "        compopt -o filenames\n"
                    "        COMPREPLY+=($(compgen -f -X \"!$files\" -- \"$cur\") "
                    "$(compgen -d -- \"$cur\"))\n"
                    "    fi\n"
                    "}\n\n"
                    "complete -F _bstune bstune\n");
}
