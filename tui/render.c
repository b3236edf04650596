#include "tui/render.h"

#include <stdio.h>

#include "tui/pane.h"

/* What the title left blank becomes rule again; a blank stays on either side of its words. */
static void close_rule(struct tui_area a)
{
    struct tui_cell *row = &a.f->cells[a.y * a.f->w + a.x];
    for (int x = a.w - 1; x >= 0 && row[x].ch == L' '; x--) {
        if (x > 0 && row[x - 1].ch != L' ')
            break;
        tui_cell_put(a, x, 0, TUI_RULE, L'─');
    }
}

static void draw_title(const struct tui_model *m, int i, struct tui_area a)
{
    bool focus = i == m->view.focus;
    enum tui_style style = focus ? TUI_FOCUS : TUI_TITLE;
    int x = 2;
    tui_cell_put(a, 1, 0, style, focus ? L'▸' : L' ');
    x += tui_putf(a, x, 0, style, "%d %s", i + 1, tui_panes[i]->name);
    tui_cell_put(a, x, 0, style, L' ');
    if (!tui_panes[i]->title || a.w - x < 8)
        return;
    struct tui_area rest = tui_area_sub(a, x + 1, 0, a.w - x - 3, 1);
    tui_area_fill(rest, TUI_RULE);
    tui_panes[i]->title(m, tui_area_sub(rest, 1, 0, rest.w - 2, 1));
    close_rule(rest);
}

static void draw_pane(const struct tui_model *m, int i, struct tui_area all)
{
    const struct tui_rect *r = &m->layout.pane[i], *in = &m->layout.inner[i];
    if (r->w < 1 || r->h < 1)
        return;
    struct tui_area a = tui_area_sub(all, r->x, r->y, r->w, r->h);
    if (m->layout.boxed)
        tui_box(a, i == m->view.focus ? TUI_FOCUS : TUI_RULE);
    else
        tui_hline(a, 0, 0, a.w, i == m->view.focus ? TUI_FOCUS : TUI_RULE);
    draw_title(m, i, a);
    if (in->w > 0 && in->h > 0)
        tui_panes[i]->draw(m, tui_area_sub(all, in->x, in->y, in->w, in->h));
}

struct tui_area tui_dialog(struct tui_area a, int w, int h, const char *title)
{
    w = w < a.w ? w : a.w;
    h = h < a.h ? h : a.h;
    struct tui_area box = tui_area_sub(a, (a.w - w) / 2, (a.h - h) / 2, w, h);
    tui_area_fill(box, TUI_NORMAL);
    /* A border takes room that a small screen does not have. */
    if (w < 10 || h < 5)
        return box;
    tui_box(box, TUI_FOCUS);
    tui_put_cut(box, 2, 0, w - 4, TUI_FOCUS, title);
    return tui_area_sub(box, 2, 1, w - 4, h - 2);
}

static void draw_overlay(const struct tui_model *m, struct tui_area a)
{
    switch (m->view.overlay) {
    case TUI_OVERLAY_HELP:
        tui_help_draw(m, a);
        break;
    case TUI_OVERLAY_PRESETS:
        tui_picker_draw(m, a);
        break;
    case TUI_OVERLAY_SETTINGS:
        tui_settings_draw(m, a);
        break;
    case TUI_OVERLAY_ADVICE:
        tui_advice_draw(m, a);
        break;
    case TUI_OVERLAY_STOP:
        tui_stop_draw(m, a);
        break;
    case TUI_OVERLAY_LRFIND:
        tui_lrfind_draw(m, a);
        break;
    case TUI_OVERLAY_OPTIONS:
        tui_options_draw(m, a);
        break;
    case TUI_OVERLAY_NONE:
        break;
    }
}

void tui_render(struct tui_model *m, struct tui_frame *f)
{
    struct tui_layout_in in = {
        .w = f->w,
        .h = f->h,
        .shown = m->view.shown,
        .focus = m->view.focus,
        .maximised = m->view.maximised,
        .n_devices = m->status.n_devices,
        .footer_rows = tui_footer_rows(m, f),
    };
    struct tui_area all = tui_area_all(f);
    tui_frame_clear(f);
    tui_layout_make(&in, &m->layout);
    if (m->layout.size == TUI_SIZE_LINE) {
        if (m->view.overlay != TUI_OVERLAY_NONE)
            draw_overlay(m, all);
        else
            tui_line_draw(m, all);
        return;
    }
    int footer = m->layout.footer_rows;
    tui_header_draw(m, tui_area_sub(all, 0, 0, f->w, m->layout.header_rows));
    for (int i = 0; i < TUI_N_PANES; i++)
        draw_pane(m, i, all);
    draw_overlay(m, tui_area_sub(all, 0, m->layout.header_rows, f->w,
                                 f->h - m->layout.header_rows - footer));
    tui_footer_draw(m, tui_area_sub(all, 0, f->h - footer, f->w, footer));
}
