/* What the completions of the three shells share. */
#ifndef MAN_DOCGEN_SHELL_H
#define MAN_DOCGEN_SHELL_H

#include "core/base/sb.h"
#include "core/run/preset.h"
#include "tui/cli.h"

extern const char doc_made[]; /* the remark at the head of each */

bool doc_belongs(const struct tui_option_info *o, int verb);
/* Words with blanks between: of a|b|c, all verbs, all commands of a run. */
void doc_choices(struct bst_sb *out, const char *choices);
void doc_verb_words(struct bst_sb *out);
void doc_command_words(struct bst_sb *out);
void doc_key_words(struct bst_sb *out, const char *separator, const char *suffix);
/* What a key may be, where that is a few words. */
void doc_values(struct bst_sb *out, enum bst_param_id id);

/* Text within single quotes: of a zsh spec […], or of fish. */
void doc_quoted(struct bst_sb *out, const char *text, bool zsh);
/* A help text's first sentence without its stop, as menus show it. */
void doc_brief(struct bst_sb *out, const char *text, bool zsh);

#endif
