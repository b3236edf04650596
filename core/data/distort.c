#include "core/data/distort.h"

#include <math.h>
#include <stddef.h>

#include "core/base/rng.h"

/* Counters apart, so that no part's draws depend on how many another made. */
enum { USE_COLOUR = 1, USE_PLACE, USE_PIXELS };
enum { TRIES = 10 };
static const double jitter = 0.4, erase_share = 0.25;
static const double area_least = 0.02, area_most = 0.33, ratio_least = 0.3, ratio_most = 3.3;

/* ITU-R BT.601, as in PIL's convert("L") and torchvision. */
static double grey(const uint8_t *p)
{
    return 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
}

static double mean_grey(const uint8_t *image, int n_pixels, int c)
{
    double sum = 0;
    if (c == 3) {
        for (int i = 0; i < n_pixels; i++)
            sum += grey(image + 3 * i);
        return sum / n_pixels;
    }
    for (int i = 0; i < n_pixels * c; i++)
        sum += image[i];
    return sum / ((double)n_pixels * c);
}

static uint8_t to_byte(double v)
{
    return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)(v + 0.5);
}

void bst_distort_colour(uint8_t *image, int n_pixels, int c, const struct bst_distort_colour *how)
{
    /* All three are affine and grey() is linear, so they fold into one pass:
     * s·c·b·p + (1-s)·c·b·grey(p) + (1-c)·b·mean. */
    double scale = how->brightness * how->contrast;
    double shift = (1 - how->contrast) * how->brightness * mean_grey(image, n_pixels, c);
    if (c != 3) {
        for (int i = 0; i < n_pixels * c; i++)
            image[i] = to_byte(scale * image[i] + shift);
        return;
    }
    double own = scale * how->saturation, common = scale * (1 - how->saturation);
    for (uint8_t *p = image; p < image + 3 * n_pixels; p += 3) {
        double rest = common * grey(p) + shift;
        for (int k = 0; k < 3; k++)
            p[k] = to_byte(own * p[k] + rest);
    }
}

static double between(struct bst_rng *r, double low, double high)
{
    return low + (high - low) * bst_rng_uniform(r);
}

struct bst_distort_rect bst_distort_erase_where(int h, int w, uint64_t key)
{
    struct bst_distort_rect rect = {0};
    struct bst_rng r;
    bst_rng_init(&r, key, BST_RNG_AUGMENT, USE_PLACE);
    if (bst_rng_uniform(&r) >= erase_share)
        return rect;
    for (int i = 0; i < TRIES; i++) {
        double area = between(&r, area_least, area_most) * h * w;
        double ratio = exp(between(&r, log(ratio_least), log(ratio_most)));
        int rh = (int)nearbyint(sqrt(area * ratio)), rw = (int)nearbyint(sqrt(area / ratio));
        if (rh < 1 || rh >= h || rw < 1 || rw >= w)
            continue;
        rect.y = (int)bst_rng_below(&r, (uint32_t)(h - rh + 1));
        rect.x = (int)bst_rng_below(&r, (uint32_t)(w - rw + 1));
        rect.h = rh;
        rect.w = rw;
        break;
    }
    return rect;
}

static void erase(uint8_t *image, int w, int c, struct bst_distort_rect rect, uint64_t key)
{
    struct bst_rng r;
    bst_rng_init(&r, key, BST_RNG_AUGMENT, USE_PIXELS);
    for (int y = rect.y; y < rect.y + rect.h; y++) {
        uint8_t *row = image + ((size_t)y * (size_t)w + (size_t)rect.x) * (size_t)c;
        uint32_t bits = 0;
        for (int i = 0; i < rect.w * c; i++) {
            bits = i % 4 ? bits >> 8 : bst_rng_u32(&r);
            row[i] = (uint8_t)bits;
        }
    }
}

void bst_distort(uint8_t *image, int h, int w, int c, uint64_t key)
{
    struct bst_rng r;
    bst_rng_init(&r, key, BST_RNG_AUGMENT, USE_COLOUR);
    struct bst_distort_colour how;
    how.brightness = between(&r, 1 - jitter, 1 + jitter);
    how.contrast = between(&r, 1 - jitter, 1 + jitter);
    how.saturation = between(&r, 1 - jitter, 1 + jitter);
    bst_distort_colour(image, h * w, c, &how);
    erase(image, w, c, bst_distort_erase_where(h, w, key), key);
}
