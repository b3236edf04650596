/* A generated set that needs no file: one shape on a shaded, noisy ground, at random place, size,
 * turn and colour. Sample i of a part is a pure function of the seed, the part and i. Only
 * operations that IEEE 754 rounds exactly are used, so the pixels are the same on every machine. */
#include "core/data/formats.h"

#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "core/data/augment.h"

enum {
    SIDE_OWN = 28,
    SIDE_LEAST = 8,
    SIDE_MOST = 1024,
    CHANNELS_MOST = 4,
    CLASSES_OWN = 10,
    TRAIN_OWN = 60000,
    EVAL_OWN = 10000,
    PAD = 4,
};

/* Signed distances, negative inside, of a shape about the origin that fits a circle of radius 1.
 * The axes are the image's, y down. Not exact off the edge, which is all that antialiasing looks
 * at. */
static float box(float x, float y, float half_w, float half_h)
{
    return fmaxf(fabsf(x) - half_w, fabsf(y) - half_h);
}

static float disc(float x, float y)
{
    return sqrtf(x * x + y * y) - 0.85f;
}

static float ring(float x, float y)
{
    return fabsf(sqrtf(x * x + y * y) - 0.7f) - 0.2f;
}

static float square(float x, float y)
{
    return box(x, y, 0.7f, 0.7f);
}

static float frame(float x, float y)
{
    return fabsf(box(x, y, 0.6f, 0.6f)) - 0.17f;
}

static float triangle(float x, float y)
{
    /* The base, and sides that rise two for one: their normals are 2 and 1 over the root of 5. */
    return fmaxf(0.8944272f * fabsf(x) - 0.4472136f * (y + 0.95f), y - 0.7f);
}

static float diamond(float x, float y)
{
    return 0.8574929f * fabsf(x) + 0.5144958f * fabsf(y) - 0.48f;
}

static float cross(float x, float y)
{
    return fminf(box(x, y, 0.9f, 0.25f), box(x, y, 0.25f, 0.9f));
}

static float saltire(float x, float y)
{
    return cross(0.7071068f * (x + y), 0.7071068f * (x - y));
}

static float bar_across(float x, float y)
{
    return box(x, y, 0.95f, 0.28f);
}

static float bar_upright(float x, float y)
{
    return box(x, y, 0.28f, 0.95f);
}

static float tee(float x, float y)
{
    return fminf(box(x, y + 0.6f, 0.75f, 0.22f), box(x, y, 0.22f, 0.82f));
}

static float ell(float x, float y)
{
    return fminf(box(x + 0.45f, y, 0.22f, 0.85f), box(x, y - 0.63f, 0.65f, 0.22f));
}

static float crescent(float x, float y)
{
    float u = x - 0.45f;
    return fmaxf(sqrtf(x * x + y * y) - 0.9f, 0.75f - sqrtf(u * u + y * y));
}

static float two_dots(float x, float y)
{
    float u = fabsf(x) - 0.52f;
    return sqrtf(u * u + y * y) - 0.4f;
}

static float half_disc(float x, float y)
{
    return fmaxf(sqrtf(x * x + (y - 0.4f) * (y - 0.4f)) - 0.95f, y - 0.4f);
}

static float two_bars(float x, float y)
{
    return box(x, fabsf(y) - 0.5f, 0.85f, 0.22f);
}

static const struct shape {
    const char *name;
    float (*distance)(float x, float y);
} shapes[] = {
    {"disc", disc},
    {"square", square},
    {"triangle", triangle},
    {"cross", cross},
    {"ring", ring},
    {"frame", frame},
    {"diamond", diamond},
    {"saltire", saltire},
    {"bar across", bar_across},
    {"bar upright", bar_upright},
    {"tee", tee},
    {"ell", ell},
    {"crescent", crescent},
    {"two dots", two_dots},
    {"half disc", half_disc},
    {"two bars", two_bars},
};

enum { SHAPES = (int)(sizeof shapes / sizeof shapes[0]) };

struct generator {
    uint64_t seed;
    int side, channels, classes;
    bool augment;
};

/* What is drawn, in pixels and grey levels. */
struct scene {
    const struct shape *shape;
    float x, y, radius;
    float cosine, sine; /* of the turn */
    float ground[CHANNELS_MOST], slope_x, slope_y, ink[CHANNELS_MOST], noise;
};

static float between(struct bst_rng *r, float low, float high)
{
    return low + (high - low) * (float)(bst_rng_u32(r) >> 8) * 0x1p-24f;
}

static void choose_colours(struct scene *s, struct bst_rng *r, const struct generator *g)
{
    /* Ink and ground differ by at least 70 levels in brightness, either way round. */
    float contrast = between(r, 70.0f, 150.0f);
    float dark = between(r, 10.0f, 245.0f - contrast);
    bool light_ink = bst_rng_u32(r) & 1;
    for (int c = 0; c < g->channels; c++) {
        float tint = g->channels > 1 ? between(r, -25.0f, 25.0f) : 0.0f;
        s->ground[c] = (light_ink ? dark : dark + contrast) + tint;
        s->ink[c] = (light_ink ? dark + contrast : dark) - tint;
    }
    s->slope_x = between(r, -30.0f, 30.0f) / (float)g->side;
    s->slope_y = between(r, -30.0f, 30.0f) / (float)g->side;
    s->noise = between(r, 5.0f, 30.0f);
}

static void choose_scene(struct scene *s, struct bst_rng *r, const struct generator *g, int label)
{
    float side = (float)g->side;
    s->shape = &shapes[label];
    s->radius = side * between(r, 0.2f, 0.42f);
    s->x = between(r, s->radius, side - s->radius);
    s->y = between(r, s->radius, side - s->radius);
    /* Up to 20 degrees either way: t is the tangent of half the turn. */
    float t = between(r, -0.1763270f, 0.1763270f);
    s->cosine = (1.0f - t * t) / (1.0f + t * t);
    s->sine = 2.0f * t / (1.0f + t * t);
    choose_colours(s, r, g);
}

/* How much of the pixel the shape covers, 0 to 1. */
static float coverage(const struct scene *s, float x, float y)
{
    float dx = (x - s->x) / s->radius, dy = (y - s->y) / s->radius;
    float u = s->cosine * dx + s->sine * dy, v = s->cosine * dy - s->sine * dx;
    float inside = 0.5f - s->shape->distance(u, v) * s->radius;
    return inside < 0.0f ? 0.0f : inside > 1.0f ? 1.0f : inside;
}

static uint8_t to_level(float v)
{
    return v < 0.0f ? 0 : v > 255.0f ? 255 : (uint8_t)(v + 0.5f);
}

/* Triangular noise, -1 to 1, from two bytes of a multiplicative generator (splitmix64). */
static float next_noise(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    int sum = (int)(z >> 32 & 0xFF) + (int)(z >> 56);
    return (float)(sum - 255) * (1.0f / 255.0f);
}

static void draw(const struct scene *s, const struct generator *g, uint64_t noise_seed,
                 uint8_t *out)
{
    for (int y = 0; y < g->side; y++)
        for (int x = 0; x < g->side; x++) {
            float cover = coverage(s, (float)x + 0.5f, (float)y + 0.5f);
            float shade = s->slope_x * (float)x + s->slope_y * (float)y;
            for (int c = 0; c < g->channels; c++) {
                float ground = s->ground[c] + shade;
                float v = ground + cover * (s->ink[c] - ground);
                *out++ = to_level(v + s->noise * next_noise(&noise_seed));
            }
        }
}

static enum bst_err get_shapes(void *state, enum bst_part part, int64_t index, uint64_t key,
                               uint8_t *out, int32_t *label)
{
    const struct generator *g = state;
    struct bst_rng r;
    struct scene s;
    bst_rng_init(&r, g->seed, BST_RNG_SHAPES, (uint64_t)index * 2 + (uint64_t)part);
    *label = (int32_t)bst_rng_below(&r, (uint32_t)g->classes);
    choose_scene(&s, &r, g, *label);
    /* The scene is already random in place; augmented, it moves on from epoch to epoch as well. */
    if (g->augment && part == BST_TRAIN) {
        bst_rng_init(&r, key, BST_RNG_AUGMENT, 0);
        s.x += between(&r, -PAD, PAD);
        s.y += between(&r, -PAD, PAD);
    }
    draw(&s, g, bst_rng_u64(&r), out);
    return BST_OK;
}

static int or_own(int value, int own)
{
    return value ? value : own;
}

static enum bst_err check(const struct generator *g)
{
    if (g->side < SIDE_LEAST || g->side > SIDE_MOST)
        return bst_fail(BST_E_RANGE, "shapes: image size %d, expected %d to %d", g->side,
                        SIDE_LEAST, SIDE_MOST);
    if (g->channels < 1 || g->channels > CHANNELS_MOST)
        return bst_fail(BST_E_RANGE, "shapes: %d channels, expected 1 to %d", g->channels,
                        CHANNELS_MOST);
    if (g->classes < 2 || g->classes > SHAPES)
        return bst_fail(BST_E_RANGE, "shapes: %d classes, expected 2 to %d", g->classes, SHAPES);
    return BST_OK;
}

static enum bst_err open_shapes(const struct bst_data_cfg *cfg, void **state,
                                struct bst_data_info *info)
{
    struct generator g = {
        .seed = cfg->seed,
        .side = or_own(cfg->image_size, SIDE_OWN),
        .channels = or_own(cfg->channels, 1),
        .classes = or_own(cfg->classes, CLASSES_OWN),
        .augment = cfg->augment,
    };
    BST_TRY(check(&g));
    info->n[BST_TRAIN] = cfg->train_count > 0 ? cfg->train_count : TRAIN_OWN;
    info->n[BST_EVAL] = cfg->eval_count > 0 ? cfg->eval_count : EVAL_OWN;
    info->height = info->width = g.side;
    info->channels = g.channels;
    info->classes = g.classes;
    struct generator *kept = bst_xalloc(sizeof *kept);
    *kept = g;
    *state = kept;
    return BST_OK;
}

static void close_shapes(void *state)
{
    bst_free(state);
}

static const char *shapes_class(void *state, int label)
{
    (void)state;
    return shapes[label].name;
}

const struct bst_data_format bst_data_shapes = {
    .name = "shapes",
    .about = "generated shapes, of any size; needs no file",
    .open = open_shapes,
    .close = close_shapes,
    .get = get_shapes,
    .class_name = shapes_class,
};
