#include "encoder_model.h"

#include "model_writer.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

enum {
    HIDDEN = 64,
    VOCABULARY = 2048,
    ENCODER_LAYERS = 2,
    DECODER_LAYERS = 3,
    WIDTH = 4 * 16, /* heads of 16 */
    FFN = 96,
    BUCKETS = 32,
    NAME_BYTES = 96,
};

static const char CONFIG[] =
    "{\"architectures\": [\"T5ForConditionalGeneration\"], \"model_type\": \"t5\", \"d_model\": "
    "64, "
    "\"d_kv\": 16, \"d_ff\": 96, \"num_layers\": 2, \"num_decoder_layers\": 3, \"num_heads\": 4, "
    "\"relative_attention_num_buckets\": 32, \"relative_attention_max_distance\": 128, "
    "\"feed_forward_proj\": \"gated-gelu\", \"is_encoder_decoder\": true, "
    "\"layer_norm_epsilon\": 1e-06, \"vocab_size\": 2048, \"tie_word_embeddings\": false, "
    "\"torch_dtype\": \"bfloat16\", \"decoder_start_token_id\": 2046, \"pad_token_id\": 2046, "
    "\"eos_token_id\": 2047}";

static void add(struct model_writer *writer, const char *stack, uint32_t layer, const char *name,
                uint32_t rows, uint32_t columns)
{
    char whole[NAME_BYTES + 64]; /* what is around the name */
    snprintf(whole, sizeof whole, "%s.block.%u.layer.%s.weight", stack, layer, name);
    model_writer_add(writer, whole, rows, columns, columns ? 0 : 1,
                     columns ? 1.2f / sqrtf((float)columns) : 0.2f);
}

/* T5 does not scale its scores: smaller queries do. */
static void add_attention(struct model_writer *writer, const char *stack, uint32_t layer,
                          const char *place)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.block.%u.layer.%s.q.weight", stack, layer, place);
    model_writer_add(writer, name, WIDTH, HIDDEN, 0, 0.3f / sqrtf(HIDDEN));
    static const char *const PARTS[] = {"k", "v", "o"};
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s.%s", place, PARTS[i]);
        add(writer, stack, layer, name, i < 2 ? WIDTH : HIDDEN, i < 2 ? HIDDEN : WIDTH);
    }
    snprintf(name, sizeof name, "%c.layer_norm", place[0]);
    add(writer, stack, layer, name, HIDDEN, 0);
}

static void add_mlp(struct model_writer *writer, const char *stack, uint32_t layer, char place)
{
    static const char *const PARTS[] = {"wi_0", "wi_1", "wo"};
    char name[NAME_BYTES];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%c.DenseReluDense.%s", place, PARTS[i]);
        add(writer, stack, layer, name, i < 2 ? FFN : HIDDEN, i < 2 ? HIDDEN : FFN);
    }
    snprintf(name, sizeof name, "%c.layer_norm", place);
    add(writer, stack, layer, name, HIDDEN, 0);
}

static void add_stack(struct model_writer *writer, const char *stack, uint32_t n_layers,
                      bool has_cross)
{
    char name[NAME_BYTES];
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        add_attention(writer, stack, layer, "0.SelfAttention");
        if (has_cross)
            add_attention(writer, stack, layer, "1.EncDecAttention");
        add_mlp(writer, stack, layer, has_cross ? '2' : '1');
    }
    add(writer, stack, 0, "0.SelfAttention.relative_attention_bias", BUCKETS, WIDTH / 16);
    snprintf(name, sizeof name, "%s.final_layer_norm.weight", stack);
    model_writer_add(writer, name, HIDDEN, 0, 1, 0.2f);
}

static void add_all(struct model_writer *writer)
{
    model_writer_add(writer, "shared.weight", VOCABULARY, HIDDEN, 0, 0.5f);
    add_stack(writer, "encoder", ENCODER_LAYERS, false);
    add_stack(writer, "decoder", DECODER_LAYERS, true);
    model_writer_add(writer, "lm_head.weight", VOCABULARY, HIDDEN, 0, 0.15f);
}

const char *encoder_model_make(void)
{
    return model_writer_make(CONFIG, add_all);
}
