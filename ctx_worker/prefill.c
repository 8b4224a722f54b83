#include "ctx_worker/prefill.h"

#include "base/clock.h"
#include "engine/cache_events.h"
#include "engine/prefix_tier.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MIB             (1024u * 1024u)
#define LEASE_STEPS     3u /* the step under way, the next, and one to spare */
#define LEASE_STEPS_MAX 16u

enum status prefill_init(struct prefill *prefill, const struct prefill_home *home)
{
    const struct ctx_engine_options *options = home->options;
    const struct geometry *geometry = &options->geometry;
    const uint32_t spans_max = geometry_spans(geometry, options->context_tokens);
    memset(prefill, 0, sizeof *prefill);
    TRY(kv_manager_init(home->manager, &prefill->table));
    prefill->hashes = calloc(spans_max, sizeof *prefill->hashes);
    prefill->crossed = calloc(geometry_blocks(geometry, options->context_tokens),
                              sizeof *prefill->crossed);
    return prefill->hashes && prefill->crossed ? STATUS_OK : STATUS_NO_MEMORY;
}

void prefill_finish(struct prefill *prefill, const struct prefill_home *home)
{
    if (prefill->state == PREFILL_COMPUTING || prefill->state == PREFILL_SEALED)
        prefill_release(prefill, home);
    if (prefill->state == PREFILL_CLOSING)
        prefill_quiet(prefill, home);
    kv_manager_finish(&prefill->table);
    free(prefill->hashes);
    free(prefill->crossed);
}

static void say(const struct prefill *prefill, const struct prefill_home *home,
                const struct prefill_event *event)
{
    assert(prefill_is_live(prefill) && "after the lease only finish follows");
    home->ops->event(home->ops->arg, prefill->prompt->request.stream, event);
}

/* Fills home->digests from the device memory of these blocks. DEVICE_LOST. */
static enum status digest(const struct prefill_home *home, const block_id *ids, uint32_t n)
{
    const struct ctx_engine_options *options = home->options;
    for (uint32_t i = 0; i < n; i++)
        device_digest(options->device, DEVICE_COMPUTE, kv_manager_data(home->manager, ids[i]),
                      kv_manager_block_bytes(home->manager), &home->digests[i]);
    return device_wait(options->device, device_record(options->device, DEVICE_COMPUTE));
}

/* From here on readers may read the blocks. The step has completed by now, but where readers read without a request, this
 * does not rely on it. */
static enum status settle(const struct prefill_home *home, const block_id *ids, uint32_t n)
{
    const struct ctx_engine_options *options = home->options;
    if (options->kv_digest)
        return digest(home, ids, n);
    if (!kv_sender_is_read_alone(options->sender))
        return STATUS_OK; /* each read waits by itself */
    return device_wait(options->device, device_record(options->device, DEVICE_COMPUTE));
}

/* Publishes the blocks of the spans before n_spans and announces them. Blocks that the reader has already, or does not see,
 * are not transferred. False: the device is lost, and nothing was announced. */
static bool publish(struct prefill *prefill, const struct prefill_home *home, uint32_t n_spans)
{
    const struct ctx_engine_options *options = home->options;
    const struct block_table *table = &prefill->table;
    block_id *ids = prefill->crossed + prefill->n_crossed;
    assert(n_spans <= table->n_spans);
    if (n_spans <= prefill->n_published)
        return true;

    const uint32_t n = crossing_list(&prefill->crossing, prefill->n_published, n_spans,
                                     table->blocks, table->spans_max, table->n_dropped, ids);
    if (n > 0 && settle(home, ids, n) != STATUS_OK)
        return false;
    prefill->n_published = n_spans;
    if (n == 0)
        return true;
    const uint32_t first = prefill->crossing.base + prefill->n_crossed;
    kv_manager_pin(home->manager, ids, n);
    kv_sender_publish(options->sender, &prefill->id, first, ids, n);
    prefill->n_crossed += n;
    say(prefill, home,
        &(struct prefill_event){.kind = EVENT_READY,
                                .ready = {.first_block = first,
                                          .n_blocks = n,
                                          .block_ids = ids,
                                          .digests = options->kv_digest ? home->digests : NULL}});
    return true;
}

/* Hashes the blocks that may come from the prefix cache. The last token is always computed, because its logits are needed.
 * Returns how many. */
static uint32_t hash_blocks(struct prefill *prefill, const struct prefill_home *home,
                            const struct engine_request *request)
{
    const struct ctx_engine_options *options = home->options;
    uint32_t block_tokens = options->geometry.block_tokens;
    engine_request_hash(request, &options->prefix_key, request->token_ids, request->n_tokens,
                        block_tokens, prefill->hashes);
    return (request->n_tokens - 1) / block_tokens;
}

uint32_t prefill_hash(struct prefill *prefill, const struct prefill_home *home,
                      const struct prompt *prompt)
{
    assert(prefill->state == PREFILL_FREE && "only the hashes of a free slot may be overwritten");
    return prompt->request.sampling.scores_prompt ? 0
                                                  : hash_blocks(prefill, home, &prompt->request);
}

uint32_t prefill_peek(struct prefill *prefill, const struct prefill_home *home,
                      const struct prompt *prompt, uint32_t *held_out)
{
    assert(prefill->state == PREFILL_FREE && "only the hashes of a free slot may be overwritten");
    *held_out = 0;
    if (!kv_manager_caches(home->manager) || prompt->request.sampling.scores_prompt)
        return 0;
    uint32_t n = hash_blocks(prefill, home, &prompt->request);
    const uint32_t n_known = engine_request_usable(
        &prompt->request, kv_manager_peek(home->manager, prefill->hashes, n, held_out),
        home->options->geometry.block_tokens);
    *held_out = n_known > 0 ? *held_out : 0;
    return n_known;
}

/* Takes the blocks that the prefix cache has, and acquires the rest. A prompt whose tokens are to be scored is computed whole. */
static enum status reserve(struct prefill *prefill, const struct prefill_home *home,
                           const struct prompt *prompt)
{
    const struct ctx_engine_options *options = home->options;
    if (kv_manager_caches(home->manager)) {
        uint32_t n = hash_blocks(prefill, home, &prompt->request);
        if (prompt->request.n_text > 0)
            n = engine_request_usable(&prompt->request,
                                      kv_manager_reach(home->manager, prefill->hashes, n),
                                      options->geometry.block_tokens);
        if (!prompt->request.sampling.scores_prompt)
            prefill->n_cached = kv_manager_match(home->manager, &prefill->table, prefill->hashes,
                                                 n);
        if (kv_manager_keeps_states(home->manager))
            prefill->n_branch = kv_manager_reach(home->manager, prefill->hashes, n) *
                                options->geometry.block_tokens;
    }
    const struct block_need need = {
        .position = prefill->n_cached, .end = prefill->n_cached, .known = prompt->request.n_tokens};
    enum status status = kv_manager_prepare(home->manager, &prefill->table, &need);
    if (status == STATUS_OK)
        status = kv_sender_open(options->sender, &prompt->transfer_id, prompt->caller_incarnation);
    if (status == STATUS_OK)
        return STATUS_OK;
    kv_manager_free(home->manager, &prefill->table);
    prefill->n_cached = 0;
    return status;
}

enum status prefill_take_prompt(struct prefill *prefill, const struct prefill_home *home,
                                struct prompt *prompt, uint64_t now_ns)
{
    assert(prefill->state == PREFILL_FREE && prefill->table.n_blocks == 0);
    kv_manager_set_window(home->manager, &prefill->table, prompt->request.sampling.reply_window);
    prefill->n_cached = prefill->n_branch = prefill->n_cut = 0;
    TRY(reserve(prefill, home, prompt));

    assert(prefill->n_cached < prompt->request.n_tokens && "its logits are needed");
    assert(prompt->held_tokens < prompt->request.n_tokens);
    prefill->state = PREFILL_COMPUTING;
    prefill->prompt = prompt;
    prefill->id = prompt->transfer_id;
    prefill->schedule_id = prompt->request.schedule_id;
    prefill->lease_limit_ns = prompt->request.deadline_ns;
    prefill->n_computed = prefill->n_cached;
    prefill->crossing = crossing_of(&home->options->geometry, prompt->request.n_tokens,
                                    prompt->held_tokens, prompt->request.sampling.reply_window);
    prefill->n_published = prefill->crossing.held;
    prefill->n_crossed = 0;
    prefill->began_ns = now_ns;
    say(prefill, home,
        &(struct prefill_event){
            .kind = EVENT_ACCEPTED,
            .accepted = {.n_blocks = crossing_count(&prefill->crossing, UINT32_MAX),
                         .block_tokens = prefill->table.block_tokens}});
    (void)publish(prefill, home,
                  prefill->n_cached / prefill->table.block_tokens); /* the engine ends it */
    return STATUS_OK;
}

uint32_t prefill_cut(struct prefill *prefill, const struct prefill_home *home)
{
    if (prefill->state != PREFILL_COMPUTING)
        return 0;
    prefill->n_cut = kv_manager_cut(home->manager, &prefill->table, prefill->n_computed,
                                    prefill->n_branch, prefill->prompt->request.n_tokens);
    return prefill->n_cut;
}

uint32_t prefill_n_left(const struct prefill *prefill)
{
    assert(prefill_is_live(prefill) && prefill->n_computed <= prefill->prompt->request.n_tokens);
    return prefill->prompt->request.n_tokens - prefill->n_computed;
}

void prefill_prepare(struct prefill *prefill, const struct prefill_home *home, uint32_t n_query)
{
    const struct block_need need = {.position = prefill->n_computed,
                                    .end = prefill->n_computed + n_query,
                                    .known = prefill->prompt->request.n_tokens};
    const enum status status = kv_manager_prepare(home->manager, &prefill->table, &need);
    assert(prefill->state == PREFILL_COMPUTING && n_query <= prefill_n_left(prefill));
    assert(status == STATUS_OK && "the blocks of a step are kept aside");
    (void)status;
}

static void say_first_token(struct prefill *prefill, const struct prefill_home *home,
                            const struct draw *drawn)
{
    struct prefill_event event = {
        .kind = EVENT_FIRST_TOKEN,
        .first_token = {.has_logprobs = prefill->prompt->request.sampling.n_logprobs > 0,
                        .token_id = drawn->token_id,
                        .ranked = drawn->ranked},
    };
    if (event.first_token.has_logprobs)
        event.first_token.logprobs = *drawn->logprobs;
    say(prefill, home, &event);
}

/* The timeout of the commit. The reader fetches the last blocks after one of its steps, and commits after the next. Its word on
 * the time of a step counts up to LEASE_STEPS_MAX times the common limit. */
static uint64_t lease_ns(const struct prefill *prefill, const struct prefill_home *home)
{
    const struct ctx_engine_options *options = home->options;
    uint64_t mib = (prefill_kv_bytes(prefill, home) + MIB - 1) / MIB;
    uint64_t step_ns = prefill->prompt->reader_step_ns;
    uint64_t most_ns = LEASE_STEPS_MAX * options->lease_limit_ns;
    uint64_t steps_ns = step_ns < most_ns / LEASE_STEPS ? step_ns * LEASE_STEPS : most_ns;
    return options->lease_limit_ns + steps_ns + mib * options->lease_limit_mib_ns;
}

/* From now on the commit is due. */
static void seal(struct prefill *prefill, const struct prefill_home *home)
{
    uint64_t now_ns = home->ops->now_ns(home->ops->arg);
    const struct prompt *prompt = prefill->prompt;
    assert(prefill_n_left(prefill) == 0 && prefill->n_published == prefill->crossing.end);
    uint64_t limit_ns = now_ns + lease_ns(prefill, home);
    if (limit_ns < prefill->lease_limit_ns)
        prefill->lease_limit_ns = limit_ns;
    prefill->state = PREFILL_SEALED;
    prefill->held_number = held_transfers_put(home->held, &prefill->id,
                                              prefill_kv_bytes(prefill, home));
    say(prefill, home,
        &(struct prefill_event){
            .kind = EVENT_SEALED,
            .sealed = {.n_tokens = prompt->request.n_tokens,
                       .cached_tokens = prefill->n_cached,
                       .queue_us = (prefill->began_ns - prompt->request.arrived_ns) / NS_PER_US,
                       .compute_us = (now_ns - prefill->began_ns) / NS_PER_US}});
}

/* The first n spans. */
static void keep(struct prefill *prefill, const struct prefill_home *home, uint32_t n)
{
    const struct engine_request *request = &prefill->prompt->request;
    const struct cache_source source = {.hashes = prefill->hashes,
                                        .token_ids = request->token_ids,
                                        .n = n,
                                        .is_common = engine_request_is_common(request)};
    cache_events_begin(home->events, &source);
    kv_manager_keep(home->manager, &prefill->table, prefill->hashes, n);
    cache_events_end(home->events);
}

void prefill_advance(struct prefill *prefill, const struct prefill_home *home, uint32_t n_query,
                     const struct draw *drawn)
{
    assert(prefill->state == PREFILL_COMPUTING && n_query <= prefill_n_left(prefill));
    prefill->n_computed += n_query;
    uint32_t whole = prefill->n_computed / prefill->table.block_tokens;
    keep(prefill, home, whole);
    if (kv_manager_snapshot_is_due(home->manager, &prefill->table, prefill->n_computed,
                                   prefill->n_computed == prefill->n_cut))
        kv_manager_keep_snapshot(home->manager, &prefill->table, prefill->hashes,
                                 prefill->n_computed);

    const bool is_last = prefill_n_left(prefill) == 0;
    if (is_last)
        say_first_token(prefill, home, drawn);
    const bool is_published = publish(prefill, home, is_last ? prefill->crossing.end : whole);
    kv_manager_settle(home->manager, &prefill->table, prefill->n_computed,
                      is_last ? KV_NEXT_NOTHING : KV_NEXT_PROMPT);
    if (is_last && is_published) /* else the device is lost, and the engine ends it */
        seal(prefill, home);
}

void prefill_forget(const struct prefill *prefill, const struct prefill_home *home)
{
    const uint32_t block_tokens = prefill->table.block_tokens;
    const uint32_t first = prefill->n_cached / block_tokens;
    assert(prefill_is_live(prefill));
    if (!kv_manager_caches(home->manager) ||
        first >= prefill->prompt->request.n_tokens / block_tokens)
        return;
    (void)kv_manager_forget(home->manager, prefill->hashes[first]);
    prefix_tier_clear(home->tier);
}

uint64_t prefill_kv_bytes(const struct prefill *prefill, const struct prefill_home *home)
{
    const uint64_t n_blocks = crossing_count(&prefill->crossing, UINT32_MAX);
    assert(n_blocks > 0 && "the last block is always transferred");
    return n_blocks * kv_manager_block_bytes(home->manager);
}

void prefill_release(struct prefill *prefill, const struct prefill_home *home)
{
    assert(prefill->state == PREFILL_COMPUTING || prefill->state == PREFILL_SEALED);
    const struct ctx_engine_options *options = home->options;

    if (prefill->held_number != 0)
        held_transfers_end(home->held, prefill->held_number);
    assert(prefill->n_fenced == 0);
    prefill->n_fenced = prefill->n_crossed;
    kv_manager_fence(home->manager, prefill->crossed, prefill->n_fenced);
    kv_manager_unpin(home->manager, prefill->crossed, prefill->n_crossed);
    kv_manager_free(home->manager, &prefill->table);
    kv_sender_close(options->sender, &prefill->id);

    prompt_destroy(prefill->prompt);
    prefill->prompt = NULL;
    prefill->state = PREFILL_CLOSING;
}

void prefill_quiet(struct prefill *prefill, const struct prefill_home *home)
{
    assert(prefill->state == PREFILL_CLOSING && !prefill->prompt);
    kv_manager_unfence(home->manager, prefill->crossed, prefill->n_fenced);
    prefill->n_fenced = 0;
    if (prefill->held_number != 0)
        held_transfers_drop(home->held, prefill->held_number);
    prefill->held_number = 0;
    prefill->state = PREFILL_FREE;
}
