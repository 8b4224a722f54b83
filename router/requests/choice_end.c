#include "router/requests/choice_end.h"

#include "rpc/borrow.h"

#include <assert.h>

/* What the router knows by itself, when no worker's figures came (a stop string in the first token). */
static void set_own_timing(const struct choice *choice, Kvferry__V1__Timing *timing)
{
    timing->generation_worker = borrow(choice->generation_worker);
    timing->context_worker = borrow(choice->context_worker);
}

static uint64_t own_decode_us(const struct choice *choice)
{
    assert(choice->last_token_ns >= choice->first_token_ns);
    return (choice->last_token_ns - choice->first_token_ns) / 1000;
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

/* A worker's STOP comes with the token that it stopped at, unless the constraint is complete; a stop string is found here. */
static void set_matched(const struct choice *choice, struct reply_end *end)
{
    const struct stop_strings *stops = &choice->stops;
    const struct decode_end *told = &choice->end;
    end->matched = MATCHED_NOTHING;
    if (stops->is_found ||
        choice->has_beam_stop) { /* the text may leave out what a beam ends with */
        const uint32_t found = stops->is_found ? stops->found : choice->beam_stop;
        assert(found < stops->n);
        end->matched = MATCHED_STRING;
        end->stop_string = (ProtobufCBinaryData){stops->bytes[found], borrow(stops->text[found])};
    } else if (told->is_there && !told->is_complete && choice->n_generated > 0 &&
               end->reason == KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP) {
        end->matched = MATCHED_TOKEN;
        end->stop_token_id = choice->last_token_id;
    }
}

void choice_end_make(const struct choice *choice, struct reply_end *end_out)
{
    const struct generation *generation = choice->generation;
    const struct decode_end *end = &choice->end;
    *end_out = (struct reply_end){.index = choice->index,
                                  .has_timing = generation->return_timing,
                                  .request_id = generation->request_id,
                                  .text = ""};
    kvferry__v1__usage__init(&end_out->usage);
    kvferry__v1__timing__init(&end_out->timing);
    end_out->reason = end->is_there && !choice->stops.is_found
                          ? end->reason
                          : KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP;
    set_matched(choice, end_out);
    end_out->has_beam_score = choice->beam_reason !=
                              KVFERRY__V1__FINISH_REASON__FINISH_REASON_UNSPECIFIED;
    end_out->beam_score = choice->beam_score;
    end_out->usage.prompt_tokens = generation->n_tokens;
    end_out->usage.generated_tokens = choice->n_generated;
    end_out->usage.cached_tokens = end->cached_tokens;
    end_out->usage.draft_tokens = end->draft_tokens;
    end_out->usage.accepted_tokens = end->accepted_tokens;
    if (end->has_timing)
        set_worker_timing(end, &end_out->timing);
    else
        set_own_timing(choice, &end_out->timing);
    if (!end->is_there)
        end_out->timing.decode_us = own_decode_us(choice);
    if (choice->first_token_ns)
        end_out->timing.first_token_us = (choice->first_token_ns - generation->began_ns) / 1000;
}
