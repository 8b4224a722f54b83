#include "model/quantized_weights.h"

#include "kernels/kernels.h"
#include "kernels/quantize.h"
#include "model/mapped_file.h"

#include <stdlib.h>

enum { MATRICES_PER_LAYER = 7, BUFFERS_PER_MATRIX = 2, ALIGNMENT = 64 };

static const size_t LAYER_MATRICES[MATRICES_PER_LAYER] = {
    offsetof(struct layer_weights, q),    offsetof(struct layer_weights, k),
    offsetof(struct layer_weights, v),    offsetof(struct layer_weights, o),
    offsetof(struct layer_weights, gate), offsetof(struct layer_weights, up),
    offsetof(struct layer_weights, down),
};

/* The matrix with this index: first those of the layers, in their order, then the head. */
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
        TRY(quantized_init(format_of(format), tensor->n_out, tensor->n_in, &counts, error));
        bytes += quantized_w_bytes(&counts) + quantized_scales_bytes(&counts);
    }
    *bytes_out = bytes;
    return STATUS_OK;
}

static void *keep_buffer(struct quantized_weights *quantized, size_t bytes)
{
    void *buffer = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (!buffer)
        return NULL;
    quantized->matrices[quantized->n_matrices++] = buffer;
    quantized->bytes += bytes;
    return buffer;
}

/* The same for every matrix. */
struct making {
    const struct kernels *kernels;
    struct thread_pool *threads;
    enum quantize_format format;
};

/* Rounds the tensor to integers and scales, in two buffers of the caller. */
static void round_matrix(const struct making *making, struct quantized *counts,
                         const struct tensor *tensor, struct gemm *gemm_out)
{
    quantize(making->threads, counts, tensor->dtype, tensor->data);
    *gemm_out = (struct gemm){.w = counts->w,
                              .w_dtype = counts->dtype,
                              .w_scales = counts->scales,
                              .w_scale_rows = counts->scale_rows,
                              .w_scale_columns = counts->scale_columns,
                              .n_in = counts->n_in,
                              .n_out = counts->n_out};
}

static enum status pack_matrix(const struct making *making, const struct gemm *gemm,
                               struct quantized_weights *quantized, struct tensor *tensor)
{
    const size_t bytes = making->kernels->gemm_packed_bytes(gemm);
    void *packed = keep_buffer(quantized, bytes);
    if (!packed)
        return STATUS_NO_MEMORY;
    making->kernels->gemm_pack(making->threads, gemm, packed);
    tensor->data = packed;
    tensor->is_packed = true;
    tensor->packed_bytes = bytes;
    return STATUS_OK;
}

static enum status make_matrix(const struct making *making, struct quantized_weights *quantized,
                               struct tensor *tensor, struct error *error)
{
    struct quantized counts;
    struct gemm gemm;
    TRY(quantized_init(making->format, tensor->n_out, tensor->n_in, &counts, error));
    bool is_packing = making->kernels->gemm_pack;
    size_t w_bytes = quantized_w_bytes(&counts), scales_bytes = quantized_scales_bytes(&counts);
    counts.w = is_packing ? malloc(w_bytes) : keep_buffer(quantized, w_bytes);
    counts.scales = is_packing ? malloc(scales_bytes) : keep_buffer(quantized, scales_bytes);
    enum status status = counts.w && counts.scales ? STATUS_OK : STATUS_NO_MEMORY;
    if (status == STATUS_OK) {
        round_matrix(making, &counts, tensor, &gemm);
        tensor->data = counts.w;
        tensor->dtype = counts.dtype;
        tensor->scales = counts.scales;
        tensor->scale_columns = counts.scale_columns;
    }
    if (status == STATUS_OK && is_packing)
        status = pack_matrix(making, &gemm, quantized, tensor);
    if (is_packing) {
        tensor->scales = NULL;
        free(counts.w);
        free(counts.scales);
    }
    return status;
}

static enum status make_all(const struct quantized_weights_options *options,
                            struct weights *weights, uint32_t n_layers,
                            struct quantized_weights *quantized, struct error *error)
{
    struct making making = {
        .threads = options->threads,
        .kernels = options->kernels,
        .format = format_of(options->format),
    };
    uint32_t n_matrices = n_layers * MATRICES_PER_LAYER + 1;
    uint64_t done = 0;
    quantized->matrices = calloc((size_t)n_matrices * BUFFERS_PER_MATRIX,
                                 sizeof *quantized->matrices);
    if (!quantized->matrices)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < n_matrices; i++) {
        struct tensor *tensor = matrix_at(weights, n_layers, i, &weights->head);
        const void *source = tensor->data;
        const uint64_t bytes = source_bytes(tensor);
        TRY(make_matrix(&making, quantized, tensor, error));
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
    for (uint32_t i = 0; i < quantized->n_matrices; i++)
        free(quantized->matrices[i]);
    free(quantized->matrices);
    *quantized = (struct quantized_weights){0};
}
