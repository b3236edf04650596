/* Fills manual pages, completions and the schema from the tables that the program itself runs on.
 * Used at build time only. */
#ifndef MAN_DOCGEN_H
#define MAN_DOCGEN_H

#include "core/base/sb.h"

/* Text for mdoc: every character stands for itself, each sentence on a line of its own. */
void doc_mdoc_text(struct bst_sb *out, const char *text);
/* The same as one word of a macro line, in quotes. */
void doc_mdoc_word(struct bst_sb *out, const char *text);

/* Tables in mdoc. */
void doc_verbs(struct bst_sb *out);
void doc_commands(struct bst_sb *out);
void doc_prompt(struct bst_sb *out);
void doc_keys(struct bst_sb *out);
void doc_study_keys(struct bst_sb *out);
void doc_params(struct bst_sb *out);
void doc_diagnostics(struct bst_sb *out);

/* Whole files. */
void doc_bash(struct bst_sb *out);
void doc_zsh(struct bst_sb *out);
void doc_fish(struct bst_sb *out);
void doc_schema(struct bst_sb *out);

#endif
