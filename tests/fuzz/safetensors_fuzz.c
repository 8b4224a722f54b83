/* safetensors: any bytes are refused or parsed, and what parses lies inside the file. */
#include "model/files/safetensors.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors file;
    struct error error;
    if (safetensors_parse(data, size, "fuzz", &file, &error) != STATUS_OK)
        return 0;
    const uint8_t *end = data + size;
    for (uint32_t i = 0; i < file.n_tensors; i++) {
        const struct safetensor *tensor = &file.tensors[i];
        assert(tensor->data >= data + 8 && tensor->data <= end);
        assert(tensor->bytes <= (uint64_t)(end - tensor->data));
        assert(tensor->n_dims <= TENSOR_DIMS_MAX && tensor->name);
    }
    safetensors_finish(&file);
    return 0;
}
