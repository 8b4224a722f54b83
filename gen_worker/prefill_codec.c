#include "gen_worker/prefill_codec.h"

#include "process/adapter_codec.h"
#include "sampling_params/sampling_codec.h"
#include "sampling_params/standing_codec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct prefill_message {
    uint32_t held_tokens; /* by the caller */
    Kvferry__Internal__V1__PrefillRequest request;
    struct sampling_message sampling_message;
    Kvferry__Internal__V1__Standing standing;
    struct adapter_id adapter;
    struct adapter_message adapter_message;
    struct sampling_params sampling;
    struct token_rules *rules; /* sampling's; NULL: none */
    struct transfer_id transfer_id;
    uint64_t deadline_ns;
    char request_id[ENGINE_REQUEST_ID_MAX + 1];
    char salt[ENGINE_SALT_MAX + 1];
    uint32_t token_ids[]; /* [request.n_token_ids] */
};

static enum status take_sampling(struct prefill_message *message,
                                 const struct sampling_params *sampling)
{
    message->sampling = *sampling;
    if (!sampling->rules)
        return STATUS_OK;
    message->rules = token_rules_copy(sampling->rules);
    message->sampling.rules = message->rules;
    return message->rules ? STATUS_OK : STATUS_NO_MEMORY;
}

enum status prefill_message_create(const struct gen_prefill_request *request,
                                   struct prefill_message **message_out)
{
    const struct engine_request_input *input = &request->input;
    size_t id_bytes = strlen(input->request_id);
    if (id_bytes > ENGINE_REQUEST_ID_MAX || input->salt_bytes > ENGINE_SALT_MAX)
        return STATUS_INVALID_ARGUMENT;
    size_t tokens_bytes = input->n_tokens * sizeof(uint32_t);
    struct prefill_message *message = calloc(1, sizeof *message + tokens_bytes);
    if (!message)
        return STATUS_NO_MEMORY;
    if (take_sampling(message, input->sampling) != STATUS_OK) {
        free(message);
        return STATUS_NO_MEMORY;
    }
    memcpy(message->request_id, input->request_id, id_bytes);
    if (input->salt_bytes > 0)
        memcpy(message->salt, input->salt, input->salt_bytes);
    memcpy(message->token_ids, input->token_ids, tokens_bytes);
    message->transfer_id = request->transfer_id;
    message->deadline_ns = input->deadline_ns;

    kvferry__internal__v1__prefill_request__init(&message->request);
    message->request.request_id = message->request_id;
    message->request.transfer_id.data = message->transfer_id.bytes;
    message->request.transfer_id.len = sizeof message->transfer_id.bytes;
    message->request.token_ids = message->token_ids;
    message->request.n_token_ids = input->n_tokens;
    message->held_tokens = request->held_tokens;
    message->request.cache_salt = message->salt;
    sampling_message_make(&message->sampling, &message->sampling_message);
    if (input->adapter) {
        message->adapter = input->adapter->id;
        adapter_encode(&message->adapter, &message->adapter_message);
        message->request.adapter = &message->adapter_message.message;
        sampling_message_adapt(&message->sampling_message);
    }
    message->request.sampling = message->sampling_message.sampling;
    message->request.ruled_sampling = message->sampling_message.ruled_sampling;
    standing_encode(&input->standing, &message->standing);
    message->request.standing = &message->standing;
    message->request.takes_backlog = message->request.takes_end = true;
    message->request.step_ns = request->step_ns;
    *message_out = message;
    return STATUS_OK;
}

void prefill_message_destroy(struct prefill_message *message)
{
    if (message)
        free(message->rules);
    free(message);
}

const ProtobufCMessage *prefill_message_encode(struct prefill_message *message,
                                               uint64_t caller_incarnation,
                                               uint64_t callee_incarnation, uint32_t block_tokens)
{
    assert(caller_incarnation != 0 && callee_incarnation != 0 && "both incarnations are known");
    message->request.caller_incarnation = caller_incarnation;
    message->request.callee_incarnation = callee_incarnation;
    message->request.held_tokens = message->held_tokens - message->held_tokens % block_tokens;
    return &message->request.base;
}

uint64_t prefill_message_deadline_ns(const struct prefill_message *message)
{
    return message->deadline_ns;
}

static enum status decode_ready(const Kvferry__Internal__V1__PrefillReady *ready,
                                struct prefill_event *event_out)
{
    if (ready->n_digests != 0 && ready->n_digests != ready->n_block_ids)
        return STATUS_CORRUPT;
    event_out->kind = EVENT_READY;
    event_out->ready.first_block = ready->first_block;
    event_out->ready.n_blocks = (uint32_t)ready->n_block_ids;
    event_out->ready.block_ids = ready->block_ids;
    event_out->ready.digests = ready->n_digests ? ready->digests : NULL;
    return STATUS_OK;
}

static enum status decode_ranked(const Kvferry__Internal__V1__PrefillFirstToken *first,
                                 struct ranked_row *row_out)
{
    if (first->n_ranked_token_ids > RANKED_ROW_MAX ||
        first->n_ranked_logprobs != first->n_ranked_token_ids)
        return STATUS_CORRUPT;
    row_out->n = (uint32_t)first->n_ranked_token_ids;
    memcpy(row_out->ids, first->ranked_token_ids, row_out->n * sizeof *row_out->ids);
    memcpy(row_out->logprobs, first->ranked_logprobs, row_out->n * sizeof *row_out->logprobs);
    return STATUS_OK;
}

static enum status decode_first_token(const Kvferry__Internal__V1__PrefillFirstToken *first,
                                      struct prefill_scratch *scratch,
                                      struct prefill_event *event_out)
{
    event_out->kind = EVENT_FIRST_TOKEN;
    event_out->first_token.token_id = first->token_id;
    event_out->first_token.has_logprobs = first->logprobs != NULL;
    if (first->n_ranked_token_ids > 0 || first->n_ranked_logprobs > 0) {
        TRY(decode_ranked(first, &scratch->ranked));
        event_out->first_token.ranked = &scratch->ranked;
    }
    if (first->logprobs &&
        token_logprobs_decode(first->logprobs, &event_out->first_token.logprobs) != STATUS_OK)
        return STATUS_CORRUPT;
    return STATUS_OK;
}

static enum status decode_scores(const Kvferry__Internal__V1__PrefillScores *scores,
                                 struct prefill_scratch *scratch, struct prefill_event *event_out)
{
    if (prompt_scores_decode(scores->logprobs, scores->n_logprobs, scratch->scores) != STATUS_OK)
        return STATUS_CORRUPT;
    event_out->kind = EVENT_SCORES;
    event_out->scores = (struct prompt_scores){.first = scores->first_token,
                                               .n = (uint32_t)scores->n_logprobs,
                                               .logprobs = scratch->scores};
    return STATUS_OK;
}

static enum status decode_sealed(const Kvferry__Internal__V1__PrefillSealed *sealed,
                                 struct prefill_event *event_out)
{
    event_out->kind = EVENT_SEALED;
    event_out->sealed.n_tokens = sealed->n_tokens;
    event_out->sealed.cached_tokens = sealed->cached_tokens;
    event_out->sealed.queue_us = sealed->queue_us;
    event_out->sealed.compute_us = sealed->compute_us;
    return STATUS_OK;
}

static enum status decode_end(const Kvferry__Internal__V1__PrefillEnd *end,
                              struct prefill_scratch *scratch, struct prefill_events *events_out)
{
    if (!end->sealed)
        return STATUS_CORRUPT;
    if (end->first_token)
        TRY(decode_first_token(end->first_token, scratch, &events_out->list[events_out->n++]));
    if (end->ready)
        TRY(decode_ready(end->ready, &events_out->list[events_out->n++]));
    return decode_sealed(end->sealed, &events_out->list[events_out->n++]);
}

enum status prefill_events_decode(const Kvferry__Internal__V1__PrefillResponse *message,
                                  struct prefill_scratch *scratch,
                                  struct prefill_events *events_out)
{
    memset(events_out, 0, sizeof *events_out);
    struct prefill_event *event = &events_out->list[0];
    if (message->event_case == KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_END)
        return decode_end(message->end, scratch, events_out);
    events_out->n = 1;
    switch (message->event_case) {
    case KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_BACKLOG:
        event->kind = EVENT_BACKLOG;
        event->backlog.token_ns = message->backlog->token_ns;
        event->backlog.n_tokens = message->backlog->waiting_tokens;
        return STATUS_OK;
    case KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_ACCEPTED:
        event->kind = EVENT_ACCEPTED;
        event->accepted.n_blocks = message->accepted->n_blocks;
        event->accepted.block_tokens = message->accepted->block_tokens;
        return STATUS_OK;
    case KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_READY:
        return decode_ready(message->ready, event);
    case KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_SCORES:
        return decode_scores(message->scores, scratch, event);
    case KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_FIRST_TOKEN:
        return decode_first_token(message->first_token, scratch, event);
    case KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_SEALED:
        return decode_sealed(message->sealed, event);
    default:
        return STATUS_CORRUPT;
    }
}
