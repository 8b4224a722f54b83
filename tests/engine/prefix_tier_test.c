/* prefix_tier: a waiting request gets the blocks of its prefix back bit for bit, on any device and with windows; it waits up to its
 * limit; and what is not trusted does not come back. */
#include "base/clock.h"
#include "engine/prefix_tier.h"
#include "kvtier/host_blocks.h"
#include "tests/device/fault_device.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum {
    BLOCK_TOKENS = 8,
    CONTEXT = 128,
    SPANS = CONTEXT / BLOCK_TOKENS,
    LIMIT_NS = 1000,
    RUN_BLOCKS = 5
};

struct bed {
    struct geometry geometry;
    struct device *device;
    struct device_memory memory;
    struct block_pool *pool;
    struct kv_manager *manager;
    struct host_blocks *host;
    struct kv_tier *tier;
    struct prefix_tier *prefix;
    struct prefix_hash hashes[8][SPANS]; /* of prompts */
    size_t block_bytes;
};

static void hash_prompts(struct bed *bed)
{
    static const struct prefix_key KEY = {"0123456789abcdef"};
    for (uint32_t prompt = 0; prompt < 8; prompt++) {
        uint32_t tokens[CONTEXT];
        for (uint32_t i = 0; i < CONTEXT; i++)
            tokens[i] = prompt * 1000 + i;
        prefix_hash_blocks(&KEY, "", 0, tokens, CONTEXT, BLOCK_TOKENS, bed->hashes[prompt]);
    }
}

static void make_prefix(struct bed *bed, uint64_t limit_ns)
{
    const struct prefix_tier_options prefix = {.manager = bed->manager,
                                               .tier = bed->tier,
                                               .device = bed->device,
                                               .geometry = &bed->geometry,
                                               .context_tokens = CONTEXT,
                                               .limit_ns = limit_ns,
                                               .run_bytes = RUN_BLOCKS * bed->block_bytes};
    cr_assert_eq(prefix_tier_create(&prefix, &bed->prefix), STATUS_OK);
}

static void make_tier(struct bed *bed, uint32_t pieces_max)
{
    const struct kv_tier_options tier = {
        .ops = &HOST_BLOCKS_OPS,
        .store = bed->host,
        .block_bytes = bed->block_bytes,
        .stores_max = 100,
        .pieces_max = pieces_max,
        .keys_max = prefix_tier_keys_max(&bed->geometry, CONTEXT),
    };
    cr_assert_eq(kv_tier_create(&tier, &bed->tier), STATUS_OK);
}

static void open_on(struct bed *bed, struct device *device, const struct cache_groups *groups,
                    uint32_t n_blocks)
{
    struct error error = {""};
    *bed = (struct bed){.device = device};
    bed->geometry = (struct geometry){.n_layers = groups->n ? 4 * groups->n : 4,
                                      .n_kv_heads = 1,
                                      .head_dim = 8,
                                      .block_tokens = BLOCK_TOKENS,
                                      .dtype = KV_F32,
                                      .groups = *groups};
    snprintf(bed->geometry.numerics, sizeof bed->geometry.numerics,
             "cpu-f32-fma-fma-compute-asis-1");
    bed->block_bytes = geometry_block_bytes(&bed->geometry);
    hash_prompts(bed);
    cr_assert_eq(device_allocate(device, DEVICE_KV, n_blocks * bed->block_bytes, &bed->memory),
                 STATUS_OK);
    cr_assert_eq(block_pool_create_in(bed->memory.base, n_blocks, bed->block_bytes, &bed->pool),
                 STATUS_OK);
    const struct kv_manager_options manager = {.geometry = &bed->geometry,
                                               .pool = bed->pool,
                                               .step = {BLOCK_TOKENS, 1, CONTEXT},
                                               .prefix_cache = true};
    cr_assert_eq(kv_manager_create(&manager, &error, &bed->manager), STATUS_OK, "%s", error.text);
    const struct host_blocks_options host = {.bytes_max = 200 * bed->block_bytes,
                                             .block_bytes = bed->block_bytes};
    cr_assert_eq(host_blocks_create(&host, &error, &bed->host), STATUS_OK);
    make_tier(bed, 2 * CACHE_GROUPS_MAX);
    make_prefix(bed, LIMIT_NS);
}

static void close_bed(struct bed *bed)
{
    cr_assert(device_is_lost(bed->device) || fault_device_n_views(bed->device) == 0);
    prefix_tier_destroy(bed->prefix);
    kv_manager_destroy(bed->manager);
    block_pool_destroy(bed->pool);
    device_free(bed->device, &bed->memory);
    device_close(bed->device);
    kv_tier_destroy(bed->tier);
    host_blocks_destroy(bed->host);
}

static struct device *fault_device(uint64_t seed)
{
    return fault_device_open(&(struct fault_options){
        .seed = seed, .steps_max = 3, .views_max = 2, .computes_at_once = false});
}

/* ---- KV that tells where it belongs ---- */

static uint8_t byte_of(uint32_t prompt, uint32_t span, uint32_t group, size_t at)
{
    return (uint8_t)(prompt * 89 + span * 31 + group * 57 + at * 3 + (at >> 7));
}

static void put_kv(struct bed *bed, uint32_t prompt, uint32_t span, uint32_t group, block_id id)
{
    uint8_t *target = kv_manager_data(bed->manager, id), *view;
    cr_assert_eq(device_write_begin(bed->device, target, bed->block_bytes, &view), STATUS_OK);
    for (size_t i = 0; i < bed->block_bytes; i++)
        view[i] = byte_of(prompt, span, group, i);
    device_write(bed->device, DEVICE_COMPUTE, target, view, bed->block_bytes);
    cr_assert_eq(device_wait(bed->device, device_record(bed->device, DEVICE_COMPUTE)), STATUS_OK);
}

static void expect_kv(struct bed *bed, uint32_t prompt, uint32_t span, uint32_t group, block_id id)
{
    const uint8_t *view;
    cr_assert_eq(device_read(bed->device, DEVICE_COMPUTE, kv_manager_data(bed->manager, id),
                             bed->block_bytes, &view),
                 STATUS_OK);
    cr_assert_eq(device_wait(bed->device, device_record(bed->device, DEVICE_COMPUTE)), STATUS_OK);
    for (size_t i = 0; i < bed->block_bytes; i++)
        cr_assert_eq(view[i], byte_of(prompt, span, group, i),
                     "prompt %u span %u group %u byte %zu", prompt, span, group, i);
    device_read_end(bed->device, view);
}

/* Returns the spans that the cache had; their bytes are compared. Computes the others, span by span, as an engine does. */
static uint32_t run_prompt(struct bed *bed, uint32_t prompt, uint32_t n_spans, uint64_t origin)
{
    struct block_table table;
    const struct prefix_hash *hashes = bed->hashes[prompt];
    cr_assert_eq(kv_manager_init(bed->manager, &table), STATUS_OK);
    const uint32_t known = kv_manager_match(bed->manager, &table, hashes, n_spans) / BLOCK_TOKENS;
    for (uint32_t group = 0; group < block_table_n_rows(&table); group++) {
        const struct block_row row = block_table_row(&table, group);
        for (uint32_t i = 0; i < row.n; i++)
            expect_kv(bed, prompt, row.first + i, group, row.ids[i]);
    }
    for (uint32_t span = known; span < n_spans; span++) {
        const struct block_need need = {.position = span * BLOCK_TOKENS,
                                        .end = (span + 1) * BLOCK_TOKENS,
                                        .known = n_spans * BLOCK_TOKENS};
        cr_assert_eq(kv_manager_prepare(bed->manager, &table, &need), STATUS_OK);
        for (uint32_t group = 0; group < block_table_n_rows(&table); group++) {
            const struct block_row row = block_table_row(&table, group);
            const block_id id = row.ids[span - row.first];
            put_kv(bed, prompt, span, group, id);
            kv_manager_set_origin(bed->manager, &id, 1, origin);
        }
        kv_manager_keep(bed->manager, &table, hashes, span + 1);
    }
    kv_manager_free(bed->manager, &table);
    kv_manager_finish(&table);
    return known;
}

static void work_all(const struct bed *bed)
{
    while (kv_tier_work(bed->tier))
        continue;
}

static bool holds(struct bed *bed, struct engine_request *request, uint32_t prompt, uint32_t n,
                  uint64_t now_ns)
{
    prefix_tier_run(bed->prefix, now_ns);
    return prefix_tier_holds(bed->prefix, request, bed->hashes[prompt], n, now_ns);
}

static struct prefix_tier_figures figures(const struct bed *bed)
{
    struct prefix_tier_figures now;
    prefix_tier_count(bed->prefix, &now);
    return now;
}

/* Prompts push each other out; each comes back whole. */
static void push_and_restore(struct bed *bed, uint32_t n_spans)
{
    for (uint32_t prompt = 0; prompt < 5; prompt++) {
        run_prompt(bed, prompt, n_spans, 0);
        work_all(bed);
    }
    for (uint32_t prompt = 0; prompt < 5; prompt++) {
        struct engine_request request = {0};
        uint32_t rounds = 0;
        while (holds(bed, &request, prompt, n_spans, 0)) {
            work_all(bed);
            cr_assert_lt(++rounds, 50);
        }
        cr_assert(prefix_tier_is_settled(bed->prefix, &request));
        cr_assert_eq(request.held_until_ns, 0);
        cr_assert_eq(run_prompt(bed, prompt, n_spans, 0), n_spans, "prompt %u", prompt);
    }
    cr_assert_gt(figures(bed).tokens, 3 * n_spans * BLOCK_TOKENS);
    cr_assert_eq(kv_manager_count(bed->manager, BLOCK_ACTIVE), 0);
}

Test(prefix_tier, prompts_come_back_bit_for_bit_on_any_device)
{
    struct bed bed;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        open_on(&bed, fault_device(seed), &(struct cache_groups){0}, 20);
        push_and_restore(&bed, 12);
        close_bed(&bed);
    }
}

Test(prefix_tier, groups_of_layers_with_windows_come_back_with_what_the_next_token_sees)
{
    static const struct cache_groups GROUPS[] = {
        {.n = 2, .places = 4, .all = {{4, 0}, {4, 20}}},
        {.n = 3, .places = 4, .all = {{4, 0}, {4, 0}, {4, 9}}},
        {.n = 1, .places = 4, .all = {{4, 24}}},
        {.n = 2, .places = 4, .all = {{4, 8}, {4, 40}}},
    };
    static const uint32_t BLOCKS[] = {40, 50, 16, 24};
    struct bed bed;
    for (int i = 0; i < 4; i++)
        for (uint64_t seed = 1; seed <= 10; seed++) {
            open_on(&bed, fault_device(seed), &GROUPS[i], BLOCKS[i]);
            push_and_restore(&bed, 12);
            close_bed(&bed);
        }
}

/* Three requests at a time, whose spans are cut by the bytes of a call. */
Test(prefix_tier, blocks_of_two_spans_on_their_way_are_enough_for_all_orders)
{
    static const struct cache_groups GROUPS = {
        .n = 3, .places = 4, .all = {{4, 0}, {4, 0}, {4, 9}}};
    struct bed bed;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct engine_request requests[3] = {{.restore = 0}};
        uint32_t n_held = 3;
        open_on(&bed, fault_device(seed), &GROUPS, 120);
        prefix_tier_destroy(bed.prefix);
        kv_tier_destroy(bed.tier);
        make_tier(&bed, prefix_tier_pieces_min(&bed.geometry));
        make_prefix(&bed, LIMIT_NS);
        for (uint32_t prompt = 0; prompt < 8; prompt++) {
            run_prompt(&bed, prompt, 12, 0);
            work_all(&bed);
        }
        for (uint32_t round = 0; n_held > 0; round++) {
            cr_assert_lt(round, 100);
            n_held = 0;
            for (uint32_t i = 0; i < 3; i++) {
                n_held += holds(&bed, &requests[i], i, 12, 0);
                for (uint32_t work = 0; work < seed; work++)
                    (void)kv_tier_work(bed.tier);
            }
        }
        cr_assert_gt(figures(&bed).n_orders, 1);
        for (uint32_t i = 0; i < 3; i++)
            cr_assert_eq(run_prompt(&bed, i, 12, 0), 12);
        close_bed(&bed);
    }
}

Test(prefix_tier, a_call_copies_its_bytes_and_asks_to_be_called_again)
{
    struct bed bed;
    struct engine_request request = {0};
    open_on(&bed, fault_device(1), &(struct cache_groups){0}, 20);
    for (uint32_t prompt = 0; prompt < 3; prompt++)
        run_prompt(&bed, prompt, 12, 0);
    work_all(&bed);
    cr_assert(holds(&bed, &request, 0, 12, 100));
    work_all(&bed);
    for (uint32_t call = 1; call <= 2; call++) {
        cr_assert(holds(&bed, &request, 0, 12, 100 + call));
        cr_assert_eq(figures(&bed).blocks, call * RUN_BLOCKS);
        cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), 100 + call, "at once");
    }
    cr_assert(!holds(&bed, &request, 0, 12, 103));
    cr_assert_eq(figures(&bed).blocks, 12);
    cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), DEADLINE_NONE);
    close_bed(&bed);
}

Test(prefix_tier, the_limit_holds_for_a_call_that_leaves_blocks)
{
    struct bed bed;
    struct engine_request request = {0};
    open_on(&bed, fault_device(1), &(struct cache_groups){0}, 20);
    for (uint32_t prompt = 0; prompt < 3; prompt++)
        run_prompt(&bed, prompt, 12, 0);
    work_all(&bed);
    cr_assert(holds(&bed, &request, 0, 12, 0));
    work_all(&bed);
    cr_assert(!holds(&bed, &request, 0, 12, LIMIT_NS));
    cr_assert_eq(figures(&bed).n_late, 1);
    cr_assert_eq(run_prompt(&bed, 0, 12, 0), RUN_BLOCKS);
    close_bed(&bed);
}

Test(prefix_tier, a_request_waits_up_to_its_limit_and_then_has_what_came)
{
    struct bed bed;
    struct engine_request request = {0};
    open_on(&bed, fault_device(1), &(struct cache_groups){0}, 20);
    for (uint32_t prompt = 0; prompt < 3; prompt++)
        run_prompt(&bed, prompt, 12, 0);
    work_all(&bed);
    cr_assert(holds(&bed, &request, 0, 12, 100));
    cr_assert_eq(request.held_until_ns, 100 + LIMIT_NS);
    cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), 100 + LIMIT_NS);
    for (int i = 0; i < 5; i++)
        cr_assert(kv_tier_work(bed.tier));
    cr_assert(holds(&bed, &request, 0, 12, 99 + LIMIT_NS));
    cr_assert(!holds(&bed, &request, 0, 12, 100 + LIMIT_NS));
    cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), DEADLINE_NONE);
    cr_assert_eq(figures(&bed).n_late, 1);
    cr_assert_eq(run_prompt(&bed, 0, 12, 0), 5);
    close_bed(&bed);
}

Test(prefix_tier, without_anything_to_wait_for_nobody_waits)
{
    struct bed bed;
    struct engine_request unknown = {0}, cached = {0};
    open_on(&bed, fault_device(1), &(struct cache_groups){0}, 20);
    run_prompt(&bed, 0, 12, 0);
    cr_assert(!holds(&bed, &unknown, 1, 12, 0) && prefix_tier_is_settled(bed.prefix, &unknown));
    cr_assert(!holds(&bed, &cached, 0, 12, 0) && prefix_tier_is_settled(bed.prefix, &cached));
    cr_assert_eq(figures(&bed).n_orders, 0);
    cr_assert(prefix_tier_is_settled(NULL, &cached) &&
              !prefix_tier_holds(NULL, &cached, NULL, 0, 0));
    prefix_tier_run(NULL, 0);
    close_bed(&bed);
}

Test(prefix_tier, with_a_limit_of_0_nobody_waits)
{
    struct bed bed;
    struct engine_request request = {0};
    open_on(&bed, fault_device(1), &(struct cache_groups){0}, 20);
    for (uint32_t prompt = 0; prompt < 3; prompt++)
        run_prompt(&bed, prompt, 12, 0);
    work_all(&bed);
    prefix_tier_destroy(bed.prefix);
    make_prefix(&bed, 0);
    cr_assert(!holds(&bed, &request, 0, 12, 100));
    cr_assert(prefix_tier_is_settled(bed.prefix, &request) && request.held_until_ns == 0);
    cr_assert_eq(figures(&bed).n_orders, 0);
    close_bed(&bed);
}

Test(prefix_tier, an_order_begins_when_its_blocks_can_be_taken)
{
    struct bed bed;
    struct engine_request request = {0};
    struct block_table table;
    open_on(&bed, fault_device(1), &(struct cache_groups){0}, 20);
    for (uint32_t prompt = 0; prompt < 3; prompt++)
        run_prompt(&bed, prompt, 12, 0);
    work_all(&bed);
    cr_assert_eq(kv_manager_init(bed.manager, &table), STATUS_OK); /* a long one that runs */
    cr_assert_eq(
        kv_manager_prepare(bed.manager, &table, &(struct block_need){.known = 15 * BLOCK_TOKENS}),
        STATUS_OK);
    cr_assert(!holds(&bed, &request, 0, 12, 0));
    cr_assert(!prefix_tier_is_settled(bed.prefix, &request), "it asks again");
    kv_manager_free(bed.manager, &table);
    cr_assert(holds(&bed, &request, 0, 12, 0));
    for (int i = 0; i < 50 && holds(&bed, &request, 0, 12, 0); i++)
        work_all(&bed);
    cr_assert_eq(run_prompt(&bed, 0, 12, 0), 12);
    kv_manager_finish(&table);
    close_bed(&bed);
}

/* ---- several requests ---- */

static void push_out(struct bed *bed, uint32_t n_blocks)
{
    open_on(bed, fault_device(1), &(struct cache_groups){0}, n_blocks);
    for (uint32_t prompt = 0; prompt < 4; prompt++)
        run_prompt(bed, prompt, 12, 0);
    work_all(bed);
}

Test(prefix_tier, requests_of_one_prefix_read_it_once)
{
    struct bed bed;
    struct engine_request first = {0}, second = {0}, shorter = {0};
    push_out(&bed, 20);
    const uint64_t before = figures(&bed).tier.n_read;
    cr_assert(holds(&bed, &first, 0, 12, 0));
    cr_assert(holds(&bed, &second, 0, 12, 0));
    cr_assert(holds(&bed, &shorter, 0, 3, 0));
    for (int i = 0; i < 4; i++)
        cr_assert(kv_tier_work(bed.tier));
    cr_assert(holds(&bed, &first, 0, 12, 1) && holds(&bed, &second, 0, 12, 1));
    cr_assert(!holds(&bed, &shorter, 0, 3, 1), "what it needs has come");
    for (int i = 0; i < 50 && holds(&bed, &first, 0, 12, 2); i++)
        work_all(&bed);
    cr_assert(!holds(&bed, &second, 0, 12, 2) && prefix_tier_is_settled(bed.prefix, &second));
    cr_assert_eq(second.held_until_ns, 0);
    cr_assert_eq(figures(&bed).tier.n_read - before, 12);
    cr_assert_eq(figures(&bed).n_orders, 1);
    cr_assert_eq(run_prompt(&bed, 0, 12, 0), 12);
    close_bed(&bed);
}

Test(prefix_tier, a_longer_request_orders_its_own_rest_and_waits_no_longer_than_its_limit)
{
    struct bed bed;
    struct engine_request first = {0}, longer = {0};
    push_out(&bed, 20);
    cr_assert(holds(&bed, &first, 0, 5, 0));
    cr_assert(holds(&bed, &longer, 0, 12, 10));
    for (int i = 0; i < 50 && holds(&bed, &first, 0, 5, 20); i++)
        work_all(&bed);
    cr_assert(holds(&bed, &longer, 0, 12, 30));
    cr_assert_eq(figures(&bed).n_orders, 2);
    cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), 10 + LIMIT_NS, "from its first wait");
    work_all(&bed);
    for (int i = 0; i < 50 && holds(&bed, &longer, 0, 12, 40); i++)
        work_all(&bed);
    cr_assert_eq(run_prompt(&bed, 0, 12, 0), 12);
    close_bed(&bed);
}

Test(prefix_tier, an_order_ends_when_others_have_computed_its_blocks)
{
    struct bed bed;
    struct engine_request request = {0};
    push_out(&bed, 20);
    const uint64_t before = figures(&bed).tier.n_read;
    cr_assert(holds(&bed, &request, 0, 12, 0));
    cr_assert_eq(run_prompt(&bed, 0, 12, 0), 0); /* a request that was not held */
    cr_assert(!holds(&bed, &request, 0, 12, 1) && prefix_tier_is_settled(bed.prefix, &request));
    cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), DEADLINE_NONE);
    work_all(&bed);
    cr_assert_eq(figures(&bed).tier.n_read, before);
    close_bed(&bed);
}

Test(prefix_tier, an_order_ends_with_its_request_and_who_waited_for_it_orders)
{
    struct bed bed;
    struct engine_request first = {0}, second = {0};
    push_out(&bed, 20);
    cr_assert(holds(&bed, &first, 0, 12, 0) && holds(&bed, &second, 0, 12, 0));
    prefix_tier_leave(bed.prefix, &second);
    cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), LIMIT_NS, "the order is of the first");
    second = (struct engine_request){0};
    cr_assert(holds(&bed, &second, 0, 12, 0));
    prefix_tier_leave(bed.prefix, &first);
    prefix_tier_leave(NULL, &first);
    cr_assert(holds(&bed, &second, 0, 12, 0));
    cr_assert_eq(figures(&bed).n_orders, 2);
    prefix_tier_leave(bed.prefix, &second);
    const uint64_t before = figures(&bed).tier.n_read;
    work_all(&bed);
    cr_assert_eq(figures(&bed).tier.n_read, before);
    prefix_tier_run(bed.prefix, 1);
    cr_assert_eq(prefix_tier_next_limit_ns(bed.prefix), DEADLINE_NONE);
    close_bed(&bed);
}

Test(prefix_tier, while_the_disk_hangs_one_request_waits_and_no_other)
{
    struct bed bed;
    struct engine_request first = {0}, second = {0}, third = {0};
    push_out(&bed, 20);
    run_prompt(&bed, 4, 12, 0); /* what it pushes out waits to be written */
    cr_assert(holds(&bed, &first, 0, 12, 0));
    cr_assert(!holds(&bed, &first, 0, 12, LIMIT_NS));
    cr_assert(!holds(&bed, &second, 1, 12, LIMIT_NS));
    cr_assert(!holds(&bed, &second, 1, 12, 2 * LIMIT_NS));
    cr_assert_eq(figures(&bed).n_orders, 1);
    cr_assert(kv_tier_work(bed.tier), "the disk goes on");
    cr_assert(holds(&bed, &third, 1, 12, 2 * LIMIT_NS));
    prefix_tier_leave(bed.prefix, &third);
    close_bed(&bed);
}

Test(prefix_tier, a_late_order_of_a_tier_that_has_nothing_to_do_holds_up_no_later_one)
{
    struct bed bed;
    struct engine_request first = {0}, second = {0};
    push_out(&bed, 20);
    cr_assert(holds(&bed, &first, 0, 12, 0));
    work_all(&bed); /* all is read, and this engine was slow */
    cr_assert(!holds(&bed, &first, 0, 12, LIMIT_NS));
    cr_assert_eq(figures(&bed).n_late, 1);
    work_all(&bed); /* what made room for it is written */
    cr_assert(holds(&bed, &second, 1, 12, LIMIT_NS));
    prefix_tier_leave(bed.prefix, &second);
    close_bed(&bed);
}

/* ---- what is not trusted ---- */

Test(prefix_tier, what_an_origin_sent_and_what_stands_on_it_is_dropped_from_the_tier_too)
{
    struct bed bed;
    struct engine_request request = {0};
    open_on(&bed, fault_device(1), &(struct cache_groups){0}, 20);
    run_prompt(&bed, 0, 4, 0);
    run_prompt(&bed, 0, 8, 77); /* received behind what is its own */
    run_prompt(&bed, 0, 12, 0); /* and computed on it */
    for (uint32_t prompt = 1; prompt < 4; prompt++)
        run_prompt(&bed, prompt, 12, 0);
    work_all(&bed);
    kv_manager_drop(bed.manager, 77);
    prefix_tier_drop(bed.prefix, 77);
    for (int i = 0; i < 50 && holds(&bed, &request, 0, 12, 0); i++)
        work_all(&bed);
    work_all(&bed);
    struct engine_request again = {0};
    for (int i = 0; i < 50 && holds(&bed, &again, 0, 12, 0); i++)
        work_all(&bed);
    cr_assert_eq(run_prompt(&bed, 0, 12, 0), 4);
    close_bed(&bed);
}

Test(prefix_tier, what_came_back_has_the_origin_of_all_before_it)
{
    struct bed bed;
    struct engine_request request = {0};
    open_on(&bed, fault_device(1), &(struct cache_groups){0}, 20);
    run_prompt(&bed, 0, 8, 77);
    run_prompt(&bed, 0, 12, 0);
    for (uint32_t prompt = 1; prompt < 4; prompt++)
        run_prompt(&bed, prompt, 12, 0);
    for (int i = 0; i < 50 && holds(&bed, &request, 0, 12, 0); i++)
        work_all(&bed);
    uint32_t n_held;
    cr_assert_eq(kv_manager_peek(bed.manager, bed.hashes[0], 12, &n_held), 12);
    cr_assert_eq(kv_manager_drop(bed.manager, 77), 12);
    close_bed(&bed);
}

Test(prefix_tier, kv_of_two_origins_is_not_kept)
{
    struct bed bed;
    open_on(&bed, fault_device(1), &(struct cache_groups){0}, 20);
    run_prompt(&bed, 0, 4, 77);
    run_prompt(&bed, 0, 8, 78);
    for (uint32_t prompt = 1; prompt < 4; prompt++)
        run_prompt(&bed, prompt, 12, 0);
    cr_assert_eq(figures(&bed).mixed, 4);
    work_all(&bed);
    struct engine_request request = {0};
    for (int i = 0; i < 50 && holds(&bed, &request, 0, 8, 0); i++)
        work_all(&bed);
    cr_assert_eq(run_prompt(&bed, 0, 8, 0), 4);
    close_bed(&bed);
}

Test(prefix_tier, what_is_forgotten_or_flushed_does_not_come_back)
{
    struct bed bed;
    for (int how = 0; how < 2; how++) {
        struct engine_request request = {0};
        open_on(&bed, fault_device(1), &(struct cache_groups){0}, 20);
        for (uint32_t prompt = 0; prompt < 3; prompt++)
            run_prompt(&bed, prompt, 12, 0);
        work_all(&bed);
        if (how == 0)
            kv_manager_forget(bed.manager, bed.hashes[2][5]);
        else
            kv_manager_flush(bed.manager);
        prefix_tier_clear(bed.prefix);
        work_all(&bed);
        for (int i = 0; i < 50 && holds(&bed, &request, 0, 12, 0); i++)
            work_all(&bed);
        cr_assert_eq(run_prompt(&bed, 0, 12, 0), 0);
        close_bed(&bed);
    }
}

Test(prefix_tier, a_device_that_is_lost_ends_orders_and_leaks_nothing)
{
    struct bed bed;
    for (uint64_t at = 1; at <= 60; at++) {
        struct engine_request request = {0};
        open_on(&bed, fault_device(at), &(struct cache_groups){0}, 20);
        for (uint32_t prompt = 0; prompt < 3; prompt++)
            run_prompt(&bed, prompt, 12, 0);
        work_all(&bed);
        fault_device_fail_at(bed.device, at);
        for (int i = 0; i < 50 && holds(&bed, &request, 0, 12, 0); i++)
            work_all(&bed);
        cr_assert(prefix_tier_is_settled(bed.prefix, &request));
        cr_assert_eq(kv_manager_count(bed.manager, BLOCK_ACTIVE), 0);
        close_bed(&bed);
    }
}
