/* worker_common/request_codec.c as it was before requests had rules: with it a program does not know ruled_sampling. */
#include "base/clock.h"
#include "worker_common/request_codec.h"

#include <string.h>

enum status request_decode(const struct request_fields *fields, uint32_t vocabulary,
                           struct adapter_set *adapters, struct decoded_request *request_out,
                           struct error *error)
{
    (void)adapters;
    if (fields->n_token_ids > UINT32_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "token_ids has too many entries");
    TRY(sampling_decode(fields->sampling, vocabulary, &request_out->sampling, error));
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

void request_forget(struct decoded_request *request)
{
    (void)request;
}
