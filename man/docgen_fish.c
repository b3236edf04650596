/* Completion for fish: one line an option. */
#include "man/docgen.h"
#include "man/docgen_shell.h"

#include <string.h>

#include "core/run/preset.h"
#include "core/tune/command.h"
#include "tui/cli.h"

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
        doc_choices(out, o->argument);
        bst_sb_add(out, "'");
    }
    bst_sb_add(out, " -d '");
    doc_brief(out, o->text, false);
    bst_sb_add(out, "'\n");
}

static void fish_set(struct bst_sb *out)
{
    bst_sb_add(out, "function __bstune_set\n");
    for (int i = 0; i < BST_N_PARAMS; i++) {
        const char *key = bst_param_at((enum bst_param_id)i)->key;
        struct bst_sb values;
        bst_sb_init(&values, 1024);
        doc_values(&values, (enum bst_param_id)i);
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
    bst_sb_addf(out, "# fish completion for bstune(1).\n%s\n", doc_made);
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
        doc_brief(out, verb->text, false);
        bst_sb_add(out, "'\n");
        if (verb->takes == TUI_TAKES_PRESET)
            bst_sb_addf(out, "complete -c bstune -n '__fish_seen_subcommand_from %s' -a '%s'\n",
                        verb->word, operands[verb->takes]);
        else if (verb->takes != TUI_TAKES_NOTHING)
            bst_sb_addf(out, "complete -c bstune -n '__fish_seen_subcommand_from %s' -f -a '%s'\n",
                        verb->word, operands[verb->takes]);
        for (int i = 0; i < TUI_N_OPTIONS; i++)
            if (doc_belongs(tui_option_at((enum tui_option)i), v))
                fish_option(out, tui_option_at((enum tui_option)i), verb->word);
    }
    for (int i = 0; i < BST_N_COMMANDS; i++) {
        bst_sb_addf(out, "complete -c bstune -n '__fish_seen_subcommand_from ctl' -f -a %s -d '",
                    bst_command_word((enum bst_command_kind)i));
        doc_quoted(out, bst_command_help((enum bst_command_kind)i), false);
        bst_sb_add(out, "'\n");
    }
}
