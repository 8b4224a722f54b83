#include "router/requests/generation.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "router/requests/beam_replies.h"
#include "router/requests/choice_end.h"
#include "router/requests/choice_scores.h"
#include "router/requests/constraint_request.h"
#include "router/requests/generation_record.h"
#include "sampling_params/sampling_codec.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void decode_end_take(const Kvferry__Internal__V1__DecodeResponse *message,
                     struct decode_end *end_out)
{
    *end_out = (struct decode_end){
        .is_there = message->finish_reason != KVFERRY__V1__FINISH_REASON__FINISH_REASON_UNSPECIFIED,
        .is_complete = message->constraint_complete,
        .has_timing = message->timing != NULL,
        .reason = message->finish_reason,
    };
    if (message->usage) {
        end_out->prompt_tokens = message->usage->prompt_tokens;
        end_out->cached_tokens = message->usage->cached_tokens;
        end_out->generated_tokens = message->usage->generated_tokens;
        end_out->draft_tokens = message->usage->draft_tokens;
        end_out->accepted_tokens = message->usage->accepted_tokens;
    }
    const Kvferry__V1__Timing *timing = message->timing;
    if (!timing)
        return;
    end_out->queue_us = timing->queue_us;
    end_out->prefill_us = timing->prefill_us;
    end_out->transfer_us = timing->transfer_us;
    end_out->decode_us = timing->decode_us;
    end_out->first_token_us = timing->first_token_us;
    end_out->kv_bytes_received = timing->kv_bytes_received;
    end_out->kv_tokens_received = timing->kv_tokens_received;
    end_out->kv_tokens_recomputed = timing->kv_tokens_recomputed;
    snprintf(end_out->context_worker, sizeof end_out->context_worker, "%s", timing->context_worker);
    snprintf(end_out->generation_worker, sizeof end_out->generation_worker, "%s",
             timing->generation_worker);
    snprintf(end_out->transport, sizeof end_out->transport, "%s", timing->transport);
    end_out->prefill_place = timing->prefill_place;
    utf8_clean(timing->prefill_reason, strlen(timing->prefill_reason), end_out->prefill_reason,
               sizeof end_out->prefill_reason);
}

struct generation *generation_create(struct door_call *call, struct tracer *tracer, uint64_t now_ns)
{
    struct generation *generation = calloc(1, sizeof *generation);
    if (!generation)
        return NULL;
    call->ops->share(call);
    generation->call = call;
    generation->began_ns = now_ns;
    generation->deadline_ns = call->deadline_ns;
    struct request_origin origin;
    call->ops->origin(call, &origin);
    generation->tracer = tracer;
    tracer_begin(tracer, &origin.trace, now_ns, &generation->place);
    return generation;
}

void generation_destroy(struct generation *generation)
{
    if (!generation)
        return;
    assert(generation->holders == 0);
    generation->call->ops->release(generation->call);
    free(generation->text);
    free(generation->token_ids);
    free(generation->choices);
    free(generation->rules);
    free(generation->bad_words);
    free(generation);
}

enum status generation_prepare(struct generation *generation, const struct tokenizer *tokenizer)
{
    uint32_t n = generation->n_choices;
    assert(n >= 1 && n <= CHOICES_MAX && !generation->choices && "a request is prepared once");
    generation->choices = calloc(n, sizeof *generation->choices);
    if (!generation->choices)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        struct choice *choice = &generation->choices[i];
        choice->generation = generation;
        choice->index = i;
        choice->stops = generation->stops;
        token_decoder_init(&choice->decoder, tokenizer, generation->skip_special);
    }
    generation->n_live = n;
    return STATUS_OK;
}

void choice_attempt_id(const struct choice *choice, const struct hash_key *key, uint64_t attempt,
                       char id_out[REQUEST_ID_MAX + 1])
{
    char suffix[32];
    snprintf(suffix, sizeof suffix, "~%u~%016" PRIx64, choice->n_attempts,
             hash128_of(key, &attempt, sizeof attempt).lo);
    _Static_assert(sizeof suffix <= REQUEST_ID_MAX, "some of the request's own id stays");
    snprintf(id_out, REQUEST_ID_MAX + 1, "%.*s%s", (int)(REQUEST_ID_MAX - strlen(suffix)),
             choice->generation->request_id, suffix);
}

/* ---- tokens ---- */

/* Bytes that may leave after that token; sets is_found in stops. */
static size_t take_token(struct choice *choice, uint32_t id, char *out)
{
    char piece[TOKEN_TEXT_BYTES_MAX];
    size_t n = token_decoder_push(&choice->decoder, id, piece);
    choice->n_generated++;
    choice->last_token_id = id;
    if (choice->n_generated <= choice->generation->sampling.params.min_tokens) {
        memcpy(out, piece, n);
        return n;
    }
    return stop_strings_push(&choice->stops, piece, n, out);
}

/* What was held back leaves at the end. */
static size_t take_rest(struct choice *choice, char *out)
{
    char piece[TOKEN_TEXT_BYTES_MAX];
    size_t n = token_decoder_finish(&choice->decoder, piece);
    size_t written = stop_strings_push(&choice->stops, piece, n, out);
    if (!choice->stops.is_found)
        written += stop_strings_finish(&choice->stops, out + written);
    return written;
}

/* A list that is too long is a worker's fault: the client gets none for that token. */
static void take_logprobs(const Kvferry__V1__TokenLogprobs *message, struct token_logprobs *out)
{
    if (token_logprobs_decode(message, out) != STATUS_OK)
        *out = (struct token_logprobs){.logprob = message->logprob};
}

/* What could not be sent: the call is over and on_end is about to say how, the reply has no room, or a worker gave it wrong. */
static void stop_sending(struct generation *generation, enum status why)
{
    assert(why != STATUS_OK && !generation->is_unheard);
    generation->is_unheard = true;
    if (why == STATUS_NO_MEMORY || why == STATUS_REPLY_TOO_LONG || why == STATUS_BUG)
        generation->left = why;
}

/* What a message has for a choice. */
struct told_tokens {
    const uint32_t *ids; /* [n] */
    size_t n;
    Kvferry__V1__TokenLogprobs *const *logprobs; /* [n]; NULL: none came */
};

/* Tokens from .. from + n - 1 of them, at most REPLY_TOKENS_MAX. */
static void take_some(struct choice *choice, const struct told_tokens *told, size_t from,
                      uint32_t n, struct reply_scratch *scratch)
{
    struct generation *generation = choice->generation;
    assert(n <= REPLY_TOKENS_MAX && from + n <= told->n);
    const uint32_t *ids = told->ids + from;
    size_t bytes = 0;
    uint32_t taken = 0;
    while (taken < n && !choice->stops.is_found &&
           choice->n_generated < generation->sampling.params.max_tokens) {
        if (told->logprobs)
            take_logprobs(told->logprobs[from + taken], &scratch->logprobs[taken]);
        bytes += take_token(choice, ids[taken], scratch->text + bytes);
        taken++;
    }
    if (taken == 0)
        return;
    const struct reply_piece piece = {.index = choice->index,
                                      .token_ids = ids,
                                      .logprobs = told->logprobs ? scratch->logprobs : NULL,
                                      .n = taken,
                                      .prompt_ids = generation->token_ids,
                                      .n_prompt = generation->n_tokens,
                                      .text = scratch->text,
                                      .text_bytes = bytes};
    enum status status = generation->call->ops->piece(generation->call, &piece);
    if (status != STATUS_OK)
        stop_sending(generation, status);
}

static void take_all(struct choice *choice, const struct told_tokens *told,
                     struct reply_scratch *scratch)
{
    const struct generation *generation = choice->generation;
    for (size_t from = 0; from < told->n && !generation->is_unheard; from += REPLY_TOKENS_MAX) {
        const size_t left = told->n - from;
        take_some(choice, told, from, (uint32_t)(left < REPLY_TOKENS_MAX ? left : REPLY_TOKENS_MAX),
                  scratch);
    }
}

/* Of a worker that tells more than there is, it is all. Choices after the first find the prompt computed. */
static void take_progress(struct choice *choice, const Kvferry__V1__PromptProgress *progress)
{
    struct generation *generation = choice->generation;
    if (choice->first_token_ns || choice->index > 0)
        return;
    const uint32_t n_all = generation->n_tokens;
    choice->has_progress = true;
    choice->n_done = progress->done_tokens < n_all ? progress->done_tokens : n_all;
    if (!generation->return_progress)
        return;
    enum status status = generation->call->ops->progress(generation->call, choice->n_done, n_all);
    if (status != STATUS_OK)
        stop_sending(generation, status);
}

/* Until the first choice was placed for good. */
static void observe_queue(const struct generation *generation, const struct router_metrics *metrics,
                          uint64_t now_ns)
{
    uint64_t placed_ns = generation->choices[0].placed_ns;
    uint64_t until_ns = placed_ns ? placed_ns : now_ns;
    histogram_observe(metrics->series.queue,
                      (double)(until_ns - generation->began_ns) / (double)NS_PER_S);
}

/* The call that its worker has not refused is known by that. */
static void begin_reply(struct choice *choice, const struct router_metrics *metrics,
                        uint64_t now_ns)
{
    choice->first_token_ns = now_ns;
    if (choice->index == 0)
        observe_queue(choice->generation, metrics, now_ns);
}

/* What is told of the prompt. */
static void take_before_tokens(struct choice *choice,
                               const Kvferry__Internal__V1__DecodeResponse *message,
                               struct reply_scratch *scratch)
{
    enum status status = STATUS_OK;
    if (message->prompt_progress)
        take_progress(choice, message->prompt_progress);
    if (message->n_prompt_logprobs > 0 && !choice->generation->is_unheard)
        status = choice_scores(choice, message->first_prompt_token, message->prompt_logprobs,
                               message->n_prompt_logprobs, scratch->logprobs);
    if (status != STATUS_OK)
        stop_sending(choice->generation, status);
}

/* The replies of a search are those of all choices; the first one is the call's. */
static void take_replies(struct choice *first, const Kvferry__Internal__V1__DecodeResponse *message,
                         struct reply_scratch *scratch, const struct router_metrics *metrics,
                         uint64_t now_ns)
{
    struct generation *generation = first->generation;
    assert(first->index == 0);
    if (first->first_token_ns || !beam_replies_are_valid(generation, message)) {
        stop_sending(generation, STATUS_BUG);
        return;
    }
    if (message->timing)
        first->kv_there_ns = now_ns;
    for (uint32_t i = 0; i < generation->n_choices && !generation->is_unheard; i++) {
        struct choice *choice = &generation->choices[i];
        const Kvferry__Internal__V1__BeamReply *reply = message->beam_replies[i];
        const struct told_tokens told = {.ids = reply->token_ids, .n = reply->n_token_ids};
        begin_reply(choice, metrics, now_ns);
        choice->last_token_ns = now_ns;
        choice->beam_score = reply->score;
        choice->beam_reason = reply->finish_reason;
        choice->has_beam_stop = beam_reply_has_stop(reply);
        choice->beam_stop = reply->stop;
        counter_add(metrics->series.relayed, reply->n_token_ids);
        take_all(choice, &told, scratch);
    }
}

static void take_tokens(struct choice *choice, const Kvferry__Internal__V1__DecodeResponse *message,
                        struct reply_scratch *scratch, const struct router_metrics *metrics,
                        uint64_t now_ns)
{
    const bool has_logprobs = message->n_logprobs == message->n_token_ids;
    const struct told_tokens told = {.ids = message->token_ids,
                                     .n = message->n_token_ids,
                                     .logprobs = has_logprobs ? message->logprobs : NULL};
    if (choice->first_token_ns)
        histogram_observe(metrics->series.itl,
                          (double)(now_ns - choice->last_token_ns) / (double)NS_PER_S);
    else
        begin_reply(choice, metrics, now_ns);
    choice->last_token_ns = now_ns;
    if (message->timing) {
        decode_end_take(message, &choice->end);
        choice->end.is_there = false; /* only finish says so */
        choice->kv_there_ns = choice->kv_there_ns ? choice->kv_there_ns : now_ns;
    }
    counter_add(metrics->series.relayed, message->n_token_ids);
    take_all(choice, &told, scratch);
    choice->is_stopping = choice->stops.is_found;
}

void choice_tokens(struct choice *choice, const Kvferry__Internal__V1__DecodeResponse *message,
                   struct reply_scratch *scratch, const struct router_metrics *metrics,
                   uint64_t now_ns)
{
    const struct generation *generation = choice->generation;
    if (choice->is_stopping || generation->is_unheard || generation->status != STATUS_OK)
        return;
    if (generation_is_search(generation) && beam_replies_are_there(message))
        take_replies(choice, message, scratch, metrics, now_ns);
    else if (message->n_token_ids == 0)
        take_before_tokens(choice, message, scratch);
    else if (choice_lacks_scores(choice))
        stop_sending(choice->generation, STATUS_BUG);
    else
        take_tokens(choice, message, scratch, metrics, now_ns);
}

/* ---- the end ---- */

bool generation_is_over(const struct generation *generation)
{
    return generation->left != STATUS_OK || generation->status != STATUS_OK;
}

void generation_lacks_adapter(const struct generation *generation, const char *sentence,
                              struct rpc_error *error_out)
{
    const char *name = generation->adapter.name;
    rpc_error_set(error_out, STATUS_MODEL_NOT_FOUND, "model", name,
                  "model \"%s\" is an adapter that no worker has any more%s%s", name,
                  sentence && sentence[0] ? ": " : "", sentence ? sentence : "");
}

static void fail(struct generation *generation, enum status status, const char *sentence)
{
    struct rpc_error error = {0};
    char field[64];
    const bool is_of_constraint = sentence &&
                                  constraint_request_field(sentence, field, sizeof field);
    if (status == STATUS_MODEL_NOT_FOUND)
        generation_lacks_adapter(generation, sentence, &error);
    else
        rpc_error_set(&error, status, is_of_constraint ? field : NULL, NULL, "%s",
                      sentence && sentence[0] ? sentence : status_text(status));
    generation->call->ops->fail(generation->call, &error);
}

/* Text that no piece has had. First of all that is looked at: a stop string may be in there. */
static enum status end(struct choice *choice)
{
    struct generation *generation = choice->generation;
    char rest[TOKEN_TEXT_BYTES_MAX + 2 * STOP_STRING_BYTES_MAX];
    size_t n_rest = choice->stops.is_found ? 0 : take_rest(choice, rest);
    struct reply_end reply;
    assert(n_rest <= sizeof rest && generation->left == STATUS_OK &&
           "a call that is over has no reply");
    choice_end_make(choice, &reply);
    reply.is_last = generation->n_live == 0;
    reply.text = rest;
    reply.text_bytes = n_rest;
    return generation->call->ops->end(generation->call, &reply);
}

static void finish_one(struct choice *choice, enum status status, const char *sentence,
                       const struct decode_end *last)
{
    struct generation *generation = choice->generation;
    assert(!choice->is_finished && generation->n_live > 0 && "each once");
    choice->is_finished = true;
    generation->n_live--;
    if (last && last->is_there)
        choice->end = *last;
    if (generation_is_search(generation))
        choice->end.reason = choice->beam_reason;
    if (generation->left != STATUS_OK)
        status = generation->left;
    else if (status == STATUS_CANCELLED && choice->stops.is_found)
        status = STATUS_OK;
    if (generation->status != STATUS_OK) /* the client was told of another's */
        return;
    if (status == STATUS_OK)
        status = end(choice);
    else
        fail(generation, status, sentence);
    generation->status = status;
}

void choice_finish(struct choice *choice, enum status status, const char *sentence,
                   const struct decode_end *last)
{
    struct generation *generation = choice->generation;
    if (!generation_is_search(generation)) {
        finish_one(choice, status, sentence, last);
        return;
    }
    assert(choice->index == 0 && "the others have no calls");
    for (uint32_t i = 0; i < generation->n_choices; i++)
        finish_one(&generation->choices[i], status, sentence, last);
}

void choice_abandon(struct choice *choice)
{
    struct generation *generation = choice->generation;
    assert(!choice->is_started && !choice->is_finished && generation->n_live > 0);
    assert(generation_is_over(generation));
    choice->is_started = choice->is_finished = true;
    generation->n_live--;
}

uint32_t generation_n_generated(const struct generation *generation)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < generation->n_choices; i++)
        n += generation->choices[i].n_generated;
    return n;
}

static void count(const struct generation *generation, const struct router_metrics *metrics,
                  uint64_t now_ns)
{
    double duration_s = (double)(now_ns - generation->began_ns) / (double)NS_PER_S;
    const struct choice *first = &generation->choices[0];
    status_counters_add(&metrics->requests, generation->status);
    histogram_observe(metrics->series.duration, duration_s);
    histogram_observe(metrics->series.reply_length, generation_n_generated(generation));
    if (!first->first_token_ns)
        observe_queue(generation, metrics, now_ns);
    else
        histogram_observe(metrics->series.ttft,
                          (double)(first->first_token_ns - generation->began_ns) /
                              (double)NS_PER_S);
}

void generation_close(struct generation *generation, const struct router_metrics *metrics,
                      uint64_t now_ns)
{
    struct tenant_pass *pass = generation->call->pass;
    assert(generation->n_live == 0 && generation->choices && !generation->is_closed);
    generation->is_closed = true;
    if (generation->status == STATUS_OK)
        generation->status = generation->left; /* of choices that were never started */
    if (pass)
        tenant_pass_settle(pass, generation->choices[0].n_attempts > 0,
                           generation_n_generated(generation), now_ns);
    count(generation, metrics, now_ns);
    generation_tell(generation, generation_n_generated(generation), now_ns);
}
