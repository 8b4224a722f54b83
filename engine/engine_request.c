#include "engine/engine_request.h"

#include "base/hash.h"
#include "engine/encoder_line.h"
#include "kvcache/prefix_hash.h"
#include "text/constraint/constraint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_DIGITS 16

/* ---- checks ---- */

enum status engine_request_check_text(const struct engine_request_input *input, struct error *error)
{
    const char *id = input->request_id;
    size_t id_bytes = id ? strnlen(id, ENGINE_REQUEST_ID_MAX + 1) : 0;
    if (id_bytes == 0 || id_bytes > ENGINE_REQUEST_ID_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "request_id has %zu bytes, wanted 1 to %u",
                         id_bytes, ENGINE_REQUEST_ID_MAX);
    if (input->salt_bytes > ENGINE_SALT_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "cache_salt has %zu bytes, at most %u",
                         input->salt_bytes, ENGINE_SALT_MAX);
    return standing_check(&input->standing, error);
}

enum status engine_request_check_tokens(const struct engine_request_input *input,
                                        uint32_t vocabulary, struct error *error)
{
    if (input->n_tokens == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "token_ids is empty");
    for (uint32_t i = 0; i < input->n_tokens; i++)
        if (input->token_ids[i] >= vocabulary)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "token_ids[%u] is %u, the vocabulary has %u", i, input->token_ids[i],
                             vocabulary);
    return STATUS_OK;
}

enum status engine_request_check_line(const struct engine_request_input *input, struct error *error)
{
    const struct encoder_line *line = input->line;
    if (!line || line->text_max == 0)
        return STATUS_OK;
    if (input->sampling->scores_prompt)
        return error_set(error, STATUS_UNSUPPORTED,
                         "log-probabilities of the prompt: the model's encoder reads it, and "
                         "predicts none of its tokens");
    if (input->n_tokens > line->text_max)
        return error_set(error, STATUS_PROMPT_TOO_LONG,
                         "%u prompt tokens, a text of the encoder holds %u", input->n_tokens,
                         line->text_max);
    if (input->sampling->max_tokens > line->reply_max)
        return error_set(error, STATUS_PROMPT_TOO_LONG, "max_tokens is %u, a reply holds %u",
                         input->sampling->max_tokens, line->reply_max);
    return STATUS_OK;
}

/* ---- making ---- */

enum status engine_request_create(size_t bytes, const struct engine_request_input *input,
                                  void *stream, struct error *error,
                                  struct engine_request **request_out)
{
    assert(bytes >= sizeof **request_out && bytes % _Alignof(uint32_t) == 0);
    assert(input->n_tokens > 0 && input->salt_bytes <= ENGINE_SALT_MAX);
    static const struct encoder_line NONE = {0};
    const struct encoder_line *line = input->line ? input->line : &NONE;
    const uint32_t n_tokens = encoder_line_tokens(line, input->n_tokens);
    size_t token_bytes = n_tokens * sizeof input->token_ids[0];
    char *memory = calloc(1, bytes + token_bytes);
    if (!memory)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a prompt of %u tokens",
                         input->n_tokens);

    struct engine_request *request = (struct engine_request *)memory;
    request->sampling = *input->sampling;
    if (input->sampling->rules) {
        request->rules = token_rules_copy(input->sampling->rules);
        request->sampling.rules = request->rules;
    }
    if (input->sampling->rules && !request->rules) {
        free(memory);
        return error_set(error, STATUS_NO_MEMORY, "no memory for the rules of a request");
    }
    request->stream = stream;
    strncpy(request->request_id, input->request_id, ENGINE_REQUEST_ID_MAX);
    request->id_hash = engine_request_id_hash(request->request_id);
    request->request_number = engine_request_number(request->request_id);
    request->standing = input->standing;
    if (request->standing.weight == 0)
        request->standing.weight = 1;
    request->salt_bytes = input->salt_bytes;
    if (input->salt_bytes > 0)
        memcpy(request->salt, input->salt, input->salt_bytes);
    if (input->adapter && input->adapter->adapter) {
        request->adapter = *input->adapter;
        request->adapter.share(request->adapter.adapter);
    }
    request->deadline_ns = input->deadline_ns;
    request->n_tokens = n_tokens;
    request->n_text = line->text_max > 0 ? input->n_tokens : 0;
    request->reply_at = encoder_line_reply_at(line, input->n_tokens);
    request->token_ids = (uint32_t *)(memory + bytes);
    encoder_line_write(line, input->token_ids, input->n_tokens, request->token_ids);
    *request_out = request;
    return STATUS_OK;
}

/* ---- what prefixes are told apart by ---- */

/* No salt of a client begins with a NUL, so none is what an adapter's is. */
struct mixed_salt {
    uint8_t bytes[1 + 2 * sizeof(uint64_t) + ENGINE_SALT_MAX];
    size_t n_bytes;
};

static struct mixed_salt mix(const struct engine_request *request)
{
    struct mixed_salt salt = {.n_bytes = 0};
    if (request->adapter.adapter) {
        memcpy(salt.bytes + 1, request->adapter.id.digest, sizeof request->adapter.id.digest);
        salt.n_bytes = 1 + sizeof request->adapter.id.digest;
    }
    memcpy(salt.bytes + salt.n_bytes, request->salt, request->salt_bytes);
    salt.n_bytes += request->salt_bytes;
    return salt;
}

void engine_request_hash(const struct engine_request *request, const struct prefix_key *key,
                         const uint32_t *token_ids, uint32_t n_tokens, uint32_t block_tokens,
                         struct prefix_hash *hashes_out)
{
    const uint32_t n_spans = request->reply_at / block_tokens;
    const struct mixed_salt salt = mix(request);
    struct prefix_hash text;
    if (n_tokens < request->reply_at || n_spans == 0) {
        prefix_hash_blocks(key, salt.bytes, salt.n_bytes, token_ids, n_tokens, block_tokens,
                           hashes_out);
        return;
    }
    /* The last hash of the text alone, which has its length, begins those that are kept. */
    prefix_hash_blocks(key, salt.bytes, salt.n_bytes, token_ids, request->reply_at, block_tokens,
                       hashes_out);
    text = hashes_out[n_spans - 1];
    text.lo ^= request->n_text;
    prefix_hash_blocks(key, &text, sizeof text, token_ids, n_tokens, block_tokens, hashes_out);
}

uint32_t engine_request_usable(const struct engine_request *request, uint32_t n_spans,
                               uint32_t block_tokens)
{
    return n_spans * block_tokens < request->reply_at ? 0 : n_spans;
}

bool engine_request_is_common(const struct engine_request *request)
{
    return request->salt_bytes == 0 && request->n_text == 0 && !request->adapter.adapter;
}

uint32_t engine_request_sent(const struct engine_request *request, uint32_t n_tokens)
{
    return request->n_text > 0 && n_tokens > request->n_text ? request->n_text : n_tokens;
}

bool engine_request_needs_desk(const struct engine_request *request)
{
    assert(!request->needs_tokenizer || request->rules);
    return (request->needs_tokenizer && !request->tokenizer) ||
           (request->rules && request->rules->constraint.kind != REPLY_FREE &&
            !request->constraint);
}

void engine_request_destroy(struct engine_request *request)
{
    if (!request)
        return;
    if (request->finish)
        request->finish(request);
    constraint_destroy(request->constraint);
    if (request->adapter.adapter)
        request->adapter.release(request->adapter.adapter);
    free(request->rules);
    free(request);
}

/* ---- numbers ---- */

static uint64_t hashed(const char *text)
{
    static const struct hash_key NO_SECRET = {{0}};
    return hash128_of(&NO_SECRET, text, strlen(text)).lo;
}

uint64_t engine_request_id_hash(const char *request_id)
{
    return hashed(request_id);
}

bool engine_request_is_named(const struct engine_request *request, const char *request_id,
                             uint64_t id_hash)
{
    return request->id_hash == id_hash && strcmp(request->request_id, request_id) == 0;
}

uint64_t engine_request_number(const char *request_id)
{
    char digits[NUMBER_DIGITS + 1] = "";
    strncpy(digits, request_id, NUMBER_DIGITS);
    bool is_drawn = strspn(digits, "0123456789abcdef") == NUMBER_DIGITS;
    uint64_t number = is_drawn ? strtoull(digits, NULL, 16) : hashed(request_id);
    return number ? number : 1;
}
