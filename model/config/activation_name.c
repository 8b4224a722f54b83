#include "model/config/activation_name.h"

#include <string.h>

enum status activation_name_read(const struct json_fields *fields, const char *key,
                                 const char *name, enum activation *activation_out)
{
    static const struct {
        const char *name;
        enum activation activation;
    } ACTIVATIONS[] = {
        {"silu", ACTIVATION_SILU},
        {"swish", ACTIVATION_SILU},
        {"gelu", ACTIVATION_GELU},
        {"gelu_new", ACTIVATION_GELU_TANH},
        {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
        {"relu", ACTIVATION_RELU},
    };
    for (size_t i = 0; i < sizeof ACTIVATIONS / sizeof *ACTIVATIONS; i++)
        if (strcmp(name, ACTIVATIONS[i].name) == 0) {
            *activation_out = ACTIVATIONS[i].activation;
            return STATUS_OK;
        }
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: %s \"%.40s\" is not supported, only silu, gelu, gelu_new, "
                     "gelu_pytorch_tanh and relu are",
                     fields->file, key, name);
}
