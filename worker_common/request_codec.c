#include "worker_common/request_codec.h"

#include "base/clock.h"

#include <assert.h>
#include <string.h>

/* A request with an adapter has its sampling where older versions do not look. */
static enum status find_adapter(const struct request_fields *fields, struct adapter_set *adapters,
                                struct decoded_request *request, struct error *error)
{
    struct adapter_id id;
    const bool is_adapted = fields->ruled_sampling && fields->ruled_sampling->adapted_sampling;
    TRY(adapter_decode(fields->adapter, error, &id));
    if (is_adapted == adapter_id_is_none(&id))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "adapter and ruled_sampling.adapted_sampling are there together, or not "
                         "at all: adapter is \"%s\"",
                         id.name);
    if (adapter_id_is_none(&id))
        return STATUS_OK;
    TRY(adapter_set_find(adapters, &id, error, &request->adapter));
    request->input.adapter = &request->adapter;
    return STATUS_OK;
}

enum status request_decode(const struct request_fields *fields, uint32_t vocabulary,
                           struct adapter_set *adapters, struct decoded_request *request_out,
                           struct error *error)
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
    request_out->adapter = (struct request_adapter){.adapter = NULL};
    return find_adapter(fields, adapters, request_out, error);
}

void request_forget(struct decoded_request *request)
{
    if (request->adapter.adapter)
        request->adapter.release(request->adapter.adapter);
    request->adapter.adapter = NULL;
}
