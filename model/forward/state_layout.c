#include "model/forward/state_layout.h"

#include "model/config/kv_layers.h"

#include <stdlib.h>

static uint32_t layers_of(const struct model_config *config)
{
    return kv_layers_recurrent(config);
}

static size_t rows_bytes(const struct model_config *config)
{
    const struct recurrent_sizes *sizes = &config->recurrent;
    const size_t channels = 2 * (size_t)sizes->n_key_heads * sizes->key_dim +
                            (size_t)sizes->n_heads * sizes->value_dim;
    return (sizes->conv_width - 1) * channels * sizeof(float);
}

static size_t matrix_bytes(const struct model_config *config)
{
    return (size_t)config->recurrent.key_dim * config->recurrent.value_dim * sizeof(float);
}

size_t state_layout_bytes(const struct model_config *config)
{
    const uint32_t n = layers_of(config);
    return n > 0 ? n * (rows_bytes(config) + config->recurrent.n_heads * matrix_bytes(config)) : 0;
}

size_t state_layout_part_bytes(const struct model_config *config)
{
    const size_t rows = rows_bytes(config), matrix = matrix_bytes(config);
    return rows > matrix ? rows : matrix;
}

/* Returns where a part of so many bytes lies, and moves next behind it. */
static struct state_part place(struct state_part *next, size_t bytes, size_t block_bytes)
{
    if (next->at + bytes > block_bytes)
        *next = (struct state_part){.block = next->block + 1};
    const struct state_part part = *next;
    const size_t end = part.at + bytes;
    next->at = (end + STATE_PART_ALIGNMENT - 1) / STATE_PART_ALIGNMENT * STATE_PART_ALIGNMENT;
    return part;
}

/* parts: NULL, or where they are written. Returns the number of blocks. Each part fits into one. */
static uint32_t place_all(const struct model_config *config, size_t block_bytes,
                          struct state_part *parts)
{
    const size_t rows = rows_bytes(config), matrix = matrix_bytes(config);
    const uint32_t n_parts = 1 + config->recurrent.n_heads, n_layers = layers_of(config);
    struct state_part next = {0};
    for (uint32_t i = 0; i < n_layers * n_parts; i++) {
        const struct state_part part = place(&next, i % n_parts == 0 ? rows : matrix, block_bytes);
        if (parts)
            parts[i] = part;
    }
    return next.block + 1;
}

uint32_t state_layout_blocks(const struct model_config *config, size_t block_bytes)
{
    if (layers_of(config) == 0)
        return 0;
    return state_layout_part_bytes(config) <= block_bytes ? place_all(config, block_bytes, NULL)
                                                          : UINT32_MAX;
}

enum status state_layout_create(const struct model_config *config, size_t block_bytes,
                                struct error *error, struct state_layout *layout_out)
{
    struct state_layout layout = {.n_layers = layers_of(config),
                                  .n_heads = config->recurrent.n_heads,
                                  .n_blocks = state_layout_blocks(config, block_bytes),
                                  .rows_bytes = rows_bytes(config),
                                  .matrix_bytes = matrix_bytes(config)};
    *layout_out = (struct state_layout){0};
    if (layout.n_layers == 0)
        return STATUS_OK;
    if (layout.n_blocks == UINT32_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a block has %zu bytes, and a part of a layer's recurrent state has %zu: "
                         "raise kv_block_tokens",
                         block_bytes, state_layout_part_bytes(config));
    layout.parts = calloc((size_t)layout.n_layers * (1 + layout.n_heads), sizeof *layout.parts);
    if (!layout.parts)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the layout of states");
    (void)place_all(config, block_bytes, layout.parts);
    *layout_out = layout;
    return STATUS_OK;
}

void state_layout_finish(struct state_layout *layout)
{
    free(layout->parts);
    *layout = (struct state_layout){0};
}
