#include "core/data/crop.h"

#include <math.h>

#include "core/base/rng.h"

static const double scale_least = 0.08, ratio_most = 4.0 / 3.0;
enum { TRIES = 10 };

static double between(struct bst_rng *r, double low, double high)
{
    return low + (high - low) * bst_rng_uniform(r);
}

/* Where ten tries found no part that fits: the middle, as much as the ratio allows. */
static void whole_middle(struct bst_crop *c, int width, int height)
{
    double ratio = (double)width / height;
    c->x.length = width;
    c->y.length = height;
    if (ratio < 1 / ratio_most)
        c->y.length = (int)nearbyint(width * ratio_most);
    else if (ratio > ratio_most)
        c->x.length = (int)nearbyint(height * ratio_most);
    c->x.origin = (width - c->x.length) / 2;
    c->y.origin = (height - c->y.length) / 2;
}

static void choose_part(struct bst_crop *c, int width, int height, struct bst_rng *r)
{
    double area = (double)width * height;
    for (int i = 0; i < TRIES; i++) {
        double target = area * between(r, scale_least, 1);
        double aspect = exp(between(r, -log(ratio_most), log(ratio_most)));
        int w = (int)nearbyint(sqrt(target * aspect)), h = (int)nearbyint(sqrt(target / aspect));
        if (w < 1 || w > width || h < 1 || h > height)
            continue;
        c->y.origin = (int)bst_rng_below(r, (uint32_t)(height - h + 1));
        c->x.origin = (int)bst_rng_below(r, (uint32_t)(width - w + 1));
        c->x.length = w;
        c->y.length = h;
        return;
    }
    whole_middle(c, width, height);
}

void bst_crop_random(struct bst_crop *c, int width, int height, int size, uint64_t key)
{
    struct bst_rng r;
    bst_rng_init(&r, key, BST_RNG_AUGMENT, 0);
    *c = (struct bst_crop){.size = size, .least_scale = 1};
    choose_part(c, width, height, &r);
    c->mirror = bst_rng_u32(&r) & 1;
    c->x.total = c->y.total = size;
    c->part = (struct bst_jpeg_rect){c->x.origin, c->y.origin, c->x.length, c->y.length};
}

/* Source pixels that the filter sees for the window: one target pixel's width beyond it at most. */
static void needed(const struct bst_crop_span *s, int size, int *from, int *n)
{
    double scale = (double)s->length / s->total, support = scale > 1 ? scale : 1;
    int low = (int)floor((s->first + 0.5) * scale - support);
    int high = (int)ceil((s->first + size - 0.5) * scale + support);
    *from = low < 0 ? 0 : low;
    *n = (high > s->length ? s->length : high) - *from;
}

void bst_crop_centre(struct bst_crop *c, int width, int height, int size)
{
    int shorter = (int)((int64_t)size * 256 / 224);
    /* Half the shrinking is left to the filter: what is measured should not depend on how the file
     * was decoded. */
    *c = (struct bst_crop){.size = size, .least_scale = 2};
    c->x.length = width;
    c->y.length = height;
    c->x.total = width <= height ? shorter : (int)((int64_t)shorter * width / height);
    c->y.total = width <= height ? (int)((int64_t)shorter * height / width) : shorter;
    c->x.first = (int)nearbyint((c->x.total - size) / 2.0);
    c->y.first = (int)nearbyint((c->y.total - size) / 2.0);
    needed(&c->x, size, &c->part.x, &c->part.w);
    needed(&c->y, size, &c->part.y, &c->part.h);
}

int bst_crop_denominator(const struct bst_crop *c)
{
    double x = (double)c->x.length / c->x.total, y = (double)c->y.length / c->y.total;
    double room = (x < y ? x : y) / c->least_scale;
    return room >= 8 ? 8 : room >= 4 ? 4 : room >= 2 ? 2 : 1;
}

static struct bst_resample_axis axis(const struct bst_crop_span *s, int size, int from, int n,
                                     int denominator)
{
    double d = denominator;
    /* Pixels outside the crop are not looked at, as in torchvision, which cuts first. */
    int low = s->origin / denominator;
    int high = (s->origin + s->length + denominator - 1) / denominator;
    return (struct bst_resample_axis){
        .origin = s->origin / d,
        .length = s->length / d,
        .low = low < from ? from : low,
        .high = high > from + n ? from + n : high,
        .total = s->total,
        .first = s->first,
        .n = size,
    };
}

void bst_crop_axes(const struct bst_crop *c, const struct bst_jpeg_view *view,
                   struct bst_resample_axis *x, struct bst_resample_axis *y)
{
    *x = axis(&c->x, c->size, view->part.x, view->part.w, view->denominator);
    *y = axis(&c->y, c->size, view->part.y, view->part.h, view->denominator);
    x->mirror = c->mirror;
}
