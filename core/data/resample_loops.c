#include "core/data/resample.h"

#include <string.h>
#if defined __x86_64__
#include <immintrin.h>
#endif

enum { SHIFT = 14, HALF = 1 << (SHIFT - 1), GROUP = 16 };

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
        for (int g = 0; g < groups; g++, weight += GROUP, p += 12)
            for (int c = 0; c < 3; c++)
                sum[c] += weight[0] * p[c] + weight[1] * p[3 + c] + weight[8] * p[6 + c] +
                          weight[9] * p[9 + c];
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

AVX2 static void blend_rows_avx2(const uint8_t *rows, size_t stride, const int16_t *weight,
                                 int n_taps, uint8_t *out, int n)
{
    const __m256i half = _mm256_set1_epi32(HALF);
    for (int i = 0; i < n; i += 16) {
        __m256i lo = half, hi = half;
        for (int k = 0; k < n_taps; k += 2) {
            const uint8_t *a = rows + (size_t)k * stride + (size_t)i;
            bool odd = k + 1 == n_taps;
            uint32_t pair =
                (uint16_t)weight[k] | (odd ? 0 : (uint32_t)(uint16_t)weight[k + 1] << 16);
            add_pair(a, odd ? a : a + stride, _mm256_set1_epi32((int32_t)pair), &lo, &hi);
        }
        lo = _mm256_srai_epi32(lo, SHIFT);
        hi = _mm256_srai_epi32(hi, SHIFT);
        /* packs works within halves: 0-3 8-11 | 4-7 12-15, put in order by the permutation. */
        __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(lo, hi), 0xD8);
        __m128i bytes =
            _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128((__m128i *)(void *)(out + i), bytes);
    }
}

AVX2 static void blend_pixels_avx2(const uint8_t *row, const int32_t *start, const int16_t *weight,
                                   int groups, uint8_t *out, int n)
{
    const __m128i spread = _mm_setr_epi8(0, 3, 1, 4, 2, 5, -1, -1, 6, 9, 7, 10, 8, 11, -1, -1);
    const __m128i half = _mm_set1_epi32(HALF);
    for (int i = 0; i < n; i++) {
        const uint8_t *p = row + start[i];
        __m256i sum = _mm256_setzero_si256();
        for (int g = 0; g < groups; g++, weight += GROUP, p += 12) {
            __m128i pixels = _mm_loadu_si128((const __m128i *)(const void *)p);
            __m256i pairs = _mm256_cvtepu8_epi16(_mm_shuffle_epi8(pixels, spread));
            __m256i w = _mm256_loadu_si256((const __m256i *)(const void *)weight);
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, w));
        }
        __m128i rgb = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        rgb = _mm_srai_epi32(_mm_add_epi32(rgb, half), SHIFT);
        rgb = _mm_packus_epi16(_mm_packs_epi32(rgb, rgb), rgb);
        int32_t bytes = _mm_cvtsi128_si32(rgb);
        /* Four bytes where the next pixel overwrites the fourth; what follows the last is not ours.
         */
        memcpy(out + 3 * (size_t)i, &bytes, i + 1 < n ? 4 : 3);
    }
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
