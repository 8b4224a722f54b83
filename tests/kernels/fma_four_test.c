/* Four floats multiplied and added are rounded once, as fmaf does: in ties of the double in between, and at the least normal
 * float, too. */
#ifdef __SSE2__
#define INLINE static inline
#include "kernels/cpu/vector/vec_fma_sse2.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

enum { N_RANDOM = 200000 };

static void expect_once(float a, float b, float c)
{
    const float expected = fmaf(a, b, c);
    float got[4];
    _mm_storeu_ps(got, fma_four(_mm_set1_ps(a), _mm_set1_ps(b), _mm_set1_ps(c)));
    for (int i = 0; i < 4; i++)
        cr_assert(memcmp(&got[i], &expected, sizeof expected) == 0, "%a %a + %a: %a, not %a",
                  (double)a, (double)b, (double)c, (double)got[i], (double)expected);
}

/* A float of any fraction and sign whose exponent is one of n from first on; 0: subnormal. */
static float draw(uint64_t *state, uint32_t first, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    const uint32_t drawn = (uint32_t)(*state >> 32);
    const uint32_t bits = (drawn & 0x807fffffu) | (first + drawn / 7 % n) << 23;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

Test(fma_four, a_sum_just_under_halfway_to_the_least_normal_float_is_not_that)
{
    const float below = FLT_MIN - 0x1p-149f;
    expect_once(0x1.000002p-75f, 0x1.fffffcp-76f, below);
    expect_once(-0x1.000002p-75f, 0x1.fffffcp-76f, -below);
    expect_once(0x1.000002p-75f, 0x1.fffffep-76f, below);
    expect_once(0x1p-75f, 0x1p-75f, below);
}

Test(fma_four, any_numbers_are_rounded_once)
{
    uint64_t state = 1;
    for (int i = 0; i < N_RANDOM; i++) {
        expect_once(draw(&state, 50, 8), draw(&state, 50, 8), draw(&state, 0, 3));
        expect_once(draw(&state, 120, 16), draw(&state, 120, 16), draw(&state, 100, 60));
    }
}
#endif
