#include "core/data/jpeg.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "core/base/alloc.h"
#include "core/data/block.h"

/* What libjpeg-turbo leaves to its caller (its issues 249, 252, 284). Work is scans times pixels: a
 * limit in seconds would make the list of bad images depend on the machine. */
enum { PIXELS_MOST = 64 << 20, SCANS_MOST = 100, COMPONENTS_MOST = 4 };
static const uint64_t work_most = UINT64_C(512) << 20;

/* Columns and rows beside the part whose chroma the upsampling filter looks at. */
enum { MARGIN = 2 };
/* Read past the end by vector loads; kept above by a huge image's buffer. */
enum { SLACK = 64, KEEP_MOST = 32 << 20 };
/* An end marker this near the end; cameras append padding. */
enum { TAIL = 4096 };

struct bst_jpeg {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    char damage[JMSG_LENGTH_MAX]; /* first warning that means lost pixels, or a fatal error */
    bool has_header;
    struct bst_block pixels, line; /* line: one row before conversion from CMYK */
};

/* Warnings under which every pixel is still what the encoder wrote. */
static bool is_harmless(int code)
{
    return code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM;
}

static struct bst_jpeg *owner(j_common_ptr common)
{
    return common->client_data;
}

static void keep_words(j_common_ptr common)
{
    struct bst_jpeg *j = owner(common);
    if (!j->damage[0])
        common->err->format_message(common, j->damage);
}

static void on_error(j_common_ptr common)
{
    struct bst_jpeg *j = owner(common);
    keep_words(common);
    longjmp(j->escape, 1);
}

static void on_message(j_common_ptr common, int level)
{
    if (level >= 0 || is_harmless(common->err->msg_code))
        return;
    common->err->num_warnings++;
    on_error(common);
}

static void on_output(j_common_ptr common)
{
    (void)common;
}

static void on_progress(j_common_ptr common)
{
    struct bst_jpeg *j = owner(common);
    uint64_t scans = (uint64_t)j->jpeg.input_scan_number;
    uint64_t pixels = (uint64_t)j->jpeg.image_width * j->jpeg.image_height;
    if (scans <= SCANS_MOST && scans * pixels <= work_most)
        return;
    snprintf(j->damage, sizeof j->damage, "more than %d scans, or too many for its size",
             SCANS_MOST);
    longjmp(j->escape, 1);
}

struct bst_jpeg *bst_jpeg_new(void)
{
    struct bst_jpeg *j = bst_xalloc(sizeof *j);
    j->jpeg.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = on_error;
    j->errors.emit_message = on_message;
    j->errors.output_message = on_output;
    j->progress.progress_monitor = on_progress;
    return j;
}

/* Anew for each image: libjpeg keeps the tables of the one before, for files that leave theirs out,
 * and what such a file decodes to must not depend on what its thread saw last. */
static void start_afresh(struct bst_jpeg *j)
{
    jpeg_destroy_decompress(&j->jpeg);
    j->jpeg.err = &j->errors;
    j->jpeg.client_data = j;
    jpeg_create_decompress(&j->jpeg);
    j->jpeg.progress = &j->progress;
    j->damage[0] = '\0';
}

void bst_jpeg_free(struct bst_jpeg *j)
{
    if (!j)
        return;
    jpeg_destroy_decompress(&j->jpeg);
    bst_block_free(&j->pixels);
    bst_block_free(&j->line);
    bst_free(j);
}

size_t bst_jpeg_bytes(const struct bst_jpeg *j)
{
    return j->pixels.bytes + j->line.bytes;
}

static enum bst_err fail_damaged(struct bst_jpeg *j)
{
    jpeg_abort_decompress(&j->jpeg);
    j->has_header = false;
    return bst_fail(BST_E_CORRUPT, "damaged JPEG: %s", j->damage);
}

static enum bst_err refuse_other_kinds(const uint8_t *data, size_t n)
{
    static const struct {
        const char *magic, *name;
    } kinds[] = {
        {"\x89PNG", "a PNG"}, {"GIF8", "a GIF"}, {"RIFF", "a WebP"},      {"BM", "a BMP"},
        {"II*", "a TIFF"},    {"MM", "a TIFF"},  {"<", "an HTML or XML"},
    };
    if (!n)
        return bst_fail(BST_E_CORRUPT, "empty file");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t len = strlen(kinds[i].magic);
        if (n >= len && !memcmp(data, kinds[i].magic, len))
            return bst_fail(BST_E_UNSUPPORTED, "%s file, expected a JPEG", kinds[i].name);
    }
    return BST_OK;
}

/* A file cut off in transfer has no end marker. Told at once, since the part that an epoch happens
 * to look at may lie before the cut. */
static enum bst_err find_end(const uint8_t *data, size_t n)
{
    const uint8_t *from = n > TAIL ? data + n - TAIL : data;
    for (const uint8_t *p = data + n - 1; p > from; p--)
        if (p[-1] == 0xFF && p[0] == JPEG_EOI)
            return BST_OK;
    return bst_fail(BST_E_CORRUPT, "damaged JPEG: cut off at byte %zu, no end marker", n);
}

enum bst_err bst_jpeg_header(struct bst_jpeg *j, const uint8_t *data, size_t n, int *width,
                             int *height)
{
    *width = *height = 0;
    j->has_header = false;
    BST_TRY(refuse_other_kinds(data, n));
    BST_TRY(find_end(data, n));
    if (setjmp(j->escape))
        return fail_damaged(j);
    start_afresh(j);
    jpeg_mem_src(&j->jpeg, data, n);
    jpeg_read_header(&j->jpeg, TRUE);
    uint64_t w = j->jpeg.image_width, h = j->jpeg.image_height;
    if (w * h > PIXELS_MOST) {
        jpeg_abort_decompress(&j->jpeg);
        return bst_fail(BST_E_UNSUPPORTED,
                        "JPEG of %" PRIu64 " × %" PRIu64 " pixels, at most %d allowed", w, h,
                        PIXELS_MOST);
    }
    j->has_header = true;
    *width = (int)w;
    *height = (int)h;
    return BST_OK;
}

static int floor_div(int a, int b)
{
    return a / b;
}

static int ceil_div(int a, int b)
{
    return (a + b - 1) / b;
}

/* The part in scaled pixels, with the margin, inside the image. */
static struct bst_jpeg_rect scale_part(const struct bst_jpeg *j, struct bst_jpeg_rect part,
                                       int denominator)
{
    int w = (int)j->jpeg.output_width, h = (int)j->jpeg.output_height;
    int x0 = floor_div(part.x, denominator) - MARGIN, y0 = floor_div(part.y, denominator) - MARGIN;
    int x1 = ceil_div(part.x + part.w, denominator) + MARGIN;
    int y1 = ceil_div(part.y + part.h, denominator) + MARGIN;
    struct bst_jpeg_rect r = {x0 < 0 ? 0 : x0, y0 < 0 ? 0 : y0, 0, 0};
    r.w = (x1 > w ? w : x1) - r.x;
    r.h = (y1 > h ? h : y1) - r.y;
    return r;
}

/* Colour from CMYK as Pillow does it. Adobe's files hold the inks inverted. */
static void rgb_from_cmyk(const uint8_t *in, uint8_t *out, int n, bool inverted)
{
    for (int i = 0; i < n; i++, in += 4, out += 3) {
        unsigned flip = inverted ? 0 : 255, k = in[3] ^ flip;
        for (int c = 0; c < 3; c++) {
            unsigned product = (in[c] ^ flip) * k + 128;
            out[c] = (uint8_t)((product + (product >> 8)) >> 8);
        }
    }
}

static enum bst_err reserve(struct bst_jpeg *j, size_t stride, int rows)
{
    size_t bytes = 0;
    if (!bst_mul_size(stride, (size_t)rows, &bytes) || !bst_add_size(bytes, SLACK, &bytes))
        return bst_fail(BST_E_NOMEM, "JPEG of more bytes than can be");
    if (j->pixels.bytes > KEEP_MOST && bytes <= KEEP_MOST)
        bst_block_free(&j->pixels);
    BST_TRY(bst_block_reserve(&j->pixels, bytes));
    return bst_block_reserve(&j->line, (size_t)j->jpeg.output_width * COMPONENTS_MOST);
}

/* The rows of a part, once libjpeg has been told to produce its columns. */
static void read_rows(struct bst_jpeg *j, struct bst_jpeg_rect part, size_t stride)
{
    bool cmyk = j->jpeg.out_color_space == JCS_CMYK;
    if (part.y)
        jpeg_skip_scanlines(&j->jpeg, (JDIMENSION)part.y);
    for (int y = 0; y < part.h; y++) {
        uint8_t *row = (uint8_t *)j->pixels.p + (size_t)y * stride;
        JSAMPROW target = cmyk ? j->line.p : row;
        if (jpeg_read_scanlines(&j->jpeg, &target, 1) != 1) {
            snprintf(j->damage, sizeof j->damage, "ends at row %d", part.y + y);
            longjmp(j->escape, 1);
        }
        if (cmyk)
            rgb_from_cmyk(j->line.p, row, part.w, j->jpeg.saw_Adobe_marker);
    }
}

static void choose_output(struct bst_jpeg *j, int denominator)
{
    J_COLOR_SPACE from = j->jpeg.jpeg_color_space;
    j->jpeg.out_color_space = from == JCS_CMYK || from == JCS_YCCK ? JCS_CMYK : JCS_RGB;
    j->jpeg.scale_num = 1;
    j->jpeg.scale_denom = (unsigned)denominator;
}

enum bst_err bst_jpeg_decode(struct bst_jpeg *j, struct bst_jpeg_rect part, int denominator,
                             struct bst_jpeg_view *out)
{
    BST_ASSERT(j->has_header);
    BST_ASSERT(part.x >= 0 && part.w > 0 && part.x + part.w <= (int)j->jpeg.image_width);
    BST_ASSERT(part.y >= 0 && part.h > 0 && part.y + part.h <= (int)j->jpeg.image_height);
    if (setjmp(j->escape))
        return fail_damaged(j);
    choose_output(j, denominator);
    jpeg_start_decompress(&j->jpeg);
    struct bst_jpeg_rect r = scale_part(j, part, denominator);
    if (r.w < (int)j->jpeg.output_width) {
        JDIMENSION x = (JDIMENSION)r.x, w = (JDIMENSION)r.w;
        jpeg_crop_scanline(&j->jpeg, &x, &w);
        r.x = (int)x;
        r.w = (int)w;
    }
    size_t stride = (size_t)r.w * 3;
    enum bst_err err = reserve(j, stride, r.h);
    if (!err)
        read_rows(j, r, stride);
    /* The rows below are not wanted. */
    jpeg_abort_decompress(&j->jpeg);
    j->has_header = false;
    *out = (struct bst_jpeg_view){j->pixels.p, stride, r, denominator};
    return err;
}
