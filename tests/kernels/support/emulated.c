#include "tests/kernels/support/emulated.h"

#include "kernels/cpu/cpu.h"

#include <string.h>

uint32_t emulated_list(const struct kernels *list_out[EMULATED_MAX])
{
    const uint32_t n = kernels_list(list_out, KERNELS_MAX);
#ifdef HAS_EMULATED
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(list_out[i]->name, "avx512_vnni") == 0) {
            list_out[n] = &kernels_amx_emulated;
            return n + 1;
        }
#endif
    return n;
}
