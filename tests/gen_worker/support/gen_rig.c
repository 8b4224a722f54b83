#include "tests/gen_worker/support/gen_rig.h"

#include "base/crc32c.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OWNER_BLOCKS = 32 };

const struct gen_rig_options ROOMY = {
    .n_blocks = 64, .sequences_max = 4, .queue_max = 4, .prefills_max = 4};
const struct gen_rig_options STRICT = {.n_blocks = 64,
                                       .sequences_max = 4,
                                       .queue_max = 4,
                                       .prefills_max = 4,
                                       .no_local_prefill = true};

static uint64_t now_ns(void *arg)
{
    return ((struct gen_rig *)arg)->now_ns;
}

static void draw_transfer_id(void *arg, struct transfer_id *id_out)
{
    struct gen_rig *rig = arg;
    rig->last_id++;
    memset(id_out, 0, sizeof *id_out);
    memcpy(id_out->bytes, &rig->last_id, sizeof rig->last_id);
}

static enum status on_tokens(void *arg, void *stream, const struct gen_tokens *tokens)
{
    struct rig_client *client = stream;
    (void)arg;
    cr_assert_eq(client->n_finishes, 0, "a token after the end");
    cr_assert_eq(tokens->n_tokens, 1);
    if (tokens->so_far && client->n_told++ == 0) {
        client->told_at = client->n_tokens;
        client->told = *tokens->so_far;
        snprintf(client->told_worker, sizeof client->told_worker, "%s",
                 tokens->so_far->context_worker);
        client->told.context_worker = client->told_worker; /* lent for the call alone */
    }
    client->tokens[client->n_tokens++] = tokens->token_ids[0];
    return client->slow_after != 0 && client->n_tokens > client->slow_after ? STATUS_SLOW_READER
                                                                            : STATUS_OK;
}

static enum status on_scores(void *arg, void *stream, const struct prompt_scores *scores)
{
    struct rig_client *client = stream;
    (void)arg;
    cr_assert_eq(client->n_finishes, 0, "scores after the end");
    cr_assert_eq(client->n_tokens, 0, "scores behind a token");
    cr_assert_eq(scores->first, client->n_scored, "each once and in order");
    cr_assert_leq(client->n_scored + scores->n, RIG_CONTEXT_TOKENS);
    memcpy(client->scores + client->n_scored, scores->logprobs, scores->n * sizeof *client->scores);
    client->n_scored += scores->n;
    return client->refuses_scores ? STATUS_SLOW_READER : STATUS_OK;
}

static void on_progress(void *arg, void *stream, uint32_t n_done, uint32_t n_prompt)
{
    struct rig_client *client = stream;
    (void)arg;
    cr_assert_eq(client->n_finishes, 0, "progress after the end");
    cr_assert_lt(client->n_progress, sizeof client->progress / sizeof *client->progress);
    client->n_prompt = n_prompt;
    client->progress[client->n_progress++] = n_done;
}

static void on_finish(void *arg, void *stream, const struct gen_finish *finish)
{
    struct rig_client *client = stream;
    (void)arg;
    cr_assert_eq(client->n_finishes++, 0, "finished twice");
    client->finish = *finish;
    snprintf(client->finish_worker, sizeof client->finish_worker, "%s", finish->context_worker);
    snprintf(client->finish_sentence, sizeof client->finish_sentence, "%s", finish->sentence);
    client->finish.context_worker = client->finish_worker; /* lent for the call alone */
}

static void start_prefill(void *arg, uint64_t prefill, const char *context_worker,
                          const struct gen_prefill_request *request)
{
    struct gen_rig *rig = arg;
    cr_assert_str_eq(context_worker, "ctx:1");
    rig->n_starts++;
    rig->prefill = prefill;
    rig->held_tokens = request->held_tokens;
    rig->n_prompt = request->input.n_tokens;
    rig->transfer = request->transfer_id;
    rig->standing = request->input.standing;
    rig->step_ns = request->step_ns;
    rig->wants_scores = request->input.sampling->scores_prompt;
}

static void cancel_prefill(void *arg, uint64_t prefill)
{
    struct gen_rig *rig = arg;
    rig->n_cancels++;
    gen_engine_prefill_end(rig->engine, prefill, STATUS_CANCELLED, "");
}

static void commit(void *arg, uint64_t prefill, const char *context_worker,
                   const struct transfer_id *id, uint64_t kv_bytes, uint64_t incarnation)
{
    struct gen_rig *rig = arg;
    (void)context_worker;
    cr_assert_eq(prefill, rig->prefill);
    cr_assert_eq(memcmp(id, &rig->transfer, sizeof *id), 0);
    cr_assert_eq(incarnation, RIG_OWNER);
    rig->n_commits++;
    rig->commit_bytes = kv_bytes;
}

static void on_flush(void *arg, void *call, uint32_t n_evicted)
{
    (void)arg;
    *(uint32_t *)call = n_evicted;
}

static void open_transfer(struct gen_rig *rig, const struct gen_rig_options *options)
{
    const struct sim_options network = {.seed = 1};
    rig->block_bytes = geometry_block_bytes(&rig->base.geometry);
    rig->owner_blocks = calloc(OWNER_BLOCKS, rig->block_bytes);
    cr_assert_not_null(rig->owner_blocks);
    cr_assert_eq(sim_fabric_create(&network, &rig->fabric), STATUS_OK);
    cr_assert_eq(sim_transport_open(rig->fabric, 1, RIG_OWNER, &rig->owner_transport), STATUS_OK);
    cr_assert_eq(sim_transport_open(rig->fabric, 2, RIG_READER, &rig->transport), STATUS_OK);
    const struct kv_sender_options sender = {.transfers_max = 16,
                                             .blocks_max = RIG_CONTEXT_TOKENS / RIG_BLOCK_TOKENS,
                                             .device = rig->owner_device,
                                             .pool_base = rig->owner_blocks,
                                             .block_bytes = rig->block_bytes,
                                             .n_blocks = OWNER_BLOCKS};
    const struct kv_receiver_options receiver = {.transfers_max = options->prefills_max,
                                                 .blocks_max = RIG_CONTEXT_TOKENS /
                                                               RIG_BLOCK_TOKENS,
                                                 .peers_max = 4,
                                                 .window_max = 4,
                                                 .device = rig->base.device,
                                                 .pool_base = block_pool_base(rig->base.pool),
                                                 .block_bytes = rig->block_bytes,
                                                 .n_blocks = options->n_blocks,
                                                 .quiet_limit_ns = 5 * NS_PER_MS};
    cr_assert_eq(kv_sender_create(&sender, rig->owner_transport, &rig->sender), STATUS_OK);
    cr_assert_eq(kv_receiver_create(&receiver, rig->transport, &rig->receiver), STATUS_OK);
}

static struct gen_engine_options engine_options(const struct gen_rig *rig,
                                                const struct gen_rig_options *options)
{
    return (struct gen_engine_options){
        .name = "gen",
        .incarnation = RIG_READER,
        .model = rig->base.model,
        .forward = rig->base.forward,
        .device = rig->base.device,
        .pool = rig->base.pool,
        .desk = options->desk,
        .receiver = rig->receiver,
        .geometry = rig->base.geometry,
        .vocabulary = RIG_VOCABULARY,
        .context_tokens = RIG_CONTEXT_TOKENS,
        .n_eos_ids = 1,
        .eos_ids = {2},
        .chunk_tokens = 2 * RIG_BLOCK_TOKENS,
        .batch_tokens = RIG_BATCH_TOKENS,
        .sequences_max = options->sequences_max,
        .queue_max = options->queue_max,
        .priority_aging_ms = RIG_AGING_MS,
        .streams_max = options->sequences_max + options->queue_max + 4,
        .prefills_max = options->prefills_max,
        .events_max = 64,
        .local_prefill = !options->no_local_prefill,
        .local_prefill_max_tokens = options->local_prefill_max_tokens,
        .prefix_cache = !options->no_prefix_cache,
        .capacity_policy = options->policy,
        .headroom_blocks = options->headroom_blocks,
        .queue_limit_ns = 100 * NS_PER_MS,
        .context_limit_ns = 50 * NS_PER_MS,
        .context_limit_tokens = 4 * RIG_BLOCK_TOKENS,
        .context_limit_max_ns = 400 * NS_PER_MS,
        .transfer_limit_ns = 20 * NS_PER_MS,
        .transfer_limit_mib_ns = NS_PER_MS,
        .commit_limit_ns = 10 * NS_PER_MS,
    };
}

void gen_rig_open(struct gen_rig *rig, struct gen_rig_options options)
{
    struct error error = {""};
    *rig = (struct gen_rig){.options = options, .now_ns = 1000};
    engine_rig_open(&rig->base, &(struct engine_rig_options){
                                    .n_blocks = options.n_blocks,
                                    .sequences_max = options.sequences_max,
                                    .step_tokens = RIG_BATCH_TOKENS + options.sequences_max,
                                    .device = options.device,
                                    .overflows = options.overflows,
                                    .overflow_token = options.overflow_token});
    cr_assert_eq(device_open("cpu", &rig->owner_device, &error), STATUS_OK);
    open_transfer(rig, &options);
    const struct gen_engine_options engine = engine_options(rig, &options);
    const struct gen_engine_ops ops = {.arg = rig,
                                       .now_ns = now_ns,
                                       .draw_transfer_id = draw_transfer_id,
                                       .tokens = on_tokens,
                                       .scores = on_scores,
                                       .progress = on_progress,
                                       .finish = on_finish,
                                       .start_prefill = start_prefill,
                                       .cancel_prefill = cancel_prefill,
                                       .commit = commit,
                                       .flush_reply = on_flush};
    cr_assert_eq(gen_engine_create(&engine, &ops, &error, &rig->engine), STATUS_OK, "%s",
                 error.text);
}

void gen_rig_close(struct gen_rig *rig)
{
    gen_engine_destroy(rig->engine);
    kv_receiver_destroy(rig->receiver);
    kv_sender_destroy(rig->sender);
    rig->transport->ops->close(rig->transport);
    rig->owner_transport->ops->close(rig->owner_transport);
    free(rig->owner_blocks);
    sim_fabric_destroy(rig->fabric);
    device_close(rig->owner_device);
    engine_rig_close(&rig->base);
}

struct sampling_params gen_rig_sampling(uint32_t max_tokens)
{
    struct sampling_params sampling = SAMPLING_GREEDY;
    sampling.max_tokens = max_tokens;
    sampling.ignore_eos = true;
    return sampling;
}

struct gen_request gen_rig_request(const char *name, uint32_t seed, uint32_t n_tokens,
                                   const struct sampling_params *sampling)
{
    return (struct gen_request){.input = {.request_id = name,
                                          .token_ids = engine_rig_tokens(seed, n_tokens),
                                          .n_tokens = n_tokens,
                                          .sampling = sampling,
                                          .deadline_ns = DEADLINE_NONE},
                                .context_worker = "ctx:1"};
}

void gen_rig_ask(struct gen_rig *rig, struct rig_client *client, const char *name,
                 uint32_t n_tokens, uint32_t max_tokens)
{
    const struct sampling_params sampling = gen_rig_sampling(max_tokens);
    const struct gen_request request = gen_rig_request(name, (uint32_t)name[0], n_tokens,
                                                       &sampling);
    cr_assert_eq(gen_engine_generate(rig->engine, client, &request, NULL), STATUS_OK);
    gen_rig_step(rig);
}

void gen_rig_step(struct gen_rig *rig)
{
    gen_engine_step(rig->engine, rig->now_ns);
}

void gen_rig_settle(struct gen_rig *rig)
{
    for (int i = 0; i < 200; i++) {
        uint64_t next_ns = gen_engine_step(rig->engine, rig->now_ns);
        unsigned work = kv_receiver_progress(rig->receiver, rig->now_ns) +
                        kv_sender_progress(rig->sender, rig->now_ns);
        if (work == 0 && next_ns > rig->now_ns && i > 4)
            return;
    }
    cr_assert_fail("never settles");
}

uint32_t gen_rig_blocks(const struct gen_rig *rig, enum block_state state)
{
    return block_pool_count(rig->base.pool, state);
}

/* ---- the context worker ---- */

void gen_rig_describe(struct gen_rig *rig)
{
    struct gen_described described = {.geometry = rig->base.geometry,
                                      .has_other_numerics = rig->has_other_numerics};
    rig->owner_transport->ops->address(rig->owner_transport, &described.address);
    cr_assert_eq(kv_sender_open(rig->sender, &rig->transfer, RIG_READER), STATUS_OK);
    cr_assert_eq(gen_engine_described(rig->engine, rig->prefill, &described), STATUS_OK);
    gen_rig_settle(rig);
}

void gen_rig_say(struct gen_rig *rig, const struct prefill_event *event)
{
    cr_assert_eq(gen_engine_prefill_event(rig->engine, rig->prefill, event), STATUS_OK);
    gen_rig_settle(rig);
}

static uint32_t n_prompt_blocks(const struct gen_rig *rig)
{
    return (rig->n_prompt + RIG_BLOCK_TOKENS - 1) / RIG_BLOCK_TOKENS;
}

void gen_rig_backlog(struct gen_rig *rig, struct backlog backlog)
{
    gen_rig_say(rig, &(struct prefill_event){.kind = EVENT_BACKLOG, .backlog = backlog});
}

void gen_rig_accept(struct gen_rig *rig)
{
    gen_rig_say(rig, &(struct prefill_event){
                         .kind = EVENT_ACCEPTED,
                         .accepted = {n_prompt_blocks(rig) - rig->held_tokens / RIG_BLOCK_TOKENS,
                                      RIG_BLOCK_TOKENS}});
}

void gen_rig_ready(struct gen_rig *rig, uint32_t first, uint32_t n, uint32_t digest_error)
{
    uint32_t ids[OWNER_BLOCKS], digests[OWNER_BLOCKS];
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = first + i;
        digests[i] = crc32c(0, rig->owner_blocks + ids[i] * rig->block_bytes, rig->block_bytes) +
                     digest_error;
    }
    kv_sender_publish(rig->sender, &rig->transfer, first, ids, n);
    gen_rig_say(rig,
                &(struct prefill_event){.kind = EVENT_READY, .ready = {first, n, ids, digests}});
}

void gen_rig_first_token(struct gen_rig *rig, uint32_t token_id)
{
    gen_rig_say(rig, &(struct prefill_event){.kind = EVENT_FIRST_TOKEN,
                                             .first_token = {.token_id = token_id}});
}

void gen_rig_seal(struct gen_rig *rig)
{
    gen_rig_say(rig, &(struct prefill_event){.kind = EVENT_SEALED,
                                             .sealed = {.n_tokens = rig->n_prompt,
                                                        .cached_tokens = rig->context_cached,
                                                        .queue_us = 5,
                                                        .compute_us = 7}});
}

void gen_rig_end(struct gen_rig *rig, enum status status)
{
    gen_engine_prefill_end(rig->engine, rig->prefill, status, "said the test");
    gen_rig_settle(rig);
}

void gen_rig_hand_over(struct gen_rig *rig, uint32_t first_token)
{
    uint32_t first = rig->held_tokens / RIG_BLOCK_TOKENS;
    gen_rig_describe(rig);
    gen_rig_accept(rig);
    gen_rig_ready(rig, first, n_prompt_blocks(rig) - first, 0);
    gen_rig_first_token(rig, first_token);
    gen_rig_seal(rig);
}

void expect_ended(const struct rig_client *client, enum status status)
{
    cr_assert_eq(client->n_finishes, 1, "ended %u times", client->n_finishes);
    cr_assert_eq(client->finish.status, status, "%s", status_name(client->finish.status));
}

void expect_all_free_or_cached(const struct gen_rig *rig)
{
    struct gen_engine_stats stats;
    cr_assert_eq(gen_rig_blocks(rig, BLOCK_FREE) + gen_rig_blocks(rig, BLOCK_CACHED),
                 block_pool_size(rig->base.pool));
    gen_engine_read_stats(rig->engine, &stats);
    cr_assert_eq(stats.blocks_unowned, 0);
}
