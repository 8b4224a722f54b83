/* device_fetch: the bytes as they are behind all that was enqueued, in pieces, with as few views as there are. */
#include "device/device_fetch.h"
#include "tests/device/fault_device.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = (5 << 20) + 12345, SEEDS = 6 };

static void fill(void *arg)
{
    uint8_t *bytes = arg;
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 4096);
}

static bool is_filled(const uint8_t *bytes)
{
    for (size_t i = 0; i < BYTES; i++)
        if (bytes[i] != (uint8_t)(i * 7 + i / 4096))
            return false;
    return true;
}

/* What a kernel still has to write when the fetch is asked for, whose nth call fails; 0: none. */
static enum status run(struct device *device, uint8_t *target, uint64_t n)
{
    struct device_memory memory;
    TRY(device_allocate(device, DEVICE_ACTIVATIONS, BYTES, &memory));
    fault_device_launch(device, DEVICE_COMPUTE, fill, memory.base);
    if (n > 0)
        fault_device_fail_at(device, n);
    enum status status = device_fetch(device, memory.base, BYTES, target);
    (void)fault_device_drain(device);
    device_free(device, &memory);
    return status;
}

Test(device_fetch, has_what_kernels_in_front_of_it_wrote_with_any_number_of_views)
{
    uint8_t *target = malloc(BYTES);
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint32_t views = 0; views <= 3; views++) {
            struct device *device = fault_device_open(
                &(struct fault_options){.seed = seed, .steps_max = 2, .views_max = views});
            memset(target, 0, BYTES);
            cr_assert_eq(run(device, target, 0), STATUS_OK);
            cr_expect(is_filled(target), "seed %lu, %u views", (unsigned long)seed, views);
            cr_expect_eq(fault_device_n_views(device), 0);
            device_close(device);
        }
    free(target);
}

/* As where a reader of blocks has stopped. */
Test(device_fetch, what_is_computed_comes_while_copies_have_all_their_views)
{
    uint8_t *target = malloc(BYTES);
    const uint8_t *views[3];
    struct device_memory block = {0};
    struct device *device = fault_device_open(
        &(struct fault_options){.seed = 3, .steps_max = 2, .views_max = 2});
    cr_assert_eq(device_allocate(device, DEVICE_KV, 4096, &block), STATUS_OK);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(device_read(device, DEVICE_COPY, block.base, 64, &views[i]), STATUS_OK);
    cr_assert_eq(device_read(device, DEVICE_COPY, block.base, 64, &views[2]), STATUS_QUEUE_FULL);
    cr_expect_eq(run(device, target, 0), STATUS_OK);
    cr_expect(is_filled(target));
    cr_assert_eq(device_wait(device, device_record(device, DEVICE_COPY)), STATUS_OK);
    for (int i = 0; i < 2; i++)
        device_read_end(device, views[i]);
    device_free(device, &block);
    device_close(device);
    free(target);
}

Test(device_fetch, whichever_call_fails_the_views_are_given_back)
{
    uint8_t *target = malloc(BYTES);
    for (uint64_t n = 1, is_lost = 1; is_lost; n++) {
        struct device *device = fault_device_open(
            &(struct fault_options){.seed = 1, .steps_max = 2, .views_max = 2});
        enum status status = run(device, target, n);
        is_lost = device_is_lost(device);
        cr_expect_eq(status, is_lost ? STATUS_DEVICE_LOST : STATUS_OK, "call %lu",
                     (unsigned long)n);
        cr_expect_eq(fault_device_n_views(device), 0, "call %lu", (unsigned long)n);
        cr_assert(is_lost || n > 12, "six reads, three records, polls");
        device_close(device);
    }
    free(target);
}

Test(device_fetch, of_the_host_is_a_copy)
{
    uint8_t source[100], target[100] = {0};
    struct device *device;
    struct error error = {""};
    memset(source, 7, sizeof source);
    cr_assert_eq(device_open("cpu", &device, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(device_fetch(device, source, sizeof source, target), STATUS_OK);
    cr_expect_eq(memcmp(source, target, sizeof source), 0);
    device_close(device);
}
