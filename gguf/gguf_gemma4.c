#include "gguf/gguf_gemma4.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_MAX (1u << 24)
#define LAYERS_MAX 512u /* as model_config.h has it */
#define KEY(rest)  "gemma4." rest

static const char PATTERN[] = KEY("attention.sliding_window_pattern");
static const char KV_HEADS[] = KEY("attention.head_count_kv");
static const char FFN[] = KEY("feed_forward_length");
static const char SHARED[] = KEY("attention.shared_kv_layers");
static const char FREQUENCIES[] = "rope_freqs.weight";

struct layers {
    const struct gguf_file *file;
    const struct gguf_key *pattern;
    uint64_t n, n_sharing;
    json_t *config;
    struct error *error;
};

static void set_number(const struct layers *layers, const char *word, uint64_t number)
{
    json_object_set_new(layers->config, word, json_integer((json_int_t)number));
}

static enum status require(const struct layers *layers, const char *key, uint64_t min,
                           uint64_t *number_out)
{
    TRY(gguf_require(layers->file, key, layers->error));
    return gguf_u64(layers->file, key, min, NUMBER_MAX, number_out, layers->error);
}

static bool sees_all(const struct layers *layers, uint64_t layer)
{
    return gguf_number_at(layers->pattern, layer) == 0;
}

/* A key with one number for all layers, or one for each. */
static enum status of_layer(const struct layers *layers, const char *name, uint64_t layer,
                            uint64_t *number_out)
{
    const struct gguf_key *key = gguf_find(layers->file, name);
    if (!key || !key->is_array)
        return require(layers, name, 1, number_out);
    if (gguf_kind_bytes(key->kind) == 0 || key->n != layers->n)
        return error_set(layers->error, STATUS_CORRUPT,
                         "key %s has %" PRIu64 " values, expected a number for each of %" PRIu64
                         " layers",
                         name, key->n, layers->n);
    const double number = gguf_number_at(key, layer);
    if (!(number >= 1 && number <= NUMBER_MAX) || number != floor(number))
        return error_set(layers->error, STATUS_CORRUPT,
                         "key %s is %.15g for layer %" PRIu64 ", expected a whole number 1 .. %u",
                         name, number, layer, NUMBER_MAX);
    *number_out = (uint64_t)number;
    return STATUS_OK;
}

/* ---- what nothing here computes ---- */

static enum status refuse_rest(const struct layers *layers)
{
    static const struct {
        const char *key;
        uint64_t most;
    } NEUTRAL[] = {{KEY("nextn_predict_layers"), 0}, {KEY("expert_group_count"), 1}};
    static const char SCALING[] = KEY("rope.scaling.type"), FACTOR[] = KEY("rope.scaling.factor");
    double factor = 1;
    struct gguf_text type = {"none", 4};
    for (size_t i = 0; i < sizeof NEUTRAL / sizeof *NEUTRAL; i++) {
        uint64_t number = 0;
        TRY(gguf_u64(layers->file, NEUTRAL[i].key, 0, NUMBER_MAX, &number, layers->error));
        if (number > NEUTRAL[i].most)
            return error_set(layers->error, STATUS_UNSUPPORTED,
                             "key %s is %" PRIu64 ", supported is up to %" PRIu64, NEUTRAL[i].key,
                             number, NEUTRAL[i].most);
    }
    TRY(gguf_text(layers->file, SCALING, &type, layers->error));
    if (!gguf_text_is(type, "none"))
        return error_set(layers->error, STATUS_UNSUPPORTED,
                         "key %s is \"%.*s\", supported for gemma4 is none", SCALING,
                         (int)(type.n < 60 ? type.n : 60), type.bytes);
    TRY(gguf_real(layers->file, FACTOR, &factor, layers->error));
    if (factor != 1 && factor != 0)
        return error_set(layers->error, STATUS_UNSUPPORTED,
                         "key %s is %g, supported for gemma4 is 1", FACTOR, factor);
    return STATUS_OK;
}

/* ---- windows and heads ---- */

static enum status add_windows(struct layers *layers)
{
    uint64_t window = 0;
    TRY(gguf_require(layers->file, PATTERN, layers->error));
    TRY(gguf_array(layers->file, PATTERN, &layers->pattern, layers->error));
    if (gguf_kind_bytes(layers->pattern->kind) == 0 || layers->pattern->n != layers->n)
        return error_set(layers->error, STATUS_CORRUPT,
                         "key %s has %" PRIu64
                         " values, expected true or false for each of %" PRIu64 " layers",
                         PATTERN, layers->pattern->n, layers->n);
    if (!sees_all(layers, layers->n - 1))
        return error_set(layers->error, STATUS_UNSUPPORTED,
                         "key %s gives a window to layer %" PRIu64
                         ", the last one, which is supported only if it sees all tokens",
                         PATTERN, layers->n - 1);
    TRY(require(layers, KEY("attention.sliding_window"), 1, &window));
    set_number(layers, "sliding_window", window);
    json_t *types = json_array();
    json_object_set_new(layers->config, "layer_types", types);
    for (uint64_t layer = 0; layer < layers->n; layer++)
        json_array_append_new(
            types, json_string(sees_all(layers, layer) ? "full_attention" : "sliding_attention"));
    return STATUS_OK;
}

/* The length of heads: of V, and the rotated part, too. */
static enum status read_head(const struct layers *layers, const char *suffix, uint64_t *dim_out)
{
    static const char *const SAME[] = {"attention.value_length", "rope.dimension_count"};
    char key[96];
    snprintf(key, sizeof key, KEY("attention.key_length%s"), suffix);
    TRY(require(layers, key, 1, dim_out));
    for (size_t i = 0; i < sizeof SAME / sizeof *SAME; i++) {
        uint64_t number = *dim_out;
        snprintf(key, sizeof key, KEY("%s%s"), SAME[i], suffix);
        TRY(gguf_u64(layers->file, key, 1, NUMBER_MAX, &number, layers->error));
        if (number != *dim_out)
            return error_set(layers->error, STATUS_UNSUPPORTED,
                             "key %s is %" PRIu64 ", but gemma4.attention.key_length%s is %" PRIu64
                             ": only the same is supported",
                             key, number, suffix, *dim_out);
    }
    return STATUS_OK;
}

/* Layers of a kind have the same number of heads. */
static enum status read_kv_heads(const struct layers *layers, bool of_all, uint64_t *n_out)
{
    uint64_t n = 0, number = 0;
    for (uint64_t layer = 0; layer < layers->n; layer++) {
        if (sees_all(layers, layer) != of_all)
            continue;
        TRY(of_layer(layers, KV_HEADS, layer, &number));
        if (n != 0 && number != n)
            return error_set(layers->error, STATUS_UNSUPPORTED,
                             "key %s is %" PRIu64 " for layer %" PRIu64 ", but %" PRIu64
                             " for those before it that %s",
                             KV_HEADS, number, layer, n,
                             of_all ? "see all tokens" : "have a window");
        n = number;
    }
    *n_out = n;
    return STATUS_OK;
}

/* Each layer that sees all tokens says its heads: so their number may differ whatever V is. */
static enum status add_heads(const struct layers *layers)
{
    uint64_t wide = 0, narrow = 0, n_wide = 0, n_narrow = 0;
    char layer_name[24];
    TRY(read_head(layers, "", &wide));
    TRY(read_head(layers, "_swa", &narrow));
    TRY(read_kv_heads(layers, true, &n_wide));
    TRY(read_kv_heads(layers, false, &n_narrow));
    json_t *overrides = json_object();
    json_object_set_new(layers->config, "per_layer_config", overrides);
    set_number(layers, "head_dim", narrow);
    set_number(layers, "num_key_value_heads", n_narrow > 0 ? n_narrow : n_wide);
    for (uint64_t layer = 0; layer < layers->n; layer++) {
        snprintf(layer_name, sizeof layer_name, "%" PRIu64, layer);
        if (sees_all(layers, layer))
            json_object_set_new(overrides, layer_name,
                                json_pack("{s:I, s:I}", "head_dim", (json_int_t)wide,
                                          "num_key_value_heads", (json_int_t)n_wide));
    }
    return STATUS_OK;
}

/* ---- what layers share ---- */

/* Where V is K, files have no V. */
static enum status add_sharing(struct layers *layers)
{
    char name[64];
    uint64_t n_with_v = 0, n_without = 0;
    TRY(gguf_u64(layers->file, SHARED, 0, layers->n, &layers->n_sharing, layers->error));
    set_number(layers, "num_kv_shared_layers", layers->n_sharing);
    for (uint64_t layer = 0; layer < layers->n - layers->n_sharing; layer++)
        if (sees_all(layers, layer)) {
            snprintf(name, sizeof name, "blk.%" PRIu64 ".attn_v.weight", layer);
            const bool has_v = gguf_find_tensor(layers->file, name);
            n_with_v += has_v;
            n_without += !has_v;
            if (n_with_v > 0 && n_without > 0)
                return error_set(layers->error, STATUS_UNSUPPORTED,
                                 "tensor %s is %s, but layers before it that see all tokens %s one",
                                 name, has_v ? "there" : "missing", has_v ? "have not" : "have");
        }
    json_object_set_new(layers->config, "attention_k_eq_v", json_boolean(n_without > 0));
    return STATUS_OK;
}

/* Layers that read K and V of others may have an MLP twice as wide. */
static enum status add_inner(const struct layers *layers)
{
    const uint64_t n_own = layers->n - layers->n_sharing;
    uint64_t first = 0, last = 0, number = 0;
    TRY(of_layer(layers, FFN, 0, &first));
    TRY(of_layer(layers, FFN, layers->n - 1, &last));
    const bool is_double = n_own > 0 && n_own < layers->n && last == 2 * first;
    for (uint64_t layer = 0; layer < layers->n; layer++) {
        const uint64_t wanted = is_double && layer >= n_own ? last : first;
        TRY(of_layer(layers, FFN, layer, &number));
        if (number != wanted)
            return error_set(layers->error, STATUS_UNSUPPORTED,
                             "key %s is %" PRIu64 " for layer %" PRIu64 ", only %" PRIu64
                             " is supported there, or twice as much in all layers that read K and "
                             "V of others",
                             FFN, number, layer, wanted);
    }
    set_number(layers, "intermediate_size", first);
    json_object_set_new(layers->config, "use_double_wide_mlp", json_boolean(is_double));
    return STATUS_OK;
}

/* ---- rotation ---- */

/* The first pairs of a head turn, the others do not: their angles are divided by 1e30. */
static enum status count_turning(const struct layers *layers, uint64_t n_pairs, uint64_t *n_out)
{
    const struct gguf_tensor *tensor = gguf_find_tensor(layers->file, FREQUENCIES);
    uint64_t n = 0;
    float value;
    if (!tensor)
        return error_set(layers->error, STATUS_CORRUPT, "tensor %s is missing", FREQUENCIES);
    if (tensor->type != GGUF_TYPE_F32 || tensor->n_dims != 1 || tensor->dims[0] != n_pairs)
        return error_set(layers->error, STATUS_CORRUPT,
                         "tensor %s has %" PRIu64 " elements in the first of %u dimensions, "
                         "expected F32 and %" PRIu64 " in one",
                         FREQUENCIES, tensor->dims[0], tensor->n_dims, n_pairs);
    for (uint64_t i = 0; i < n_pairs; i++) {
        memcpy(&value, tensor->data + i * sizeof value, sizeof value);
        if (value == 1 && n == i)
            n++;
        else if (!(value >= 1e20f))
            return error_set(layers->error, STATUS_UNSUPPORTED,
                             "tensor %s has %g at %" PRIu64
                             ", supported are ones, and then values of 1e20 and more",
                             FREQUENCIES, (double)value, i);
    }
    *n_out = n;
    return STATUS_OK;
}

static enum status add_ropes(const struct layers *layers)
{
    double theta = 0, local = 10000, part = 1;
    uint64_t wide = 0, n_turning = 0;
    TRY(require(layers, KEY("attention.key_length"), 1, &wide));
    TRY(gguf_require(layers->file, KEY("rope.freq_base"), layers->error));
    TRY(gguf_real(layers->file, KEY("rope.freq_base"), &theta, layers->error));
    TRY(gguf_real(layers->file, KEY("rope.freq_base_swa"), &local, layers->error));
    TRY(count_turning(layers, wide / 2, &n_turning));
    if (2 * n_turning < wide)
        part = ((double)n_turning + 0.5) * 2 / (double)wide; /* what is rounded down to it */
    json_object_set_new(layers->config, "rope_parameters",
                        json_pack("{s:{s:s, s:f, s:f}, s:{s:s, s:f}}", "full_attention",
                                  "rope_type", "proportional", "rope_theta", theta,
                                  "partial_rotary_factor", part < 1 ? part : 1.0,
                                  "sliding_attention", "rope_type", "default", "rope_theta",
                                  local));
    return STATUS_OK;
}

/* ---- embeddings and experts of layers ---- */

static enum status add_inputs(const struct layers *layers)
{
    static const char TABLE[] = "per_layer_token_embd.weight";
    const struct gguf_tensor *table = gguf_find_tensor(layers->file, TABLE);
    uint64_t width = 0;
    TRY(require(layers, KEY("embedding_length_per_layer_input"), 0, &width));
    set_number(layers, "hidden_size_per_layer_input", width);
    if (width == 0)
        return STATUS_OK;
    if (!table || table->n_dims != 2)
        return error_set(layers->error, STATUS_CORRUPT,
                         "tensor %s is missing or no matrix, but key "
                         "gemma4.embedding_length_per_layer_input is %" PRIu64,
                         TABLE, width);
    set_number(layers, "vocab_size_per_layer_input", table->dims[1]);
    return STATUS_OK;
}

static enum status add_experts(const struct layers *layers)
{
    static const char ROUTER[] = "blk.0.ffn_gate_inp.weight";
    uint64_t n = 0, top_k = 0, inner = 0;
    TRY(gguf_u64(layers->file, KEY("expert_count"), 0, NUMBER_MAX, &n, layers->error));
    if (n == 0 && gguf_find_tensor(layers->file, ROUTER))
        return error_set(layers->error, STATUS_CORRUPT,
                         "key gemma4.expert_count is %s, but tensor %s is there",
                         gguf_find(layers->file, KEY("expert_count")) ? "0" : "missing", ROUTER);
    json_object_set_new(layers->config, "enable_moe_block", json_boolean(n > 0));
    if (n == 0)
        return STATUS_OK;
    TRY(require(layers, KEY("expert_used_count"), 1, &top_k));
    TRY(require(layers, KEY("expert_feed_forward_length"), 1, &inner));
    if (top_k > n)
        return error_set(layers->error, STATUS_CORRUPT,
                         "key gemma4.expert_used_count is %" PRIu64
                         ", but gemma4.expert_count is %" PRIu64,
                         top_k, n);
    set_number(layers, "num_experts", n);
    set_number(layers, "top_k_experts", top_k);
    set_number(layers, "moe_intermediate_size", inner);
    return STATUS_OK;
}

enum status gguf_gemma4_add(const struct gguf_file *file, json_t *config, struct error *error)
{
    struct layers layers = {
        .file = file,
        .n = (uint64_t)json_integer_value(json_object_get(config, "num_hidden_layers")),
        .config = config,
        .error = error};
    if (layers.n > LAYERS_MAX)
        return error_set(error, STATUS_UNSUPPORTED,
                         "key gemma4.block_count is %" PRIu64 ", at most %u are supported",
                         layers.n, LAYERS_MAX);
    TRY(refuse_rest(&layers));
    TRY(add_windows(&layers));
    TRY(add_heads(&layers));
    TRY(add_sharing(&layers));
    TRY(add_inner(&layers));
    TRY(add_ropes(&layers));
    TRY(add_inputs(&layers));
    return add_experts(&layers);
}
