#include "worker_common/request_codec.h"

#include "base/clock.h"

#include <assert.h>
#include <string.h>

enum status request_decode(const struct request_fields *fields, uint32_t vocabulary,
                           struct decoded_request *request_out, struct error *error)
{
    assert(fields->request_id && fields->cache_salt && "protobuf-c gives \"\" for what is absent");
    if (fields->n_token_ids > UINT32_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "token_ids has too many entries");
    TRY(sampling_message_decode(fields->sampling, fields->ruled_sampling, vocabulary,
                                &request_out->sampling, &request_out->rules, error));
    request_out->input = (struct engine_request_input){
        .request_id = fields->request_id,
        .token_ids = fields->token_ids,
        .n_tokens = (uint32_t)fields->n_token_ids,
        .sampling = &request_out->sampling,
        .salt = fields->cache_salt,
        .salt_bytes = strlen(fields->cache_salt),
        .deadline_ns = DEADLINE_NONE,
    };
    standing_decode(fields->standing, &request_out->input.standing);
    return STATUS_OK;
}
