/* Attention over latents (kernels/latent.h, struct latent_shape in model/config/decoder.h). Rows of a token:
 *
 *     qkv            q: n_heads times nope | rope     row: latent | rope     q_a: q_rank
 *     latent_q       n_heads times W_uk^T nope | rotated rope
 *     latent_sums    n_heads times a sum of latents
 *     attended       n_heads times W_uv of that
 *
 * W_uk and W_uv of a head are rows of one matrix for all heads, so a product of a head is one of a part of it. */
#include "kernels/rope.h"
#include "kernels/rotary.h"
#include "model/config/kv_layers.h"
#include "model/forward/forward_parts.h"
#include "model/weights/kv_scales.h"

#include <assert.h>
#include <stdlib.h>

struct forward_latent {
    struct latent_config config;
    struct latent *latent;
    /* NULL before forward_latent_lay_out: */
    struct latent_sequence *sequences; /* [sequences_max] */
    uint32_t n_sequences;              /* of the step */
    uint32_t *positions;               /* [tokens_max] of the step */
    float *cos, *sin;                  /* [kv_tokens_max][rope_dim / 2] */
    float *cache_scales;               /* [layers with latents] of INT8 and E4M3 */
};

static const struct latent_shape *shape_of(const struct forward *forward)
{
    return &forward->config->decoder.latent;
}

uint32_t forward_latent_width(const struct model_config *config)
{
    const struct latent_shape *latent = &config->decoder.latent;
    if (latent->dim == 0)
        return 0;
    const uint32_t parts = config->n_heads * config->head_dim + latent_row(latent) + latent->q_rank;
    const uint32_t attended = model_attended_width(config); /* which has the room for a while */
    return parts > attended ? parts : attended;
}

/* ---- creation ---- */

/* The set that has the chosen attention: its latents have the same sums. */
static const struct kernels *kernels_of(const struct forward *forward)
{
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = kernels_list(list, KERNELS_MAX);
    for (uint32_t i = 0; i < n; i++)
        if (list[i]->attention == forward->backend && list[i]->latent)
            return list[i];
    return forward->kernels;
}

enum status forward_latent_create(struct forward *forward, struct error *error)
{
    const struct latent_shape *shape = shape_of(forward);
    if (forward->latent)
        return STATUS_OK;
    struct forward_latent *latent = calloc(1, sizeof *latent);
    if (!latent)
        return error_set(error, STATUS_NO_MEMORY, "no memory for attention over latents");
    forward->latent = latent;
    latent->config = (struct latent_config){.n_heads = forward->config->n_heads,
                                            .latent_dim = shape->dim,
                                            .rope_dim = shape->rope_dim,
                                            .cache = forward->shape.cache,
                                            .scale = forward->config->decoder.attention_scale};
    enum status status = latent_create(kernels_of(forward), forward->threads, &latent->config,
                                       &latent->latent, error);
    if (status != STATUS_OK)
        forward_latent_destroy(forward);
    return status;
}

enum status forward_latent_lay_out(struct forward *forward, struct error *error)
{
    struct forward_latent *latent = forward->latent;
    const struct forward_options *options = &forward->options;
    const size_t half = shape_of(forward)->rope_dim / 2, n = forward->kv_tokens_max;
    const uint32_t n_layers = kv_layers_count(forward->config);
    assert(!latent->sequences && !rope_depends_on_length(forward->rope));
    latent->sequences = calloc(options->sequences_max, sizeof *latent->sequences);
    latent->positions = calloc(options->tokens_max, sizeof *latent->positions);
    latent->cos = malloc(n * half * sizeof *latent->cos);
    latent->sin = malloc(n * half * sizeof *latent->sin);
    latent->cache_scales = calloc(n_layers, sizeof *latent->cache_scales);
    if (!latent->sequences || !latent->positions || !latent->cos || !latent->sin ||
        !latent->cache_scales)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the angles of %u positions",
                         forward->kv_tokens_max);
    for (uint32_t i = 0; i < forward->kv_tokens_max; i++)
        rope_angles(forward->rope, i, forward->kv_tokens_max, latent->cos + i * half,
                    latent->sin + i * half);
    for (uint32_t i = 0; dtype_is_8bit(latent->config.cache) && i < n_layers; i++)
        latent->cache_scales[i] = kv_scales_of(options->kv_scales, latent->config.cache, i,
                                               KV_PART_K);
    return STATUS_OK;
}

void forward_latent_destroy(struct forward *forward)
{
    struct forward_latent *latent = forward->latent;
    if (!latent)
        return;
    latent_destroy(latent->latent);
    free(latent->sequences);
    free(latent->positions);
    free(latent->cos);
    free(latent->sin);
    free(latent->cache_scales);
    free(latent);
    forward->latent = NULL;
}

void forward_latent_touch(struct forward *forward)
{
    latent_touch(forward->latent->latent);
}

struct kv_view forward_latent_view(const struct forward *forward, void *base, uint32_t n_blocks,
                                   uint32_t n_places)
{
    return latent_view_dense(base, n_blocks, n_places, forward->options.block_tokens,
                             &forward->latent->config);
}

/* ---- a step ---- */

const uint32_t *forward_latent_prepare(struct forward *forward, uint32_t n_sequences)
{
    struct forward_latent *latent = forward->latent;
    uint32_t n_tokens = 0;
    for (uint32_t i = 0; i < n_sequences; i++) {
        const struct attention_sequence *sequence = &forward->sequences[i];
        latent->sequences[i] = (struct latent_sequence){.query_len = sequence->query_len,
                                                        .kv_len = sequence->kv_len,
                                                        .block_ids = sequence->block_ids,
                                                        .n_blocks = sequence->n_blocks};
        for (uint32_t t = 0; t < sequence->query_len; t++)
            latent->positions[n_tokens++] = sequence->kv_len - sequence->query_len + t;
    }
    latent->n_sequences = n_sequences;
    return latent->positions;
}

/* Strides are of a token and of a head. */
static void rotate(const struct forward *forward, struct rows x, uint32_t x_token, uint32_t x_head,
                   struct rows y, uint32_t y_token, uint32_t y_head, uint32_t n_heads,
                   const struct packed_step *packed)
{
    const struct forward_latent *latent = forward->latent;
    const uint32_t rope_dim = shape_of(forward)->rope_dim;
    forward->kernels->rotary(
        forward->threads,
        &(struct rotary){.x = x.data,
                         .y = y.data,
                         .dtype = x.dtype,
                         .x_token_stride = x_token,
                         .x_head_stride = x_head,
                         .y_token_stride = y_token,
                         .y_head_stride = y_head,
                         .n_tokens = packed->n_tokens,
                         .n_heads = n_heads,
                         .head_dim = rope_dim,
                         .table = {.cos = latent->cos,
                                   .sin = latent->sin,
                                   .n_positions = forward->kv_tokens_max,
                                   .rotary_dim = rope_dim,
                                   .is_interleaved = rope_is_interleaved(forward->rope)},
                         .positions = packed->positions});
}

/* hidden -> q and the row that is cached */
static void make_rows(const struct forward *forward, const struct packed_step *packed,
                      uint32_t layer, struct rows q, struct rows row, struct rows q_a)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const bool has_rank = shape_of(forward)->q_rank > 0;
    const uint32_t n_rows = packed->n_tokens;
    const struct rows x = forward_before_attention(forward, layer, n_rows);
    struct gemm products[] = {
        forward_product(&weights->k, &weights->k_bias, x, row, n_rows),
        has_rank ? forward_product(&weights->q_a, &weights->q_a_bias, x, q_a, n_rows)
                 : forward_product(&weights->q, &weights->q_bias, x, q, n_rows),
    };
    products[0].y_stride = products[1].y_stride = forward->qkv_width;
    forward_multiply(forward, products, 2);
    forward_norm_rows(forward, &weights->latent_norm, row, LATENT_NORM_EPS, n_rows);
    if (!has_rank)
        return;
    forward_norm_rows(forward, &weights->q_a_norm, q_a, LATENT_NORM_EPS, n_rows);
    struct gemm of_rank = forward_product(&weights->q, &weights->q_bias, q_a, q, n_rows);
    of_rank.x_stride = of_rank.y_stride = forward->qkv_width;
    forward_multiply(forward, &of_rank, 1);
}

/* y of each head = its part of weight, n_out rows, times x of that head. Strides are of a token and of a head. */
static void multiply_heads(const struct forward *forward, const struct tensor *weight,
                           uint32_t n_out, struct rows x, uint64_t x_token, uint32_t x_head,
                           struct rows y, uint64_t y_token, uint32_t y_head, uint32_t n_rows)
{
    static const struct tensor NO_BIAS = {0};
    const uint32_t n_heads = forward->config->n_heads;
    assert(weight->n_out == n_heads * n_out && !weight->is_packed && !weight->scales);
    for (uint32_t first = 0; first < n_heads; first += GEMMS_MAX) {
        struct gemm products[GEMMS_MAX];
        const uint32_t n = n_heads - first < GEMMS_MAX ? n_heads - first : GEMMS_MAX;
        for (uint32_t i = 0; i < n; i++) {
            const size_t head = first + i;
            products[i] = forward_product(weight, &NO_BIAS, forward_rows_from(x, head * x_head),
                                          forward_rows_from(y, head * y_head), n_rows);
            products[i].w = (const uint8_t *)weight->data +
                            dtype_array_bytes(weight->dtype, head * n_out * weight->n_in);
            products[i].n_out = n_out;
            products[i].x_stride = x_token;
            products[i].y_stride = y_token;
        }
        forward_multiply(forward, products, n);
    }
}

void forward_latent_attend(const struct forward *forward, const struct packed_step *packed,
                           uint32_t layer)
{
    const struct forward_latent *latent = forward->latent;
    const struct latent_shape *shape = shape_of(forward);
    const struct model_config *config = forward->config;
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const uint32_t n_heads = config->n_heads, qk = config->head_dim, width = latent_row(shape);
    const uint32_t n_rows = packed->n_tokens, row_stride = forward->qkv_width;
    const struct rows q = forward->qkv, row = forward_rows_from(q, (size_t)n_heads * qk),
                      q_a = forward_rows_from(row, width);

    make_rows(forward, packed, layer, q, row, q_a);
    const struct rows row_rope = forward_rows_from(row, shape->dim);
    rotate(forward, row_rope, row_stride, width, row_rope, row_stride, width, 1, packed);
    rotate(forward, forward_rows_from(q, shape->nope_dim), row_stride, qk,
           forward_rows_from(forward->latent_q, shape->dim), n_heads * width, width, n_heads,
           packed);
    multiply_heads(forward, &weights->uk, shape->dim, q, row_stride, qk, forward->latent_q,
                   (uint64_t)n_heads * width, width, n_rows);

    const struct latent_step step = {
        .sequences = latent->sequences, .n_sequences = latent->n_sequences, .kv = forward->kv};
    const uint32_t number = kv_layers_before(config, layer);
    const struct latent_io io = {.layer_index = number,
                                 .cache_scale = latent->cache_scales[number],
                                 .rows = row.data,
                                 .rows_stride = row_stride,
                                 .q = forward->latent_q.data,
                                 .q_stride = (uint64_t)n_heads * width,
                                 .output = forward->latent_sums.data,
                                 .output_stride = (uint64_t)n_heads * shape->dim};
    assert(number > 0 || latent_check(latent->latent, &step, &io, NULL) == STATUS_OK);
    latent_write(latent->latent, &step, &io);
    latent_attend(latent->latent, &step, &io);
    multiply_heads(forward, &weights->uv, shape->v_dim, forward->latent_sums,
                   (uint64_t)n_heads * shape->dim, shape->dim, forward->attended,
                   (uint64_t)n_heads * shape->v_dim, shape->v_dim, n_rows);
}
