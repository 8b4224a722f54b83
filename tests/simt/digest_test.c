/* digest: the value of base/crc32c, of any number of bytes at any address. */
#include "base/crc32c.h"
#include "kernels/cuda/launch.h"
#include "tests/simt/device_array.h"

#include <criterion/criterion.h>

static void check(uint64_t n_bytes, uint32_t offset, uint32_t schedule)
{
    struct device *device = schedule_open(schedule);
    const uint32_t n_pieces = (uint32_t)((n_bytes + DIGEST_PIECE_BYTES - 1) / DIGEST_PIECE_BYTES);
    struct device_array bytes = device_array_at(device, n_bytes, offset);
    struct device_array partials = device_array_create(device, n_pieces * sizeof(uint32_t));
    struct device_array out = device_array_create(device, sizeof(uint32_t));
    for (uint64_t i = 0; i < n_bytes; i++)
        ((uint8_t *)bytes.data)[i] = (uint8_t)(i * 181 + (i >> 9) + offset);
    const struct digest_parameters parameters = {bytes.data, n_bytes,  partials.data,
                                                 out.data,   n_pieces, 0};
    struct device_shape shape = {{n_pieces, 1, 1}, DIGEST_THREADS, DIGEST_SHARED_BYTES};
    if (n_pieces > 0)
        cuda_launch(CUDA_digest, &shape, &parameters);
    shape.grid[0] = 1;
    cuda_launch(CUDA_digest_combine, &shape, &parameters);
    cr_assert_eq(*(uint32_t *)out.data, crc32c(0, bytes.data, n_bytes), "%llu bytes, offset %u",
                 (unsigned long long)n_bytes, offset);
    device_array_destroy(&bytes);
    device_array_destroy(&partials);
    device_array_destroy(&out);
    schedule_close(device);
}

Test(digest, is_the_crc32c_of_the_bytes)
{
    const uint64_t sizes[] = {0,
                              1,
                              3,
                              4,
                              5,
                              1023,
                              1024,
                              4096,
                              DIGEST_PIECE_BYTES - 1,
                              DIGEST_PIECE_BYTES,
                              DIGEST_PIECE_BYTES + 1,
                              3 * DIGEST_PIECE_BYTES + 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint32_t offset = 0; offset < 4; offset++)
            check(sizes[i], offset, (i + offset) % SCHEDULES);
}

Test(digest, takes_more_pieces_than_threads)
{
    check(259ull * DIGEST_PIECE_BYTES - 8, 0, 0);
}
