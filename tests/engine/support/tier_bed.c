#include "tests/engine/support/tier_bed.h"

#include "tests/device/fault_device.h"

#include <criterion/criterion.h>
#include <stdio.h>

static void copy(void *device, uint8_t *to, const uint8_t *from, size_t n_bytes)
{
    device_copy(device, DEVICE_COMPUTE, to, from, n_bytes);
}

static void hash_prompts(struct tier_bed *bed)
{
    static const struct prefix_key KEY = {"0123456789abcdef"};
    for (uint32_t prompt = 0; prompt < 8; prompt++) {
        uint32_t tokens[CONTEXT];
        for (uint32_t i = 0; i < CONTEXT; i++)
            tokens[i] = prompt * 1000 + i;
        prefix_hash_blocks(&KEY, "", 0, tokens, CONTEXT, BLOCK_TOKENS, bed->hashes[prompt]);
    }
}

void tier_bed_make_prefix(struct tier_bed *bed, uint64_t limit_ns)
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

void tier_bed_make_tier(struct tier_bed *bed, uint32_t pieces_max)
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

void tier_bed_open(struct tier_bed *bed, struct device *device, const struct cache_groups *groups,
                   uint32_t n_blocks)
{
    struct error error = {""};
    *bed = (struct tier_bed){.device = device};
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
    block_pool_copy_by(bed->pool, copy, device);
    const struct kv_manager_options manager = {.geometry = &bed->geometry,
                                               .pool = bed->pool,
                                               .step = {BLOCK_TOKENS, 1, CONTEXT},
                                               .prefix_cache = true,
                                               .snapshot_tokens = SNAPSHOT_SPANS * BLOCK_TOKENS};
    cr_assert_eq(kv_manager_create(&manager, &error, &bed->manager), STATUS_OK, "%s", error.text);
    const struct host_blocks_options host = {.bytes_max = 200 * bed->block_bytes,
                                             .block_bytes = bed->block_bytes};
    cr_assert_eq(host_blocks_create(&host, &error, &bed->host), STATUS_OK);
    tier_bed_make_tier(bed, 2 * CACHE_GROUPS_MAX);
    tier_bed_make_prefix(bed, LIMIT_NS);
}

void tier_bed_close(struct tier_bed *bed)
{
    cr_assert(device_is_lost(bed->device) || fault_device_n_views(bed->device) == 0);
    prefix_tier_destroy(bed->prefix);
    kv_manager_destroy(bed->manager);
    block_pool_destroy(bed->pool);
    device_free(bed->device, &bed->memory);
    device_close(bed->device);
    (void)kv_tier_destroy(bed->tier);
    host_blocks_destroy(bed->host);
}

struct device *tier_bed_device(uint64_t seed)
{
    return fault_device_open(&(struct fault_options){
        .seed = seed, .steps_max = 3, .views_max = 2, .computes_at_once = false});
}

/* ---- KV that tells where it belongs ---- */

static uint8_t byte_of(uint32_t prompt, uint32_t span, uint32_t group, size_t at)
{
    return (uint8_t)(prompt * 89 + span * 31 + group * 57 + at * 3 + (at >> 7));
}

static void put_kv(struct tier_bed *bed, uint32_t prompt, uint32_t span, uint32_t group,
                   block_id id)
{
    uint8_t *target = kv_manager_data(bed->manager, id), *view;
    cr_assert_eq(device_write_begin(bed->device, target, bed->block_bytes, &view), STATUS_OK);
    for (size_t i = 0; i < bed->block_bytes; i++)
        view[i] = byte_of(prompt, span, group, i);
    device_write(bed->device, DEVICE_COMPUTE, target, view, bed->block_bytes);
    cr_assert_eq(device_wait(bed->device, device_record(bed->device, DEVICE_COMPUTE)), STATUS_OK);
}

static void expect_kv(struct tier_bed *bed, uint32_t prompt, uint32_t span, uint32_t group,
                      block_id id)
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

/* A state's blocks are told apart from those of groups. */
#define STATE_GROUP 100u

/* What it knows behind so many spans. */
static void put_state(struct tier_bed *bed, const struct block_table *table, uint32_t prompt,
                      uint32_t n_spans)
{
    const struct block_row state = block_table_state(table);
    for (uint32_t i = 0; i < state.n; i++)
        put_kv(bed, prompt, n_spans, STATE_GROUP + i, state.ids[i]);
}

static void expect_state(struct tier_bed *bed, const struct block_table *table, uint32_t prompt,
                         uint32_t n_spans)
{
    const struct block_row state = block_table_state(table);
    for (uint32_t i = 0; i < state.n; i++)
        expect_kv(bed, prompt, n_spans, STATE_GROUP + i, state.ids[i]);
}

/* Returns the spans that the cache had; their bytes are compared. Computes the others, span by span, as an engine does. */
uint32_t tier_bed_run(struct tier_bed *bed, uint32_t prompt, uint32_t n_spans, uint64_t origin)
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
    if (known > 0)
        expect_state(bed, &table, prompt, known);
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
        put_state(bed, &table, prompt, span + 1);
        const uint32_t n_tokens = (span + 1) * BLOCK_TOKENS;
        if (kv_manager_snapshot_is_due(bed->manager, &table, n_tokens, false))
            kv_manager_keep_snapshot(bed->manager, &table, hashes, n_tokens);
    }
    kv_manager_free(bed->manager, &table);
    kv_manager_finish(&table);
    return known;
}

void tier_bed_work(const struct tier_bed *bed)
{
    while (kv_tier_work(bed->tier))
        continue;
}

bool tier_bed_holds(struct tier_bed *bed, struct engine_request *request, uint32_t prompt,
                    uint32_t n, uint64_t now_ns)
{
    prefix_tier_run(bed->prefix, now_ns);
    return prefix_tier_holds(bed->prefix, request, bed->hashes[prompt], n, now_ns);
}

struct prefix_tier_figures tier_bed_figures(const struct tier_bed *bed)
{
    struct prefix_tier_figures now;
    prefix_tier_count(bed->prefix, &now);
    return now;
}

void tier_bed_push_out(struct tier_bed *bed, uint64_t seed)
{
    tier_bed_open(bed, tier_bed_device(seed), &(struct cache_groups){0}, 20);
    for (uint32_t prompt = 0; prompt < 4; prompt++)
        tier_bed_run(bed, prompt, 12, 0);
    tier_bed_work(bed);
}

void tier_bed_restore(struct tier_bed *bed, struct engine_request *request, uint32_t prompt,
                      uint32_t n, uint64_t now_ns)
{
    for (int i = 0; i < 50 && tier_bed_holds(bed, request, prompt, n, now_ns); i++)
        tier_bed_work(bed);
}
