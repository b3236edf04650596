/* Text for people: a folder may be called anything, so what could upset a terminal is made visible
 * (bst_text_clean), line by line. Data that other programs read are written as they are. */
#ifndef TUI_PRINT_H
#define TUI_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "core/base/err.h"

void tui_print(FILE *to, const char *fmt, ...) BST_PRINTF(2, 3);
/* The path of what was made, for a person or a script: as it is but on a terminal. */
void tui_print_path(FILE *to, const char *path);
/* Columns of the terminal, of COLUMNS where it is none, else 80. */
int tui_output_columns(FILE *to);
/* Words of `text` in lines of at most `columns`, each behind `indent` blanks; the first line is
 * already `at` columns long. Clean text. */
void tui_print_wrapped(FILE *to, int columns, const char *text, int indent, int at);
/* The same for what is a line elsewhere: wrapped on a terminal alone, and begun on a line of its
 * own where hardly any room is left behind `at`. */
void tui_print_text(FILE *to, const char *text, int indent, int at);
/* One line, without its end, past stdio; false when it could not be written. */
bool tui_write_line(int fd, const char *text);

#endif
