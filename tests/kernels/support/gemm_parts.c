#include "tests/kernels/support/gemm_parts.h"

#include <criterion/criterion.h>

enum { PART_MAX = 5 };

void gemm_check_parts(const struct kernels *kernels, struct thread_pool *pool,
                      const struct gemm *whole, const struct kernels *other,
                      const struct gemm *parts)
{
    kernels->gemm(pool, whole, 1);
    for (uint32_t t = 0, n; t < parts->n_tokens; t += n) {
        uint32_t left = parts->n_tokens - t;
        n = t % PART_MAX + 1 < left ? t % PART_MAX + 1 : left;
        struct gemm part = *parts;
        part.x = (const float *)parts->x + t * part.x_stride;
        part.y = (float *)parts->y + t * part.y_stride;
        part.n_tokens = n;
        other->gemm(NULL, &part, 1);
    }
    for (uint32_t t = 0; t < whole->n_tokens; t++)
        cr_assert_arr_eq((const float *)whole->y + t * whole->y_stride,
                         (const float *)parts->y + t * parts->y_stride,
                         whole->n_out * sizeof(float),
                         "%s and %s differ in row %u of %u x %u -> %u", kernels->name, other->name,
                         t, whole->n_tokens, whole->n_in, whole->n_out);
}

size_t gemm_workspace_most(uint32_t n_tokens, uint32_t n_in)
{
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = kernels_list(list, KERNELS_MAX);
    size_t most = 0;
    for (uint32_t k = 0; k < n; k++) {
        const size_t bytes = gemm_workspace_bytes(list[k], n_tokens, n_in);
        most = bytes > most ? bytes : most;
    }
    return most;
}
