#include "tui/layout.h"

#include <limits.h>
#include <string.h>

enum { BANDS = 3, COLUMNS = 3, SLOTS = TUI_N_PANES };

struct slot {
    int pane, weight;
};

struct column {
    int weight, n;
    struct slot slot[SLOTS];
};

struct band {
    int weight, n;
    struct column column[COLUMNS];
};

struct plan {
    int n;
    struct band band[BANDS];
};

/* clang-format off */
static const struct plan plans[] = {
    [TUI_SIZE_COMPACT] = {1, {{1, 1, {{1, 7, {{TUI_PANE_LOSS, 5}, {TUI_PANE_THROUGHPUT, 2},
                                              {TUI_PANE_GRADIENT, 3}, {TUI_PANE_DEVICES, 1},
                                              {TUI_PANE_SCHEDULE, 2}, {TUI_PANE_NOISE, 3},
                                              {TUI_PANE_EVENTS, 2}}}}}}},
    [TUI_SIZE_STANDARD] = {3, {{10, 2, {{29, 1, {{TUI_PANE_LOSS, 1}}},
                                        {21, 2, {{TUI_PANE_DEVICES, 1}, {TUI_PANE_THROUGHPUT, 2}}}}},
                               {7, 2, {{29, 1, {{TUI_PANE_GRADIENT, 1}}},
                                       {21, 2, {{TUI_PANE_SCHEDULE, 1}, {TUI_PANE_NOISE, 1}}}}},
                               {3, 1, {{1, 1, {{TUI_PANE_EVENTS, 1}}}}}}},
    [TUI_SIZE_FULL] = {2, {{28, 2, {{60, 2, {{TUI_PANE_LOSS, 5}, {TUI_PANE_GRADIENT, 4}}},
                                    {40, 4, {{TUI_PANE_DEVICES, 1}, {TUI_PANE_THROUGHPUT, 4},
                                             {TUI_PANE_SCHEDULE, 4}, {TUI_PANE_NOISE, 5}}}}},
                           {8, 1, {{1, 1, {{TUI_PANE_EVENTS, 1}}}}}}},
};
/* clang-format on */

/* Rows inside box or rule that a pane needs to say anything. */
static const int least_rows[TUI_N_PANES] = {1, 4, 5, 4, 4, 2, 5};
/* Left out first, to last, where there is no room. */
static const int leave_order[] = {TUI_PANE_SCHEDULE, TUI_PANE_EVENTS,   TUI_PANE_DEVICES,
                                  TUI_PANE_NOISE,    TUI_PANE_GRADIENT, TUI_PANE_THROUGHPUT,
                                  TUI_PANE_LOSS};

static int clamp(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}

bool tui_layout_share(int total, int n, const int *weight, const int *min, const int *max, int *out)
{
    int left = total;
    for (int i = 0; i < n; i++) {
        out[i] = min[i];
        left -= min[i];
    }
    if (left < 0 || n < 1)
        return false;
    /* One unit at a time to whoever is furthest below its share: exact, monotone, and n is tiny. */
    while (left > 0) {
        int best = -1;
        for (int i = 0; i < n; i++)
            if (out[i] < max[i] &&
                (best < 0 || (long)out[i] * weight[best] < (long)out[best] * weight[i]))
                best = i;
        if (best < 0)
            break;
        out[best]++;
        left--;
    }
    out[n - 1] += left;
    return true;
}

static enum tui_size size_of(int w, int h)
{
    if (w < 40 || h < 10)
        return TUI_SIZE_LINE;
    if (w >= 120 && h >= 36)
        return TUI_SIZE_FULL;
    return w >= 80 && h >= 16 ? TUI_SIZE_STANDARD : TUI_SIZE_COMPACT;
}

static int chrome(const struct tui_layout *out)
{
    return out->boxed ? 2 : 1;
}

/* Two lines a device where there are boxes, one elsewhere; a heading or the total is not needed. */
static int device_rows(const struct tui_layout_in *in, const struct tui_layout *out)
{
    int n = clamp(in->n_devices, 1, 16);
    return n * (out->boxed ? 3 : n == 1 ? 3 : 1);
}

static void pane_bounds(const struct tui_layout_in *in, const struct tui_layout *out, int pane,
                        int *min, int *max)
{
    *min = least_rows[pane] + chrome(out);
    *max = INT_MAX;
    if (pane == TUI_PANE_DEVICES) {
        *max = device_rows(in, out) + chrome(out);
        if (out->size >= TUI_SIZE_STANDARD)
            *min = clamp(*max, *min, out->boxed ? 8 : 5);
        *max = *max < *min ? *min : *max;
    }
}

static bool place_column(const struct tui_layout_in *in, const struct column *col, unsigned shown,
                         struct tui_rect room, struct tui_layout *out)
{
    int weight[SLOTS], min[SLOTS], max[SLOTS], height[SLOTS], pane[SLOTS], n = 0;
    for (int i = 0; i < col->n; i++) {
        if (!(shown & 1u << col->slot[i].pane))
            continue;
        pane[n] = col->slot[i].pane;
        weight[n] = col->slot[i].weight;
        pane_bounds(in, out, pane[n], &min[n], &max[n]);
        n++;
    }
    if (!n)
        return true;
    if (!tui_layout_share(room.h, n, weight, min, max, height))
        return false;
    for (int i = 0, y = room.y; i < n; y += height[i], i++)
        out->pane[pane[i]] = (struct tui_rect){room.x, y, room.w, height[i]};
    return true;
}

static int column_min(const struct tui_layout_in *in, const struct tui_layout *out,
                      const struct column *col, unsigned shown)
{
    int sum = 0;
    for (int i = 0; i < col->n; i++) {
        int min, max;
        pane_bounds(in, out, col->slot[i].pane, &min, &max);
        sum += shown & 1u << col->slot[i].pane ? min : 0;
    }
    return sum;
}

static bool place_band(const struct tui_layout_in *in, const struct band *band, unsigned shown,
                       struct tui_rect room, struct tui_layout *out)
{
    int weight[COLUMNS], min[COLUMNS], max[COLUMNS], width[COLUMNS], n = 0;
    const struct column *col[COLUMNS];
    for (int i = 0; i < band->n; i++) {
        if (!column_min(in, out, &band->column[i], shown))
            continue;
        col[n] = &band->column[i];
        weight[n] = col[n]->weight;
        min[n] = 1;
        max[n] = INT_MAX;
        n++;
    }
    if (!n)
        return true;
    if (!tui_layout_share(room.w, n, weight, min, max, width))
        return false;
    for (int i = 0; i < n; i++) {
        struct tui_rect r = {room.x, room.y, width[i], room.h};
        if (!place_column(in, col[i], shown, r, out))
            return false;
        room.x += width[i];
    }
    return true;
}

static bool place_all(const struct tui_layout_in *in, const struct plan *plan, unsigned shown,
                      struct tui_rect room, struct tui_layout *out)
{
    int weight[BANDS], min[BANDS], max[BANDS], height[BANDS], n = 0;
    const struct band *band[BANDS];
    memset(out->pane, 0, sizeof out->pane);
    for (int i = 0; i < plan->n; i++) {
        int most = 0;
        for (int j = 0; j < plan->band[i].n; j++) {
            int rows = column_min(in, out, &plan->band[i].column[j], shown);
            most = rows > most ? rows : most;
        }
        if (!most)
            continue;
        band[n] = &plan->band[i];
        weight[n] = band[n]->weight;
        min[n] = most;
        max[n] = INT_MAX;
        n++;
    }
    if (!n)
        return true;
    if (!tui_layout_share(room.h, n, weight, min, max, height))
        return false;
    for (int i = 0; i < n; i++) {
        struct tui_rect r = {room.x, room.y, room.w, height[i]};
        if (!place_band(in, band[i], shown, r, out))
            return false;
        room.y += height[i];
    }
    return true;
}

/* A pane alone takes what there is, whatever its own least size. */
static void place_alone(int pane, struct tui_rect room, struct tui_layout *out)
{
    memset(out->pane, 0, sizeof out->pane);
    if (room.w > 0 && room.h > 0)
        out->pane[pane] = room;
}

static void set_inner(struct tui_layout *out)
{
    for (int i = 0; i < TUI_N_PANES; i++) {
        struct tui_rect r = out->pane[i];
        int rows = chrome(out);
        out->inner[i] =
            (struct tui_rect){r.x + 1, r.y + 1, r.w > 2 ? r.w - 2 : 0, r.h > rows ? r.h - rows : 0};
    }
}

void tui_layout_make(const struct tui_layout_in *in, struct tui_layout *out)
{
    memset(out, 0, sizeof *out);
    out->size = size_of(in->w, in->h);
    if (out->size == TUI_SIZE_LINE)
        return;
    out->boxed = out->size >= TUI_SIZE_FULL;
    out->header_rows = 2;
    out->footer_rows = clamp(in->footer_rows, 1, in->h >= 20 ? 5 : 3);
    struct tui_rect room = {0, out->header_rows, in->w,
                            in->h - out->header_rows - out->footer_rows};
    int focus = clamp(in->focus, 0, TUI_N_PANES - 1);
    unsigned shown = in->shown & ((1u << TUI_N_PANES) - 1);
    if (in->maximised || !shown) {
        if (in->maximised)
            place_alone(focus, room, out);
    } else {
        unsigned keep = 1u << focus & shown;
        for (int i = 0; i < TUI_N_PANES && !place_all(in, &plans[out->size], shown, room, out); i++)
            if ((shown & ~keep) != 0)
                shown &= ~(1u << leave_order[i]) | keep;
        if (!place_all(in, &plans[out->size], shown, room, out))
            place_alone(keep ? focus : TUI_PANE_LOSS, room, out);
    }
    set_inner(out);
}
