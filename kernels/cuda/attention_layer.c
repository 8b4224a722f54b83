#include "kernels/cuda/attention_layer.h"

#include "kernels/attention_features.h"
#include "kernels/backend/position_bias.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SEND_BYTES_MAX = 1 << 20 };

/* One array of a layer: its address on the host, and the place for its address on the device. */
struct part {
    const void *source; /* NULL: there is none */
    size_t bytes;
    const void *target; /* on the device */
};

enum { SLOPES, SINKS, TABLE, BUCKETS, BUCKET_STARTS, PARTS };

static enum status send_piece(struct device *device, uint8_t *target, const uint8_t *source,
                              size_t bytes)
{
    uint8_t *view;
    enum status status;
    while ((status = device_write_begin(device, target, bytes, &view)) == STATUS_QUEUE_FULL)
        TRY(device_wait(device, device_record(device, DEVICE_COMPUTE)));
    if (status != STATUS_OK)
        return status;
    memcpy(view, source, bytes);
    device_write(device, DEVICE_COMPUTE, target, view, bytes);
    return STATUS_OK;
}

enum status cuda_send(struct device *device, uint8_t *target, const void *source, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += SEND_BYTES_MAX) {
        const size_t n = bytes - at < SEND_BYTES_MAX ? bytes - at : SEND_BYTES_MAX;
        TRY(send_piece(device, target + at, (const uint8_t *)source + at, n));
    }
    return STATUS_OK;
}

/* The number of buckets for one direction. */
static uint32_t n_buckets_each_way(const struct attention_bias *bias)
{
    return bias->is_bidirectional ? bias->n_buckets / 2 : bias->n_buckets;
}

/* The smallest distance with at least this bucket; UINT32_MAX: there is none. Buckets grow with the distance. */
static uint32_t bucket_start(const struct attention_bias *bias, uint32_t bucket)
{
    uint64_t low = 0, high = UINT32_MAX;
    while (low < high) {
        const uint64_t middle = (low + high) / 2;
        if (t5_bucket(-(int64_t)middle, bias->n_buckets, bias->distance_max,
                      bias->is_bidirectional) >= bucket)
            high = middle;
        else
            low = middle + 1;
    }
    return (uint32_t)low;
}

/* The host computes the edges of buckets with t5_bucket, by float32 logarithms. The device only compares integers. */
static enum status make_bucket_starts(const struct attention_bias *bias, uint32_t **starts_out)
{
    *starts_out = NULL;
    if (!bias->buckets)
        return STATUS_OK;
    uint32_t *starts = malloc(n_buckets_each_way(bias) * sizeof *starts);
    if (!starts)
        return STATUS_NO_MEMORY;
    for (uint32_t bucket = 0; bucket < n_buckets_each_way(bias); bucket++)
        starts[bucket] = bucket_start(bias, bucket);
    *starts_out = starts;
    return STATUS_OK;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ATTENTION_ARENA_ALIGNMENT - 1) / ATTENTION_ARENA_ALIGNMENT *
           ATTENTION_ARENA_ALIGNMENT;
}

static enum status place_parts(struct attention *attention, struct part *parts, struct error *error)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < PARTS; i++)
        bytes += parts[i].source ? aligned(parts[i].bytes) : 0;
    if (bytes == 0)
        return STATUS_OK;
    enum status status = device_allocate(attention->device, DEVICE_WORKSPACE, bytes,
                                         &attention->memory);
    if (status == STATUS_NO_MEMORY)
        return device_no_memory(attention->device, "tables of a layer", bytes, error);
    TRY(status);
    uint8_t *next = attention->memory.base;
    for (uint32_t i = 0; i < PARTS; i++) {
        if (!parts[i].source)
            continue;
        TRY(cuda_send(attention->device, next, parts[i].source, parts[i].bytes));
        parts[i].target = next;
        next += aligned(parts[i].bytes);
    }
    assert(next == attention->memory.base + bytes);
    return STATUS_OK;
}

static enum status send_tables(struct attention *attention, struct error *error)
{
    const struct attention_layer *layer = &attention->layer;
    const struct attention_bias *bias = &layer->config.bias;
    const size_t n_heads = layer->config.n_heads;
    uint32_t *starts;
    if (make_bucket_starts(bias, &starts) != STATUS_OK)
        return attention_layer_no_memory(&layer->config, error);
    struct part parts[PARTS] = {
        [SLOPES] = {layer->slopes, n_heads * sizeof(float), NULL},
        [SINKS] = {layer->sinks, n_heads * sizeof(float), NULL},
        [TABLE] = {bias->table, n_heads * bias->n_queries * bias->n_keys * sizeof(float), NULL},
        [BUCKETS] = {bias->buckets, n_heads * bias->n_buckets * sizeof(float), NULL},
        [BUCKET_STARTS] = {starts, n_buckets_each_way(bias) * sizeof *starts, NULL},
    };
    enum status status = place_parts(attention, parts, error);
    free(starts);
    attention->slopes = parts[SLOPES].target;
    attention->sinks = parts[SINKS].target;
    attention->table = parts[TABLE].target;
    attention->buckets = parts[BUCKETS].target;
    attention->bucket_starts = parts[BUCKET_STARTS].target;
    return status;
}

enum status cuda_layer_create(const struct attention_config *config, uint64_t features,
                              struct attention **attention_out, struct error *error)
{
    struct device *device = device_bound();
    assert(device && "a layer is created on the device that is bound");
    struct attention *attention = calloc(1, sizeof *attention);
    if (!attention)
        return attention_layer_no_memory(config, error);
    attention->device = device;
    enum status status = attention_layer_init_device(config, &attention->layer, error);
    if (status == STATUS_OK && config->head_dim > CUDA_HEAD_DIM_MAX)
        status = error_set(error, STATUS_UNSUPPORTED,
                           "head_dim is %u, this back end computes up to %u", config->head_dim,
                           CUDA_HEAD_DIM_MAX);
    if (status == STATUS_OK)
        status = attention_features_check(config, features, error);
    if (status != STATUS_OK)
        goto fail;
    status = send_tables(attention, error);
    if (status == STATUS_DEVICE_LOST)
        (void)error_set(error, status, "device %s was lost while the tables of a layer were copied",
                        device_name(device));
    if (status != STATUS_OK)
        goto fail;
    *attention_out = attention;
    return STATUS_OK;

fail:
    cuda_layer_destroy(attention);
    return status;
}

void cuda_layer_destroy(struct attention *attention)
{
    if (!attention)
        return;
    device_free(attention->device, &attention->memory);
    attention_layer_finish(&attention->layer);
    free(attention);
}
