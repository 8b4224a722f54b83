#include "kernels/attention_backends.h"

#include "kernels/kernels.h"
#include "kernels/reference/attention.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

extern const struct attention_backend cpu_attention_scalar; /* cpu/attention.c */
#ifdef __x86_64__
extern const struct attention_backend cpu_attention_sse2, cpu_attention_avx2, cpu_attention_avx512;
extern const struct attention_backend cpu_attention_avx512_bf16, cpu_attention_avx512_fp16;
extern const struct attention_backend cpu_attention_amx;
#elif defined __aarch64__
extern const struct attention_backend cpu_attention_neon;
#endif

static const struct entry {
    const char *name;
    const struct attention_backend *backend;
    const char *needs; /* set of kernels whose instructions it uses; NULL: runs on any machine */
} backends[] = {
    {"reference", &reference_attention, NULL},
    {"scalar", &cpu_attention_scalar, NULL},
#ifdef __x86_64__
    {"sse2", &cpu_attention_sse2, NULL},
    {"avx2", &cpu_attention_avx2, "avx2"},
    {"avx512", &cpu_attention_avx512, "avx512"},
    {"avx512_bf16", &cpu_attention_avx512_bf16, "avx512_bf16"},
    {"avx512_fp16", &cpu_attention_avx512_fp16, "avx512_fp16"},
    {"amx", &cpu_attention_amx, "amx"},
#elif defined __aarch64__
    {"neon", &cpu_attention_neon, "neon"},
#endif
};

#define N_BACKENDS (sizeof backends / sizeof backends[0])

const char *attention_backend_name(uint32_t index)
{
    return index < N_BACKENDS ? backends[index].name : NULL;
}

const char *attention_backend_set(const struct attention_backend *backend)
{
    for (size_t i = 0; i < N_BACKENDS; i++)
        if (backends[i].backend == backend)
            return backends[i].name;
    return backend->name; /* not in the list, as that of a test */
}

static enum status select_named(const char *name, const struct attention_backend **backend_out,
                                struct error *error)
{
    for (size_t i = 0; i < N_BACKENDS; i++) {
        const struct kernels *set;
        if (strcmp(backends[i].name, name) != 0)
            continue;
        if (backends[i].needs && kernels_select(backends[i].needs, &set, NULL) != STATUS_OK)
            return error_set(error, STATUS_UNSUPPORTED,
                             "this machine cannot run the attention '%s' (attention_kernels, "
                             "KVFERRY_ATTENTION)",
                             name);
        *backend_out = backends[i].backend;
        return STATUS_OK;
    }
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "no attention back end is called '%s' (attention_kernels, "
                     "KVFERRY_ATTENTION): reference, scalar, sse2, avx2, avx512, avx512_bf16, "
                     "avx512_fp16 or amx",
                     name);
}

enum status attention_backend_select(const char *name, const struct kernels *kernels,
                                     const struct attention_backend **backend_out,
                                     struct error *error)
{
    if (!name || name[0] == '\0')
        name = getenv("KVFERRY_ATTENTION");
    if (name && name[0] != '\0')
        return select_named(name, backend_out, error);
    assert(kernels->attention);
    *backend_out = kernels->attention;
    return STATUS_OK;
}
