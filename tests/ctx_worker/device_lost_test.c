/* ctx_engine on a device that is lost in the middle: every stream ends once, with DEVICE_LOST, and every block has its owner. */
#include "tests/ctx_worker/support/ctx_rig.h"
#include "tests/device/fault_device.h"

#include <criterion/criterion.h>

enum { N_STREAMS = 4 };

/* fails_at: the device call after the engine's creation that fails; 0: none. Two prompts compute, the others wait; "late" arrives
 * at the end. is_lost_out: whether the device was lost before the engine's destruction. */
static uint32_t run(struct device *device, uint64_t fails_at,
                    struct rig_stream streams[N_STREAMS + 1], bool *is_lost_out)
{
    static const char *const NAMES[] = {"a", "b", "c", "d", "late"};
    struct ctx_rig rig;
    ctx_rig_open(&rig, (struct ctx_rig_options){.n_blocks = 64,
                                                .slots_max = 2,
                                                .queue_max = 4,
                                                .queue_limit_ns = NS_PER_S,
                                                .device = device});
    if (fails_at > 0)
        fault_device_fail_at(device, fails_at);
    for (uint32_t i = 0; i < N_STREAMS; i++)
        cr_assert_eq(ctx_rig_prefill(&rig, &streams[i], NAMES[i], i, 35 + i), STATUS_OK);
    ctx_rig_settle(&rig);
    bool is_lost = *is_lost_out = device_is_lost(device);
    if (is_lost)
        cr_assert_eq(ctx_rig_prefill(&rig, &streams[N_STREAMS], NAMES[N_STREAMS], 9, 20),
                     STATUS_OK);
    ctx_rig_settle(&rig);
    uint32_t n_held = ctx_rig_blocks(&rig, BLOCK_PINNED);
    cr_expect(!is_lost || n_held == 0);
    cr_expect_eq(ctx_rig_blocks(&rig, BLOCK_FREE) + ctx_rig_blocks(&rig, BLOCK_CACHED) + n_held,
                 64);
    struct ctx_engine_stats stats;
    ctx_engine_read_stats(rig.engine, &stats);
    cr_expect_eq(stats.blocks_unowned, 0);
    ctx_rig_close(&rig);
    return n_held;
}

Test(ctx_device_lost, every_stream_ends_once_with_its_type_whichever_call_failed)
{
    bool was_lost = true;
    uint64_t n = 0;
    while (was_lost) {
        n++;
        struct rig_stream streams[N_STREAMS + 1] = {0};
        struct device *device = fault_device_open(
            &(struct fault_options){.seed = n, .steps_max = 3, .computes_at_once = true});
        run(device, n, streams, &was_lost);
        for (uint32_t i = 0; was_lost && i <= N_STREAMS; i++) {
            cr_expect_eq(streams[i].n_finishes, 1, "call %lu stream %u", (unsigned long)n, i);
            cr_expect_eq(streams[i].status, STATUS_DEVICE_LOST, "call %lu stream %u: %s",
                         (unsigned long)n, i, status_name(streams[i].status));
        }
        device_close(device);
    }
    cr_expect(n > 10, "the run had %lu calls", (unsigned long)n);
}

Test(ctx_device_lost, without_a_loss_they_go_on)
{
    struct rig_stream streams[N_STREAMS + 1] = {0};
    struct device *device = fault_device_open(
        &(struct fault_options){.seed = 1, .steps_max = 3, .computes_at_once = true});
    bool is_lost;
    cr_expect(run(device, 0, streams, &is_lost) > 0, "two are sealed, and held");
    cr_expect_eq(streams[0].n_finishes + streams[1].n_finishes, 0);
    cr_expect_eq(streams[0].kinds[streams[0].n_events - 1], EVENT_SEALED);
    device_close(device);
}

/* READY events of a prompt whose chunks the device never finishes. */
static uint32_t count_ready_on_a_hung_device(bool is_read_alone)
{
    struct rig_stream stream = {0};
    struct ctx_rig rig;
    uint32_t n_ready = 0;
    struct device *device = fault_device_open(
        &(struct fault_options){.seed = 1, .steps_max = 3, .computes_at_once = true});
    ctx_rig_open(&rig, (struct ctx_rig_options){.n_blocks = 64,
                                                .slots_max = 2,
                                                .queue_max = 4,
                                                .queue_limit_ns = NS_PER_S,
                                                .device = device,
                                                .without_digests = true,
                                                .is_read_alone = is_read_alone});
    cr_assert_eq(ctx_rig_prefill(&rig, &stream, "a", 1, 60), STATUS_OK);
    fault_device_hang(device, NS_PER_MS);
    ctx_rig_settle(&rig);
    for (uint32_t i = 0; i < stream.n_events; i++)
        n_ready += stream.kinds[i] == EVENT_READY;
    cr_expect_eq(stream.n_finishes, 1);
    cr_expect_eq(stream.status, STATUS_DEVICE_LOST, "%s", status_name(stream.status));
    ctx_rig_close(&rig);
    device_close(device);
    return n_ready;
}

Test(ctx_device_lost, readers_that_do_not_ask_hear_of_no_block_that_is_not_computed)
{
    cr_expect_eq(count_ready_on_a_hung_device(true), 0);
    cr_expect_eq(count_ready_on_a_hung_device(false), 0, "a step is waited for");
}
