/* Completions for three shells. */
#include "man/docgen.h"

#include <string.h>

#include "core/run/preset.h"
#include "core/tune/command.h"
#include "tui/cli.h"

static const char made[] =
    "# Made from bstune's own tables of verbs, options, commands and keys.\n";

static bool belongs(const struct tui_option_info *o, int verb)
{
    return o->verbs & (1u << verb);
}

/* Words of a|b|c with blanks between. */
static void add_choices(struct bst_sb *out, const char *choices)
{
    for (; *choices; choices++)
        bst_sb_addc(out, *choices == '|' ? ' ' : *choices);
}

static void add_verbs(struct bst_sb *out)
{
    for (int v = 0; v < TUI_N_VERBS; v++)
        bst_sb_addf(out, "%s%s", v ? " " : "", tui_verb_at((enum tui_verb)v)->word);
}

static void add_commands(struct bst_sb *out)
{
    for (int i = 0; i < BST_N_COMMANDS; i++)
        bst_sb_addf(out, "%s%s", i ? " " : "", bst_command_word((enum bst_command_kind)i));
}

static void add_keys(struct bst_sb *out, const char *separator, const char *suffix)
{
    for (int i = 0; i < BST_N_PARAMS; i++)
        bst_sb_addf(out, "%s%s%s", i ? separator : "", bst_param_at((enum bst_param_id)i)->key,
                    suffix);
}

/* What a key may be, where that is a few words. */
static void add_values(struct bst_sb *out, enum bst_param_id id)
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
}

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
            add_keys(out, " ", "=");
            bst_sb_add(out, "' -- \"$cur\"))");
        } else if (strchr(o->argument, '|')) {
            bst_sb_add(out, "COMPREPLY=($(compgen -W '");
            add_choices(out, o->argument);
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
        add_values(&values, (enum bst_param_id)i);
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
            if (belongs(tui_option_at((enum tui_option)i), v))
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
            add_commands(out);
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
    add_verbs(out);
    bst_sb_add(out, " help'\n        options='--help --version'\n        ;;\n    esac\n");
}

void doc_bash(struct bst_sb *out)
{
    bst_sb_addf(out, "# bash completion for bstune(1).\n%s\n", made);
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

/* Text within a zsh spec [..] in single quotes; for fish in single quotes only. */
static void add_quoted(struct bst_sb *out, const char *text, bool zsh)
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
static void add_brief(struct bst_sb *out, const char *text, bool zsh)
{
    struct bst_sb brief;
    const char *end = strstr(text, ". ");
    size_t n = end ? (size_t)(end - text) : strlen(text);
    bst_sb_init(&brief, 1024);
    bst_sb_addn(&brief, text, n && text[n - 1] == '.' ? n - 1 : n);
    add_quoted(out, brief.data, zsh);
    bst_sb_fini(&brief);
}

static void zsh_option(struct bst_sb *out, const struct tui_option_info *o, bool many)
{
    bst_sb_add(out, "            ");
    if (many)
        bst_sb_add(out, "'*'");
    if (o->letter)
        bst_sb_addf(out, "%s{-%c,--%s}", many ? "" : "", o->letter, o->name);
    else
        bst_sb_addf(out, "--%s", o->name);
    bst_sb_addf(out, "'%s[", *o->argument ? (o->letter ? "" : "=") : "");
    add_brief(out, o->text, true);
    bst_sb_add(out, "]");
    if (many) {
        bst_sb_add(out, ":key:_bstune_set");
    } else if (strchr(o->argument, '|')) {
        bst_sb_add(out, ":when:(");
        add_choices(out, o->argument);
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
    static const char *const operands[] = {
        [TUI_TAKES_NOTHING] = "",
        [TUI_TAKES_PRESET] = " '*:preset:_bstune_presets'",
        [TUI_TAKES_RUN] = " '*:run:_bstune_runs'",
        [TUI_TAKES_RUN_AND_COMMAND] = " '*:command:_bstune_commands'",
        [TUI_TAKES_PRESET_VERB] =
            " '--json[Print JSON]' '*--set[Set a key of the preset]:key:_bstune_set'"
            " '1:what:(list show check diff)' '*:preset:_bstune_presets'",
    };
    bst_sb_addf(out, "        %s)\n            _arguments -s \\\n", verb->word);
    for (int i = 0; i < TUI_N_OPTIONS; i++)
        if (belongs(tui_option_at((enum tui_option)i), v))
            zsh_option(out, tui_option_at((enum tui_option)i), i == TUI_OPTION_SET);
    bst_sb_addf(out,
                "            '(-h --help)'{-h,--help}'[Say how to use it]'%s\n            ;;\n",
                operands[verb->takes]);
}

void doc_zsh(struct bst_sb *out)
{
    bst_sb_addf(out, "#compdef bstune\n%s\n", made);
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
        add_quoted(out, bst_command_help((enum bst_command_kind)i), true);
        bst_sb_add(out, "'\n");
    }
    bst_sb_add(out, "    )\n    _describe command commands\n    _bstune_runs\n}\n\n"
                    "_bstune_set() {\n    local -a keys\n    keys=(\n        ");
    add_keys(out, "\n        ", "");
    bst_sb_add(out, "\n    )\n    if compset -P 1 '*='; then\n"
                    "        case ${IPREFIX%=} in\n");
    for (int i = 0; i < BST_N_PARAMS; i++) {
        struct bst_sb values;
        bst_sb_init(&values, 1024);
        add_values(&values, (enum bst_param_id)i);
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
        add_brief(out, tui_verb_at((enum tui_verb)v)->text, true);
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

static void fish_option(struct bst_sb *out, const struct tui_option_info *o, const char *word)
{
    bst_sb_addf(out, "complete -c bstune -n '__fish_seen_subcommand_from %s' -l %s", word, o->name);
    if (o->letter)
        bst_sb_addf(out, " -s %c", o->letter);
    if (strcmp(o->argument, "FILE") == 0)
        bst_sb_add(out, " -r -F");
    else if (strcmp(o->argument, "DIR") == 0)
        bst_sb_add(out, " -x -a '(__fish_complete_directories)'");
    else if (strcmp(o->argument, "KEY=VALUE") == 0)
        bst_sb_add(out, " -x -a '(__bstune_set)'");
    else if (*o->argument)
        bst_sb_add(out, " -x");
    if (strchr(o->argument, '|')) {
        bst_sb_add(out, " -a '");
        add_choices(out, o->argument);
        bst_sb_add(out, "'");
    }
    bst_sb_add(out, " -d '");
    add_brief(out, o->text, false);
    bst_sb_add(out, "'\n");
}

static void fish_set(struct bst_sb *out)
{
    bst_sb_add(out, "function __bstune_set\n");
    for (int i = 0; i < BST_N_PARAMS; i++) {
        const char *key = bst_param_at((enum bst_param_id)i)->key;
        struct bst_sb values;
        bst_sb_init(&values, 1024);
        add_values(&values, (enum bst_param_id)i);
        bst_sb_addf(out, "    printf '%%s\\n' %s=", key);
        if (values.len) {
            bst_sb_addc(out, '{');
            for (const char *p = values.data; *p; p++)
                bst_sb_addc(out, *p == ' ' ? ',' : *p);
            bst_sb_add(out, strchr(values.data, ' ') ? "}" : ",}");
        }
        bst_sb_add(out, "\n");
        bst_sb_fini(&values);
    }
    bst_sb_add(out, "end\n\n");
}

void doc_fish(struct bst_sb *out)
{
    static const char *const operands[] = {
        [TUI_TAKES_PRESET] = "(__bstune_presets)",
        [TUI_TAKES_RUN] = "(__bstune_runs)",
        [TUI_TAKES_RUN_AND_COMMAND] = "(__bstune_runs)",
        [TUI_TAKES_PRESET_VERB] = "list show check diff (__bstune_presets)",
    };
    bst_sb_addf(out, "# fish completion for bstune(1).\n%s\n", made);
    bst_sb_add(out, "function __bstune_presets\n"
                    "    bstune preset list 2>/dev/null | string split -f 1 -m 1 ' '\nend\n\n"
                    "function __bstune_runs\n"
                    "    bstune list 2>/dev/null | string split -f 1 -m 1 ' '\nend\n\n");
    fish_set(out);
    bst_sb_add(
        out, "complete -c bstune -n __fish_use_subcommand -x -s h -l help -d 'Say how to use it'\n"
             "complete -c bstune -n __fish_use_subcommand -x -s V -l version -d 'Say which version "
             "this is'\n");
    for (int v = 0; v < TUI_N_VERBS; v++) {
        const struct tui_verb_info *verb = tui_verb_at((enum tui_verb)v);
        bst_sb_addf(out, "complete -c bstune -n __fish_use_subcommand -x -a %s -d '", verb->word);
        add_brief(out, verb->text, false);
        bst_sb_add(out, "'\n");
        if (verb->takes == TUI_TAKES_PRESET)
            bst_sb_addf(out, "complete -c bstune -n '__fish_seen_subcommand_from %s' -a '%s'\n",
                        verb->word, operands[verb->takes]);
        else if (verb->takes != TUI_TAKES_NOTHING)
            bst_sb_addf(out, "complete -c bstune -n '__fish_seen_subcommand_from %s' -f -a '%s'\n",
                        verb->word, operands[verb->takes]);
        for (int i = 0; i < TUI_N_OPTIONS; i++)
            if (belongs(tui_option_at((enum tui_option)i), v))
                fish_option(out, tui_option_at((enum tui_option)i), verb->word);
    }
    for (int i = 0; i < BST_N_COMMANDS; i++) {
        bst_sb_addf(out, "complete -c bstune -n '__fish_seen_subcommand_from ctl' -f -a %s -d '",
                    bst_command_word((enum bst_command_kind)i));
        add_quoted(out, bst_command_help((enum bst_command_kind)i), false);
        bst_sb_add(out, "'\n");
    }
}
