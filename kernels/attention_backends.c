#include "kernels/attention_backends.h"

#include "kernels/reference/attention.h"

#include <string.h>

extern const struct attention_backend cpu_attention_scalar; /* cpu/attention.c */
#ifdef __x86_64__
extern const struct attention_backend cpu_attention_avx2, cpu_attention_avx512;
#endif

static const struct {
    const char *name;
    const struct attention_backend *backend;
} backends[] = {
    {"reference", &reference_attention},
    {"scalar", &cpu_attention_scalar},
#ifdef __x86_64__
    {"avx2", &cpu_attention_avx2},
    {"avx512", &cpu_attention_avx512},
#endif
};

const struct attention_backend *attention_backend_find(const char *name)
{
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (strcmp(backends[i].name, name) == 0)
            return backends[i].backend;
    return NULL;
}
