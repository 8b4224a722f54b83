/* gguf: any bytes are refused or parsed, what parses lies inside the file, and config and tokenizer can be asked of it. */
#include "gguf/gguf_config.h"
#include "gguf/gguf_tokenizer.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf_file file;
    struct error error;
    json_t *root = NULL;
    if (gguf_parse(data, size, "fuzz", &file, &error) != STATUS_OK)
        return 0;
    for (uint32_t i = 0; i < file.n_tensors; i++)
        assert(file.tensors[i].data >= data &&
               file.tensors[i].bytes <= (uint64_t)(data + size - file.tensors[i].data));
    if (gguf_config_make(&file, &root, &error) == STATUS_OK)
        json_decref(root);
    if (gguf_tokenizer_make(&file, &root, &error) == STATUS_OK)
        json_decref(root);
    if (gguf_tokenizer_config_make(&file, &root, &error) == STATUS_OK)
        json_decref(root);
    gguf_close(&file);
    return 0;
}
