/* Makes JPEGs for the tests, from a picture that differs in every pixel. */
#ifndef BST_TESTS_DATA_ENCODE_H
#define BST_TESTS_DATA_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>

#include <jpeglib.h>

struct encode {
    int w, h;
    J_COLOR_SPACE from;                     /* JCS_RGB, JCS_GRAYSCALE or JCS_CMYK */
    J_COLOR_SPACE into;                     /* the file's; JCS_UNKNOWN: as libjpeg chooses */
    int h_samp, v_samp;                     /* luma's, chroma has 1; 0: 2 and 2 */
    int quality;                            /* 0: 90 */
    bool progressive, arithmetic, optimise; /* optimise: Huffman tables of its own */
    int scans;                              /* a progressive file of so many scans */
    int restart;                            /* MCUs between restart markers */
    const uint8_t *pixels;                  /* NULL: the test picture */
};

/* free() the result. */
uint8_t *encode_jpeg(const struct encode *e, size_t *n);
/* The whole picture by libjpeg itself, RGB (CMYK: four bytes); free() the result. */
uint8_t *decode_jpeg(const uint8_t *data, size_t n, int denominator, int *w, int *h, int *channels);

#endif
