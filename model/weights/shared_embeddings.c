#include "model/weights/shared_embeddings.h"

#include "base/text.h"
#include "model/config/encoder_config.h"
#include "model/files/mapped_file.h"

#include <stdio.h>
#include <string.h>

static const char *const NAMES[] = {"shared.weight", "encoder.embed_tokens.weight",
                                    "decoder.embed_tokens.weight"};

enum { N_NAMES = sizeof NAMES / sizeof *NAMES };

const char *shared_embeddings_name(const struct weight_files *files, const char *root,
                                   const char *usual)
{
    char name[128];
    for (size_t i = 0; i < N_NAMES; i++) {
        snprintf(name, sizeof name, "%s%s", root, NAMES[i]);
        if (weight_files_find(files, name))
            return NAMES[i];
    }
    return usual;
}

static bool is_embedding(const char *name)
{
    for (size_t i = 0; i < N_NAMES; i++)
        if (text_ends_with(name, NAMES[i]))
            return true;
    return false;
}

enum status shared_embeddings_check(const struct model_config *config,
                                    const struct weight_files *files,
                                    const struct tensor *embedding, struct error *error)
{
    const uint64_t bytes = dtype_array_bytes(embedding->dtype,
                                             (size_t)embedding->n_out * embedding->n_in);
    for (uint32_t i = 0; model_has_encoder(config) && i < files->n_entries; i++) {
        const struct safetensor *copy = files->entries[i].tensor;
        if (!is_embedding(copy->name) || copy->data == embedding->data)
            continue;
        if (copy->bytes != bytes || memcmp(copy->data, embedding->data, bytes) != 0)
            return error_set(error, STATUS_UNSUPPORTED,
                             "%.60s: tensor %.100s differs from the other embeddings of the files: "
                             "that is not supported, since encoder and decoder read one",
                             files->entries[i].shard->name, copy->name);
        mapped_file_give_back(copy->data, copy->bytes);
    }
    return STATUS_OK;
}
