#include "model/config/layer_list.h"

enum status layer_list_get(const struct json_fields *fields, const char *key, uint32_t n_layers,
                           const char *elements, const json_t **list_out)
{
    const json_t *list = json_fields_get(fields, key);
    *list_out = list;
    if (!list || (json_is_array(list) && json_array_size(list) == n_layers))
        return STATUS_OK;
    return error_set(fields->error, STATUS_CORRUPT,
                     "%s: %s is not a list of num_hidden_layers %u %s", fields->file, key, n_layers,
                     elements);
}

enum status layer_list_type(const struct json_fields *fields, const json_t *types, uint32_t layer,
                            const char **type_out)
{
    *type_out = json_string_value(json_array_get(types, layer));
    return *type_out ? STATUS_OK
                     : error_set(fields->error, STATUS_CORRUPT,
                                 "%s: layer_types[%u] is not a string", fields->file, layer);
}

enum status layer_list_refuse_type(const struct json_fields *fields, uint32_t layer,
                                   const char *type)
{
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: layer_types[%u] is \"%.60s\", which is not supported", fields->file,
                     layer, type);
}
