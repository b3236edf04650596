#include "core/base/crc32c.h"

#include <pthread.h>
#include <string.h>

typedef uint32_t crc_fn(uint32_t crc, const unsigned char *p, size_t n);

/* Slicing by eight; table[0] is the plain byte table of the reflected polynomial. */
static uint32_t table[8][256];

static void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (0x82F63B78u & -(c & 1));
        table[0][i] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xFF];
}

static uint32_t crc_portable(uint32_t crc, const unsigned char *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t a = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                            (uint32_t)p[3] << 24);
        crc = table[7][a & 0xFF] ^ table[6][a >> 8 & 0xFF] ^ table[5][a >> 16 & 0xFF] ^
              table[4][a >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n; n--, p++)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xFF];
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t crc, const unsigned char *p,
                                                            size_t n)
{
    uint64_t wide = crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; n; n--, p++)
        crc = __builtin_ia32_crc32qi(crc, *p);
    return crc;
}
#endif

static crc_fn *chosen;
static pthread_once_t choose_once = PTHREAD_ONCE_INIT;

static void choose(void)
{
    make_table();
    chosen = crc_portable;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        chosen = crc_sse42;
#endif
}

uint32_t bst_crc32c(uint32_t crc, const void *data, size_t n)
{
    pthread_once(&choose_once, choose);
    return ~chosen(~crc, data, n);
}

uint32_t bst_crc32c_portable(uint32_t crc, const void *data, size_t n)
{
    pthread_once(&choose_once, choose);
    return ~crc_portable(~crc, data, n);
}
