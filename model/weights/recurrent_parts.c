#include "model/weights/recurrent_parts.h"

static void by_heads(const struct model_config *config, bool is_gate, struct tensor_source *source)
{
    source->run = config->head_dim;
    source->period = 2 * config->head_dim;
    source->first = is_gate ? config->head_dim : 0;
    source->n_rows = 2 * config->n_heads * config->head_dim;
}

static void in_order(const struct model_config *config, enum tensor_part part,
                     struct tensor_source *source)
{
    const uint32_t keys = (uint32_t)dimension_size(config, 0, DIM_STATE_KEYS);
    const uint32_t values = (uint32_t)dimension_size(config, 0, DIM_STATE_VALUES);
    source->run = source->period = part == PART_STATE_V ? values : keys;
    source->first = part == PART_STATE_Q ? 0 : part == PART_STATE_K ? keys : 2 * keys;
    source->n_rows = 2 * keys + values;
}

static void by_groups(const struct model_config *config, enum tensor_part part,
                      struct tensor_source *source)
{
    const struct recurrent_sizes *sizes = &config->recurrent;
    const uint32_t heads = sizes->n_heads / sizes->n_key_heads;
    const uint32_t keys = sizes->key_dim, values = heads * sizes->value_dim;
    const bool is_gate = part == PART_GROUP_BETA || part == PART_GROUP_DECAY;
    source->period = is_gate ? 2 * heads : 2 * keys + 2 * values;
    source->n_rows = sizes->n_key_heads * source->period;
    source->run = is_gate ? heads : part == PART_GROUP_Q || part == PART_GROUP_K ? keys : values;
    source->first = part == PART_GROUP_DECAY ? heads
                    : part == PART_GROUP_K   ? keys
                    : part == PART_GROUP_V   ? 2 * keys
                    : part == PART_GROUP_Z   ? 2 * keys + values
                                             : 0;
}

bool recurrent_part_find(const struct model_config *config, enum tensor_part part,
                         struct tensor_source *source_out)
{
    if (part < PART_HEAD_Q)
        return false;
    if (part <= PART_HEAD_GATE)
        by_heads(config, part == PART_HEAD_GATE, source_out);
    else if (part <= PART_STATE_V)
        in_order(config, part, source_out);
    else if (part == PART_DECAY_LOG)
        source_out->is_widened = source_out->is_rate = config->recurrent.decays_are_rates;
    else
        by_groups(config, part, source_out);
    return true;
}
