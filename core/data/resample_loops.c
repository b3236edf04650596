#include "core/data/resample.h"

#include <string.h>
#if defined __x86_64__
#include <immintrin.h>
#endif

enum { SHIFT = 14, HALF = 1 << (SHIFT - 1) };

static void blend_rows(const uint8_t *rows, size_t stride, const int16_t *weight, int n_taps,
                       uint8_t *out, int n)
{
    for (int i = 0; i < n; i++) {
        int32_t sum = HALF;
        for (int k = 0; k < n_taps; k++)
            sum += weight[k] * rows[(size_t)k * stride + (size_t)i];
        out[i] = (uint8_t)(sum >> SHIFT);
    }
}

static void blend_pixels(const uint8_t *row, const int32_t *start, const int16_t *weight,
                         int groups, uint8_t *out, int n)
{
    for (int i = 0; i < n; i++) {
        int32_t sum[3] = {HALF, HALF, HALF};
        const uint8_t *p = row + start[i];
        for (int k = 0; k < 4 * groups; k++)
            for (int c = 0; c < 3; c++)
                sum[c] += weight[bst_resample_weight_at(i, k, groups)] * p[3 * k + c];
        for (int c = 0; c < 3; c++)
            *out++ = (uint8_t)(sum[c] >> SHIFT);
    }
}

const struct bst_resample_loops bst_resample_portable = {
    .name = "portable",
    .blend_rows = blend_rows,
    .blend_pixels = blend_pixels,
};

#if defined __x86_64__
#define AVX2 __attribute__((target("avx2")))

/* 16 bytes of two rows as 16 pairs of 16-bit numbers, times a pair of weights, added to lo and hi.
 */
AVX2 static inline void add_pair(const uint8_t *a, const uint8_t *b, __m256i pair, __m256i *lo,
                                 __m256i *hi)
{
    __m128i u = _mm_loadu_si128((const __m128i *)(const void *)a);
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)b);
    __m256i first = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(u, v));
    __m256i second = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(u, v));
    *lo = _mm256_add_epi32(*lo, _mm256_madd_epi16(first, pair));
    *hi = _mm256_add_epi32(*hi, _mm256_madd_epi16(second, pair));
}

enum { PAIRS_MOST = 4 };

/* With a constant n_pairs the weights stay in registers. */
AVX2 static inline __attribute__((always_inline)) void blend_pairs(const uint8_t *rows,
                                                                   size_t stride,
                                                                   const __m256i *pair, int n_pairs,
                                                                   bool odd, uint8_t *out, int n)
{
    size_t second = odd ? 0 : stride; /* of the last pair, whose weight then is 0 */
    for (int i = 0; i < n; i += 16) {
        __m256i lo = _mm256_set1_epi32(HALF), hi = lo;
        const uint8_t *a = rows + i;
        for (int k = 0; k + 1 < n_pairs; k++, a += 2 * stride)
            add_pair(a, a + stride, pair[k], &lo, &hi);
        add_pair(a, a + second, pair[n_pairs - 1], &lo, &hi);
        lo = _mm256_srai_epi32(lo, SHIFT);
        hi = _mm256_srai_epi32(hi, SHIFT);
        /* Each half of the registers holds its own eight of the sixteen in order. */
        __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(lo, hi), 0xD8);
        __m128i bytes =
            _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128((__m128i *)(void *)(out + i), bytes);
    }
}

AVX2 static void blend_rows_avx2(const uint8_t *rows, size_t stride, const int16_t *weight,
                                 int n_taps, uint8_t *out, int n)
{
    __m256i pair[PAIRS_MOST];
    int n_pairs = (n_taps + 1) / 2;
    if (n_pairs > PAIRS_MOST) {
        blend_rows(rows, stride, weight, n_taps, out, n);
        return;
    }
    for (int k = 0; k < n_pairs; k++) {
        bool lone = 2 * k + 1 == n_taps;
        uint32_t high = lone ? 0 : (uint32_t)(uint16_t)weight[2 * k + 1] << 16;
        pair[k] = _mm256_set1_epi32((int32_t)(high | (uint16_t)weight[2 * k]));
    }
    if (n_pairs == 1)
        blend_pairs(rows, stride, pair, 1, n_taps % 2, out, n);
    else if (n_pairs == 2)
        blend_pairs(rows, stride, pair, 2, n_taps % 2, out, n);
    else
        blend_pairs(rows, stride, pair, n_pairs, n_taps % 2, out, n);
}

/* Two pixels, in the halves of a register: red, green, blue and nothing, each in 32 bits. */
AVX2 static inline __attribute__((always_inline)) __m256i
sum_two(const uint8_t *a, const uint8_t *b, const int16_t *weight, int groups)
{
    const __m256i first = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    const __m256i second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
    __m256i sum = _mm256_set1_epi32(HALF);
    for (int g = 0; g < groups; g++, a += 12, b += 12, weight += BST_RESAMPLE_BLOCK) {
        const __m256i *w = (const __m256i *)(const void *)weight;
        __m256i pixels = _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)a)),
            _mm_loadu_si128((const __m128i *)(const void *)b), 1);
        __m256i p = _mm256_shuffle_epi8(pixels, first), q = _mm256_shuffle_epi8(pixels, second);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(p, _mm256_loadu_si256(w)));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(q, _mm256_loadu_si256(w + 1)));
    }
    sum = _mm256_srai_epi32(sum, SHIFT);
    sum = _mm256_packs_epi32(sum, sum);
    return _mm256_packus_epi16(sum, sum);
}

/* Four bytes a pixel are stored where the next pixel overwrites the fourth; what follows the last
 * pixel is not ours. */
AVX2 static inline __attribute__((always_inline)) void
blend_two_by_two(const uint8_t *row, const int32_t *start, const int16_t *weight, int groups,
                 uint8_t *out, int n)
{
    size_t step = (size_t)groups * BST_RESAMPLE_BLOCK;
    for (int i = 0; i < n; i += 2, weight += step, out += 6) {
        __m256i rgb = sum_two(row + start[i], row + start[i + 1], weight, groups);
        int32_t a = _mm_cvtsi128_si32(_mm256_castsi256_si128(rgb));
        int32_t b = _mm_cvtsi128_si32(_mm256_extracti128_si256(rgb, 1));
        if (i + 2 < n) {
            memcpy(out, &a, 4);
            memcpy(out + 3, &b, 4);
        } else {
            memcpy(out, &a, 3);
            if (i + 1 < n)
                memcpy(out + 3, &b, 3);
        }
    }
}

AVX2 static void blend_pixels_avx2(const uint8_t *row, const int32_t *start, const int16_t *weight,
                                   int groups, uint8_t *out, int n)
{
    if (groups == 1)
        blend_two_by_two(row, start, weight, 1, out, n);
    else
        blend_two_by_two(row, start, weight, groups, out, n);
}

static const struct bst_resample_loops avx2 = {
    .name = "avx2",
    .blend_rows = blend_rows_avx2,
    .blend_pixels = blend_pixels_avx2,
};
#endif

const struct bst_resample_loops *bst_resample_fastest(void)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return &avx2;
#endif
    return &bst_resample_portable;
}
