#include "gguf/gguf_encoder.h"

#include <inttypes.h>
#include <stdio.h>

#define NUMBER_MAX (1u << 24)

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct {
    const char *key, *word;
    uint64_t least;
    bool is_required;
} NUMBERS[] = {
    {"embedding_length", "d_model", 1, true},
    {"block_count", "num_layers", 1, true},
    {"decoder_block_count", "num_decoder_layers", 1, false},
    {"feed_forward_length", "d_ff", 1, true},
    {"attention.head_count", "num_heads", 1, true},
    {"attention.key_length", "d_kv", 1, true},
    {"attention.relative_buckets_count", "relative_attention_num_buckets", 1, true},
    {"decoder_start_token_id", "decoder_start_token_id", 0, true},
};

static enum status add_numbers(const struct gguf_file *file, const char *name, json_t *config,
                               struct error *error)
{
    char key[96];
    for (size_t i = 0; i < COUNT(NUMBERS); i++) {
        uint64_t number = 0;
        snprintf(key, sizeof key, "%s.%s", name, NUMBERS[i].key);
        if (NUMBERS[i].is_required)
            TRY(gguf_require(file, key, error));
        if (!gguf_find(file, key))
            continue;
        TRY(gguf_u64(file, key, NUMBERS[i].least, NUMBER_MAX, &number, error));
        json_object_set_new(config, NUMBERS[i].word, json_integer((json_int_t)number));
    }
    return STATUS_OK;
}

static enum status add_epsilon(const struct gguf_file *file, const char *name, json_t *config,
                               struct error *error)
{
    char key[96];
    double epsilon = 0;
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", name);
    TRY(gguf_require(file, key, error));
    TRY(gguf_real(file, key, &epsilon, error));
    json_object_set_new(config, "layer_norm_epsilon", json_real(epsilon));
    return STATUS_OK;
}

/* Each head has K and V, and both have one size. */
static enum status check_heads(const struct gguf_file *file, const char *name, const json_t *config,
                               struct error *error)
{
    static const struct {
        const char *key, *as, *word;
    } EQUAL[] = {
        {"attention.head_count_kv", "attention.head_count", "num_heads"},
        {"attention.value_length", "attention.key_length", "d_kv"},
    };
    char key[96];
    for (size_t i = 0; i < COUNT(EQUAL); i++) {
        const json_int_t wanted = json_integer_value(json_object_get(config, EQUAL[i].word));
        uint64_t found = (uint64_t)wanted;
        snprintf(key, sizeof key, "%s.%s", name, EQUAL[i].key);
        TRY(gguf_u64(file, key, 1, NUMBER_MAX, &found, error));
        if (found != (uint64_t)wanted)
            return error_set(error, STATUS_UNSUPPORTED,
                             "key %s is %" PRIu64 ", only %s.%s, which is %" JSON_INTEGER_FORMAT
                             ", is supported",
                             key, found, name, EQUAL[i].as, wanted);
    }
    return STATUS_OK;
}

enum status gguf_encoder_add(const struct gguf_file *file,
                             const struct gguf_architecture *architecture, json_t *config,
                             struct error *error)
{
    const bool has_gate = gguf_find_tensor(file, "enc.blk.0.ffn_gate.weight");
    const bool has_head = gguf_find_tensor(file, "output.weight");
    TRY(add_numbers(file, architecture->name, config, error));
    TRY(add_epsilon(file, architecture->name, config, error));
    TRY(check_heads(file, architecture->name, config, error));
    json_object_set_new(config, "is_encoder_decoder", json_true());
    json_object_set_new(config, "feed_forward_proj", json_string(has_gate ? "gated-gelu" : "relu"));
    json_object_set_new(config, "tie_word_embeddings", json_boolean(!has_gate || !has_head));
    return STATUS_OK;
}
