#include "tests/worker_common/support/small_model.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER_MAX 4096

static char folder[] = "/tmp/kvferry_small_XXXXXX", path[64];

static FILE *open_file(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    cr_assert_not_null(file, "%s", path);
    return file;
}

static void write_config(void)
{
    FILE *file = open_file("config.json");
    fprintf(file,
            "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", "
            "\"hidden_act\": \"silu\", \"hidden_size\": %d, \"intermediate_size\": 64, "
            "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
            "\"head_dim\": %d, \"rms_norm_eps\": 1e-5, \"vocab_size\": 64, "
            "\"max_position_embeddings\": 128, \"rope_theta\": 10000.0, "
            "\"tie_word_embeddings\": true}\n",
            SMALL_MODEL_HIDDEN, SMALL_MODEL_HEAD_DIM);
    fclose(file);
}

static void write_weights(const char *dtype)
{
    static const struct {
        const char *name;
        uint32_t n_out, n_in; /* n_in 0: a vector */
    } TENSORS[] = {
        {"model.embed_tokens.weight", 64, 64},
        {"model.norm.weight", 64, 0},
        {"model.layers.0.input_layernorm.weight", 64, 0},
        {"model.layers.0.post_attention_layernorm.weight", 64, 0},
        {"model.layers.0.self_attn.q_proj.weight", 64, 64},
        {"model.layers.0.self_attn.k_proj.weight", 32, 64},
        {"model.layers.0.self_attn.v_proj.weight", 32, 64},
        {"model.layers.0.self_attn.o_proj.weight", 64, 64},
        {"model.layers.0.mlp.gate_proj.weight", 64, 64},
        {"model.layers.0.mlp.up_proj.weight", 64, 64},
        {"model.layers.0.mlp.down_proj.weight", 64, 64},
    };
    const uint64_t element_bytes = strcmp(dtype, "F32") == 0 ? 4 : 2;
    char header[HEADER_MAX];
    uint64_t at = 0, n = 0;
    for (size_t i = 0; i < sizeof TENSORS / sizeof *TENSORS; i++) {
        const uint64_t elements = (uint64_t)TENSORS[i].n_out *
                                  (TENSORS[i].n_in > 0 ? TENSORS[i].n_in : 1);
        char shape[32];
        snprintf(shape, sizeof shape, TENSORS[i].n_in > 0 ? "%u, %u" : "%u", TENSORS[i].n_out,
                 TENSORS[i].n_in);
        n += (uint64_t)snprintf(header + n, HEADER_MAX - n,
                                "%s\"%s\": {\"dtype\": \"%s\", \"shape\": [%s], \"data_offsets\": "
                                "[%lu, %lu]}",
                                i == 0 ? "{" : ", ", TENSORS[i].name, dtype, shape,
                                (unsigned long)at, (unsigned long)(at + elements * element_bytes));
        at += elements * element_bytes;
    }
    header[n++] = '}';
    while (n % 8 != 0)
        header[n++] = ' ';
    cr_assert_lt(n, HEADER_MAX);
    FILE *file = open_file("model.safetensors");
    fwrite(&n, sizeof n, 1, file);
    fwrite(header, 1, n, file);
    fflush(file);
    cr_assert_eq(ftruncate(fileno(file), (off_t)(sizeof n + n + at)), 0);
    fclose(file);
}

const char *small_model_make(const char *dtype)
{
    snprintf(folder, sizeof folder, "/tmp/kvferry_small_XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    write_config();
    write_weights(dtype);
    return folder;
}

void small_model_remove(const char *made)
{
    static const char *const NAMES[] = {"config.json", "model.safetensors"};
    cr_assert_eq(made, folder);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, NAMES[i]);
        unlink(path);
    }
    rmdir(folder);
}
