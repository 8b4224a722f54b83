#include "model/weights/quantized_weights.h"

#include "base/huge_memory.h"
#include "kernels/kernels.h"
#include "kernels/quantize.h"
#include "model/files/mapped_file.h"

#include <assert.h>
#include <stdlib.h>

enum { MATRICES_PER_LAYER = 7, ALIGNMENT = 64 };

static const size_t LAYER_MATRICES[MATRICES_PER_LAYER] = {
    offsetof(struct layer_weights, q),    offsetof(struct layer_weights, k),
    offsetof(struct layer_weights, v),    offsetof(struct layer_weights, o),
    offsetof(struct layer_weights, gate), offsetof(struct layer_weights, up),
    offsetof(struct layer_weights, down),
};

/* The matrix with this index: first those of the layers, in their order, then the head. Its data is NULL if the model has
 * none: an MLP without a gate. */
static struct tensor *matrix_at(const struct weights *weights, uint32_t n_layers, uint32_t index,
                                struct tensor *head)
{
    uint32_t layer = index / MATRICES_PER_LAYER;
    if (layer == n_layers)
        return head;
    char *layer_weights = (char *)&weights->layers[layer];
    return (struct tensor *)(void *)(layer_weights + LAYER_MATRICES[index % MATRICES_PER_LAYER]);
}

static uint64_t source_bytes(const struct tensor *tensor)
{
    return (uint64_t)tensor->n_out * tensor->n_in * dtype_bytes(tensor->dtype);
}

uint64_t quantized_weights_source_bytes(const struct weights *weights, uint32_t n_layers)
{
    struct tensor head = weights->head;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i <= n_layers * MATRICES_PER_LAYER; i++)
        bytes += source_bytes(matrix_at(weights, n_layers, i, &head));
    return bytes;
}

static enum quantize_format format_of(enum weight_format format)
{
    return format == WEIGHTS_INT8 ? QUANTIZE_INT8_ROWS : QUANTIZE_INT8_GROUPS;
}

enum status quantized_weights_bytes(enum weight_format format, const struct weights *weights,
                                    uint32_t n_layers, uint64_t *bytes_out, struct error *error)
{
    struct tensor head = weights->head;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i <= n_layers * MATRICES_PER_LAYER; i++) {
        const struct tensor *tensor = matrix_at(weights, n_layers, i, &head);
        struct quantized counts;
        if (!tensor->data)
            continue;
        TRY(quantized_init(format_of(format), tensor->n_out, tensor->n_in, &counts, error));
        bytes += quantized_w_bytes(&counts) + quantized_scales_bytes(&counts);
    }
    *bytes_out = bytes;
    return STATUS_OK;
}

static size_t aligned_bytes(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The same for every matrix. */
struct making {
    const struct kernels *kernels;
    struct thread_pool *threads;
    enum quantize_format format;
    struct quantized_weights *quantized;
    size_t used; /* bytes of quantized's memory that have an owner */
};

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

/* Rounds the tensor to integers and scales: in buffers of its own if they are packed afterwards. */
static enum status make_matrix(struct making *making, struct tensor *tensor, struct error *error)
{
    struct quantized counts;
    TRY(quantized_init(making->format, tensor->n_out, tensor->n_in, &counts, error));
    const bool is_packing = making->kernels->gemm_pack;
    const size_t w_bytes = quantized_w_bytes(&counts);
    const size_t scales_bytes = quantized_scales_bytes(&counts);
    counts.w = is_packing ? malloc(w_bytes) : take_part(making, w_bytes);
    counts.scales = is_packing ? malloc(scales_bytes) : take_part(making, scales_bytes);
    enum status status = counts.w && counts.scales ? STATUS_OK : STATUS_NO_MEMORY;
    if (status == STATUS_OK) {
        quantize(making->threads, &counts, tensor->dtype, tensor->data);
        tensor->data = counts.w;
        tensor->dtype = counts.dtype;
        tensor->scales = counts.scales;
        tensor->scale_columns = counts.scale_columns;
    }
    if (status == STATUS_OK && is_packing)
        pack_matrix(making, &counts, tensor);
    if (is_packing) {
        free(counts.w);
        free(counts.scales);
    }
    return status;
}

/* The bytes that take_part will give away for all matrices. */
static enum status count_parts(const struct making *making, const struct weights *weights,
                               uint32_t n_layers, size_t *bytes_out, struct error *error)
{
    struct tensor head = weights->head;
    size_t bytes = 0;
    for (uint32_t i = 0; i <= n_layers * MATRICES_PER_LAYER; i++) {
        const struct tensor *tensor = matrix_at(weights, n_layers, i, &head);
        struct quantized counts;
        if (!tensor->data)
            continue;
        TRY(quantized_init(making->format, tensor->n_out, tensor->n_in, &counts, error));
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
                            struct weights *weights, uint32_t n_layers,
                            struct quantized_weights *quantized, struct error *error)
{
    struct making making = {
        .threads = options->threads,
        .kernels = options->kernels,
        .format = format_of(options->format),
        .quantized = quantized,
    };
    const uint32_t n_matrices = n_layers * MATRICES_PER_LAYER + 1;
    uint64_t done = 0;
    size_t bytes_all;
    TRY(count_parts(&making, weights, n_layers, &bytes_all, error));
    quantized->memory = huge_memory_map(bytes_all);
    if (!quantized->memory)
        return STATUS_NO_MEMORY;
    quantized->memory_bytes = bytes_all;
    for (uint32_t i = 0; i < n_matrices; i++) {
        struct tensor *tensor = matrix_at(weights, n_layers, i, &weights->head);
        if (!tensor->data)
            continue;
        const void *source = tensor->data;
        const uint64_t bytes = source_bytes(tensor);
        TRY(make_matrix(&making, tensor, error));
        if (source != weights->embedding.data) /* each step reads the embedding of a tied head */
            mapped_file_give_back(source, bytes);
        done += bytes;
        if (options->on_progress)
            options->on_progress(options->arg, done);
    }
    return STATUS_OK;
}

enum status quantized_weights_make(const struct quantized_weights_options *options,
                                   struct weights *weights, uint32_t n_layers,
                                   struct quantized_weights *quantized_out, struct error *error)
{
    struct quantized_weights quantized = {0};
    enum status status = make_all(options, weights, n_layers, &quantized, error);
    if (status != STATUS_OK) {
        quantized_weights_finish(&quantized);
        if (status == STATUS_NO_MEMORY)
            return error_set(error, status, "no memory for INT8 weights");
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
