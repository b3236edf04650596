/* Completion for zsh, by its own _arguments. */
#include "man/docgen.h"
#include "man/docgen_shell.h"

#include <string.h>

#include "core/run/preset.h"
#include "core/tune/command.h"
#include "tui/cli.h"

static void zsh_option(struct bst_sb *out, const struct tui_option_info *o, bool many)
{
    bst_sb_add(out, "            ");
    if (many)
        bst_sb_add(out, "'*'");
    if (o->letter)
        bst_sb_addf(out, "{-%c,--%s}", o->letter, o->name);
    else
        bst_sb_addf(out, "--%s", o->name);
    bst_sb_addf(out, "'%s[", *o->argument ? (o->letter ? "" : "=") : "");
    doc_brief(out, o->text, true);
    bst_sb_add(out, "]");
    if (many) {
        bst_sb_add(out, ":key:_bstune_set");
    } else if (strchr(o->argument, '|')) {
        bst_sb_add(out, ":when:(");
        doc_choices(out, o->argument);
        bst_sb_add(out, ")");
    } else if (strcmp(o->argument, "DIR") == 0) {
        bst_sb_add(out, ":folder:_files -/");
    } else if (strcmp(o->argument, "FILE") == 0) {
        bst_sb_add(out, ":file:_files");
    } else if (*o->argument) {
        bst_sb_add(out, ":value:");
    }
    bst_sb_add(out, "' \\\n");
}

static void zsh_verb(struct bst_sb *out, int v)
{
    const struct tui_verb_info *verb = tui_verb_at((enum tui_verb)v);
    static const char preset_verb[] =
        " '--json[Print JSON]' '*--set[Set a key of the preset]:key:_bstune_set'"
        " '1:what:(list show check diff)' '*:preset:_bstune_presets'";
    static const char *const operands[] = {
        [TUI_TAKES_NOTHING] = "",
        [TUI_TAKES_PRESET] = " '*:preset:_bstune_presets'",
        [TUI_TAKES_RUN] = " '*:run:_bstune_runs'",
        [TUI_TAKES_RUN_AND_COMMAND] = " '*:command:_bstune_commands'",
        [TUI_TAKES_PRESET_VERB] = preset_verb,
    };
    bst_sb_addf(out, "        %s)\n            _arguments -s \\\n", verb->word);
    for (int i = 0; i < TUI_N_OPTIONS; i++)
        if (doc_belongs(tui_option_at((enum tui_option)i), v))
            zsh_option(out, tui_option_at((enum tui_option)i), i == TUI_OPTION_SET);
    bst_sb_addf(out,
                "            '(-h --help)'{-h,--help}'[Say how to use it]'%s\n            ;;\n",
                operands[verb->takes]);
}

void doc_zsh(struct bst_sb *out)
{
    bst_sb_addf(out, "#compdef bstune\n%s\n", doc_made);
    bst_sb_add(
        out, "_bstune_presets() {\n"
             "    local -a names\n"
             "    names=(${(f)\"$(bstune preset list 2>/dev/null | cut -d ' ' -f 1)\"})\n"
             "    _alternative \"presets:preset:($names)\" 'files:file:_files -g \"*.yaml\"'\n}\n\n"
             "_bstune_runs() {\n"
             "    local -a names\n"
             "    names=(${(f)\"$(bstune list 2>/dev/null | cut -d ' ' -f 1)\"})\n"
             "    _alternative \"runs:run:($names)\" 'folders:folder:_files -/'\n}\n\n"
             "_bstune_commands() {\n"
             "    if [[ $words[CURRENT-1] == preset ]]; then\n"
             "        _bstune_presets\n"
             "        return\n"
             "    fi\n"
             "    local -a commands\n"
             "    commands=(\n");
    for (int i = 0; i < BST_N_COMMANDS; i++) {
        bst_sb_addf(out, "        '%s:", bst_command_word((enum bst_command_kind)i));
        doc_quoted(out, bst_command_help((enum bst_command_kind)i), true);
        bst_sb_add(out, "'\n");
    }
    bst_sb_add(out, "    )\n    _describe command commands\n    _bstune_runs\n}\n\n"
                    "_bstune_set() {\n    local -a keys\n    keys=(\n        ");
    doc_key_words(out, "\n        ", "");
    bst_sb_add(out, "\n    )\n    if compset -P 1 '*='; then\n"
                    "        case ${IPREFIX%=} in\n");
    for (int i = 0; i < BST_N_PARAMS; i++) {
        struct bst_sb values;
        bst_sb_init(&values, 1024);
        doc_values(&values, (enum bst_param_id)i);
        if (values.len)
            bst_sb_addf(out, "        *%s) compadd -- %s ;;\n",
                        bst_param_at((enum bst_param_id)i)->key, values.data);
        bst_sb_fini(&values);
    }
    bst_sb_add(out, "        esac\n    else\n        compadd -S = -- $keys\n    fi\n}\n\n"
                    "_bstune() {\n"
                    "    local -a verbs\n"
                    "    local context state state_descr line\n"
                    "    typeset -A opt_args\n"
                    "    verbs=(\n");
    for (int v = 0; v < TUI_N_VERBS; v++) {
        bst_sb_addf(out, "        '%s:", tui_verb_at((enum tui_verb)v)->word);
        doc_brief(out, tui_verb_at((enum tui_verb)v)->text, true);
        bst_sb_add(out, "'\n");
    }
    bst_sb_add(out, "    )\n"
                    "    _arguments -C '(-h --help)'{-h,--help}'[Say how to use it]' \\\n"
                    "        '(-V --version)'{-V,--version}'[Say which version this is]' \\\n"
                    "        '1:command:->verb' '*::argument:->rest'\n"
                    "    case $state in\n"
                    "    verb) _describe command verbs ;;\n"
                    "    rest)\n"
                    "        case $words[1] in\n");
    for (int v = 0; v < TUI_N_VERBS; v++)
        zsh_verb(out, v);
    bst_sb_add(out, "        esac\n        ;;\n    esac\n}\n\n_bstune \"$@\"\n");
}
