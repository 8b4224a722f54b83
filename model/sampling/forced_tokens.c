#include "model/sampling/forced_tokens.h"

bool forced_token_find(const struct encoder_shape *encoder, uint32_t n_generated, uint32_t n_max,
                       uint32_t *id_out)
{
    uint32_t id = TOKEN_NONE;
    if (encoder->n_layers == 0)
        return false;
    if (n_generated == 0)
        id = encoder->forced_first_id;
    if (n_generated + 1 == n_max && encoder->forced_last_id != TOKEN_NONE) /* of one token: this */
        id = encoder->forced_last_id;
    if (id != TOKEN_NONE)
        *id_out = id;
    return id != TOKEN_NONE;
}
