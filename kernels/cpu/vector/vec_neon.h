/* vec_neon - sixteen lanes in four registers, with the instructions that every 64-bit Arm has. The bits are those of
 * vec_avx2.h but for those of a NaN. */
#pragma once

#include <arm_neon.h>

enum { VEC_QUARTERS = 4 };

typedef struct {
    float32x4_t quarter[VEC_QUARTERS];
} vec;

#define EACH_QUARTER UNROLL for (uint32_t i = 0; i < VEC_QUARTERS; i++)

INLINE vec vec_set(float value)
{
    const float32x4_t all = vdupq_n_f32(value);
    return (vec){{all, all, all, all}};
}

INLINE vec vec_zero(void)
{
    return vec_set(0);
}

INLINE vec vec_load(const float *array)
{
    vec v;
    EACH_QUARTER v.quarter[i] = vld1q_f32(array + (size_t)4 * i);
    return v;
}

INLINE void vec_store(float *array, vec v)
{
    EACH_QUARTER vst1q_f32(array + (size_t)4 * i, v.quarter[i]);
}

/* Eight words as the bits of eight float16. */
INLINE void quarters_f16(uint16x8_t words, float32x4_t two_out[2])
{
    const float16x8_t halves = vreinterpretq_f16_u16(words);
    two_out[0] = vcvt_f32_f16(vget_low_f16(halves));
    two_out[1] = vcvt_high_f32_f16(halves);
}

/* Widens eight E4M3: widen_e4m3 of vec.h says how. */
INLINE void quarters_e4m3(int8x8_t bytes, float32x4_t two_out[2])
{
    const uint16x8_t nan_bit = vdupq_n_u16(0x4000);
    const uint16x8_t shifted = vreinterpretq_u16_s16(vshlq_n_s16(vmovl_s8(bytes), 7));
    const uint16x8_t half = vbicq_u16(shifted, nan_bit);
    const uint16x8_t is_nan = vandq_u16(vaddq_u16(half, vdupq_n_u16(0x80)), nan_bit);
    quarters_f16(vorrq_u16(half, is_nan), two_out);
    two_out[0] = vmulq_n_f32(two_out[0], 256);
    two_out[1] = vmulq_n_f32(two_out[1], 256);
}

/* Eight elements of 8 or 16 bits. */
INLINE void quarters_as(enum dtype dtype, const char *array, float32x4_t two_out[2])
{
    if (dtype == DTYPE_E4M3) {
        quarters_e4m3(vld1_s8((const int8_t *)array), two_out);
    } else if (dtype == DTYPE_INT8) {
        const int16x8_t words = vmovl_s8(vld1_s8((const int8_t *)array));
        two_out[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)));
        two_out[1] = vcvtq_f32_s32(vmovl_high_s16(words));
    } else {
        const uint16x8_t words = vreinterpretq_u16_u8(vld1q_u8((const uint8_t *)array));
        if (dtype == DTYPE_F16) {
            quarters_f16(words, two_out);
        } else {
            two_out[0] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(words), 16));
            two_out[1] = vreinterpretq_f32_u32(vshll_high_n_u16(words, 16));
        }
    }
}

INLINE vec vec_load_as(enum dtype dtype, const void *array)
{
    const char *bytes = array;
    vec v;
    if (dtype == DTYPE_F32) {
        EACH_QUARTER v.quarter[i] = vreinterpretq_f32_u8(
            vld1q_u8((const uint8_t *)bytes + (size_t)16 * i));
        return v;
    }
    quarters_as(dtype, bytes, v.quarter);
    quarters_as(dtype, bytes + 8 * dtype_bytes(dtype), v.quarter + 2);
    return v;
}

/* Sixteen E2M1, the first of two in the low half of a byte. Two bytes are all there is of their floats. */
INLINE vec vec_load_e2m1(const uint8_t *array)
{
    static const uint8_t high[16] = {0x00, 0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40,
                                     0x80, 0xbf, 0xbf, 0xbf, 0xc0, 0xc0, 0xc0, 0xc0};
    static const uint8_t low[16] = {0x00, 0x00, 0x80, 0xc0, 0x00, 0x40, 0x80, 0xc0,
                                    0x00, 0x00, 0x80, 0xc0, 0x00, 0x40, 0x80, 0xc0};
    const uint8x8_t pairs = vld1_u8(array);
    const uint8x8_t first = vand_u8(pairs, vdup_n_u8(0xf)), second = vshr_n_u8(pairs, 4);
    const uint8x16_t codes = vcombine_u8(vzip1_u8(first, second), vzip2_u8(first, second));
    const uint8x16_t high_bytes = vqtbl1q_u8(vld1q_u8(high), codes);
    const uint8x16_t low_bytes = vqtbl1q_u8(vld1q_u8(low), codes);
    const uint16x8_t words[2] = {vreinterpretq_u16_u8(vzip1q_u8(low_bytes, high_bytes)),
                                 vreinterpretq_u16_u8(vzip2q_u8(low_bytes, high_bytes))};
    vec v;
    EACH_QUARTER v.quarter[i] = vreinterpretq_f32_u32(
        i % 2 == 0 ? vshll_n_u16(vget_low_u16(words[i / 2]), 16)
                   : vshll_high_n_u16(words[i / 2], 16));
    return v;
}

#define OF_TWO(name, instruction)                                                                  \
    INLINE vec name(vec a, vec b)                                                                  \
    {                                                                                              \
        EACH_QUARTER a.quarter[i] = instruction(a.quarter[i], b.quarter[i]);                       \
        return a;                                                                                  \
    }

/* b if a or b is NaN, as x86 has it; the instructions of these names would keep a NaN of a. */
INLINE float32x4_t quarter_max(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

INLINE float32x4_t quarter_min(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

OF_TWO(vec_add, vaddq_f32)
OF_TWO(vec_sub, vsubq_f32)
OF_TWO(vec_mul, vmulq_f32)
OF_TWO(vec_div, vdivq_f32)
OF_TWO(vec_max, quarter_max)
OF_TWO(vec_min, quarter_min)
#undef OF_TWO

INLINE vec vec_fma(vec a, vec b, vec c)
{
    EACH_QUARTER c.quarter[i] = vfmaq_f32(c.quarter[i], a.quarter[i], b.quarter[i]);
    return c;
}

INLINE vec vec_round(vec v)
{
    EACH_QUARTER v.quarter[i] = vrndnq_f32(v.quarter[i]);
    return v;
}

/* Whole numbers from -128 to 127. */
INLINE void vec_store_int8(int8_t *array, vec v)
{
    int16x4_t words[VEC_QUARTERS];
    EACH_QUARTER words[i] = vqmovn_s32(vcvtnq_s32_f32(v.quarter[i]));
    vst1q_s8(array, vcombine_s8(vqmovn_s16(vcombine_s16(words[0], words[1])),
                                vqmovn_s16(vcombine_s16(words[2], words[3]))));
}

/* v * 2^n; n is whole, and the result normal. A NaN in n counts as 0. */
INLINE vec vec_scale2(vec v, vec n)
{
    EACH_QUARTER
    {
        const int32x4_t shift = vshlq_n_s32(vcvtnq_s32_f32(n.quarter[i]), 23);
        v.quarter[i] = vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(v.quarter[i]), shift));
    }
    return v;
}

/* a where x < limit, else b. */
INLINE vec vec_choose_below(vec x, vec limit, vec a, vec b)
{
    EACH_QUARTER b.quarter[i] = vbslq_f32(vcltq_f32(x.quarter[i], limit.quarter[i]), a.quarter[i],
                                          b.quarter[i]);
    return b;
}

/* 0 where x < limit, else v. */
INLINE vec vec_zero_below(vec x, vec limit, vec v)
{
    return vec_choose_below(x, limit, vec_zero(), v);
}

INLINE float vec_sum(vec v)
{
    const float32x4_t q = vaddq_f32(vaddq_f32(v.quarter[0], v.quarter[2]),
                                    vaddq_f32(v.quarter[1], v.quarter[3]));
    const float32x2_t p = vadd_f32(vget_low_f32(q), vget_high_f32(q));
    return vget_lane_f32(p, 0) + vget_lane_f32(p, 1);
}

INLINE float vec_largest(vec v)
{
    const float32x4_t q = quarter_max(quarter_max(v.quarter[0], v.quarter[2]),
                                      quarter_max(v.quarter[1], v.quarter[3]));
    const float32x4_t p = quarter_max(q, vextq_f32(q, q, 2));
    return vgetq_lane_f32(quarter_max(p, vdupq_laneq_f32(p, 1)), 0);
}
