/* device: what is enqueued behind a ticket sees what was done before it, a poll is compared, an error sticks and is bounded. */

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/thread_pool.h"
#include "device/device_ops.h"
#include "tests/device/fault_device.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCK_BYTES = 4096, SEEDS = 200, RUBBISH = 0xA5, OLD = 0x11, NEW = 0x22 };

static struct device *new_host(void)
{
    struct device *device;
    struct error error = {{0}};
    cr_assert_eq(device_open("cpu", &device, &error), STATUS_OK, "%s", error.text);
    return device;
}

static struct device_memory new_block(struct device *device)
{
    struct device_memory memory;
    cr_assert_eq(device_allocate(device, DEVICE_KV, BLOCK_BYTES, &memory), STATUS_OK);
    memset(memory.base, OLD, BLOCK_BYTES);
    return memory;
}

static void close_with(struct device *device, struct device_memory *memory)
{
    device_free(device, memory);
    device_close(device);
}

static bool is_all(const uint8_t *bytes, uint8_t value)
{
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

static uint32_t digest_of(uint8_t value)
{
    uint8_t bytes[BLOCK_BYTES];
    memset(bytes, value, sizeof bytes);
    return crc32c(0, bytes, sizeof bytes);
}

/* A forward pass, as far as its block is concerned. */
static void compute(void *arg)
{
    memset(arg, NEW, BLOCK_BYTES);
}

/* ---- the host ---- */

Test(device, the_host_lends_its_bytes_and_is_done_at_once)
{
    struct device *device = new_host();
    struct device_memory block = new_block(device);
    const uint8_t *view;
    uint8_t *target;
    uint32_t digest = 0;

    cr_assert_eq(device_read(device, DEVICE_COPY, block.base, BLOCK_BYTES, &view), STATUS_OK);
    cr_expect_eq(view, block.base);
    cr_expect_eq(device_poll(device, device_record(device, DEVICE_COPY)), STATUS_OK);
    device_read_end(device, view);

    cr_assert_eq(device_write_begin(device, block.base, BLOCK_BYTES, &target), STATUS_OK);
    cr_expect_eq(target, block.base);
    device_write(device, DEVICE_COPY, block.base, target, BLOCK_BYTES);

    device_digest(device, DEVICE_COMPUTE, block.base, BLOCK_BYTES, &digest);
    cr_expect_eq(device_wait(device, device_record(device, DEVICE_COMPUTE)), STATUS_OK);
    cr_expect_eq(digest, digest_of(OLD));
    close_with(device, &block);
}

Test(device, bytes_are_counted_by_what_they_are_for)
{
    struct device *device = new_host();
    static uint8_t foreign[64];
    struct device_memory kv, activations, wrapped;
    cr_assert_eq(device_allocate(device, DEVICE_KV, 100, &kv), STATUS_OK);
    cr_assert_eq(device_allocate(device, DEVICE_ACTIVATIONS, 1000, &activations), STATUS_OK);
    cr_assert_eq(device_wrap(device, DEVICE_KV, foreign, sizeof foreign, &wrapped), STATUS_OK);
    cr_expect_eq(device_bytes(device, DEVICE_KV), 164);
    cr_expect_eq(device_bytes(device, DEVICE_ACTIVATIONS), 1000);
    cr_expect_eq(wrapped.base, foreign);
    cr_expect(kv.base[0] == 0 && kv.base[99] == 0);
    device_free(device, &wrapped);
    device_free(device, &activations);
    cr_expect_eq(device_bytes(device, DEVICE_KV), 100);
    cr_expect_null(activations.base);
    device_free(device, &activations);
    close_with(device, &kv);
}

/* Of an odd size, beyond one piece; with threads and without. */
Test(device, every_page_is_there_when_it_was_touched)
{
    const size_t page = 4096, n_pages = 2 * ((16 << 20) / page) + 3, bytes = n_pages * page - 100;
    static unsigned char is_there[3 * (16 << 20) / 4096];
    struct thread_pool *threads[2] = {NULL};
    cr_assert_eq(thread_pool_create(2, false, &threads[1]), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        struct device *device = new_host();
        struct device_memory memory;
        cr_assert_eq(device_allocate(device, DEVICE_KV, bytes, &memory), STATUS_OK);
        cr_assert_eq(mincore(memory.base, bytes, is_there), 0);
        cr_assert_eq(is_there[n_pages / 2] & 1, 0, "the kernel gives none before it is written");
        device_touch(device, &memory, threads[i]);
        cr_assert_eq(mincore(memory.base, bytes, is_there), 0);
        for (size_t p = 0; p < n_pages; p++)
            cr_assert(is_there[p] & 1, "page %zu of %zu", p, n_pages);
        close_with(device, &memory);
    }
    thread_pool_destroy(threads[1]);
}

Test(device, memory_that_is_not_there_is_no_lost_device)
{
    struct device *device = new_host();
    struct device_memory memory = {0};
    cr_expect_eq(device_allocate(device, DEVICE_KV, SIZE_MAX / 2, &memory), STATUS_NO_MEMORY);
    cr_expect_not(device_is_lost(device));
    cr_expect_eq(device_bytes(device, DEVICE_KV), 0);
    device_close(device);
}

/* Nothing is free of a lost one, and nobody who lowers what it needs mends that. */
Test(device, a_lost_device_is_no_device_without_memory)
{
    struct error error = {""};
    struct device *device = fault_device_open(&(struct fault_options){.seed = 3, .steps_max = 2});
    cr_expect_eq(device_no_memory(device, "weights", 99, &error), STATUS_NO_MEMORY);
    fault_device_lose(device);
    cr_assert_eq(device_poll(device, device_record(device, DEVICE_COPY)), STATUS_DEVICE_LOST);
    cr_expect_eq(device_no_memory(device, "weights", 99, &error), STATUS_DEVICE_LOST);
    cr_expect(strstr(error.text, " was lost before it had memory for weights"), "%s", error.text);
    device_close(device);
}

Test(device, an_unknown_name_is_refused_with_a_sentence)
{
    struct device *device;
    struct error error = {{0}};
    cr_expect_eq(device_open("gpu0", &device, &error), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(
        error.text,
        "there is no device gpu0: there are cpu, cuda:N (a GPU by its number) and auto");
}

Test(device, memory_that_is_left_asserts, .signal = SIGABRT)
{
    struct device *device = new_host();
    new_block(device);
    device_close(device);
}

/* ---- order, in any that is legal ---- */

static bool reads_the_chunk(uint64_t seed, bool waits)
{
    struct device *device = fault_device_open(
        &(struct fault_options){.seed = seed, .steps_max = 2});
    struct device_memory block = new_block(device);
    const uint8_t *view;
    fault_device_launch(device, DEVICE_COMPUTE, compute, block.base);
    struct device_ticket chunk = device_record(device, DEVICE_COMPUTE);
    if (waits)
        device_after(device, DEVICE_COPY, chunk);
    cr_assert_eq(device_read(device, DEVICE_COPY, block.base, BLOCK_BYTES, &view), STATUS_OK);
    cr_assert_eq(device_wait(device, device_record(device, DEVICE_COPY)), STATUS_OK);
    bool is_new = is_all(view, NEW);
    device_read_end(device, view);
    cr_assert(fault_device_drain(device));
    close_with(device, &block);
    return is_new;
}

Test(device, a_read_after_the_chunks_ticket_has_the_chunk)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        cr_assert(reads_the_chunk(seed, true), "seed %lu", (unsigned long)seed);
}

Test(device, a_read_that_does_not_wait_is_seen)
{
    uint32_t n_old = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        n_old += !reads_the_chunk(seed, false);
    cr_expect(n_old > SEEDS / 10 && n_old < SEEDS, "%u", n_old);
}

Test(device, a_view_is_rubbish_until_its_ticket_is_done)
{
    struct device *device = fault_device_open(&(struct fault_options){.seed = 3, .steps_max = 1});
    struct device_memory block = new_block(device);
    const uint8_t *view;
    cr_assert_eq(device_read(device, DEVICE_COPY, block.base, BLOCK_BYTES, &view), STATUS_OK);
    struct device_ticket done = device_record(device, DEVICE_COPY);
    uint32_t n_not_ready = 0;
    enum status status;
    cr_expect(is_all(view, RUBBISH));
    while ((status = device_poll(device, done)) == STATUS_NOT_READY)
        n_not_ready++;
    cr_expect_eq(status, STATUS_OK);
    cr_expect(n_not_ready > 0);
    cr_expect(is_all(view, OLD));
    device_read_end(device, view);
    close_with(device, &block);
}

Test(device, what_is_written_and_its_digest_come_in_the_order_of_their_queue)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct device *device = fault_device_open(
            &(struct fault_options){.seed = seed, .steps_max = 2});
        struct device_memory block = new_block(device);
        uint32_t before = 0, behind = 0;
        uint8_t *view;
        cr_assert_eq(device_write_begin(device, block.base, BLOCK_BYTES, &view), STATUS_OK);
        memset(view, NEW, BLOCK_BYTES);
        device_digest(device, DEVICE_COPY, block.base, BLOCK_BYTES, &before);
        device_write(device, DEVICE_COPY, block.base, view, BLOCK_BYTES);
        device_digest(device, DEVICE_COPY, block.base, BLOCK_BYTES, &behind);
        cr_expect(is_all(block.base, OLD));
        cr_assert_eq(device_wait(device, device_record(device, DEVICE_COPY)), STATUS_OK);
        cr_expect(is_all(block.base, NEW));
        cr_expect_eq(before, digest_of(OLD));
        cr_expect_eq(behind, digest_of(NEW));
        close_with(device, &block);
    }
}

Test(device, a_ticket_of_nothing_is_done_and_an_older_one_is_when_a_younger_is)
{
    struct device *device = fault_device_open(&(struct fault_options){.seed = 1, .steps_max = 3});
    struct device_ticket first = device_record(device, DEVICE_COMPUTE);
    struct device_ticket second = device_record(device, DEVICE_COMPUTE);
    cr_expect_eq(device_poll(device, (struct device_ticket){0}), STATUS_OK);
    cr_expect_eq(device_wait(device, second), STATUS_OK);
    cr_expect_eq(device_poll(device, first), STATUS_OK);
    device_close(device);
}

Test(device, a_ticket_that_was_never_recorded_asserts, .signal = SIGABRT)
{
    struct device *device = new_host();
    (void)device_record(device, DEVICE_COPY);
    device_after(device, DEVICE_COMPUTE, (struct device_ticket){DEVICE_COPY, 2});
}

/* ---- errors ---- */

Test(device, a_device_that_hangs_is_lost_within_a_bound)
{
    struct device *device = fault_device_open(&(struct fault_options){.wait_limit_ns = 1000000});
    struct device_memory memory;
    struct device_ticket ticket = device_record(device, DEVICE_COMPUTE);
    cr_expect_eq(device_poll(device, ticket), STATUS_NOT_READY);
    cr_expect_not(device_is_lost(device));
    cr_expect_eq(device_wait(device, ticket), STATUS_DEVICE_LOST);
    cr_expect(device_is_lost(device));
    cr_expect_eq(device_poll(device, (struct device_ticket){0}), STATUS_DEVICE_LOST);
    cr_expect_eq(device_allocate(device, DEVICE_KV, 1, &memory), STATUS_DEVICE_LOST);
    device_close(device);
}

/* Transfers poll, and nothing but the bound ends that. */
Test(device, a_queue_that_hangs_while_others_go_on_is_lost_within_a_bound)
{
    const uint64_t limit_ns = 20 * NS_PER_MS;
    struct device *device = fault_device_open(
        &(struct fault_options){.wait_limit_ns = limit_ns, .computes_at_once = true});
    struct device_ticket copied = device_record(device, DEVICE_COPY);
    uint64_t since_ns = clock_now_ns();
    enum status status;
    while ((status = device_poll(device, copied)) == STATUS_NOT_READY) {
        cr_assert_eq(device_wait(device, device_record(device, DEVICE_COMPUTE)), STATUS_OK);
        cr_assert_lt(clock_now_ns(), since_ns + 1000 * limit_ns, "it is polled without a bound");
    }
    cr_expect_eq(status, STATUS_DEVICE_LOST);
    cr_expect_gt(clock_now_ns(), since_ns + 2 * limit_ns);
    device_close(device);
}

/* However long it is since somebody waited: time counts from when that record was first polled for. */
Test(device, a_queue_that_had_nothing_to_do_is_not_one_that_hangs)
{
    enum { LIMIT_MS = 500 };
    struct device *device = fault_device_open(
        &(struct fault_options){.wait_limit_ns = LIMIT_MS * NS_PER_MS});
    cr_assert_eq(device_poll(device, device_record(device, DEVICE_COPY)), STATUS_NOT_READY);
    cr_assert(fault_device_drain(device));
    (void)poll(NULL, 0, 2 * LIMIT_MS + 50);
    struct device_ticket ticket = device_record(device, DEVICE_COPY);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(device_poll(device, ticket), STATUS_NOT_READY);
    cr_assert(fault_device_drain(device));
    cr_expect_eq(device_poll(device, ticket), STATUS_OK);
    device_close(device);
}

Test(device, its_limit_is_made_longer_and_not_shorter)
{
    struct device *device = new_host();
    device_set_wait_limit(device, 1);
    cr_expect_eq(device->wait_limit_ns, DEVICE_WAIT_LIMIT_NS);
    device_set_wait_limit(device, 2 * DEVICE_WAIT_LIMIT_NS);
    cr_expect_eq(device->wait_limit_ns, 2 * DEVICE_WAIT_LIMIT_NS);
    device_close(device);
}

Test(device, no_room_for_a_view_is_said_and_loses_nothing)
{
    struct device *device = fault_device_open(
        &(struct fault_options){.seed = 5, .steps_max = 2, .views_max = 1});
    struct device_memory block = new_block(device);
    const uint8_t *view, *second;
    uint8_t *target;
    cr_assert_eq(device_read(device, DEVICE_COPY, block.base, BLOCK_BYTES, &view), STATUS_OK);
    cr_expect_eq(device_read(device, DEVICE_COPY, block.base, BLOCK_BYTES, &second),
                 STATUS_QUEUE_FULL);
    cr_expect_eq(device_write_begin(device, block.base, BLOCK_BYTES, &target), STATUS_QUEUE_FULL);
    cr_assert_eq(device_wait(device, device_record(device, DEVICE_COPY)), STATUS_OK);
    device_read_end(device, view);
    cr_assert_eq(device_write_begin(device, block.base, BLOCK_BYTES, &target), STATUS_OK);
    device_write_drop(device, target);
    cr_expect_not(device_is_lost(device));
    close_with(device, &block);
}

/* One block written and read, by whatever order; every view comes back. */
static enum status round_trip(struct device *device, uint8_t *block)
{
    uint32_t digest = 0;
    uint8_t *target;
    const uint8_t *view;
    TRY(device_write_begin(device, block, BLOCK_BYTES, &target));
    memset(target, NEW, BLOCK_BYTES);
    device_write(device, DEVICE_COPY, block, target, BLOCK_BYTES);
    device_after(device, DEVICE_COMPUTE, device_record(device, DEVICE_COPY));
    device_digest(device, DEVICE_COMPUTE, block, BLOCK_BYTES, &digest);
    TRY(device_wait(device, device_record(device, DEVICE_COMPUTE)));
    cr_assert_eq(digest, digest_of(NEW));
    TRY(device_read(device, DEVICE_COPY, block, BLOCK_BYTES, &view));
    enum status status = device_wait(device, device_record(device, DEVICE_COPY));
    cr_assert(status != STATUS_OK || is_all(view, NEW));
    device_read_end(device, view);
    return status;
}

Test(device, whichever_call_fails_the_device_is_lost_once_and_keeps_nothing)
{
    struct device *device = fault_device_open(&(struct fault_options){.seed = 9, .steps_max = 2});
    struct device_memory block = new_block(device);
    cr_assert_eq(round_trip(device, block.base), STATUS_OK);
    uint64_t n_calls = fault_device_n_calls(device);
    cr_assert(n_calls > 8);
    close_with(device, &block);

    for (uint64_t n = 1; n <= n_calls; n++) {
        device = fault_device_open(
            &(struct fault_options){.seed = 9, .steps_max = 2, .fails_at = n});
        block = new_block(device);
        cr_expect_eq(round_trip(device, block.base), STATUS_DEVICE_LOST, "call %lu",
                     (unsigned long)n);
        cr_expect(device_is_lost(device));
        cr_expect_eq(round_trip(device, block.base), STATUS_DEVICE_LOST);
        close_with(device, &block);
    }
}

Test(device, one_that_is_lost_from_outside_says_so_at_the_next_call)
{
    struct device *device = fault_device_open(&(struct fault_options){.seed = 2, .steps_max = 2});
    struct device_ticket ticket = device_record(device, DEVICE_COMPUTE);
    cr_expect_eq(device_wait(device, ticket), STATUS_OK);
    fault_device_lose(device);
    cr_expect_not(device_is_lost(device));
    cr_expect_eq(device_poll(device, ticket), STATUS_DEVICE_LOST);
    cr_expect(device_is_lost(device));
    device_close(device);
}
