#include "router/generation_reply.h"

#include "rpc/borrow.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status reply_scratch_create(struct reply_scratch **scratch_out)
{
    struct reply_scratch *scratch = calloc(1, sizeof *scratch);
    if (!scratch)
        return STATUS_NO_MEMORY;
    *scratch_out = scratch;
    return STATUS_OK;
}

void reply_scratch_destroy(struct reply_scratch *scratch)
{
    free(scratch);
}

/* list_out [n] points into messages_out [n]. */
static void encode_logprobs(const struct token_logprobs *logprobs, uint32_t n,
                            struct token_logprobs_message *messages_out,
                            Kvferry__V1__TokenLogprobs **list_out)
{
    for (uint32_t i = 0; i < n; i++) {
        token_logprobs_encode(&logprobs[i], &messages_out[i]);
        list_out[i] = &messages_out[i].message;
    }
}

enum status reply_send_tokens(struct generation *generation, const uint32_t *token_ids,
                              const struct token_logprobs *logprobs, uint32_t n, size_t text_bytes,
                              struct reply_scratch *scratch)
{
    assert(!generation->is_unary && n >= 1 && n <= REPLY_TOKENS_MAX);
    Kvferry__V1__GenerateResponse response = KVFERRY__V1__GENERATE_RESPONSE__INIT;
    response.n_token_ids = n;
    response.token_ids = borrow(token_ids);
    response.text = (ProtobufCBinaryData){text_bytes, borrow(scratch->text)};
    if (logprobs) {
        encode_logprobs(logprobs, n, scratch->logprobs, scratch->list);
        response.n_logprobs = n;
        response.logprobs = scratch->list;
    }
    return rpc_call_send(generation->call, &response.base);
}

enum status reply_send_progress(struct generation *generation, uint32_t n_done)
{
    Kvferry__V1__GenerateResponse response = KVFERRY__V1__GENERATE_RESPONSE__INIT;
    Kvferry__V1__PromptProgress progress = KVFERRY__V1__PROMPT_PROGRESS__INIT;
    assert(generation->return_progress && !generation->is_unary && n_done <= generation->n_tokens);
    progress.prompt_tokens = generation->n_tokens;
    progress.done_tokens = n_done;
    response.prompt_progress = &progress;
    return rpc_call_send(generation->call, &response.base);
}

/* What the router knows by itself, when no worker's figures came (a stop string in the first token). */
static void set_own_timing(const struct generation *generation, Kvferry__V1__Timing *timing)
{
    timing->generation_worker = borrow(generation->generation_worker);
    timing->context_worker = borrow(generation->context_worker);
}

static uint64_t own_decode_us(const struct generation *generation)
{
    assert(generation->last_token_ns >= generation->first_token_ns);
    return (generation->last_token_ns - generation->first_token_ns) / 1000;
}

static void set_worker_timing(const struct decode_end *end, Kvferry__V1__Timing *timing)
{
    timing->queue_us = end->queue_us;
    timing->prefill_us = end->prefill_us;
    timing->transfer_us = end->transfer_us;
    timing->decode_us = end->decode_us;
    timing->kv_bytes_received = end->kv_bytes_received;
    timing->kv_tokens_received = end->kv_tokens_received;
    timing->kv_tokens_recomputed = end->kv_tokens_recomputed;
    timing->context_worker = borrow(end->context_worker);
    timing->generation_worker = borrow(end->generation_worker);
    timing->transport = borrow(end->transport);
    timing->prefill_place = end->prefill_place;
    timing->prefill_reason = borrow(end->prefill_reason);
}

/* A worker's STOP comes with the token that it stopped at; a stop string is found here. */
static void set_matched(const struct generation *generation, bool has_end, struct reply_end *end)
{
    const struct stop_strings *stops = &generation->stops;
    end->matched = MATCHED_NOTHING;
    if (stops->is_found) {
        assert(stops->found < stops->n);
        end->matched = MATCHED_STRING;
        end->stop_string = (ProtobufCBinaryData){stops->bytes[stops->found],
                                                 borrow(stops->text[stops->found])};
    } else if (has_end && end->reason == KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP &&
               generation->n_generated > 0) {
        end->matched = MATCHED_TOKEN;
        end->stop_token_id = generation->last_token_id;
    }
}

void reply_end_make(const struct generation *generation, const struct decode_end *end,
                    struct reply_end *end_out)
{
    bool has_end = end && end->is_there;
    const struct decode_end *known = has_end ? end : &generation->so_far;
    kvferry__v1__usage__init(&end_out->usage);
    kvferry__v1__timing__init(&end_out->timing);
    end_out->reason = has_end && !generation->stops.is_found
                          ? end->reason
                          : KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP;
    set_matched(generation, has_end, end_out);
    end_out->usage.prompt_tokens = generation->n_tokens;
    end_out->usage.generated_tokens = generation->n_generated;
    end_out->usage.cached_tokens = known->cached_tokens;
    if (known->has_timing)
        set_worker_timing(known, &end_out->timing);
    else
        set_own_timing(generation, &end_out->timing);
    if (!has_end)
        end_out->timing.decode_us = own_decode_us(generation);
    if (generation->first_token_ns)
        end_out->timing.first_token_us = (generation->first_token_ns - generation->began_ns) / 1000;
    end_out->has_timing = generation->return_timing;
}

/* The fields that both kinds have. */
#define SET_END(response, MESSAGE, generation, end)                                                \
    do {                                                                                           \
        (response)->finish_reason = (end)->reason;                                                 \
        (response)->usage = &(end)->usage;                                                         \
        (response)->timing = (end)->has_timing ? &(end)->timing : NULL;                            \
        (response)->request_id = (generation)->request_id;                                         \
        if ((end)->matched == MATCHED_STRING) {                                                    \
            (response)->matched_stop_case = KVFERRY__V1__##MESSAGE##__MATCHED_STOP_STOP_STRING;    \
            (response)->stop_string = (end)->stop_string;                                          \
        } else if ((end)->matched == MATCHED_TOKEN) {                                              \
            (response)->matched_stop_case = KVFERRY__V1__##MESSAGE##__MATCHED_STOP_STOP_TOKEN_ID;  \
            (response)->stop_token_id = (end)->stop_token_id;                                      \
        }                                                                                          \
    } while (0)

void reply_send_last(struct generation *generation, struct reply_end *end, const char *text,
                     size_t text_bytes)
{
    Kvferry__V1__GenerateResponse response = KVFERRY__V1__GENERATE_RESPONSE__INIT;
    assert(!generation->is_unary);
    response.text = (ProtobufCBinaryData){text_bytes, borrow(text)};
    SET_END(&response, GENERATE_RESPONSE, generation, end);
    if (rpc_call_send(generation->call, &response.base) == STATUS_OK)
        rpc_call_finish(generation->call);
    /* Otherwise the call is over already, and its on_end says how. */
}

/* Memory for the log-probabilities of a whole reply. */
struct all_logprobs {
    struct token_logprobs_message *messages;
    Kvferry__V1__TokenLogprobs **list;
};

static bool collect_logprobs(const struct generation *generation, struct all_logprobs *all)
{
    uint32_t n = generation->n_generated;
    assert(n > 0 && n <= generation->sampling.params.max_tokens);
    all->messages = calloc(n, sizeof *all->messages);
    all->list = calloc(n, sizeof(void *));
    if (!all->messages || !all->list)
        return false;
    encode_logprobs(generation->logprobs, n, all->messages, all->list);
    return true;
}

void reply_complete(struct generation *generation, struct reply_end *end)
{
    Kvferry__V1__CompleteResponse response = KVFERRY__V1__COMPLETE_RESPONSE__INIT;
    struct all_logprobs all = {0};
    assert(generation->is_unary && !generation->is_too_long);
    bool has_logprobs = generation->logprobs && generation->n_generated > 0;
    if (has_logprobs && !collect_logprobs(generation, &all)) {
        rpc_call_fail_status(generation->call, STATUS_NO_MEMORY, "%s",
                             status_text(STATUS_NO_MEMORY));
    } else {
        response.n_token_ids = generation->n_generated;
        response.token_ids = generation->ids;
        response.text = (ProtobufCBinaryData){generation->reply_bytes, borrow(generation->reply)};
        response.n_logprobs = has_logprobs ? generation->n_generated : 0;
        response.logprobs = all.list;
        SET_END(&response, COMPLETE_RESPONSE, generation, end);
        rpc_call_reply(generation->call, &response.base);
    }
    free(all.messages);
    free(all.list);
}
