/* first_not_finite: the first NaN or infinity of an array of any length and alignment, and no number for one. */
#include "kernels/finite.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { N = 1100 };

static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

/* The largest and the smallest numbers of the type are among them. */
static void fill(enum dtype dtype, uint8_t *array)
{
    const float most = dtype == DTYPE_F16    ? 65504.0f
                       : dtype == DTYPE_BF16 ? 0x1.fep127f
                                             : 0x1.fffffep127f;
    const float values[] = {most, -most, 0x1p-24f, 0, -0.0f, 1, 0x1p-149f};
    for (uint32_t i = 0; i < N; i++)
        dtype_store(dtype, array, i, values[i % (sizeof values / sizeof values[0])]);
}

Test(finite, the_first_is_found_wherever_it_is)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static uint8_t memory[N * sizeof(float) + 3], kept[sizeof(float)];
    for (uint32_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (uint32_t shift = 0; shift < 3; shift++) {
            const size_t bytes = dtype_bytes(dtypes[d]);
            uint8_t *array = memory + shift;
            fill(dtypes[d], array);
            cr_assert_eq(first_not_finite(dtypes[d], array, N), N, "%s", dtype_name(dtypes[d]));
            cr_assert_eq(first_not_finite(dtypes[d], array, 0), 0);
            for (uint32_t at = 0; at < N; at += at < 300 ? 1 : 53) {
                memcpy(kept, array + at * bytes, bytes);
                dtype_store(dtypes[d], array, at, bad[at % 3]);
                cr_assert_eq(first_not_finite(dtypes[d], array, N), at, "%s, %u",
                             dtype_name(dtypes[d]), at);
                cr_assert_eq(first_not_finite(dtypes[d], array, at), at, "it is behind the end");
                memcpy(array + at * bytes, kept, bytes);
            }
        }
}
