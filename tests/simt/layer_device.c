#include "tests/simt/layer_device.h"

#include "kernels/cuda/launch.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static struct device *device;
static bool has_tensors; /* those of all steps are in one place */

struct device *layer_device_open(uint32_t n_processors, uint32_t seed)
{
    struct error error = {""};
    device = simt_device_open(
        &(struct simt_options){.n_processors = n_processors, .seed = seed, .poisons = true});
    cr_assert_eq(device_load(device, &cuda_image, &error), STATUS_OK, "%s", error.text);
    device_bind(device);
    has_tensors = false;
    return device;
}

void layer_device_close(void)
{
    device_bind(NULL);
    device_close(device);
    device = NULL;
}

void layer_device_adopt(const void *base, size_t bytes)
{
    simt_device_adopt(device, base, bytes);
}

static void adopt_tensors(const void *base, size_t bytes)
{
    if (!has_tensors)
        layer_device_adopt(base, bytes);
    has_tensors = true;
}

struct layer layer_device_layer(const struct attention_backend *backend,
                                const struct attention_config *config, bool is_contiguous)
{
    struct layer layer = layer_open(backend, *config, is_contiguous);
    const size_t bytes = backend->metadata_arena_bytes(layer.metadata);
    layer.arenas = aligned_alloc(ATTENTION_ARENA_ALIGNMENT, 2 * bytes);
    cr_assert(layer.arenas);
    layer.adopt = adopt_tensors;
    layer_device_adopt(layer.arenas + bytes, bytes);
    layer_device_adopt(layer.kv.base, LAYER_BLOCKS * layer.kv.block_stride);
    return layer;
}

void layer_device_finish(struct layer *layer)
{
    layer_close(layer);
    free(layer->arenas);
}
