#include "model/weights/quantized_weights.h"

#include "base/huge_memory.h"
#include "kernels/blocks.h"
#include "kernels/kernels.h"
#include "kernels/quantize.h"
#include "kernels/quantize_blocks.h"
#include "model/files/mapped_file.h"

#include <assert.h>
#include <stdlib.h>

enum { ALIGNMENT = 64 };

/* The matrices that are rounded. */
struct matrix_list {
    struct tensor **matrices; /* [n]; NULL: only counts */
    uint32_t n;
    enum weight_format format;
    bool has_head; /* the last one */
};

/* Bytes of as many elements that a block of any type has. */
static size_t density(enum dtype dtype)
{
    return dtype_array_bytes(dtype, BLOCK_ELEMENTS_MAX);
}

/* Those that the model does not have, E4M3, and MXFP4, whose makers trained it so, stay out; so do, where blocks are wanted, blocks that
 * have no more bits than those that they would become, and rows that are no whole blocks. */
static void add(struct matrix_list *list, struct tensor *matrix, enum dtype blocks)
{
    if (!matrix->data || matrix->dtype == DTYPE_E4M3 || matrix->dtype == DTYPE_MXFP4)
        return;
    const bool is_small = dtype_is_blocks(matrix->dtype) &&
                          density(matrix->dtype) <= density(blocks);
    if (weight_format_is_blocks(list->format) && (is_small || matrix->n_in % QUANTIZE_BLOCK != 0))
        return;
    if (list->matrices)
        list->matrices[list->n] = matrix;
    list->n++;
}

/* Of the blocks of a format: the head decides between all tokens, and is a small part of most models. */
static enum dtype layer_blocks(enum weight_format format)
{
    return format == WEIGHTS_Q4 ? DTYPE_Q4_1 : DTYPE_Q8_0;
}

static void add_layer(struct matrix_list *list, struct layer_weights *layer)
{
    const enum dtype blocks = layer_blocks(list->format);
    add(list, &layer->q, blocks);
    add(list, &layer->k, blocks);
    add(list, &layer->v, blocks);
    add(list, &layer->output_gate, blocks);
    add(list, &layer->o, blocks);
    add(list, &layer->q_a, blocks);
    add(list, &layer->cross_q, blocks);
    add(list, &layer->cross_k, blocks);
    add(list, &layer->cross_v, blocks);
    add(list, &layer->cross_o, blocks);
    if (weight_format_is_blocks(list->format)) { /* packed matrices cannot be taken head by head */
        add(list, &layer->uk, blocks);
        add(list, &layer->uv, blocks);
    }
    add(list, &layer->gate, blocks);
    add(list, &layer->up, blocks);
    add(list, &layer->down, blocks);
    add(list, &layer->input_gate, blocks);
    add(list, &layer->input_out, blocks);
    add(list, &layer->shared_gate, blocks);
    add(list, &layer->shared_up, blocks);
    add(list, &layer->shared_down, blocks);
}

static void add_all(struct matrix_list *list, const struct weights *weights, uint32_t n_layers,
                    uint32_t n_experts, struct tensor *head)
{
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        add_layer(list, &weights->layers[layer]);
        for (uint32_t e = 0; weights->experts[layer] && e < n_experts; e++) {
            add(list, &weights->experts[layer][e].gate, layer_blocks(list->format));
            add(list, &weights->experts[layer][e].up, layer_blocks(list->format));
            add(list, &weights->experts[layer][e].down, layer_blocks(list->format));
        }
    }
    const uint32_t n = list->n;
    add(list, head, DTYPE_Q8_0);
    list->has_head = list->n > n;
}

/* The head comes last; it is the caller's, since a tied one is not the embedding any more once it is rounded. */
static enum status list_make(const struct weights *weights, uint32_t n_layers, uint32_t n_experts,
                             enum weight_format format, struct tensor *head,
                             struct matrix_list *list_out)
{
    struct matrix_list list = {.format = format};
    add_all(&list, weights, n_layers, n_experts, head);
    list.matrices = calloc(list.n + 1, sizeof *list.matrices);
    if (!list.matrices)
        return STATUS_NO_MEMORY;
    list.n = 0;
    add_all(&list, weights, n_layers, n_experts, head);
    *list_out = list;
    return STATUS_OK;
}

static uint64_t source_bytes(const struct tensor *tensor)
{
    return dtype_array_bytes(tensor->dtype, (size_t)tensor->n_out * tensor->n_in);
}

uint64_t quantized_weights_source_bytes(enum weight_format format, const struct weights *weights,
                                        uint32_t n_layers, uint32_t n_experts)
{
    struct tensor head = weights->head;
    struct matrix_list list;
    uint64_t bytes = 0;
    if (list_make(weights, n_layers, n_experts, format, &head, &list) != STATUS_OK)
        return 0;
    for (uint32_t i = 0; i < list.n; i++)
        bytes += source_bytes(list.matrices[i]);
    free(list.matrices);
    return bytes;
}

static enum quantize_format format_of(enum weight_format format)
{
    return format == WEIGHTS_INT8 ? QUANTIZE_INT8_ROWS : QUANTIZE_INT8_GROUPS;
}

/* The type of the blocks that a matrix becomes. */
static enum dtype blocks_of(const struct matrix_list *list, uint32_t index)
{
    return list->has_head && index + 1 == list->n ? DTYPE_Q8_0 : layer_blocks(list->format);
}

static size_t blocks_bytes(const struct tensor *matrix, enum dtype blocks)
{
    return dtype_array_bytes(blocks, (size_t)matrix->n_out * matrix->n_in);
}

static enum status add_bytes(enum weight_format format, const struct matrix_list *list,
                             uint64_t *bytes_out, struct error *error)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        struct quantized counts;
        if (weight_format_is_blocks(format)) {
            bytes += blocks_bytes(list->matrices[i], blocks_of(list, i));
            continue;
        }
        TRY(quantized_init(format_of(format), list->matrices[i]->n_out, list->matrices[i]->n_in,
                           &counts, error));
        bytes += quantized_w_bytes(&counts) + quantized_scales_bytes(&counts);
    }
    *bytes_out = bytes;
    return STATUS_OK;
}

bool quantized_weights_round_head(enum weight_format format, const struct weights *weights)
{
    struct tensor head = weights->head;
    struct matrix_list list = {.format = format};
    add(&list, &head, DTYPE_Q8_0);
    return list.n > 0;
}

enum status quantized_weights_bytes(enum weight_format format, const struct weights *weights,
                                    uint32_t n_layers, uint32_t n_experts, uint64_t *bytes_out,
                                    struct error *error)
{
    struct tensor head = weights->head;
    struct matrix_list list;
    TRY(list_make(weights, n_layers, n_experts, format, &head, &list));
    enum status status = add_bytes(format, &list, bytes_out, error);
    free(list.matrices);
    return status;
}

static size_t aligned_bytes(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The same for every matrix. */
struct making {
    const struct kernels *kernels;
    struct thread_pool *threads;
    enum weight_format format;
    struct quantized_weights *quantized;
    size_t used; /* bytes of quantized's memory that have an owner */
    uint8_t *
        scratch; /* [scratch_bytes] of one matrix: fresh memory for each would take longer than rounding does */
    size_t scratch_bytes;
};

static uint8_t *take_scratch(struct making *making, size_t bytes)
{
    if (bytes > making->scratch_bytes) {
        free(making->scratch);
        making->scratch = malloc(bytes);
        making->scratch_bytes = making->scratch ? bytes : 0;
    }
    return making->scratch;
}

/* One mapping for all matrices, since most matrices of a small model are smaller than a huge page. */
static void *take_part(struct making *making, size_t bytes)
{
    assert(making->used + bytes <= making->quantized->memory_bytes && "count_parts counted it");
    void *part = making->quantized->memory + making->used;
    making->used += aligned_bytes(bytes);
    making->quantized->bytes += bytes;
    return part;
}

/* The product of rounded weights, whose arrays may not exist yet. */
static struct gemm gemm_of(const struct quantized *counts)
{
    return (struct gemm){.w = counts->w,
                         .w_dtype = counts->dtype,
                         .w_scales = counts->scales,
                         .w_scale_rows = counts->scale_rows,
                         .w_scale_columns = counts->scale_columns,
                         .n_in = counts->n_in,
                         .n_out = counts->n_out};
}

static void pack_matrix(struct making *making, const struct quantized *counts,
                        struct tensor *tensor)
{
    const struct gemm gemm = gemm_of(counts);
    const size_t bytes = making->kernels->gemm_packed_bytes(&gemm);
    void *packed = take_part(making, bytes);
    making->kernels->gemm_pack(making->threads, &gemm, packed);
    tensor->data = packed;
    tensor->scales = NULL;
    tensor->is_packed = true;
    tensor->packed_bytes = bytes;
}

/* Rounds the tensor to integers and scales: in memory of its own if they are packed afterwards. */
static enum status make_matrix(struct making *making, struct tensor *tensor, struct error *error)
{
    struct quantized counts;
    TRY(quantized_init(format_of(making->format), tensor->n_out, tensor->n_in, &counts, error));
    const bool is_packing = making->kernels->gemm_pack;
    const size_t w_bytes = quantized_w_bytes(&counts);
    const size_t scales_bytes = quantized_scales_bytes(&counts);
    const size_t own_bytes = is_packing ? aligned_bytes(w_bytes) + aligned_bytes(scales_bytes) : 0;
    uint8_t *scratch = take_scratch(making, own_bytes + 1);
    if (!scratch)
        return STATUS_NO_MEMORY;
    counts.w = is_packing ? scratch : take_part(making, w_bytes);
    counts.scales = is_packing ? scratch + aligned_bytes(w_bytes) : take_part(making, scales_bytes);
    quantize(making->threads, &counts, tensor->dtype, tensor->data);
    tensor->data = counts.w;
    tensor->dtype = counts.dtype;
    tensor->scales = counts.scales;
    tensor->scale_columns = counts.scale_columns;
    if (is_packing)
        pack_matrix(making, &counts, tensor);
    return STATUS_OK;
}

static void make_blocks(struct making *making, enum dtype blocks, struct tensor *tensor)
{
    void *made = take_part(making, blocks_bytes(tensor, blocks));

    quantize_blocks(making->threads, blocks, tensor->n_out, tensor->n_in, tensor->dtype,
                    tensor->data, made);
    tensor->data = made;
    tensor->dtype = blocks;
}

/* The bytes that take_part will give away for all matrices. */
static enum status count_parts(const struct making *making, const struct matrix_list *list,
                               size_t *bytes_out, struct error *error)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        struct quantized counts;
        if (weight_format_is_blocks(making->format)) {
            bytes += aligned_bytes(blocks_bytes(list->matrices[i], blocks_of(list, i)));
            continue;
        }
        TRY(quantized_init(format_of(making->format), list->matrices[i]->n_out,
                           list->matrices[i]->n_in, &counts, error));
        const struct gemm gemm = gemm_of(&counts);
        bytes += making->kernels->gemm_pack
                     ? aligned_bytes(making->kernels->gemm_packed_bytes(&gemm))
                     : aligned_bytes(quantized_w_bytes(&counts)) +
                           aligned_bytes(quantized_scales_bytes(&counts));
    }
    *bytes_out = bytes;
    return STATUS_OK;
}

static enum status make_all(const struct quantized_weights_options *options,
                            const struct weights *weights, const struct matrix_list *list,
                            struct quantized_weights *quantized, struct error *error)
{
    struct making making = {
        .threads = options->threads,
        .kernels = options->kernels,
        .format = options->format,
        .quantized = quantized,
    };
    uint64_t done = 0;
    size_t bytes_all;
    TRY(count_parts(&making, list, &bytes_all, error));
    if (bytes_all == 0) /* all matrices stay */
        return STATUS_OK;
    quantized->memory = huge_memory_map(bytes_all);
    if (!quantized->memory)
        return STATUS_NO_MEMORY;
    quantized->memory_bytes = bytes_all;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < list->n; i++) {
        struct tensor *tensor = list->matrices[i];
        const void *source = tensor->data;
        const uint64_t bytes = source_bytes(tensor);
        if (weight_format_is_blocks(making.format))
            make_blocks(&making, blocks_of(list, i), tensor);
        else
            status = make_matrix(&making, tensor, error);
        if (status != STATUS_OK)
            break;
        if (source != weights->embedding.data) /* each step reads the embedding of a tied head */
            mapped_file_give_back(source, bytes);
        done += bytes;
        if (options->on_progress)
            options->on_progress(options->arg, done);
    }
    free(making.scratch);
    return status;
}

enum status quantized_weights_make(const struct quantized_weights_options *options,
                                   struct weights *weights, uint32_t n_layers, uint32_t n_experts,
                                   struct quantized_weights *quantized_out, struct error *error)
{
    struct quantized_weights quantized = {0};
    struct matrix_list list = {NULL, 0, options->format, false};
    enum status status = list_make(weights, n_layers, n_experts, options->format, &weights->head,
                                   &list);
    if (status == STATUS_OK)
        status = make_all(options, weights, &list, &quantized, error);
    free(list.matrices);
    if (status != STATUS_OK) {
        quantized_weights_finish(&quantized);
        if (status == STATUS_NO_MEMORY)
            return error_set(error, status, "no memory for rounded weights");
        return status;
    }
    *quantized_out = quantized;
    return STATUS_OK;
}

void quantized_weights_finish(struct quantized_weights *quantized)
{
    if (quantized->memory)
        huge_memory_unmap(quantized->memory, quantized->memory_bytes);
    *quantized = (struct quantized_weights){0};
}
