/* 16-bit floats in C, where CUDA's headers have none: round to nearest even, as the device does. */
#ifndef FAKE_HALF_H
#define FAKE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float fake_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t fake_to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float fake_from_bf16(uint16_t v)
{
    return fake_from_bits((uint32_t)v << 16);
}

static inline uint16_t fake_to_bf16(float f)
{
    uint32_t u = fake_to_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

static inline float fake_from_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = h >> 10 & 31;
    uint32_t fraction = h & 1023;
    if (exponent == 31)
        return fake_from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent)
        return fake_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float tiny = (float)fraction * 0x1p-24f;
    return sign ? -tiny : tiny;
}

static inline uint16_t fake_to_half(float f)
{
    uint32_t u = fake_to_bits(f);
    uint32_t sign = u >> 16 & 0x8000u;
    uint32_t size = u & 0x7fffffffu;
    if (size > 0x7f800000u)
        return 0x7fff;
    if (size >= 0x477ff000u) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (size <
        0x38800000u) { /* subnormal: adding 0.5 leaves the rounded fraction in the low bits */
        float shifted = fake_from_bits(size) + 0.5f;
        return (uint16_t)(sign | (fake_to_bits(shifted) - 0x3f000000u));
    }
    return (uint16_t)(sign | (size + 0xfffu + (size >> 13 & 1) - 0x38000000u) >> 13);
}

#endif
