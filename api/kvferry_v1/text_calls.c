#include "api/kvferry_v1/text_calls.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What a token may come to: each byte of it a U+FFFD. */
#define TEXT_BYTES_PER_ID ((size_t)3 * TOKEN_BYTES_MAX)
/* Of a reply, beside its ids: the field's key and its length. */
#define REPLY_HEAD_BYTES 16

/* A call on its way through the text thread. */
struct text_work {
    struct text_calls *calls;
    struct v1_call *call;
    bool special; /* the request's own: special tokens are added, or left out */
    size_t n_bytes;
    uint32_t items[]; /* [n_bytes] of text, or ids */
};

static void work_destroy(struct text_work *work)
{
    work->call->door.base.ops->release(&work->call->door.base);
    free(work);
}

static enum status push(struct text_calls *calls, text_job job, struct v1_call *call,
                        const ProtobufCBinaryData *items, bool special, struct rpc_error *error)
{
    struct error why = {0};
    struct text_work *work = malloc(sizeof *work + items->len);
    if (!work)
        return STATUS_NO_MEMORY;
    call->door.base.ops->share(&call->door.base);
    *work = (struct text_work){calls, call, special, items->len};
    memcpy(work->items, items->data, items->len);
    enum status status = text_thread_push(calls->intake->text_thread, job, work, items->len, &why);
    if (status == STATUS_OK)
        return STATUS_OK;
    work_destroy(work);
    rpc_error_set(error, status, NULL, NULL, "%s", why.text);
    return status;
}

/* Runs when its turn comes. A call that is over is ended. */
static bool is_wanted(struct text_work *work)
{
    struct rpc_error error = {0};
    if (!door_call_is_over(&work->call->door.base))
        return true;
    intake_fail(work->calls->intake, &work->call->door.base,
                door_call_end_status(&work->call->door.base), &error);
    return false;
}

/* ---- Tokenize ---- */

/* A text as it is encoded. */
struct tokenizing {
    struct v1_call *call;
    struct token_buffer buffer;
    size_t ids_max; /* of the reply */
};

static size_t varint_bytes(uint32_t value)
{
    size_t n = 1;
    for (; value >= 0x80; value >>= 7)
        n++;
    return n;
}

/* How many ids of any kind a reply holds. */
static size_t reply_ids_max(const struct text_calls *calls)
{
    uint32_t n_ids = tokenizer_n_ids(calls->intake->tokenizer);
    assert(n_ids > 0 && calls->intake->text_bytes_max > REPLY_HEAD_BYTES);
    return (calls->intake->text_bytes_max - REPLY_HEAD_BYTES) / varint_bytes(n_ids - 1);
}

static bool is_enough(void *arg)
{
    const struct tokenizing *tokenizing = arg;
    return tokenizing->buffer.n_ids > tokenizing->ids_max ||
           door_call_is_over(&tokenizing->call->door.base);
}

/* A token has a byte or more and the template adds a few; but a normalizer may lengthen the text, and then
 * the first try tells how many there are. The ids are the caller's to free, after a failure too. */
static enum status encode(const struct tokenizer *tokenizer, const struct encode_input *input,
                          struct tokenizing *tokenizing, struct error *reason)
{
    struct token_buffer *buffer = &tokenizing->buffer;
    enum status status = STATUS_PROMPT_TOO_LONG;
    size_t room = input->text_bytes + 64;
    for (int i = 0; i < 2 && status == STATUS_PROMPT_TOO_LONG; i++) {
        if (room > tokenizing->ids_max)
            room = tokenizing->ids_max;
        free(buffer->ids);
        *buffer = (struct token_buffer){.ids = malloc(room * sizeof *buffer->ids), .ids_max = room};
        if (!buffer->ids)
            return STATUS_NO_MEMORY;
        status = tokenizer_encode(tokenizer, input, buffer, reason);
        if (buffer->n_ids > tokenizing->ids_max)
            return error_set(reason, STATUS_REPLY_TOO_LONG,
                             "text makes more than the %zu tokens that a reply holds "
                             "(message_bytes_max): send it in parts",
                             tokenizing->ids_max);
        room = buffer->n_ids;
    }
    return status == STATUS_CANCELLED ? door_call_end_status(&tokenizing->call->door.base) : status;
}

static void answer_tokenize(struct text_calls *calls, struct v1_call *call, const char *text,
                            size_t bytes, bool add_special)
{
    struct tokenizing tokenizing = {.call = call, .ids_max = reply_ids_max(calls)};
    struct encode_input input = {.text = text,
                                 .text_bytes = bytes,
                                 .add_special = add_special,
                                 .parse_special = true,
                                 .is_unwanted = is_enough,
                                 .arg = &tokenizing};
    struct error reason = {0};
    enum status status = encode(calls->intake->tokenizer, &input, &tokenizing, &reason);
    if (status == STATUS_OK) {
        Kvferry__V1__TokenizeResponse response = KVFERRY__V1__TOKENIZE_RESPONSE__INIT;
        response.n_token_ids = tokenizing.buffer.n_ids;
        response.token_ids = tokenizing.buffer.ids;
        rpc_call_reply(call->door.rpc, &response.base);
    } else {
        struct rpc_error error = {0};
        rpc_error_set(&error, status, "text", NULL, "%s",
                      reason.text[0] ? reason.text : status_text(status));
        intake_fail(calls->intake, &call->door.base, status, &error);
    }
    free(tokenizing.buffer.ids);
}

static void tokenize_later(void *arg)
{
    struct text_work *work = arg;
    if (is_wanted(work))
        answer_tokenize(work->calls, work->call, (const char *)work->items, work->n_bytes,
                        work->special);
    work_destroy(work);
}

void text_calls_tokenize(struct text_calls *calls, struct v1_call *call,
                         const ProtobufCMessage *message)
{
    const Kvferry__V1__TokenizeRequest *request = (const Kvferry__V1__TokenizeRequest *)message;
    const ProtobufCBinaryData *text = &request->text;
    struct rpc_error error = {0};
    if (text->len <= calls->intake->text_inline_bytes) {
        answer_tokenize(calls, call, (const char *)text->data, text->len,
                        request->add_special_tokens);
        return;
    }
    enum status status = push(calls, tokenize_later, call, text, request->add_special_tokens,
                              &error);
    if (status != STATUS_OK)
        intake_fail(calls->intake, &call->door.base, status, &error);
}

/* ---- Detokenize ---- */

static enum status refuse_text(size_t n_bytes, size_t n_max, struct rpc_error *error)
{
    rpc_error_set(error, STATUS_INVALID_ARGUMENT, "token_ids", NULL,
                  "token_ids make a text of %zu bytes; at most %zu are given (reply_bytes_max)",
                  n_bytes, n_max);
    return STATUS_INVALID_ARGUMENT;
}

/* The text is the caller's to free, after a failure too. */
static enum status decode(const struct text_calls *calls, const struct decode_input *input,
                          struct text_buffer *text_out, struct rpc_error *error)
{
    struct error reason = {0};
    size_t n_max = calls->reply_bytes_max;
    if (input->n_ids < n_max / TEXT_BYTES_PER_ID)
        n_max = input->n_ids * TEXT_BYTES_PER_ID;
    *text_out = (struct text_buffer){.bytes = malloc(n_max + 1), .bytes_max = n_max};
    enum status status = text_out->bytes
                             ? tokenizer_decode(calls->intake->tokenizer, input, text_out, &reason)
                             : STATUS_NO_MEMORY;
    if (status == STATUS_PROMPT_TOO_LONG)
        return refuse_text(text_out->n_bytes, n_max, error);
    if (status != STATUS_OK)
        rpc_error_set(error, status, "token_ids", NULL, "token_ids: %s",
                      reason.text[0] ? reason.text : status_text(status));
    return status;
}

static void answer_detokenize(struct text_calls *calls, struct v1_call *call, const uint32_t *ids,
                              size_t n_ids, bool skip_special)
{
    const struct decode_input input = {.ids = ids, .n_ids = n_ids, .skip_special = skip_special};
    Kvferry__V1__DetokenizeResponse response = KVFERRY__V1__DETOKENIZE_RESPONSE__INIT;
    struct rpc_error error = {0};
    struct text_buffer text = {0};
    enum status status = decode(calls, &input, &text, &error);
    response.text = (ProtobufCBinaryData){text.n_bytes, (uint8_t *)text.bytes};
    if (status == STATUS_OK)
        rpc_call_reply(call->door.rpc, &response.base);
    else
        intake_fail(calls->intake, &call->door.base, status, &error);
    free(text.bytes);
}

static void detokenize_later(void *arg)
{
    struct text_work *work = arg;
    if (is_wanted(work))
        answer_detokenize(work->calls, work->call, work->items, work->n_bytes / sizeof *work->items,
                          work->special);
    work_destroy(work);
}

void text_calls_detokenize(struct text_calls *calls, struct v1_call *call,
                           const ProtobufCMessage *message)
{
    const Kvferry__V1__DetokenizeRequest *request = (const Kvferry__V1__DetokenizeRequest *)message;
    const ProtobufCBinaryData ids = {request->n_token_ids * sizeof *request->token_ids,
                                     (uint8_t *)request->token_ids};
    struct rpc_error error = {0};
    if (ids.len <= calls->intake->text_inline_bytes) {
        answer_detokenize(calls, call, request->token_ids, request->n_token_ids,
                          request->skip_special_tokens);
        return;
    }
    enum status status = push(calls, detokenize_later, call, &ids, request->skip_special_tokens,
                              &error);
    if (status != STATUS_OK)
        intake_fail(calls->intake, &call->door.base, status, &error);
}
