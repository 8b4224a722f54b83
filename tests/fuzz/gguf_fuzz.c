/* gguf: any bytes are refused or parsed, what parses lies inside the file, and config and tokenizer can be asked of it. */
#include "gguf/gguf_architecture.h"
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
    const struct gguf_architecture *architecture = NULL;
    char name[64];
    if (gguf_architecture_find(&file, &architecture, &error) == STATUS_OK)
        for (uint32_t i = 0; i < file.n_tensors; i++)
            gguf_architecture_name(architecture, file.tensors[i].name, i, name, sizeof name);
    if (gguf_config_make(&file, &root, &error) == STATUS_OK)
        json_decref(root);
    if (gguf_tokenizer_make(&file, &root, &error) == STATUS_OK)
        json_decref(root);
    if (gguf_tokenizer_config_make(&file, &root, &error) == STATUS_OK)
        json_decref(root);
    gguf_close(&file);
    return 0;
}
