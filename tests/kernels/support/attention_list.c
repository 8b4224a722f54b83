#include "tests/kernels/support/attention_list.h"

#include <string.h>

uint32_t attention_list(const struct kernels *list_out[KERNELS_MAX])
{
    uint32_t n = kernels_list(list_out, KERNELS_MAX), n_different = 0;
    for (uint32_t k = 0; k < n; k++) {
        bool is_new = true;
        for (uint32_t i = 0; i < n_different; i++)
            is_new &= list_out[i]->attention != list_out[k]->attention;
        if (is_new)
            list_out[n_different++] = list_out[k];
    }
    return n_different;
}

enum attention_math attention_own_math(const char *name)
{
    if (strcmp(name, "avx512_fp16") == 0)
        return MATH_FP16;
    return strcmp(name, "avx512_bf16") == 0 || strstr(name, "amx") ? MATH_BF16 : MATH_COMPUTE;
}

bool rounds_products(const char *name)
{
    return strcmp(name, "sse2") == 0;
}
