#include "model/config/suppressed_tokens.h"

static const char KEY[] = "suppress_tokens";

enum status suppressed_tokens_read(const struct json_fields *fields, struct model_config *config)
{
    const json_t *list = json_fields_get(fields, KEY);
    config->n_suppressed = 0;
    if (list && !json_is_array(list))
        return error_set(fields->error, STATUS_CORRUPT, "%s: %s is no list of token ids",
                         fields->file, KEY);
    if (json_array_size(list) > SUPPRESSED_IDS_MAX)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: %s has %zu ids, at most %u are supported", fields->file, KEY,
                         json_array_size(list), SUPPRESSED_IDS_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        uint32_t id;
        if (!json_fields_whole(json_array_get(list, i), config->vocabulary - 1, &id))
            return error_set(fields->error, STATUS_CORRUPT,
                             "%s: %s: element %zu is not an id below vocab_size %u", fields->file,
                             KEY, i, config->vocabulary);
        if (!suppressed_tokens_have(config, id))
            config->suppressed_ids[config->n_suppressed++] = id;
    }
    return STATUS_OK;
}

bool suppressed_tokens_have(const struct model_config *config, uint32_t id)
{
    for (uint32_t i = 0; i < config->n_suppressed; i++)
        if (config->suppressed_ids[i] == id)
            return true;
    return false;
}

struct hash128 suppressed_tokens_digest(const struct model_config *config, struct hash128 digest)
{
    static const struct hash_key HASH_KEY = {{0}};
    return config->n_suppressed == 0
               ? digest
               : hash128_chain(&HASH_KEY, digest, config->suppressed_ids,
                               config->n_suppressed * sizeof *config->suppressed_ids);
}
