#include "cli/client/reply.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 64u

void reply_init(struct reply *reply, uint32_t n_choices, uint64_t bytes_max)
{
    assert(n_choices >= 1 && n_choices <= REPLY_CHOICES_MAX);
    *reply = (struct reply){.n_choices = n_choices, .bytes_max = bytes_max};
}

void reply_finish(struct reply *reply)
{
    assert(reply->n_choices <= REPLY_CHOICES_MAX);
    for (uint32_t i = 0; i < reply->n_choices; i++) {
        free(reply->choices[i].text);
        free(reply->choices[i].tokens);
        free(reply->choices[i].tops);
        free(reply->choices[i].stop_text);
    }
    free(reply->prompt.tokens);
    free(reply->prompt.tops);
    *reply = (struct reply){0};
}

/* Makes room for n elements more behind the first n_used. */
static enum status make_room(struct reply *reply, void **array, size_t *room, size_t element_bytes,
                             size_t n_used, size_t n, struct error *error)
{
    assert(n_used <= *room && reply->bytes <= reply->bytes_max);
    if (n <= *room - n_used)
        return STATUS_OK;
    size_t wanted = *room * 2 > n_used + n ? *room * 2 : n_used + n;
    wanted = wanted > ROOM_MIN ? wanted : ROOM_MIN;
    const uint64_t more = (uint64_t)(wanted - *room) * element_bytes;
    if (more > reply->bytes_max - reply->bytes)
        return error_set(error, STATUS_REPLY_TOO_LONG,
                         "the reply needs more than %" PRIu64 " bytes (--answer-bytes-max)",
                         reply->bytes_max);
    void *larger = realloc(*array, wanted * element_bytes);
    if (!larger)
        return STATUS_NO_MEMORY;
    *array = larger;
    *room = wanted;
    reply->bytes += more;
    return STATUS_OK;
}

/* Returns a failure, as TRY. */
#define ROOM_FOR(reply, choice, array, room, n_used, n, error)                                     \
    do {                                                                                           \
        void *array_ = (choice)->array;                                                            \
        enum status status_ = make_room((reply), &array_, &(choice)->room,                         \
                                        sizeof *(choice)->array, (choice)->n_used, (n), (error));  \
        (choice)->array = array_;                                                                  \
        if (status_ != STATUS_OK)                                                                  \
            return status_;                                                                        \
    } while (0)

static enum status take_logprobs(struct reply *reply, struct reply_choice *choice,
                                 const Kvferry__V1__TokenLogprobs *logprobs,
                                 struct reply_token *token, struct error *error)
{
    ROOM_FOR(reply, choice, tops, tops_room, n_tops, logprobs->n_top, error);
    token->first_top = (uint32_t)choice->n_tops;
    token->logprob = logprobs->logprob;
    token->n_top = (uint32_t)logprobs->n_top;
    for (size_t t = 0; t < logprobs->n_top; t++)
        choice->tops[choice->n_tops++] = (struct reply_top){logprobs->top[t]->token_id,
                                                            logprobs->top[t]->logprob};
    assert(choice->n_tops <= choice->tops_room);
    return STATUS_OK;
}

static enum status take_tokens(struct reply *reply, struct reply_choice *choice,
                               const Kvferry__V1__GenerateResponse *message, struct error *error)
{
    ROOM_FOR(reply, choice, tokens, tokens_room, n_tokens, message->n_token_ids, error);
    for (size_t i = 0; i < message->n_token_ids; i++) {
        struct reply_token token = {.id = message->token_ids[i],
                                    .has_logprob = i < message->n_logprobs};
        if (token.has_logprob)
            TRY(take_logprobs(reply, choice, message->logprobs[i], &token, error));
        choice->tokens[choice->n_tokens++] = token;
    }
    return STATUS_OK;
}

/* The first token of a prompt has none. */
static enum status take_prompt(struct reply *reply, const Kvferry__V1__GenerateResponse *message,
                               struct error *error)
{
    struct reply_choice *prompt = &reply->prompt;
    ROOM_FOR(reply, prompt, tokens, tokens_room, n_tokens, message->n_prompt_logprobs, error);
    for (size_t i = 0; i < message->n_prompt_logprobs; i++) {
        const Kvferry__V1__TokenLogprobs *logprobs = message->prompt_logprobs[i];
        struct reply_token token = {.id = logprobs->token_id, .has_logprob = prompt->n_tokens > 0};
        if (token.has_logprob)
            TRY(take_logprobs(reply, prompt, logprobs, &token, error));
        prompt->tokens[prompt->n_tokens++] = token;
    }
    return STATUS_OK;
}

static enum status take_end(struct reply_choice *choice,
                            const Kvferry__V1__GenerateResponse *message)
{
    assert(message->finish_reason != KVFERRY__V1__FINISH_REASON__FINISH_REASON_UNSPECIFIED);
    choice->reason = message->finish_reason;
    if (message->usage) {
        choice->prompt_tokens = message->usage->prompt_tokens;
        choice->cached_tokens = message->usage->cached_tokens;
        choice->generated_tokens = message->usage->generated_tokens;
    }
    choice->has_stop_id = message->matched_stop_case ==
                          KVFERRY__V1__GENERATE_RESPONSE__MATCHED_STOP_STOP_TOKEN_ID;
    choice->stop_id = choice->has_stop_id ? message->stop_token_id : 0;
    if (message->matched_stop_case == KVFERRY__V1__GENERATE_RESPONSE__MATCHED_STOP_STOP_STRING &&
        !choice->stop_text) {
        choice->stop_text = malloc(message->stop_string.len + 1);
        if (!choice->stop_text)
            return STATUS_NO_MEMORY;
        memcpy(choice->stop_text, message->stop_string.data, message->stop_string.len);
        choice->n_stop_text = message->stop_string.len;
    }
    choice->has_score = message->beam_score_presence_case ==
                        KVFERRY__V1__GENERATE_RESPONSE__BEAM_SCORE_PRESENCE_BEAM_SCORE;
    choice->score = message->beam_score;
    choice->has_ended = true;
    return STATUS_OK;
}

enum status reply_take(struct reply *reply, const Kvferry__V1__GenerateResponse *message,
                       struct error *error)
{
    if (message->index >= reply->n_choices)
        return error_set(error, STATUS_CORRUPT,
                         "the server answered with index %" PRIu32 ", but %" PRIu32
                         " choices were asked for",
                         message->index, reply->n_choices);
    struct reply_choice *choice = &reply->choices[message->index];
    ROOM_FOR(reply, choice, text, text_room, n_text, message->text.len, error);
    if (message->text.len > 0)
        memcpy(choice->text + choice->n_text, message->text.data, message->text.len);
    choice->n_text += message->text.len;
    TRY(take_prompt(reply, message, error));
    TRY(take_tokens(reply, choice, message, error));
    if (message->request_id && message->request_id[0])
        snprintf(reply->request_id, sizeof reply->request_id, "%s", message->request_id);
    if (message->finish_reason == KVFERRY__V1__FINISH_REASON__FINISH_REASON_UNSPECIFIED)
        return STATUS_OK;
    return take_end(choice, message);
}

const char *finish_reason_name(Kvferry__V1__FinishReason reason)
{
    switch (reason) {
    case KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP:
        return "stop";
    case KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH:
        return "length";
    default:
        return "unknown";
    }
}
