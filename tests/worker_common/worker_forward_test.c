/* worker_forward: a forward pass over KV of a geometry's dtype and blocks, which takes nothing after its warm-up; a device lost in
 * that is a sentence. */
#include "kvcache/block_pool.h"
#include "tests/device/fault_device.h"
#include "worker_common/worker.h"
#include "worker_common/worker_forward.h"

#include <criterion/criterion.h>
#include <string.h>

static struct model *load(struct device *device)
{
    struct error error = {""};
    struct model *model;
    cr_assert_eq(model_load(KVFERRY_SOURCE_DIR "/tests/golden/models/llama_t4",
                            &(struct model_options){.device = device}, &error, &model),
                 STATUS_OK, "%s", error.text);
    return model;
}

static struct geometry geometry_of(const struct model *model, enum worker_kv_dtype dtype)
{
    struct error error = {""};
    struct geometry geometry;
    cr_assert_eq(worker_geometry(model, dtype, NULL, 16, &error, &geometry), STATUS_OK, "%s",
                 error.text);
    return geometry;
}

static struct worker_step step_on(struct device *device)
{
    return (struct worker_step){
        .tokens_max = 64, .sequences_max = 3, .context_tokens = 100, .device = device};
}

Test(worker_forward, its_blocks_are_the_geometrys)
{
    static const enum worker_kv_dtype DTYPES[] = {WORKER_KV_F32, WORKER_KV_BF16, WORKER_KV_F16};
    static const enum cache_dtype CACHES[] = {CACHE_F32, CACHE_BF16, CACHE_F16};
    struct device *device;
    struct error error = {""};
    cr_assert_eq(device_open("cpu", &device, &error), STATUS_OK);
    struct model *model = load(device);
    const struct worker_step step = step_on(device);
    for (int i = 0; i < 3; i++) {
        const struct geometry geometry = geometry_of(model, DTYPES[i]);
        struct forward *forward;
        struct block_pool *pool;
        cr_assert_eq(worker_forward_create(model, &geometry, &step, &error, &forward), STATUS_OK,
                     "%s", error.text);
        uint64_t bytes = device_bytes(device, DEVICE_ACTIVATIONS);
        cr_assert_eq(block_pool_create(4, geometry_block_bytes(&geometry), &pool), STATUS_OK);
        cr_expect_eq(forward_attach(forward, pool, &error), STATUS_OK, "%s", error.text);
        cr_expect_eq(forward_get_options(forward)->cache_dtype, CACHES[i]);
        cr_expect_eq(forward_get_options(forward)->blocks_max, 7);
        cr_expect_eq(device_bytes(device, DEVICE_ACTIVATIONS), bytes);
        forward_destroy(forward);
        block_pool_destroy(pool);
    }
    model_destroy(model);
    device_close(device);
}

Test(worker_forward, a_device_lost_in_the_warm_up_is_a_sentence)
{
    struct device *device = fault_device_open(
        &(struct fault_options){.steps_max = 2, .computes_at_once = true});
    struct model *model = load(device);
    const struct geometry geometry = geometry_of(model, WORKER_KV_AUTO);
    const struct worker_step step = step_on(device);
    struct forward *forward = NULL;
    struct error error = {""};
    fault_device_arm(device, FAULT_COMPUTED, 1);
    cr_expect_eq(worker_forward_create(model, &geometry, &step, &error, &forward),
                 STATUS_DEVICE_LOST);
    cr_expect(strstr(error.text, "lost in the warm-up"), "%s", error.text);
    cr_expect_null(forward);
    cr_expect_eq(device_bytes(device, DEVICE_ACTIVATIONS), 0);
    model_destroy(model);
    device_close(device);
}
