/* The screen as a function of the model. Draws into a frame, never to a terminal. One thread. */
#ifndef TUI_RENDER_H
#define TUI_RENDER_H

#include "tui/frame.h"
#include "tui/model.h"

/* Lays the panes out for the frame's size (kept in m->layout) and draws everything. */
void tui_render(struct tui_model *m, struct tui_frame *f);

/* Its parts, each in a file of its own. */
void tui_header_draw(const struct tui_model *m, struct tui_area a);
void tui_footer_draw(const struct tui_model *m, struct tui_area a);
void tui_armed_draw(const struct tui_model *m, struct tui_area a); /* the footer of a change */
int tui_footer_rows(const struct tui_model *m, const struct tui_frame *f);
void tui_line_draw(const struct tui_model *m, struct tui_area a); /* screens without panes */
void tui_help_draw(const struct tui_model *m, struct tui_area a);
void tui_picker_draw(const struct tui_model *m, struct tui_area a);
void tui_settings_draw(const struct tui_model *m, struct tui_area a);
void tui_advice_draw(const struct tui_model *m, struct tui_area a);
void tui_stop_draw(const struct tui_model *m, struct tui_area a);
void tui_lrfind_draw(const struct tui_model *m, struct tui_area a);
void tui_options_draw(const struct tui_model *m, struct tui_area a);

/* The batch as people check it: "128 = 64 × 1 × 2", "307 ≤ 154 × 1 × 2". */
void tui_batch_text(const struct bst_status *s, bool brief, char *out, size_t room);
/* A box in the middle with a title, its inside cleared; returns the inside. */
struct tui_area tui_dialog(struct tui_area a, int w, int h, const char *title);

#endif
