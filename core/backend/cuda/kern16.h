/* Numbers of three types behind one pair of functions, for nvcc and for the host compiler: CUDA's
 * own 16-bit types do not exist in C. To 16 bits it is rounded to nearest even; NaN becomes 0x7fff,
 * as on the device. */
#ifndef BST_BACKEND_CUDA_KERN16_H
#define BST_BACKEND_CUDA_KERN16_H

#include <stddef.h>
#include <stdint.h>
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define KERN_INLINE static __device__ __forceinline__
#else
#include <string.h>
#define KERN_INLINE static inline
#endif

enum kern_type { KERN_F32, KERN_F16, KERN_BF16, KERN_N_TYPES };

#ifdef __CUDACC__
KERN_INLINE float kern_from_f16(uint16_t v)
{
    return __half2float(__ushort_as_half(v));
}

KERN_INLINE uint16_t kern_to_f16(float f)
{
    return __half_as_ushort(__float2half_rn(f));
}

KERN_INLINE float kern_from_bf16(uint16_t v)
{
    return __bfloat162float(__ushort_as_bfloat16(v));
}

KERN_INLINE uint16_t kern_to_bf16(float f)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(f));
}
#else
KERN_INLINE float kern_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

KERN_INLINE uint32_t kern_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

KERN_INLINE float kern_from_bf16(uint16_t v)
{
    return kern_from_bits((uint32_t)v << 16);
}

KERN_INLINE uint16_t kern_to_bf16(float f)
{
    uint32_t u = kern_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

KERN_INLINE float kern_from_f16(uint16_t v)
{
    uint32_t sign = (uint32_t)(v & 0x8000u) << 16, exponent = v >> 10 & 31u, rest = v & 1023u;
    if (exponent == 31) /* infinity, NaN */
        return kern_from_bits(sign | 0x7f800000u | rest << 13);
    if (exponent)
        return kern_from_bits(sign | (exponent + 112) << 23 | rest << 13);
    return (sign ? -1.0F : 1.0F) * (float)rest * 0x1p-24F;
}

KERN_INLINE uint16_t kern_to_f16(float f)
{
    uint32_t u = kern_bits(f), sign = u >> 16 & 0x8000u, size = u & 0x7fffffffu;
    if (size > 0x7f800000u)
        return 0x7fff;
    if (size >= 0x477ff000u) /* from 65520 on it rounds to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (size < 0x38800000u) /* below 2^-14: the sum's last bit is that of a subnormal half */
        return (uint16_t)(sign | (kern_bits(kern_from_bits(size) + 0.5F) - 0x3f000000u));
    return (uint16_t)(sign | (size + 0xfffu + (size >> 13 & 1u) - 0x38000000u) >> 13);
}
#endif

/* `type` is a constant wherever these are inlined, so that nothing is asked per element. */
KERN_INLINE float kern_load(const void *p, enum kern_type type, size_t i)
{
    if (type == KERN_F32)
        return ((const float *)p)[i];
    return type == KERN_F16 ? kern_from_f16(((const uint16_t *)p)[i])
                            : kern_from_bf16(((const uint16_t *)p)[i]);
}

KERN_INLINE void kern_store(void *p, enum kern_type type, size_t i, float v)
{
    if (type == KERN_F32)
        ((float *)p)[i] = v;
    else
        ((uint16_t *)p)[i] = type == KERN_F16 ? kern_to_f16(v) : kern_to_bf16(v);
}

#endif
