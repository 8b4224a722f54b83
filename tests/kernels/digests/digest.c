#include "tests/kernels/digests/digest.h"

#include <math.h>

uint64_t digest_bytes(uint64_t digest, const void *bytes, size_t n)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < n; i++)
        digest = (digest ^ byte[i]) * 0x100000001b3u;
    return digest;
}

uint64_t digest_floats(uint64_t digest, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float value = isnan(x[i]) ? NAN : x[i];
        digest = digest_bytes(digest, &value, sizeof value);
    }
    return digest;
}
