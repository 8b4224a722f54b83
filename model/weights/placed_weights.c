#include "model/weights/placed_weights.h"

#include <assert.h>
#include <stdlib.h>

#define MIB (1 << 20)

enum {
    TENSORS_PER_LAYER = sizeof(struct layer_weights) / sizeof(struct tensor),
    TENSORS_BESIDE = 8, /* of struct weights; the head is the last one */
};
_Static_assert(sizeof(struct layer_weights) % sizeof(struct tensor) == 0, "tensors only");

/* ---- one tensor ---- */

/* Packed tensors and those in blocks are placed whole. */
static bool is_whole_alone(const struct tensor *tensor)
{
    return tensor->is_packed || dtype_is_blocks(tensor->dtype);
}

static struct device_matrix data_matrix(const struct tensor *tensor)
{
    if (dtype_is_blocks(tensor->dtype))
        return (struct device_matrix){
            tensor->data, 1, dtype_array_bytes(tensor->dtype, (size_t)tensor->n_out * tensor->n_in),
            1};
    if (tensor->is_packed)
        return (struct device_matrix){tensor->data, 1, tensor->packed_bytes, 1};
    return (struct device_matrix){tensor->data, tensor->n_out, tensor->n_in,
                                  dtype_bytes(tensor->dtype)};
}

static struct device_matrix scale_matrix(const struct tensor *tensor)
{
    uint32_t n_groups = (tensor->n_in + tensor->scale_columns - 1) / tensor->scale_columns;
    return (struct device_matrix){tensor->scales, tensor->n_out, n_groups, sizeof(float)};
}

static uint64_t matrix_bytes(const struct device_matrix *matrix)
{
    return matrix->n_rows * matrix->n_columns * matrix->element_bytes;
}

uint64_t tensor_bytes(const struct tensor *tensor)
{
    const struct device_matrix data = data_matrix(tensor);
    if (!tensor->scales)
        return matrix_bytes(&data);
    const struct device_matrix scales = scale_matrix(tensor);
    return matrix_bytes(&data) + matrix_bytes(&scales);
}

static bool is_whole(const struct tensor *tensor, const struct device_slice *slice)
{
    return slice->first_row == 0 && slice->n_rows == tensor->n_out && slice->first_column == 0 &&
           slice->n_columns == tensor->n_in;
}

/* Waits until no copy writes to memory that will be freed. The status does not matter: a lost device copies nothing. */
static void settle(struct device *device)
{
    enum status status = device_wait(device, device_record(device, DEVICE_COPY));
    (void)status;
}

/* Whether no edge of the slice divides a group of columns with one scale. One scale a row always passes. */
static bool keeps_scales_whole(const struct tensor *tensor, const struct device_slice *slice)
{
    uint64_t group = tensor->scale_columns, end = slice->first_column + slice->n_columns;
    return group >= tensor->n_in ||
           (slice->first_column % group == 0 && (end % group == 0 || end == tensor->n_in));
}

static enum status place_scales(struct device *device, const struct tensor *tensor,
                                const struct device_slice *slice, struct error *error,
                                struct tensor *placed, struct device_memory *memory_out)
{
    const struct device_matrix scales = scale_matrix(tensor);
    const uint64_t group = tensor->scale_columns;
    const bool is_one = scales.n_columns == 1;
    const struct device_slice of_scales = {
        .first_row = slice->first_row,
        .n_rows = slice->n_rows,
        .first_column = is_one ? 0 : slice->first_column / group,
        .n_columns = is_one ? 1 : (slice->n_columns + group - 1) / group,
    };
    struct device_placed on_device;
    TRY(device_place(device, DEVICE_COPY, &scales, &of_scales, error, &on_device));
    placed->scales = on_device.data;
    placed->scale_columns = is_one ? placed->n_in : tensor->scale_columns;
    *memory_out = on_device.memory;
    return STATUS_OK;
}

enum status tensor_place(struct device *device, const struct tensor *tensor,
                         const struct device_slice *slice, struct error *error,
                         struct tensor *placed_out,
                         struct device_memory memories_out[PLACED_MEMORIES])
{
    const struct device_matrix data = data_matrix(tensor);
    const struct device_slice all = device_slice_whole(&data);
    struct device_memory memories[PLACED_MEMORIES] = {{0}};
    struct device_placed on_device;
    if (is_whole_alone(tensor) && !is_whole(tensor, slice))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a slice of a packed matrix of %u by %u: it is placed whole",
                         tensor->n_out, tensor->n_in);
    if (tensor->scales && !keeps_scales_whole(tensor, slice))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a slice of columns that divides a group of %u with one scale",
                         tensor->scale_columns);
    TRY(device_place(device, DEVICE_COPY, &data, is_whole_alone(tensor) ? &all : slice, error,
                     &on_device));
    struct tensor placed = *tensor;
    memories[0] = on_device.memory;
    placed.data = on_device.data;
    placed.n_out = (uint32_t)slice->n_rows; /* at most the rows of the tensor */
    placed.n_in = (uint32_t)slice->n_columns;
    enum status status = STATUS_OK;
    if (tensor->scales)
        status = place_scales(device, tensor, slice, error, &placed, &memories[1]);
    if (status != STATUS_OK) {
        settle(device);
        device_free(device, &memories[0]);
        return status;
    }
    *placed_out = placed;
    for (int i = 0; i < PLACED_MEMORIES; i++)
        memories_out[i] = memories[i];
    return STATUS_OK;
}

/* ---- all tensors ---- */

static struct tensor *tensor_at(struct weights *weights, uint32_t n_layers, uint32_t index)
{
    struct tensor *beside[TENSORS_BESIDE] = {&weights->embedding,
                                             &weights->embedding_norm,
                                             &weights->embedding_norm_bias,
                                             &weights->positions,
                                             &weights->norm,
                                             &weights->norm_bias,
                                             &weights->head_bias,
                                             &weights->head};
    uint32_t layer = index / TENSORS_PER_LAYER;
    if (layer >= n_layers)
        return beside[index - n_layers * TENSORS_PER_LAYER];
    struct tensor *first = &weights->layers[layer].attention_norm;
    return first + index % TENSORS_PER_LAYER;
}
_Static_assert(offsetof(struct layer_weights, attention_norm) == 0, "the first of them");

static enum status place_tensor(struct placed_weights *placed, struct tensor *tensor,
                                struct error *error)
{
    const struct device_slice all = {.n_rows = tensor->n_out, .n_columns = tensor->n_in};
    struct device_memory memories[PLACED_MEMORIES];
    const uint64_t bytes = tensor_bytes(tensor);
    TRY(tensor_place(placed->device, tensor, &all, error, tensor, memories));
    if (!memories[0].base)
        placed->in_place_bytes += bytes;
    for (int i = 0; i < PLACED_MEMORIES; i++)
        if (memories[i].base)
            placed->memories[placed->n_memories++] = memories[i];
    return STATUS_OK;
}

static uint64_t count_bytes(struct weights *weights, uint32_t n_layers, uint32_t n_tensors)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n_tensors; i++)
        if (tensor_at(weights, n_layers, i)->data)
            bytes += tensor_bytes(tensor_at(weights, n_layers, i));
    return bytes;
}

/* Called before the first tensor is placed: other processes may use the memory. */
static enum status check_free(struct device *device, uint64_t bytes, struct error *error)
{
    if (bytes <= device_free_bytes(device))
        return STATUS_OK;
    return device_no_memory(device, "weights", bytes, error);
}

static enum status place_all(struct placed_weights *placed,
                             const struct placed_weights_options *options, struct weights *weights,
                             uint32_t n_layers, struct error *error)
{
    const bool is_tied = weights->head.data == weights->embedding.data;
    const uint32_t n_all = n_layers * TENSORS_PER_LAYER + TENSORS_BESIDE;
    const uint32_t n_tensors = is_tied ? n_all - 1 : n_all; /* the head is the last one */
    const uint64_t bytes_all = count_bytes(weights, n_layers, n_tensors);
    uint64_t done = 0;
    TRY(check_free(placed->device, bytes_all, error));
    placed->memories = calloc((size_t)n_all * PLACED_MEMORIES, sizeof *placed->memories);
    if (!placed->memories)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a table of the weights");
    for (uint32_t i = 0; i < n_tensors; i++) {
        struct tensor *tensor = tensor_at(weights, n_layers, i);
        if (!tensor->data)
            continue;
        TRY(place_tensor(placed, tensor, error));
        done += tensor_bytes(tensor);
        if (options->on_progress)
            options->on_progress(options->arg, done, bytes_all);
    }
    if (is_tied)
        weights->head = weights->embedding;
    struct device_ticket ticket = device_record(placed->device, DEVICE_COPY);
    enum status status = device_wait(placed->device, ticket);
    return status == STATUS_OK ? status
                               : error_set(error, status,
                                           "%s: the device was lost while weights "
                                           "were placed",
                                           device_name(placed->device));
}

enum status placed_weights_make(const struct placed_weights_options *options,
                                struct weights *weights, uint32_t n_layers,
                                struct placed_weights *placed_out, struct error *error)
{
    struct placed_weights placed = {.device = options->device};
    enum status status = place_all(&placed, options, weights, n_layers, error);
    if (status != STATUS_OK) {
        settle(placed.device);
        placed_weights_finish(&placed);
        return status;
    }
    *placed_out = placed;
    return STATUS_OK;
}

void placed_weights_finish(struct placed_weights *placed)
{
    for (uint32_t i = 0; i < placed->n_memories; i++)
        device_free(placed->device, &placed->memories[i]);
    free(placed->memories);
    *placed = (struct placed_weights){0};
}
