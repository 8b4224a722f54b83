#include "kernels/attention_backends.h"

#include "kernels/reference/attention.h"

#include <string.h>

#ifdef __x86_64__
extern const struct attention_backend cpu_attention_avx2,
    cpu_attention_avx512; /* cpu/attention.c */
#endif

static const struct attention_backend *const backends[] = {
    &reference_attention,
#ifdef __x86_64__
    &cpu_attention_avx2,
    &cpu_attention_avx512,
#endif
};

#define N_BACKENDS (sizeof backends / sizeof backends[0])

const struct attention_backend *attention_backend_find(const char *name)
{
    for (size_t i = 0; i < N_BACKENDS; i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}

uint32_t attention_backends(const struct attention_backend *const **backends_out)
{
    *backends_out = backends;
    return N_BACKENDS;
}
