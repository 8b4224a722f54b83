/*
 * request_codec - makes an engine's input from the fields that Prefill and Decode requests have in common.
 *
 * The two messages are different types with fields of the same names: REQUEST_FIELDS_OF borrows these fields,
 * so that all other code exists once.
 *
 * Thread: any; no state.
 */
#pragma once

#include "engine/engine_request.h"
#include "sampling_params/sampling_codec.h"
#include "sampling_params/standing_codec.h"
#include "worker_common/adapter_set.h"

/* As protobuf-c has them; valid as long as the message. */
struct request_fields {
    const char *request_id;
    const char *cache_salt;
    const uint32_t *token_ids;
    size_t n_token_ids;
    const Kvferry__V1__SamplingParams *sampling; /* NULL: absent, as the next */
    const Kvferry__Internal__V1__RuledSampling *ruled_sampling;
    const Kvferry__Internal__V1__Standing *standing; /* NULL: absent */
    const Kvferry__V1__AdapterCard *adapter;         /* likewise */
};

/* The fields of a PrefillRequest or a DecodeRequest. */
#define REQUEST_FIELDS_OF(message)                                                                 \
    ((struct request_fields){.request_id = (message)->request_id,                                  \
                             .cache_salt = (message)->cache_salt,                                  \
                             .token_ids = (message)->token_ids,                                    \
                             .n_token_ids = (message)->n_token_ids,                                \
                             .sampling = (message)->sampling,                                      \
                             .ruled_sampling = (message)->ruled_sampling,                          \
                             .standing = (message)->standing,                                      \
                             .adapter = (message)->adapter})

/* An input, and the memory that it points to and that is not in the message. */
struct decoded_request {
    struct engine_request_input
        input; /* borrows from this struct and from the message; no deadline */
    struct sampling_params sampling;
    struct token_rules rules;       /* sampling's */
    struct request_adapter adapter; /* input's, held until request_forget */
};

/* Its adapter is one of adapters: NULL: there are none. ADAPTER_MISMATCH: it is not, the sentence names it. INVALID_ARGUMENT: error names the field. It only checks that the fields fit into an input; the engine
 * refuses what it does not support (engine_request.h). */
MUST_CHECK enum status request_decode(const struct request_fields *fields, uint32_t vocabulary,
                                      struct adapter_set *adapters,
                                      struct decoded_request *request_out, struct error *error);
/* Of one that was decoded: the engine has shares of its own. */
void request_forget(struct decoded_request *request);
