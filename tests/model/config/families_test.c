/* families: the config.json of published models is read as their makers meant it, and none of its keys is unknown. */
#include "model/config/config_file.h"
#include "model/config/config_keys.h"
#include "model/config/families.h"
#include "model/config/kv_layers.h"
#include "tests/model/support/golden.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN_FOLDERS KVFERRY_SOURCE_DIR "/tests/golden/folders"

static double count_ropes(const struct model_config *config)
{
    double n = 0;
    for (uint32_t i = 0; i < config->n_layers; i++)
        n += config->layer_ropes[i] != ROPE_ABSENT;
    return n;
}

static double count_expert_layers(const struct model_config *config)
{
    double n = 0;
    for (uint32_t i = 0; i < config->n_layers; i++)
        n += config->has_experts[i];
    return n;
}

static uint32_t count_bytes(const uint8_t *bytes, uint32_t n_layers)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_layers; i++)
        n += bytes[i];
    return n;
}

/* Of experts, latents, recurrent state, encoders and unequal layers; false: none of them is called so. */
static bool find_value(const struct model_config *config, const char *name, double *value_out)
{
    const struct decoder *decoder = &config->decoder;
    const struct {
        const char *name;
        double value;
    } VALUES[] = {
        {"experts", config->experts.routing.n_experts},
        {"top_k", config->experts.routing.top_k},
        {"renormalise", config->experts.routing.renormalise},
        {"expert_ffn", config->experts.n_inner},
        {"shared_ffn", config->experts.n_shared_inner},
        {"expert_layers", count_expert_layers(config)},
        {"expert_groups", config->experts.routing.n_groups},
        {"expert_scale", (double)config->experts.routing.scale},
        {"latent", decoder->latent.dim},
        {"latent_rope", decoder->latent.rope_dim},
        {"latent_nope", decoder->latent.nope_dim},
        {"latent_v", decoder->latent.v_dim},
        {"q_rank", decoder->latent.q_rank},
        {"output_gate", decoder->has_output_gate},
        {"kv_layers", kv_layers_count(config)},
        {"key_heads", config->recurrent.n_key_heads},
        {"value_heads", config->recurrent.n_heads},
        {"key_dim", config->recurrent.key_dim},
        {"value_dim", config->recurrent.value_dim},
        {"conv_width", config->recurrent.conv_width},
        {"encoder_layers", config->encoder.n_layers},
        {"encoder_heads", config->encoder.n_heads},
        {"encoder_ffn", config->encoder.ffn},
        {"start", config->encoder.start_id},
        {"forced_first", config->encoder.forced_first_id},
        {"forced_last", config->encoder.forced_last_id},
        {"buckets", decoder->relative.n_buckets},
        {"distance", decoder->relative.distance_max},
        {"each_layer", decoder->relative.is_in_each_layer},
        {"no_gate", decoder->has_no_gate},
        {"wide_head_dim", config->wide_head_dim},
        {"wide_kv_heads", config->wide_kv_heads},
        {"wide_layers", count_bytes(config->is_wide, config->n_layers)},
        {"v_is_k", count_bytes(config->v_is_k, config->n_layers)},
        {"sharing_ffn", config->sharing_ffn},
        {"layer_inputs", decoder->layer_inputs.width},
        {"turning", config->rope.n_turning},
    };
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++)
        if (strcmp(name, VALUES[i].name) == 0) {
            *value_out = VALUES[i].value;
            return true;
        }
    return false;
}

/* The value that published.json calls so. */
static double value_of(const struct model_config *config, const char *name)
{
    const struct decoder *decoder = &config->decoder;
    const struct {
        const char *name;
        double value;
    } VALUES[] = {
        {"hidden", config->hidden},
        {"layers", config->n_layers},
        {"heads", config->n_heads},
        {"kv_heads", config->n_kv_heads},
        {"head_dim", config->head_dim},
        {"ffn", config->ffn},
        {"vocabulary", config->vocabulary},
        {"context", config->context_tokens},
        {"tied", config->tied_embeddings},
        {"eos", config->n_eos_ids},
        {"qkv_bias", config->qkv_bias},
        {"o_bias", config->o_bias},
        {"mlp_bias", config->mlp_bias},
        {"window_first", config->windows[0]},
        {"window_last", config->windows[config->n_layers - 1]},
        {"ropes", count_ropes(config)},
        {"theta", config->rope.theta},
        {"theta_local", config->rope_local.theta},
        {"scaling", config->rope.scaling},
        {"scaling_local", config->rope_local.scaling},
        {"rotary_dim", config->rope.rotary_dim},
        {"interleaved", config->rope.is_interleaved},
        {"norm", decoder->norm},
        {"norm_place", decoder->norm_place},
        {"residual", decoder->residual},
        {"qkv_layout", decoder->qkv_layout},
        {"qk_norm", decoder->qk_norm},
        {"activation", decoder->activation},
        {"attention_scale", (double)decoder->attention_scale},
        {"attention_cap", (double)decoder->attention_cap},
        {"logit_cap", (double)decoder->logit_cap},
        {"logit_scale", (double)decoder->logit_scale},
        {"embedding_scale", (double)decoder->embedding_scale},
        {"alibi", (double)decoder->alibi_scale},
        {"position_offset", decoder->position_offset},
        {"query_growth", (double)decoder->query_growth},
        {"query_positions", decoder->query_positions},
    };
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++)
        if (strcmp(name, VALUES[i].name) == 0)
            return VALUES[i].value;
    double value = 0;
    cr_assert(find_value(config, name, &value), "published.json: no value is called %s", name);
    return value;
}

/* names: of the keys that are not done; NULL: none. */
static void check_keys(const char *model, const struct model_config *config, const json_t *root,
                       const json_t *names)
{
    size_t n_not_done = 0, i;
    json_t *name;
    const json_t *text = config->is_text_of_more ? json_object_get(root, "text_config") : root;
    const char *key, *why;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)text, key, value)
    {
        enum key_verdict verdict = config_key_judge(
            KEYS_CONFIG_ALONE, family_at(config->family)->own_keys, key, value, &why);
        cr_expect(verdict == KEY_USED || verdict == KEY_IGNORED || verdict == KEY_NOT_DONE,
                  "%s: %s is %d", model, key, (int)verdict);
        bool is_named = false;
        json_array_foreach((json_t *)(uintptr_t)names, i, name)
            is_named |= strcmp(json_string_value(name), key) == 0;
        cr_expect_eq(is_named, verdict == KEY_NOT_DONE, "%s: %s is %d", model, key, (int)verdict);
        n_not_done += verdict == KEY_NOT_DONE;
    }
    cr_expect_eq(n_not_done, json_array_size(names), "%s", model);
}

static void check_model(const json_t *entry)
{
    const char *model = json_string_value(json_object_get(entry, "name")), *name;
    const json_t *root = json_object_get(entry, "config");
    char *text = json_dumps(root, JSON_COMPACT);
    struct model_config config;
    struct error error = {""};
    json_t *expected;
    char *generation = json_dumps(json_object_get(entry, "generation"), JSON_COMPACT);
    cr_assert_eq(model_config_parse(text, strlen(text), generation,
                                    generation ? strlen(generation) : 0, &config, &error),
                 STATUS_OK, "%s: %s", model, error.text);
    free(text);
    free(generation);
    json_object_foreach(json_object_get(entry, "expected"), name, expected)
    {
        const double value = value_of(&config, name), wanted = json_number_value(expected);
        cr_expect(fabs(value - wanted) <= 1e-6 * fabs(wanted), "%s: %s is %g, expected %g", model,
                  name, value, wanted);
    }
    check_keys(model, &config, root, json_object_get(entry, "not_done"));
}

Test(families, published_configs_are_read_as_meant)
{
    json_t *models = golden_json(GOLDEN_FOLDERS, "published.json"), *entry;
    size_t i;
    cr_assert_eq(json_array_size(models), 56);
    json_array_foreach(models, i, entry) check_model(entry);
    json_decref(models);
}

/* Every row has a published model or is one of the four that other tests have. */
Test(families, every_family_has_a_published_config)
{
    json_t *models = golden_json(GOLDEN_FOLDERS, "published.json"), *entry;
    bool is_seen[64] = {false};
    size_t i;
    uint32_t index, n = 0;
    json_array_foreach(models, i, entry)
    {
        struct error error = {""};
        struct json_fields text, fields = {json_object_get(entry, "config"), "config.json", &error};
        cr_assert_eq(family_text_fields(&fields, &text), STATUS_OK, "%s", error.text);
        cr_assert_eq(family_read(&text, &index), STATUS_OK, "%s", error.text);
        is_seen[index] = true;
    }
    for (index = 0; family_at(index); index++)
        n += !is_seen[index];
    cr_assert_leq(n, 3, "%u families",
                  n); /* Llama, Qwen2 and Qwen3; Mistral is inside of Mistral 3 */
    json_decref(models);
}
