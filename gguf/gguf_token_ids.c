#include "gguf/gguf_token_ids.h"

#include "tokenizer/files/piece_model.h"

#include <inttypes.h>
#include <math.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { ENDS_MAX = 256, SUPPRESSED_MAX = 256 }; /* as model_config.h has them */

/* Tokens that end a text besides the one of the key, whatever the file says: those of the chat formats. */
static const char *const ENDS[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>",         "<end_of_turn>", "<|endoftext|>",
    "<|eom_id|>", "<EOT>",      "<|end_of_text|>", "<turn|>",       "<eos>",
};
/* Behind it comes what a tool says; files call it a token of a user, which is shown. */
static const char END_FOR_TOOL[] = "<|tool_response>";

static void add_id(json_t *list, uint64_t id)
{
    size_t i;
    json_t *known;
    json_array_foreach(list, i, known) if ((uint64_t)json_integer_value(known) == id) return;
    json_array_append_new(list, json_integer((json_int_t)id));
}

/* What the model never gives. */
static enum status add_suppressed(const struct gguf_file *file, uint64_t n_tokens, json_t *config,
                                  struct error *error)
{
    static const char KEY[] = "tokenizer.ggml.suppress_tokens";
    const struct gguf_key *ids;
    TRY(gguf_array(file, KEY, &ids, error));
    if (!ids || ids->n == 0)
        return STATUS_OK;
    if (gguf_kind_bytes(ids->kind) == 0 || ids->n > SUPPRESSED_MAX)
        return error_set(error, STATUS_UNSUPPORTED,
                         "key %s has %" PRIu64 " values, supported are up to %d token ids", KEY,
                         ids->n, SUPPRESSED_MAX);
    json_t *list = json_array();
    json_object_set_new(config, "suppress_tokens", list);
    for (uint64_t i = 0; i < ids->n; i++) {
        const double id = gguf_number_at(ids, i);
        if (!(id >= 0 && id < (double)n_tokens) || id != floor(id))
            return error_set(error, STATUS_CORRUPT,
                             "key %s is %.15g at %" PRIu64 ", no id of the %" PRIu64 " tokens", KEY,
                             id, i, n_tokens);
        add_id(list, (uint64_t)id);
    }
    return STATUS_OK;
}

enum status gguf_token_ids_add(const struct gguf_file *file, json_t *config, struct error *error)
{
    static const char *const KEYS[] = {"tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id"};
    const struct gguf_key *tokens, *types;
    TRY(gguf_array(file, "tokenizer.ggml.tokens", &tokens, error));
    TRY(gguf_array(file, "tokenizer.ggml.token_type", &types, error));
    if (!tokens || tokens->kind != GGUF_TEXT)
        return error_set(error, STATUS_CORRUPT,
                         "key tokenizer.ggml.tokens is missing, or no array of texts");
    if (types && (types->kind == GGUF_TEXT || types->n != tokens->n))
        return error_set(error, STATUS_CORRUPT,
                         "key tokenizer.ggml.token_type has not a number for each of %" PRIu64
                         " tokens",
                         tokens->n);
    json_t *ends = json_array();
    json_object_set_new(config, "eos_token_id", ends);
    json_object_set_new(config, "vocab_size", json_integer((json_int_t)tokens->n));
    for (size_t i = 0; i < COUNT(KEYS); i++) {
        uint64_t id = UINT64_MAX;
        TRY(gguf_u64(file, KEYS[i], 0, tokens->n - (tokens->n > 0), &id, error));
        if (id != UINT64_MAX)
            add_id(ends, id);
    }
    const uint8_t *at = tokens->at;
    for (uint64_t i = 0; i < tokens->n; i++) {
        const struct gguf_text token = gguf_next_text(&at);
        const double type = types ? gguf_number_at(types, i) : 0;
        const bool is_control = type == PIECE_CONTROL;
        if ((is_control || type == PIECE_OF_USER) && gguf_text_is(token, END_FOR_TOOL))
            add_id(ends, i);
        for (size_t e = 0; is_control && e < COUNT(ENDS); e++)
            if (gguf_text_is(token, ENDS[e]))
                add_id(ends, i);
        if (json_array_size(ends) > ENDS_MAX)
            return error_set(error, STATUS_CORRUPT,
                             "key tokenizer.ggml.tokens has more than %d tokens that end a text, "
                             "%" PRIu64 " is one more",
                             ENDS_MAX, i);
    }
    return add_suppressed(file, tokens->n, config, error);
}
