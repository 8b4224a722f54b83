/* stage: what was sent stays until the step that reads it is over, whatever is laid out meanwhile. */

#include "device/stage.h"
#include "tests/device/fault_device.h"

#include <criterion/criterion.h>
#include <string.h>

enum { BYTES = 5000, STEPS = 30, SEEDS = 50 };

/* What a step saw of its arena when it ran. */
struct seen {
    const uint8_t *arena;
    uint8_t first, last;
};

static void look(void *arg)
{
    struct seen *seen = arg;
    seen->first = seen->arena[0];
    seen->last = seen->arena[BYTES - 1];
}

/* Steps without a wait between them: take waits when it must. n_wrong_out: those that saw another's. */
static void run_steps(uint64_t seed, uint32_t *n_wrong_out)
{
    struct device *device = fault_device_open(
        &(struct fault_options){.seed = seed, .steps_max = 3});
    struct stage *stage;
    struct seen seen[STEPS];
    *n_wrong_out = 0;
    cr_assert_eq(stage_create(device, DEVICE_COMPUTE, BYTES, &stage), STATUS_OK);
    cr_expect_eq(device_bytes(device, DEVICE_STAGING), 2 * BYTES);
    for (uint8_t i = 0; i < STEPS; i++) {
        uint8_t *view;
        cr_assert_eq(stage_take(stage, BYTES, &view), STATUS_OK);
        memset(view, i, BYTES);
        cr_assert_eq(stage_send(stage, &seen[i].arena), STATUS_OK);
        cr_expect(i < 2 || seen[i].arena == seen[i - 2].arena);
        cr_expect(i < 1 || seen[i].arena != seen[i - 1].arena);
        fault_device_launch(device, DEVICE_COMPUTE, look, &seen[i]);
        stage_keep(stage, device_record(device, DEVICE_COMPUTE));
    }
    cr_assert(fault_device_drain(device));
    for (uint8_t i = 0; i < STEPS; i++)
        *n_wrong_out += seen[i].first != i || seen[i].last != i;
    stage_destroy(stage);
    device_close(device);
}

Test(stage, every_step_sees_its_own)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint32_t n_wrong;
        run_steps(seed, &n_wrong);
        cr_expect_eq(n_wrong, 0, "seed %lu", (unsigned long)seed);
    }
}

Test(stage, an_arena_waits_for_the_step_that_reads_it)
{
    struct device *device = fault_device_open(&(struct fault_options){.wait_limit_ns = 1000000});
    struct stage *stage;
    const uint8_t *sent;
    uint8_t *view;
    cr_assert_eq(stage_create(device, DEVICE_COMPUTE, BYTES, &stage), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(stage_take(stage, BYTES, &view), STATUS_OK);
        cr_assert_eq(stage_send(stage, &sent), STATUS_OK);
        stage_keep(stage, device_record(device, DEVICE_COMPUTE));
    }
    cr_expect_eq(stage_take(stage, BYTES, &view), STATUS_DEVICE_LOST,
                 "the device hangs: neither is free");
    stage_destroy(stage);
    device_close(device);
}

Test(stage, on_the_host_it_is_the_arena_itself)
{
    struct device *device;
    struct stage *stage;
    struct error error;
    uint8_t *view, *first;
    const uint8_t *sent;
    cr_assert_eq(device_open("cpu", &device, &error), STATUS_OK);
    cr_assert_eq(stage_create(device, DEVICE_COMPUTE, BYTES, &stage), STATUS_OK);
    cr_assert_eq(stage_take(stage, BYTES, &first), STATUS_OK);
    cr_assert_eq(stage_send(stage, &sent), STATUS_OK);
    cr_expect_eq(sent, first);
    stage_keep(stage, device_record(device, DEVICE_COMPUTE));
    cr_assert_eq(stage_take(stage, BYTES, &view), STATUS_OK);
    cr_expect_neq(view, first);
    cr_assert_eq(stage_send(stage, &sent), STATUS_OK);
    stage_keep(stage, device_record(device, DEVICE_COMPUTE));
    stage_destroy(stage);
    device_close(device);
}

/* A step that needs less copies less, and one that was given up nothing. */
Test(stage, what_was_taken_crosses_and_no_more)
{
    struct device *device = fault_device_open(&(struct fault_options){.seed = 7, .steps_max = 3});
    struct stage *stage;
    const uint8_t *sent;
    uint8_t *view;
    cr_assert_eq(stage_create(device, DEVICE_COMPUTE, BYTES, &stage), STATUS_OK);
    stage_touch(stage, NULL);
    cr_assert_eq(stage_take(stage, BYTES, &view), STATUS_OK);
    stage_drop(stage);
    cr_expect_eq(fault_device_n_views(device), 0);
    cr_assert_eq(stage_take(stage, 100, &view), STATUS_OK);
    cr_expect_eq((uintptr_t)view % 64, 0);
    memset(view, 1, 100);
    cr_assert_eq(stage_send(stage, &sent), STATUS_OK);
    struct device_ticket ticket = device_record(device, DEVICE_COMPUTE);
    stage_keep(stage, ticket);
    cr_assert_eq(device_wait(device, ticket), STATUS_OK);
    for (size_t i = 0; i < BYTES; i++)
        cr_assert_eq(sent[i], i < 100, "byte %zu", i);
    stage_destroy(stage);
    device_close(device);
}

Test(stage, a_device_that_is_lost_has_nothing_to_keep)
{
    for (uint64_t n = 1; n <= 5; n++) {
        struct device *device = fault_device_open(
            &(struct fault_options){.seed = n, .steps_max = 3, .fails_at = n});
        struct stage *stage;
        enum status status = STATUS_OK;
        cr_assert_eq(stage_create(device, DEVICE_COMPUTE, BYTES, &stage), STATUS_OK);
        for (int i = 0; i < 6 && status == STATUS_OK; i++) {
            const uint8_t *sent;
            uint8_t *view;
            status = stage_take(stage, BYTES, &view);
            if (status == STATUS_OK)
                status = stage_send(stage, &sent);
            if (status == STATUS_OK)
                stage_keep(stage, device_record(device, DEVICE_COMPUTE));
        }
        cr_expect_eq(status, STATUS_DEVICE_LOST, "call %lu", (unsigned long)n);
        stage_destroy(stage);
        device_close(device);
    }
}
