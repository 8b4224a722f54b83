/* Whatever a peer tells as its UCX address: judged within its bytes, and every part of a sane one is none. */
#include "kvtransfer/drivers/ucx/ucx_address.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, data, size);
    if (ucx_address_is_sane(exact, size) && size < 4096)
        for (size_t n = 0; n < size; n++)
            assert(!ucx_address_is_sane(exact, n));
    free(exact);
    return 0;
}
