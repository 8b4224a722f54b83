#include "kernels/finite.h"

#include <assert.h>
#include <string.h>

enum {
    RUN = 256,
    SHORT_RUN = 16
}; /* elements that one loop checks: the compiler vectorizes loops of a constant length */

/* All bits of the exponent. Only infinities and NaN have all of them set. */
#define F32_EXPONENT  0x7f800000u
#define BF16_EXPONENT 0x7f80u
#define F16_EXPONENT  0x7c00u

static bool halves_are_finite(const uint8_t *array, uint16_t exponent, uint32_t n)
{
    uint16_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, array + i * sizeof bits, sizeof bits);
        found |= (bits & exponent) == exponent;
    }
    return !found;
}

static bool floats_are_finite(const uint8_t *array, uint32_t n)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, array + i * sizeof bits, sizeof bits);
        found |= (bits & F32_EXPONENT) == F32_EXPONENT;
    }
    return !found;
}

static bool are_finite(enum dtype dtype, const uint8_t *array, uint32_t n)
{
    if (dtype == DTYPE_F32)
        return floats_are_finite(array, n);
    return halves_are_finite(array, dtype == DTYPE_BF16 ? BF16_EXPONENT : F16_EXPONENT, n);
}

uint64_t first_not_finite(enum dtype dtype, const void *array, uint64_t n)
{
    const uint8_t *bytes = array;
    const size_t element = dtype_bytes(dtype);
    uint64_t i = 0;
    assert(dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16);
    while (i + RUN <= n && are_finite(dtype, bytes + i * element, RUN))
        i += RUN;
    while (i + SHORT_RUN <= n && are_finite(dtype, bytes + i * element, SHORT_RUN))
        i += SHORT_RUN;
    while (i < n && are_finite(dtype, bytes + i * element, 1))
        i++;
    return i;
}
