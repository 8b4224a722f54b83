/* adapter_load: a folder that is malformed, or asks for what is not computed, is refused with a sentence that names key or tensor,
 * and value. */
#include "model/adapter/adapter.h"
#include "tests/model/support/broken_folder.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define ADAPTERS KVFERRY_SOURCE_DIR "/tests/golden/adapters"
#define LLAMA    ADAPTERS "/llama" /* rank 4, all matrices of 2 layers, hidden 32, ffn 48 */
#define Q_A      "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
#define Q_B      "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"

struct bad_adapter {
    enum broken_what what;
    const char *argument;
    enum status status;
    const char *word; /* in the sentence */
};

/* broken_folder edits the files of a model: the adapter's have these names meanwhile. */
static void move(const struct broken_folder *folder, const char *from, const char *to)
{
    char old[600], new[600];
    snprintf(old, sizeof old, "%s/%s", folder->path, from);
    snprintf(new, sizeof new, "%s/%s", folder->path, to);
    (void)rename(old, new); /* a case may have removed it */
}

static void check(const struct model *model, const struct bad_adapter *bad)
{
    struct broken_folder folder;
    struct error error = {""};
    struct adapter *adapter = NULL;
    broken_folder_make(&folder, LLAMA, NOTHING, "");
    move(&folder, "adapter_config.json", "config.json");
    move(&folder, "adapter_model.safetensors", "model.safetensors");
    broken_folder_edit(&folder, bad->what, bad->argument);
    move(&folder, "config.json", "adapter_config.json");
    move(&folder, "model.safetensors", "adapter_model.safetensors");
    const enum status status = adapter_load(folder.path, model, NULL, &error, &adapter);
    cr_expect_eq(status, bad->status, "%s: %s, expected %s (%s)", bad->argument,
                 status_name(status), status_name(bad->status), error.text);
    cr_expect(strstr(error.text, bad->word), "%s: no \"%s\" in \"%s\"", bad->argument, bad->word,
              error.text);
    adapter_release(status == STATUS_OK ? adapter : NULL);
    broken_folder_remove(&folder);
}

static void check_all(const struct bad_adapter *cases, size_t n)
{
    struct error error = {""};
    struct model *model;
    cr_assert_eq(model_load(GOLDEN_MODELS "/llama_t5_bias", NULL, &error, &model), STATUS_OK, "%s",
                 error.text);
    for (size_t i = 0; i < n; i++)
        check(model, &cases[i]);
    model_destroy(model);
}

#define BAD(word) STATUS_CORRUPT, word
#define NOT(word) STATUS_UNSUPPORTED, word

Test(bad_adapter, keys)
{
    static const struct bad_adapter CASES[] = {
        {FILE_REMOVE, "config.json", STATUS_NOT_FOUND, "adapter_config.json"},
        {FILE_TEXT, "config.json=[1]", BAD("expected an object")},
        {FILE_TEXT, "config.json={", BAD("adapter_config.json")},
        {CONFIG_SET, "{\"peft_type\": \"IA3\"}", NOT("peft_type is \"IA3\"")},
        {CONFIG_REMOVE, "peft_type", BAD("peft_type")},
        {CONFIG_SET, "{\"r\": 0}", BAD("r is 0")},
        {CONFIG_SET, "{\"r\": 1025}", BAD("r is 1025")},
        {CONFIG_SET, "{\"r\": \"4\"}", BAD("r is a string")},
        {CONFIG_REMOVE, "r", BAD(" r ")},
        {CONFIG_SET, "{\"lora_alpha\": 1e9}", BAD("lora_alpha")},
        {CONFIG_SET, "{\"lora_alpha\": \"NaN\"}", BAD("lora_alpha")},
        {CONFIG_SET, "{\"use_rslora\": 1}", BAD("use_rslora")},
        {CONFIG_SET, "{\"use_dora\": true}", NOT("use_dora is true")},
        {CONFIG_SET, "{\"bias\": \"all\"}", NOT("bias is \"all\"")},
        {CONFIG_SET, "{\"lora_bias\": true}", NOT("lora_bias is true")},
        {CONFIG_SET, "{\"modules_to_save\": [\"lm_head\"]}", NOT("modules_to_save is [\"lm_head")},
        {CONFIG_SET, "{\"target_parameters\": [\"mlp.experts.gate_up_proj\"]}",
         NOT("target_parameters")},
        {CONFIG_SET, "{\"trainable_token_indices\": [1, 2]}", NOT("trainable_token_indices is [1")},
        {CONFIG_SET, "{\"layer_replication\": [[0, 2], [1, 2]]}", NOT("layer_replication")},
        {CONFIG_SET, "{\"alora_invocation_tokens\": [5]}", NOT("alora_invocation_tokens is [5]")},
        {CONFIG_SET, "{\"use_qalora\": true}", NOT("use_qalora is true")},
        {CONFIG_SET, "{\"use_something_new\": true}", NOT("use_something_new is true")},
        {CONFIG_SET, "{\"init_lora_weights\": \"pissa\"}", NOT("init_lora_weights is \"pissa\"")},
        {CONFIG_SET, "{\"init_lora_weights\": \"olora\"}", NOT("init_lora_weights is \"olora\"")},
        {CONFIG_SET, "{\"fan_in_fan_out\": \"yes\"}", BAD("fan_in_fan_out")},
        {FILE_TEXT, "config.json=", BAD("adapter_config.json")},
        {FILE_TEXT, "config.json={\"peft_type\": \"LORA\", \"lora_alpha\": NaN}",
         BAD("adapter_config.json")},
        {FILE_TEXT, "config.json={\"peft_type\": \"LORA\", \"lora_alpha\": 1e999}",
         BAD("adapter_config.json")},
        {FILE_TEXT, "config.json={\"r\": 4, \"r\": 8, \"peft_type\": \"LORA\"}",
         BAD("adapter_config.json")},
        {CONFIG_SET, "{\"peft_type\": 7}", BAD("peft_type is")},
        {CONFIG_SET, "{\"peft_type\": null}", BAD("peft_type")},
        {CONFIG_SET, "{\"r\": -1}", BAD("r is -1")},
        {CONFIG_SET, "{\"r\": 4294967297}", BAD("r is 4294967297")},
        {CONFIG_SET, "{\"r\": 4.5}", BAD("r is")},
        {CONFIG_SET, "{\"lora_alpha\": true}", BAD("lora_alpha")},
        {CONFIG_SET, "{\"lora_alpha\": -1e9}", BAD("lora_alpha")},
        {CONFIG_SET, "{\"bias\": \"lora_only\"}", NOT("bias is \"lora_only\"")},
        {CONFIG_SET, "{\"bias\": true}", BAD("bias")},
        {CONFIG_SET, "{\"init_lora_weights\": \"pissa_niter_16\"}",
         NOT("init_lora_weights is \"pissa_niter_16\"")},
        {CONFIG_SET, "{\"init_lora_weights\": 1}", NOT("init_lora_weights is 1")},
        {CONFIG_SET, "{\"arrow_config\": {\"top_k\": 2}}", NOT("arrow_config is {")},
    };
    check_all(CASES, sizeof CASES / sizeof *CASES);
}

Test(bad_adapter, modules_and_patterns)
{
    static const struct bad_adapter CASES[] = {
        {CONFIG_REMOVE, "target_modules", BAD("target_modules")},
        {CONFIG_SET, "{\"target_modules\": 7}", NOT("target_modules is 7")},
        {CONFIG_SET, "{\"target_modules\": [\"q_proj\", 7]}", NOT("target_modules is [\"q_proj\"")},
        {CONFIG_SET, "{\"target_modules\": \"(q_proj\"}", BAD("no regular expression")},
        {CONFIG_SET, "{\"target_modules\": \"(.|..|...)*_proj[0-9]\"}", BAD("too many steps")},
        {CONFIG_SET, "{\"target_modules\": [\"q_proj\"]}",
         BAD("is of a module that target_modules of")},
        {CONFIG_SET, "{\"target_modules\": \".*q_proj\"}",
         BAD("is of a module that target_modules of")},
        {CONFIG_SET, "{\"exclude_modules\": [\"q_proj\"]}",
         BAD("q_proj.lora_A.weight is of a module that target_modules of")},
        {CONFIG_SET, "{\"layers_to_transform\": 1}",
         BAD("layers.0.self_attn.q_proj.lora_A.weight is of a module")},
        {CONFIG_SET, "{\"layers_to_transform\": [\"a\"]}", NOT("layers_to_transform is [\"a\"]")},
        {CONFIG_SET, "{\"layers_pattern\": \"layers\"}", NOT("layers_pattern is \"layers\"")},
        {CONFIG_SET, "{\"rank_pattern\": {\"q_proj\": 5}}",
         BAD("q_proj.lora_A.weight has shape [4, 32] (2 dimensions), expected [5, 32]")},
        {CONFIG_SET, "{\"rank_pattern\": {\"q_proj\": 0}}", BAD("rank_pattern of \"q_proj\" is 0")},
        {CONFIG_SET, "{\"rank_pattern\": {\"q_proj\": 2.5}}",
         BAD("rank_pattern of \"q_proj\" is 2.5")},
        {CONFIG_SET, "{\"rank_pattern\": {\"[\": 4}}", BAD("no regular expression")},
        {CONFIG_SET, "{\"alpha_pattern\": {\"q_proj\": \"a\"}}",
         BAD("alpha_pattern of \"q_proj\" is \"a\"")},
        {CONFIG_SET, "{\"alpha_pattern\": {\"q_proj\": -1e7}}", BAD("alpha_pattern of \"q_proj\"")},
        {CONFIG_SET, "{\"alpha_pattern\": [4]}", BAD("alpha_pattern")},
        {CONFIG_SET, "{\"rank_pattern\": {\"q_proj\": 1e9}}",
         BAD("rank_pattern of \"q_proj\" is 1")},
        {CONFIG_SET, "{\"rank_pattern\": {\"(.|..|...)*_proj[0-9]\": 4}}", BAD("too many steps")},
        {CONFIG_SET, "{\"target_modules\": null}", BAD("target_modules")},
        {CONFIG_SET, "{\"target_modules\": []}", BAD("is of a module that target_modules of")},
        {CONFIG_SET, "{\"target_modules\": \"all-linear\"}",
         BAD("is of a module that target_modules of")},
        {CONFIG_SET, "{\"target_modules\": \"(?:(?:a{9999}){9999}){9999}\"}",
         BAD("no regular expression")},
        {CONFIG_SET, "{\"target_modules\": \"(*UTF).*\"}", BAD("no regular expression")},
        {CONFIG_SET, "{\"target_modules\": \".*\\\\C\"}", BAD("no regular expression")},
        {CONFIG_SET, "{\"exclude_modules\": {}}", NOT("exclude_modules is {}")},
        {CONFIG_SET, "{\"exclude_modules\": \"(\"}", BAD("no regular expression")},
        {CONFIG_SET, "{\"layers_to_transform\": -1}", NOT("layers_to_transform is -1")},
        {CONFIG_SET, "{\"target_modules\": \".*_proj\", \"layers_to_transform\": [0, 1]}",
         NOT("layers_to_transform is [0,1]")},
    };
    check_all(CASES, sizeof CASES / sizeof *CASES);
}

Test(bad_adapter, tensors)
{
    static const struct bad_adapter CASES[] = {
        {FILE_REMOVE, "model.safetensors", STATUS_NOT_FOUND, "adapter_model.safetensors"},
        {FILE_CUT, "model.safetensors=-4", BAD("truncated")},
        {FILE_APPEND, "model.safetensors=1234", BAD("left over")},
        {FILE_FIFO, "model.safetensors", BAD("not a regular file")},
        {FILE_LINK, "model.safetensors=/etc/hostname", BAD("adapter_model.safetensors")},
        {HEADER_LENGTH, "99999999", BAD("header length is 99999999")},
        {CONFIG_SET, "{\"r\": 5}", BAD("has shape [4, 32] (2 dimensions), expected [5, 32]")},
        {TENSOR_STRIP, "base_model.model.", BAD("no tensor is called base_model.model.model")},
        {TENSOR_STRIP, "base_model.model.model.layers.0.self_attn.q_proj.", BAD(Q_A " is missing")},
        {TENSOR_SET, Q_A "=5=nan", BAD(Q_A " is nan at [0, 5]")},
        {TENSOR_SET, Q_B "=9=inf", BAD(Q_B " is inf at [2, 1]")},
        {TENSOR_COPY, "base_model.model.lm_head.lora_A.weight=" Q_A,
         NOT("lm_head.lora_A.weight is an adapter")},
        {TENSOR_COPY, "base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight=" Q_A,
         NOT("layers.2.self_attn.q_proj.lora_A.weight is not of a matrix")},
        {TENSOR_COPY,
         "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector.weight=" Q_A,
         NOT("DoRA")},
        {TENSOR_COPY, "base_model.model.model.embed_tokens.lora_embedding_A=" Q_A,
         NOT("of the embedding")},
        {HEADER_SET, "{\"" Q_A "\": {\"dtype\": \"I32\"}}", NOT("has dtype I32")},
        {HEADER_SET, "{\"" Q_A "\": {\"shape\": [32, 4]}}",
         BAD("has shape [32, 4] (2 dimensions), expected [4, 32]")},
        {HEADER_SET, "{\"" Q_A "\": {\"shape\": [128]}}", BAD("(1 dimensions)")},
        {HEADER_SET, "{\"" Q_A "\": {\"shape\": [4, 8, 4]}}", BAD("(3 dimensions)")},
        {HEADER_SET, "{\"" Q_A "\": {\"shape\": [4294967296, 4294967296]}}", BAD(Q_A)},
        {HEADER_SET, "{\"" Q_A "\": {\"dtype\": \"F64\"}}", BAD(Q_A)},
        {HEADER_SET, "{\"" Q_A "\": {\"data_offsets\": [0, 4]}}", BAD(Q_A)},
        {HEADER_REMOVE, Q_B, BAD("adapter_model.safetensors")},
        {HEADER_TEXT, "{}", BAD("adapter_model.safetensors")},
        {TENSOR_SET, Q_A "=0=-inf", BAD(Q_A " is -inf at [0, 0]")},
        {TENSOR_COPY, "base_model.model.model.layers.0.self_attn.q_proj.lora_B.bias=" Q_A,
         NOT("a bias, which is not supported")},
        {TENSOR_COPY, "base_model.model.model.layers.0.mlp.experts.lora_A.weight=" Q_A,
         NOT("an adapter of experts")},
        {TENSOR_COPY, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.law.weight=" Q_A,
         NOT("is not of a matrix of this model")},
        {TENSOR_COPY, "base_model.model.layers.0.self_attn.q_proj.lora_A.weight=" Q_A,
         NOT("base_model.model.layers.0.self_attn.q_proj.lora_A.weight is not of a matrix")},
        {TENSOR_COPY, "model.layers.0.self_attn.q_proj.lora_A.weight=" Q_A,
         NOT("is not of a matrix of this model")},
    };
    check_all(CASES, sizeof CASES / sizeof *CASES);
}

/* What is unusual but means the same. */
Test(bad_adapter, folders_that_load)
{
    static const struct bad_adapter CASES[] = {
        {NOTHING, "", STATUS_OK, ""},
        {CONFIG_REMOVE, "lora_alpha", STATUS_OK, ""},
        {CONFIG_SET, "{\"lora_dropout\": 0.1, \"inference_mode\": false, \"fan_in_fan_out\": true}",
         STATUS_OK, ""},
        {CONFIG_SET, "{\"target_modules\": \".*_proj\"}", STATUS_OK, ""},
        {CONFIG_SET, "{\"layers_to_transform\": [0, 1]}", STATUS_OK, ""},
        {CONFIG_SET, "{\"rank_pattern\": {\"nothing\": 9}}", STATUS_OK, ""},
        {CONFIG_SET, "{\"exclude_modules\": [\"lm_head\"], \"later_key\": null}", STATUS_OK, ""},
        {CONFIG_SET, "{\"init_lora_weights\": \"gaussian\"}", STATUS_OK, ""},
    };
    check_all(CASES, sizeof CASES / sizeof *CASES);
}
