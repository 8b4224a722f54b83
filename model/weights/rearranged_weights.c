#include "model/weights/rearranged_weights.h"

#include "base/huge_memory.h"
#include "base/thread_pool.h"
#include "model/files/mapped_file.h"
#include "model/weights/quantized_source.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { ALIGNMENT = 64, COLUMNS = 64 };

_Static_assert(offsetof(struct layer_weights, attention_norm) == 0, "the first of them");
_Static_assert(offsetof(struct expert_weights, gate) == 0, "the first of them");

static enum dtype made_dtype(const struct tensor *tensor)
{
    return tensor->source.is_widened ? DTYPE_F32 : tensor->dtype;
}

static bool is_quantized(const struct tensor *tensor)
{
    return tensor->source.quantized.layout != LAYOUT_ELEMENTS;
}

static size_t made_bytes(const struct tensor *tensor)
{
    const size_t n = (size_t)tensor->n_out * tensor->n_in;
    const size_t bytes = is_quantized(tensor) && !tensor->source.is_widened
                             ? quantized_source_bytes(tensor)
                             : dtype_array_bytes(made_dtype(tensor), n);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* A vector. */
static void widen(const struct tensor *tensor, float *made)
{
    const uint32_t n = tensor->n_out * tensor->n_in;
    const float more = tensor->source.adds_one ? 1 : 0;
    for (uint32_t i = 0; i < n; i++) {
        const float stored = dtype_load(tensor->dtype, tensor->source.data, i);
        made[i] = tensor->source.is_rate ? logf(-stored) : more + stored;
    }
}

/* Columns of the matrix in the files: a head's part of it is turned, or not. */
static uint32_t columns_in_file(const struct tensor *tensor)
{
    return tensor->source.turned ? tensor->source.turned : tensor->n_in;
}

/* Where element i of row o is in the files. */
static size_t element_in_file(const struct tensor *tensor, uint32_t o, uint32_t i)
{
    const struct tensor_source *source = &tensor->source;
    if (!source->turned)
        return tensor_row_in_file(source, o) * (size_t)tensor->n_in + i;
    const uint32_t row = source->first + o / source->turned * source->period + i;
    return row * (size_t)source->turned + o % source->turned;
}

static void turn(const struct tensor *tensor, uint8_t *made)
{
    const size_t bytes = dtype_bytes(tensor->dtype);
    const uint8_t *from = tensor->source.data;
    for (uint32_t first = 0; first < tensor->n_out; first += COLUMNS)
        for (uint32_t i = 0; i < tensor->n_in; i++)
            for (uint32_t o = first; o < first + COLUMNS && o < tensor->n_out; o++)
                memcpy(made + ((size_t)o * tensor->n_in + i) * bytes,
                       from + element_in_file(tensor, o, i) * bytes, bytes);
}

/* E4M3 times its scales: the parts of a matrix do not begin where its blocks do. */
static void widen_e4m3(const struct tensor *tensor, float *made)
{
    const struct quantized_source *source = &tensor->source.quantized;
    const uint32_t columns = columns_in_file(tensor), rows = tensor->scale_rows;
    const uint32_t n_scales = (columns + tensor->scale_columns - 1) / tensor->scale_columns;
    for (uint32_t o = 0; o < tensor->n_out; o++)
        for (uint32_t i = 0; i < tensor->n_in; i++) {
            const size_t at = element_in_file(tensor, o, i);
            const size_t scale = at / columns / rows * n_scales +
                                 at % columns / tensor->scale_columns;
            made[(size_t)o * tensor->n_in + i] = dtype_load(DTYPE_E4M3, tensor->source.data, at) *
                                                 dtype_load(source->scale_dtype, source->scales,
                                                            scale);
        }
}

/* Some columns at a time, so that both sides stay in the cache. */
static void transpose(const struct tensor *tensor, uint8_t *made)
{
    const struct tensor_source *source = &tensor->source;
    const size_t bytes = dtype_bytes(tensor->dtype);
    const uint8_t *from = source->data;
    for (uint32_t first = 0; first < tensor->n_in; first += COLUMNS)
        for (uint32_t row = 0; row < tensor->n_out; row++)
            for (uint32_t i = first; i < first + COLUMNS && i < tensor->n_in; i++)
                memcpy(made + ((size_t)row * tensor->n_in + i) * bytes,
                       from +
                           (i * (size_t)source->n_rows + tensor_row_in_file(source, row)) * bytes,
                       bytes);
}

static void gather(const struct tensor *tensor, uint8_t *made)
{
    const size_t bytes = dtype_array_bytes(tensor->dtype, tensor->n_in);
    const struct tensor_source *source = &tensor->source;
    const uint8_t *from = source->data;
    for (uint32_t row = 0; row < tensor->n_out; row++) {
        const uint32_t in_file = tensor_row_in_file(source, row);
        memcpy(made + row * bytes, source->rows ? source->rows[in_file] : from + in_file * bytes,
               bytes);
    }
}

struct strips {
    const struct tensor *tensor;
    uint8_t *made;
};

static void make_strip(void *arg, uint32_t index)
{
    const struct strips *strips = arg;
    quantized_source_make(strips->tensor, index, strips->made);
}

static void make_quantized(struct thread_pool *threads, struct tensor *tensor, uint8_t *made)
{
    if (tensor->source.quantized.layout == LAYOUT_E4M3) {
        quantized_source_scales(tensor, (float *)(void *)made);
        tensor->scales = made;
        if (tensor->source.run != tensor->source.period) {
            gather(tensor, made + quantized_source_scales_bytes(tensor));
            tensor->data = made + quantized_source_scales_bytes(tensor);
        }
        return;
    }
    struct strips strips = {tensor, made};
    const uint32_t n = (tensor->n_out + SOURCE_STRIP - 1) / SOURCE_STRIP;
    if (threads && n > 1)
        thread_pool_run(threads, n, make_strip, &strips);
    else
        for (uint32_t i = 0; i < n; i++)
            make_strip(&strips, i);
    const size_t bits = (size_t)tensor->source.n_rows * tensor->n_in *
                        tensor->source.quantized.bits;
    mapped_file_give_back(tensor->source.data, bits / 8);
    tensor->data = made;
    tensor->scale_rows = tensor->scale_columns = 0;
}

static void make_elements(struct tensor *tensor, uint8_t *made)
{
    if (is_quantized(tensor))
        widen_e4m3(tensor, (float *)(void *)made);
    else if (tensor->source.is_widened)
        widen(tensor, (float *)(void *)made);
    else if (tensor->source.turned)
        turn(tensor, made);
    else if (tensor->source.is_transposed)
        transpose(tensor, made);
    else
        gather(tensor, made);
    /* Nobody reads these pages of the file any more, but for other parts of a fused matrix, which read them again. */
    if (!tensor->source.rows)
        mapped_file_give_back(
            tensor->source.data,
            dtype_array_bytes(is_quantized(tensor) ? DTYPE_E4M3 : tensor->dtype,
                              (size_t)tensor->source.n_rows * columns_in_file(tensor)));
    tensor->dtype = made_dtype(tensor);
    tensor->data = made;
    tensor->scale_rows = tensor->scale_columns = 0;
}

static void make(struct thread_pool *threads, struct tensor *tensor, uint8_t *made)
{
    if (is_quantized(tensor) && !tensor->source.is_widened)
        make_quantized(threads, tensor, made);
    else
        make_elements(tensor, made);
    tensor->source = (struct tensor_source){.data = NULL};
}

/* Makes those of n tensors that have a source. made NULL: only counts the bytes. */
static size_t make_some(struct thread_pool *threads, struct tensor *tensors, size_t n,
                        uint8_t *made)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        if (!tensors[i].source.data)
            continue;
        const size_t needed = made_bytes(&tensors[i]);
        if (made)
            make(threads, &tensors[i], made + bytes);
        bytes += needed;
    }
    return bytes;
}

static size_t make_all(struct thread_pool *threads, struct weights *weights, uint32_t n_layers,
                       uint32_t n_experts, uint8_t *made)
{
    enum {
        PER_LAYER = sizeof(struct layer_weights) / sizeof(struct tensor),
        PER_EXPERT = sizeof(struct expert_weights) / sizeof(struct tensor)
    };
    size_t bytes = 0;
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        bytes += make_some(threads, &weights->layers[layer].attention_norm, PER_LAYER,
                           made ? made + bytes : NULL);
        for (uint32_t e = 0; weights->experts[layer] && e < n_experts; e++)
            bytes += make_some(threads, &weights->experts[layer][e].gate, PER_EXPERT,
                               made ? made + bytes : NULL);
    }
    bytes += make_some(threads, &weights->input_projection, 1, made ? made + bytes : NULL);
    return bytes + make_some(threads, &weights->head, 1, made ? made + bytes : NULL);
}

enum status rearranged_weights_make(struct thread_pool *threads, struct weights *weights,
                                    uint32_t n_layers, uint32_t n_experts,
                                    struct rearranged_weights *rearranged_out, struct error *error)
{
    struct rearranged_weights rearranged = {
        .bytes = make_all(threads, weights, n_layers, n_experts, NULL)};
    *rearranged_out = rearranged;
    if (rearranged.bytes == 0)
        return STATUS_OK;
    rearranged.memory = huge_memory_map(rearranged.bytes);
    if (!rearranged.memory)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %zu bytes of rearranged weights",
                         rearranged.bytes);
    (void)make_all(threads, weights, n_layers, n_experts, rearranged.memory);
    *rearranged_out = rearranged;
    return STATUS_OK;
}

void rearranged_weights_finish(struct rearranged_weights *rearranged)
{
    if (rearranged->memory)
        huge_memory_unmap(rearranged->memory, rearranged->bytes);
    *rearranged = (struct rearranged_weights){0};
}
