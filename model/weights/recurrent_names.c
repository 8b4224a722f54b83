/* The names of layers with recurrent state: tensor_names.h declares them. */
#include "model/weights/tensor_names.h"
#include "model/weights/tensor_rows.h"

#include <assert.h>

#define STATE_REST(prefix)                                                                         \
    LAYER(prefix "conv1d.weight", conv, DIM_CONV_CHANNELS, DIM_CONV_WIDTH, ALWAYS),                \
        PART(prefix "A_log", decay_log, DIM_STATE_HEADS, DIM_NONE, ALWAYS, PART_DECAY_LOG),        \
        LAYER(prefix "dt_bias", decay_bias, DIM_STATE_HEADS, DIM_NONE, ALWAYS),                    \
        LAYER(prefix "norm.weight", state_norm, DIM_STATE_HEAD, DIM_NONE, ALWAYS),                 \
        LAYER(prefix "out_proj.weight", o, DIM_HIDDEN, DIM_STATE_VALUES, ALWAYS)
#define STATE_IN_ORDER(prefix)                                                                     \
    PART(prefix "in_proj_qkv.weight", q, DIM_STATE_KEYS, DIM_HIDDEN, ALWAYS, PART_STATE_Q),        \
        PART(prefix "in_proj_qkv.weight", k, DIM_STATE_KEYS, DIM_HIDDEN, ALWAYS, PART_STATE_K),    \
        PART(prefix "in_proj_qkv.weight", v, DIM_STATE_VALUES, DIM_HIDDEN, ALWAYS, PART_STATE_V),  \
        LAYER(prefix "in_proj_z.weight", output_gate, DIM_STATE_VALUES, DIM_HIDDEN, ALWAYS)
#define GATES_BY_GROUP(prefix)                                                                     \
    PART(prefix "in_proj_ba.weight", beta, DIM_STATE_HEADS, DIM_HIDDEN, ALWAYS, PART_GROUP_BETA),  \
        PART(prefix "in_proj_ba.weight", decay, DIM_STATE_HEADS, DIM_HIDDEN, ALWAYS,               \
             PART_GROUP_DECAY)
static const struct tensor_row STATE_QWEN3_5[] = {
    STATE_IN_ORDER("linear_attn."),
    LAYER("linear_attn.in_proj_b.weight", beta, DIM_STATE_HEADS, DIM_HIDDEN, ALWAYS),
    LAYER("linear_attn.in_proj_a.weight", decay, DIM_STATE_HEADS, DIM_HIDDEN, ALWAYS),
    STATE_REST("linear_attn."),
    {0}};
static const struct tensor_row STATE_QWEN_NEXT[] = {
    PART("linear_attn.in_proj_qkvz.weight", q, DIM_STATE_KEYS, DIM_HIDDEN, ALWAYS, PART_GROUP_Q),
    PART("linear_attn.in_proj_qkvz.weight", k, DIM_STATE_KEYS, DIM_HIDDEN, ALWAYS, PART_GROUP_K),
    PART("linear_attn.in_proj_qkvz.weight", v, DIM_STATE_VALUES, DIM_HIDDEN, ALWAYS, PART_GROUP_V),
    PART("linear_attn.in_proj_qkvz.weight", output_gate, DIM_STATE_VALUES, DIM_HIDDEN, ALWAYS,
         PART_GROUP_Z),
    GATES_BY_GROUP("linear_attn."),
    STATE_REST("linear_attn."),
    {0}};

/* GGUF files have Z apart. */
static const struct tensor_row STATE_QWEN_NEXT_APART[] = {STATE_IN_ORDER("linear_attn."),
                                                          GATES_BY_GROUP("linear_attn."),
                                                          STATE_REST("linear_attn."),
                                                          {0}};

static const struct tensor_row EXPERT_QWEN_JOINED[] = {
    EXPERT("mlp.experts.gate_up_proj", gate, DIM_EXPERT, DIM_HIDDEN, PART_GATE),
    EXPERT("mlp.experts.gate_up_proj", up, DIM_EXPERT, DIM_HIDDEN, PART_UP),
    EXPERT("mlp.experts.down_proj", down, DIM_HIDDEN, DIM_EXPERT, PART_ALL),
    {0}};

static const struct tensor_row EXPERT_GEMMA4_JOINED[] = {
    EXPERT("experts.gate_up_proj", gate, DIM_EXPERT, DIM_HIDDEN, PART_GATE),
    EXPERT("experts.gate_up_proj", up, DIM_EXPERT, DIM_HIDDEN, PART_UP),
    EXPERT("experts.down_proj", down, DIM_HIDDEN, DIM_EXPERT, PART_ALL),
    {0}};

static bool has_recurrent_state(const struct model_config *config)
{
    const enum tensor_naming naming = family_at(config->family)->naming;
    return naming == NAMED_AS_QWEN_NEXT || naming == NAMED_AS_QWEN3_5;
}

const struct tensor_row *tensor_names_of_recurrent(const struct model_config *config)
{
    assert(has_recurrent_state(config));
    if (family_at(config->family)->naming != NAMED_AS_QWEN_NEXT)
        return STATE_QWEN3_5;
    return config->recurrent.qkvz_is_apart ? STATE_QWEN_NEXT_APART : STATE_QWEN_NEXT;
}

const struct tensor_row *tensor_names_of_joined_experts(const struct model_config *config)
{
    if (family_at(config->family)->naming == NAMED_AS_GEMMA4)
        return EXPERT_GEMMA4_JOINED;
    return has_recurrent_state(config) ? EXPERT_QWEN_JOINED : NULL;
}
