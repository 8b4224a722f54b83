#include "api/kvferry_v1/v1_call.h"

#include "rpc/borrow.h"

#include <assert.h>
#include <stdlib.h>

static struct v1_call *v1_of(struct door_call *call)
{
    return (struct v1_call *)call;
}

static void destroy(struct rpc_door_call *call)
{
    struct v1_call *v1 = (struct v1_call *)call;
    for (uint32_t i = 0; i < v1->n_choices; i++)
        collected_finish(&v1->choices[i].collected);
    free(v1->choices);
    collected_scores_finish(&v1->scores);
    free(v1);
}

/* ---- the reply ---- */

/* Borrowed; none of a model's padding. */
static ProtobufCBinaryData bytes_of(const struct tokenizer *tokenizer, uint32_t id)
{
    ProtobufCBinaryData bytes = {0};
    if (id < tokenizer_n_ids(tokenizer))
        bytes.data = borrow(tokenizer_token_bytes(tokenizer, id, &bytes.len));
    return bytes;
}

/* Of the tokens ids [n]. list_out [n] points into messages_out [n]. */
static void encode_logprobs(const struct v1_call *v1, const struct token_logprobs *logprobs,
                            const uint32_t *ids, uint32_t n,
                            struct token_logprobs_message *messages_out,
                            Kvferry__V1__TokenLogprobs **list_out)
{
    const struct tokenizer *tokenizer = v1->scratch->intake->tokenizer;
    for (uint32_t i = 0; i < n; i++) {
        struct token_logprobs_message *message = &messages_out[i];
        token_logprobs_encode(&logprobs[i], message);
        message->message.bytes = bytes_of(tokenizer, ids[i]);
        for (uint32_t t = 0; t < logprobs[i].n_top; t++)
            message->top[t].bytes = bytes_of(tokenizer, logprobs[i].top_ids[t]);
        list_out[i] = &message->message;
    }
}

/* The same of tokens of a prompt. */
static void encode_scores(const struct v1_call *v1, const struct token_logprobs *scores,
                          const uint32_t *ids, uint32_t n,
                          struct token_logprobs_message *messages_out,
                          Kvferry__V1__TokenLogprobs **list_out)
{
    encode_logprobs(v1, scores, ids, n, messages_out, list_out);
    for (uint32_t i = 0; i < n; i++)
        list_out[i]->token_id = ids[i];
}

/* Of the one message, what the prompt's scores and the texts of the other choices leave. */
static size_t text_room(const struct v1_call *v1, uint32_t index)
{
    size_t bytes = collected_scores_bytes(&v1->scores);
    for (uint32_t i = 0; i < v1->n_choices; i++)
        bytes += i == index ? 0 : v1->choices[i].collected.text_bytes;
    return bytes < v1->reply_bytes_max ? v1->reply_bytes_max - bytes : 0;
}

static enum status piece(struct door_call *call, const struct reply_piece *piece)
{
    struct v1_call *v1 = v1_of(call);
    if (call->is_whole) {
        assert(piece->index < v1->n_choices);
        return collected_add(&v1->choices[piece->index].collected, piece,
                             text_room(v1, piece->index));
    }
    assert(piece->n >= 1 && piece->n <= V1_LOGPROBS_ROOM);
    Kvferry__V1__GenerateResponse response = KVFERRY__V1__GENERATE_RESPONSE__INIT;
    response.index = piece->index;
    response.n_token_ids = piece->n;
    response.token_ids = borrow(piece->token_ids);
    response.text = (ProtobufCBinaryData){piece->text_bytes, borrow(piece->text)};
    if (piece->logprobs) {
        encode_logprobs(v1, piece->logprobs, piece->token_ids, piece->n, v1->scratch->messages,
                        v1->scratch->list);
        response.n_logprobs = piece->n;
        response.logprobs = v1->scratch->list;
    }
    return rpc_call_send(v1->door.rpc, &response.base);
}

static enum status progress(struct door_call *call, uint32_t n_done, uint32_t n)
{
    Kvferry__V1__GenerateResponse response = KVFERRY__V1__GENERATE_RESPONSE__INIT;
    Kvferry__V1__PromptProgress told = KVFERRY__V1__PROMPT_PROGRESS__INIT;
    assert(!call->is_whole && n_done <= n);
    told.prompt_tokens = n;
    told.done_tokens = n_done;
    response.prompt_progress = &told;
    return rpc_call_send(v1_of(call)->door.rpc, &response.base);
}

static enum status scores(struct door_call *call, const uint32_t *token_ids,
                          const struct prompt_scores *scores)
{
    struct v1_call *v1 = v1_of(call);
    Kvferry__V1__GenerateResponse response = KVFERRY__V1__GENERATE_RESPONSE__INIT;
    if (call->is_whole)
        return collected_scores_add(&v1->scores, token_ids, scores, v1->reply_bytes_max);
    assert(scores->n >= 1 && scores->n <= V1_LOGPROBS_ROOM);
    encode_scores(v1, scores->logprobs, token_ids, scores->n, v1->scratch->messages,
                  v1->scratch->list);
    response.n_prompt_logprobs = scores->n;
    response.prompt_logprobs = v1->scratch->list;
    return rpc_call_send(v1->door.rpc, &response.base);
}

/* The fields that both kinds have. */
#define SET_END(response, MESSAGE, end)                                                            \
    do {                                                                                           \
        (response)->index = (end)->index;                                                          \
        (response)->finish_reason = (end)->reason;                                                 \
        (response)->usage = &(end)->usage;                                                         \
        (response)->timing = (end)->has_timing ? &(end)->timing : NULL;                            \
        if ((end)->matched == MATCHED_STRING) {                                                    \
            (response)->matched_stop_case = KVFERRY__V1__##MESSAGE##__MATCHED_STOP_STOP_STRING;    \
            (response)->stop_string = (end)->stop_string;                                          \
        } else if ((end)->matched == MATCHED_TOKEN) {                                              \
            (response)->matched_stop_case = KVFERRY__V1__##MESSAGE##__MATCHED_STOP_STOP_TOKEN_ID;  \
            (response)->stop_token_id = (end)->stop_token_id;                                      \
        }                                                                                          \
        if ((end)->has_beam_score) {                                                               \
            (response)->beam_score_presence_case =                                                 \
                KVFERRY__V1__##MESSAGE##__BEAM_SCORE_PRESENCE_BEAM_SCORE;                          \
            (response)->beam_score = (end)->beam_score;                                            \
        }                                                                                          \
    } while (0)

static void send_last(struct v1_call *v1, struct reply_end *end)
{
    Kvferry__V1__GenerateResponse response = KVFERRY__V1__GENERATE_RESPONSE__INIT;
    response.text = (ProtobufCBinaryData){end->text_bytes, borrow(end->text)};
    SET_END(&response, GENERATE_RESPONSE, end);
    response.request_id = borrow(end->request_id);
    if (rpc_call_send(v1->door.rpc, &response.base) == STATUS_OK && end->is_last)
        rpc_call_finish(v1->door.rpc);
    /* Otherwise the call is over already, and its on_end says how. */
}

/* Memory for the messages of a whole reply. */
struct whole_reply {
    Kvferry__V1__CompleteResponse first;
    Kvferry__V1__CompleteChoice choices[CHOICES_MAX];
    Kvferry__V1__CompleteChoice *list[CHOICES_MAX];
    struct token_logprobs_message *messages; /* of the prompt and all choices */
    Kvferry__V1__TokenLogprobs **logprobs;
    uint32_t n_encoded; /* of the two before */
};

static uint32_t n_logprobs(const struct v1_call *v1)
{
    uint32_t n = v1->scores.n;
    for (uint32_t i = 0; i < v1->n_choices; i++)
        n += v1->choices[i].collected.logprobs ? v1->choices[i].collected.n : 0;
    return n;
}

/* The fields of the first choice, which are the response's, and of another one. */
#define SET_CHOICE(response, MESSAGE, choice, whole)                                               \
    do {                                                                                           \
        const struct collected *all = &(choice)->collected;                                        \
        (response)->n_token_ids = all->n;                                                          \
        (response)->token_ids = all->token_ids;                                                    \
        (response)->text = (ProtobufCBinaryData){all->text_bytes, borrow(all->text)};              \
        (response)->n_logprobs = all->logprobs ? all->n : 0;                                       \
        (response)->logprobs = add_logprobs(v1, whole, all);                                       \
        SET_END(response, MESSAGE, &(choice)->end);                                                \
    } while (0)

static Kvferry__V1__TokenLogprobs **
add_logprobs(const struct v1_call *v1, struct whole_reply *whole, const struct collected *all)
{
    uint32_t at = whole->n_encoded;
    if (!all->logprobs)
        return NULL;
    encode_logprobs(v1, all->logprobs, all->token_ids, all->n, whole->messages + at,
                    whole->logprobs + at);
    whole->n_encoded += all->n;
    return whole->logprobs + at;
}

static void add_scores(const struct v1_call *v1, struct whole_reply *whole)
{
    const uint32_t first = whole->n_encoded;
    for (uint32_t i = 0; i < v1->scores.n; i++) {
        struct token_logprobs score;
        const uint32_t id = collected_scores_get(&v1->scores, i, &score), at = first + i;
        encode_scores(v1, &score, &id, 1, whole->messages + at, whole->logprobs + at);
    }
    whole->n_encoded += v1->scores.n;
    whole->first.n_prompt_logprobs = v1->scores.n;
    whole->first.prompt_logprobs = whole->logprobs + first;
}

static void send_whole(struct v1_call *v1, struct whole_reply *whole)
{
    Kvferry__V1__CompleteResponse *first = &whole->first;
    kvferry__v1__complete_response__init(first);
    SET_CHOICE(first, COMPLETE_RESPONSE, &v1->choices[0], whole);
    first->request_id = borrow(v1->choices[0].end.request_id);
    if (v1->scores.n > 0)
        add_scores(v1, whole);
    for (uint32_t i = 1; i < v1->n_choices; i++) {
        Kvferry__V1__CompleteChoice *choice = &whole->choices[i];
        kvferry__v1__complete_choice__init(choice);
        SET_CHOICE(choice, COMPLETE_CHOICE, &v1->choices[i], whole);
        whole->list[i - 1] = choice;
    }
    first->n_more_choices = v1->n_choices - 1;
    first->more_choices = whole->list;
    rpc_call_reply(v1->door.rpc, &first->base);
}

static enum status reply_whole(struct v1_call *v1)
{
    uint32_t n = n_logprobs(v1);
    struct whole_reply *whole = calloc(1, sizeof *whole);
    if (!whole)
        return STATUS_NO_MEMORY;
    if (n > 0) {
        whole->messages = calloc(n, sizeof *whole->messages);
        whole->logprobs = calloc(n, sizeof(Kvferry__V1__TokenLogprobs *));
    }
    bool has_room = n == 0 || (whole->messages && whole->logprobs);
    if (has_room)
        send_whole(v1, whole);
    free(whole->messages);
    free(whole->logprobs);
    free(whole);
    return has_room ? STATUS_OK : STATUS_NO_MEMORY;
}

static void fail(struct door_call *call, const struct rpc_error *error)
{
    struct v1_call *v1 = v1_of(call);
    if (error->status == STATUS_REPLY_TOO_LONG && v1->choices)
        rpc_call_fail_status(v1->door.rpc, STATUS_REPLY_TOO_LONG,
                             "the reply is longer than %zu bytes; Generate has no such limit",
                             v1->reply_bytes_max);
    else
        rpc_call_fail(v1->door.rpc, error);
}

static enum status end(struct door_call *call, struct reply_end *end)
{
    struct v1_call *v1 = v1_of(call);
    struct rpc_error error = {0};
    if (!call->is_whole) {
        send_last(v1, end);
        return STATUS_OK;
    }
    struct v1_choice *choice = &v1->choices[end->index];
    choice->end = *end; /* what it borrows lives until the last choice has ended */
    enum status status = collected_add_text(&choice->collected, end->text, end->text_bytes,
                                            text_room(v1, end->index));
    if (status == STATUS_OK && end->is_last)
        status = reply_whole(v1);
    if (status == STATUS_OK)
        return STATUS_OK;
    rpc_error_set(&error, status, NULL, NULL, "%s", status_text(status));
    fail(call, &error);
    return status;
}

static const struct door_ops OPS = {
    RPC_DOOR_OPS, .piece = piece, .progress = progress, .scores = scores, .end = end, .fail = fail,
};

struct v1_call *v1_call_create(struct rpc_call *rpc, bool is_whole, uint32_t n_choices,
                               struct v1_scratch *scratch, size_t reply_bytes_max)
{
    struct v1_call *v1 = calloc(1, sizeof *v1);
    if (!v1)
        return NULL;
    if (n_choices > 0) {
        v1->choices = calloc(n_choices, sizeof *v1->choices);
        v1->n_choices = n_choices;
    }
    if (n_choices > 0 && !v1->choices) {
        free(v1);
        return NULL;
    }
    rpc_door_call_init(&v1->door, &OPS, rpc, is_whole, destroy);
    v1->scratch = scratch;
    v1->reply_bytes_max = reply_bytes_max;
    return v1;
}
