#include "gguf/gguf_recurrent.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_MAX (1u << 24)
#define LAYERS_MAX 512u /* as model_config.h has it */
#define KEY_MAX    96

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { INTERVAL_DEFAULT = 4, SECTIONS = 4 };

struct layers {
    const struct gguf_file *file;
    const struct gguf_architecture *architecture;
    uint64_t n, n_next; /* n_next: behind the n */
    bool is_recurrent[LAYERS_MAX];
    json_t *config;
    struct error *error;
};

static void key_of(const struct layers *layers, const char *rest, char key_out[KEY_MAX])
{
    snprintf(key_out, KEY_MAX, "%s.%s", layers->architecture->name, rest);
}

static void set_number(const struct layers *layers, const char *word, uint64_t number)
{
    json_object_set_new(layers->config, word, json_integer((json_int_t)number));
}

static uint64_t number_in(const struct layers *layers, const char *word)
{
    return (uint64_t)json_integer_value(json_object_get(layers->config, word));
}

static enum status require(const struct layers *layers, const char *rest, uint64_t *number_out)
{
    char key[KEY_MAX];
    key_of(layers, rest, key);
    TRY(gguf_require(layers->file, key, layers->error));
    return gguf_u64(layers->file, key, 1, NUMBER_MAX, number_out, layers->error);
}

static const struct gguf_tensor *find_of_layer(const struct layers *layers, uint64_t layer,
                                               const char *rest, char name_out[KEY_MAX])
{
    snprintf(name_out, KEY_MAX, "blk.%" PRIu64 ".%s", layer, rest);
    return gguf_find_tensor(layers->file, name_out);
}

/* ---- what nothing here computes ---- */

static enum status refuse_rest(const struct layers *layers)
{
    static const struct {
        const char *rest;
        uint64_t most;
    } NEUTRAL[] = {{"expert_gating_func", GGUF_GATING_SOFTMAX}, {"expert_group_count", 1}};
    static const char SCALE[] = "expert_weights_scale";
    const bool are_tiled = layers->architecture->heads_are_tiled;
    char key[KEY_MAX];
    double scale = 1;
    for (size_t i = 0; i < COUNT(NEUTRAL); i++) {
        uint64_t number = 0;
        key_of(layers, NEUTRAL[i].rest, key);
        TRY(gguf_u64(layers->file, key, 0, NUMBER_MAX, &number, layers->error));
        if (number > NEUTRAL[i].most)
            return error_set(layers->error, STATUS_UNSUPPORTED,
                             "key %s is %" PRIu64 ", supported is up to %" PRIu64, key, number,
                             NEUTRAL[i].most);
    }
    const struct {
        const char *rest;
        bool is_supported;
    } SWITCHES[] = {{"expert_weights_norm", true}, {"ssm.v_head_reordered", are_tiled}};
    for (size_t i = 0; i < COUNT(SWITCHES); i++) {
        bool is_set = SWITCHES[i].is_supported;
        key_of(layers, SWITCHES[i].rest, key);
        TRY(gguf_bool(layers->file, key, &is_set, layers->error));
        if (is_set != SWITCHES[i].is_supported)
            return error_set(layers->error, STATUS_UNSUPPORTED,
                             "key %s is %s, only %s is supported", key, is_set ? "true" : "false",
                             is_set ? "false" : "true");
    }
    key_of(layers, SCALE, key);
    TRY(gguf_real(layers->file, key, &scale, layers->error));
    if (scale == 1 || scale == 0)
        return STATUS_OK;
    return error_set(layers->error, STATUS_UNSUPPORTED, "key %s is %g, only 1 is supported", key,
                     scale);
}

/* ---- which layers ---- */

/* block_count has those that predict further tokens, too. */
static enum status count_layers(struct layers *layers)
{
    char key[KEY_MAX];
    const uint64_t n = number_in(layers, "num_hidden_layers");
    key_of(layers, "nextn_predict_layers", key);
    TRY(gguf_u64(layers->file, key, 0, NUMBER_MAX, &layers->n_next, layers->error));
    if (layers->n_next >= n)
        return error_set(layers->error, STATUS_CORRUPT,
                         "key %s is %" PRIu64 ", but %s.block_count is %" PRIu64, key,
                         layers->n_next, layers->architecture->name, n);
    if (n > LAYERS_MAX)
        return error_set(layers->error, STATUS_UNSUPPORTED,
                         "key %s.block_count is %" PRIu64 ", at most %u are supported",
                         layers->architecture->name, n, LAYERS_MAX);
    layers->n = n - layers->n_next;
    set_number(layers, "num_hidden_layers", layers->n);
    set_number(layers, "num_nextn_predict_layers", layers->n_next);
    return STATUS_OK;
}

static enum status read_kinds(struct layers *layers)
{
    const struct gguf_key *list;
    uint64_t interval = INTERVAL_DEFAULT;
    char key[KEY_MAX];
    key_of(layers, "full_attention_interval", key);
    TRY(gguf_u64(layers->file, key, 1, LAYERS_MAX, &interval, layers->error));
    key_of(layers, "attention.recurrent_layers", key);
    TRY(gguf_array(layers->file, key, &list, layers->error));
    if (list && (gguf_kind_bytes(list->kind) == 0 || list->n != layers->n + layers->n_next))
        return error_set(layers->error, STATUS_CORRUPT,
                         "key %s has %" PRIu64
                         " values, expected true or false for each of %" PRIu64 " layers",
                         key, list->n, layers->n + layers->n_next);
    json_t *types = json_array();
    json_object_set_new(layers->config, "layer_types", types);
    for (uint64_t layer = 0; layer < layers->n; layer++) {
        layers->is_recurrent[layer] = list ? gguf_number_at(list, layer) != 0
                                           : (layer + 1) % interval != 0;
        json_array_append_new(types, json_string(layers->is_recurrent[layer] ? "linear_attention"
                                                                             : "full_attention"));
    }
    return STATUS_OK;
}

/* ---- what they have ---- */

static enum status add_sizes(const struct layers *layers)
{
    static const char *const ROWS[][2] = {
        {"ssm.conv_kernel", "linear_conv_kernel_dim"},
        {"ssm.state_size", "linear_key_head_dim"},
        {"ssm.group_count", "linear_num_key_heads"},
        {"ssm.time_step_rank", "linear_num_value_heads"},
    };
    uint64_t number = 0, inner = 0;
    for (size_t i = 0; i < COUNT(ROWS); i++) {
        TRY(require(layers, ROWS[i][0], &number));
        set_number(layers, ROWS[i][1], number);
    }
    TRY(require(layers, "ssm.inner_size", &inner));
    if (inner % number != 0)
        return error_set(layers->error, STATUS_CORRUPT,
                         "key %s.ssm.inner_size is %" PRIu64
                         ", no multiple of %s.ssm.time_step_rank, which is %" PRIu64,
                         layers->architecture->name, inner, layers->architecture->name, number);
    set_number(layers, "linear_value_head_dim", inner / number);
    return STATUS_OK;
}

/* What is missing or has another shape is said where tensors are bound. */
static enum status check_rates(const struct layers *layers)
{
    char name[KEY_MAX];
    float rate;
    for (uint64_t layer = 0; layer < layers->n; layer++) {
        const struct gguf_tensor *tensor = find_of_layer(layers, layer, "ssm_a", name);
        if (!layers->is_recurrent[layer] || !tensor)
            continue;
        if (tensor->type != GGUF_TYPE_F32)
            return error_set(layers->error, STATUS_UNSUPPORTED,
                             "tensor %s has another type than F32", name);
        for (uint64_t i = 0; i < tensor->bytes / sizeof rate; i++) {
            memcpy(&rate, tensor->data + i * sizeof rate, sizeof rate);
            if (!(rate < 0) || !isfinite(rate))
                return error_set(layers->error, STATUS_CORRUPT,
                                 "tensor %s has %g at %" PRIu64
                                 ", expected a value below 0: -exp(A_log)",
                                 name, (double)rate, i);
        }
    }
    return STATUS_OK;
}

/* What tensors say. */
static void add_storage(const struct layers *layers)
{
    char name[KEY_MAX];
    bool has_bias = false, has_qkv = false;
    for (uint64_t layer = 0; layer < layers->n; layer++) {
        const bool is_recurrent = layers->is_recurrent[layer];
        has_qkv |= is_recurrent && find_of_layer(layers, layer, "attn_qkv.weight", name);
        has_bias |= !is_recurrent && find_of_layer(layers, layer, "attn_q.bias", name);
    }
    json_object_set_new(layers->config, "attention_bias", json_boolean(has_bias));
    json_object_set_new(layers->config, "decays_are_rates", json_true());
    json_object_set_new(layers->config, "heads_are_tiled",
                        json_boolean(layers->architecture->heads_are_tiled));
    json_object_set_new(layers->config, "qkvz_is_apart", json_boolean(has_qkv));
}

/* ---- rotation ---- */

/* A text's token has the same position three times; a pair that none of the three turns would stand still in llama.cpp. */
static enum status check_sections(const struct layers *layers, uint64_t n_pairs)
{
    const struct gguf_key *list;
    char key[KEY_MAX];
    double sections[SECTIONS] = {0}, sum = 0;
    key_of(layers, "rope.dimension_sections", key);
    TRY(gguf_array(layers->file, key, &list, layers->error));
    if (!list)
        return STATUS_OK;
    if (gguf_kind_bytes(list->kind) == 0 || list->n < 3 || list->n > SECTIONS)
        return error_set(layers->error, STATUS_CORRUPT,
                         "key %s has %" PRIu64 " values, expected 3 or 4 numbers", key, list->n);
    for (uint64_t i = 0; i < list->n; i++) {
        sections[i] = gguf_number_at(list, i);
        if (!(sections[i] >= 0 && sections[i] <= NUMBER_MAX))
            return error_set(layers->error, STATUS_CORRUPT,
                             "key %s is %.15g at %" PRIu64 ", expected a number 0 .. %u", key,
                             sections[i], i, NUMBER_MAX);
        sum += sections[i];
    }
    for (uint64_t pair = 0; pair < n_pairs; pair++) {
        const uint64_t sector = sum >= 1 ? pair % (uint64_t)sum : pair;
        if ((double)sector >= 3 * sections[sector % 3])
            return error_set(layers->error, STATUS_UNSUPPORTED,
                             "key %s is %g, %g, %g, %g: pair %" PRIu64 " of the %" PRIu64
                             " that rotate has no position of a text, which is not supported",
                             key, sections[0], sections[1], sections[2], sections[3], pair,
                             n_pairs);
    }
    return STATUS_OK;
}

/* The part of a head is there if it is no whole one. The classes of Transformers have other defaults. */
static enum status add_rotation(const struct layers *layers)
{
    uint64_t n_rotated = 0;
    TRY(require(layers, "rope.dimension_count", &n_rotated));
    if (!json_object_get(layers->config, "head_dim"))
        set_number(layers, "head_dim",
                   number_in(layers, "hidden_size") / number_in(layers, "num_attention_heads"));
    if (!json_object_get(layers->config, layers->architecture->rope_part))
        json_object_set_new(layers->config, layers->architecture->rope_part, json_real(1));
    return check_sections(layers, n_rotated / 2);
}

enum status gguf_recurrent_add(const struct gguf_file *file,
                               const struct gguf_architecture *architecture, json_t *config,
                               struct error *error)
{
    struct layers layers = {
        .file = file, .architecture = architecture, .config = config, .error = error};
    TRY(refuse_rest(&layers));
    TRY(count_layers(&layers));
    TRY(read_kinds(&layers));
    TRY(add_sizes(&layers));
    TRY(check_rates(&layers));
    add_storage(&layers);
    return add_rotation(&layers);
}
