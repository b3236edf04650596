#include "tests/unit/data_encode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int channels_of(J_COLOR_SPACE space)
{
    return space == JCS_GRAYSCALE ? 1 : space == JCS_CMYK ? 4 : 3;
}

static uint8_t picture(int x, int y, int c)
{
    double v = 128 + 60 * sin(x * 0.11 + c) + 50 * cos(y * 0.07 - c * 2) + (x * 7 + y * 13) % 17;
    return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
}

static void set_sampling(struct jpeg_compress_struct *c, const struct encode *e)
{
    if (!e->h_samp)
        return;
    c->comp_info[0].h_samp_factor = e->h_samp;
    c->comp_info[0].v_samp_factor = e->v_samp;
}

/* Each AC coefficient bit by bit on its own: hundreds of scans in a few kilobytes, all of them
 * legal. */
static int bomb_script(jpeg_scan_info *s, int n, int components)
{
    int used = 0;
    s[used++] = (jpeg_scan_info){.comps_in_scan = components, .component_index = {0, 1, 2, 3}};
    for (int c = 0; c < components; c++)
        for (int k = 1; k < 64; k++)
            for (int bit = 10; bit >= 0 && used < n; bit--)
                s[used++] = (jpeg_scan_info){.comps_in_scan = 1,
                                             .component_index = {c},
                                             .Ss = k,
                                             .Se = k,
                                             .Ah = bit == 10 ? 0 : bit + 1,
                                             .Al = bit};
    return used;
}

uint8_t *encode_jpeg(const struct encode *e, size_t *n)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    static jpeg_scan_info script[4096];
    unsigned char *out = NULL;
    unsigned long bytes = 0;
    int channels = channels_of(e->from);
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &bytes);
    c.image_width = (JDIMENSION)e->w;
    c.image_height = (JDIMENSION)e->h;
    c.input_components = channels;
    c.in_color_space = e->from;
    jpeg_set_defaults(&c);
    if (e->into != JCS_UNKNOWN)
        jpeg_set_colorspace(&c, e->into);
    jpeg_set_quality(&c, e->quality ? e->quality : 90, TRUE);
    set_sampling(&c, e);
    c.arith_code = e->arithmetic;
    c.optimize_coding = e->optimise;
    c.restart_interval = (unsigned)e->restart;
    if (e->progressive)
        jpeg_simple_progression(&c);
    if (e->scans) {
        c.num_scans = bomb_script(script, e->scans, c.num_components);
        c.scan_info = script;
    }
    jpeg_start_compress(&c, TRUE);
    uint8_t *row = malloc((size_t)(e->w * channels));
    for (int y = 0; y < e->h; y++) {
        for (int i = 0; i < e->w * channels; i++)
            row[i] = e->pixels ? e->pixels[y * e->w * channels + i]
                               : picture(i / channels, y, i % channels);
        jpeg_write_scanlines(&c, &row, 1);
    }
    free(row);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    *n = bytes;
    return out;
}

uint8_t *decode_jpeg(const uint8_t *data, size_t n, int denominator, int *w, int *h, int *channels)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    d.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, data, n);
    jpeg_read_header(&d, TRUE);
    bool cmyk = d.num_components == 4;
    d.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    d.scale_denom = (unsigned)denominator;
    jpeg_start_decompress(&d);
    *w = (int)d.output_width;
    *h = (int)d.output_height;
    *channels = cmyk ? 4 : 3;
    size_t stride = (size_t)(*w * *channels);
    uint8_t *out = malloc(stride * (size_t)*h);
    for (int y = 0; y < *h; y++) {
        uint8_t *row = out + (size_t)y * stride;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
    return out;
}
