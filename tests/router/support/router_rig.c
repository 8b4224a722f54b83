#include "tests/router/support/router_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

const struct worker_report READY = {.is_ready = true, .n_blocks = 64, .blocks_usable = 64};
const struct worker_report DOWN = {.is_ready = false};

static void start_decode(void *arg, void *handle, uint64_t attempt, const char *generation_worker,
                         const char *context_worker)
{
    struct stream *stream = handle;
    (void)arg;
    stream->n_starts++;
    stream->attempt = attempt;
    strncpy(stream->generation_worker, generation_worker, 7);
    strncpy(stream->context_worker, context_worker, 7);
}

static void cancel_decode(void *arg, uint64_t attempt)
{
    (void)attempt;
    if (arg)
        ((struct router_rig *)arg)->n_cancels++;
}

static void refused(void *arg, void *handle)
{
    (void)arg;
    ((struct stream *)handle)->n_refused++;
}

static void on_tokens(void *arg, void *handle, const void *payload)
{
    (void)arg;
    ((struct stream *)handle)->n_tokens += *(const uint32_t *)payload;
}

static void on_finish(void *arg, void *handle, enum status status, const char *sentence,
                      const void *payload)
{
    struct stream *stream = handle;
    (void)arg;
    (void)payload;
    snprintf(stream->sentence, sizeof stream->sentence, "%s", sentence);
    stream->n_finishes++;
    stream->status = status;
}

const struct router_core_ops ROUTER_RIG_OPS = {.start_decode = start_decode,
                                               .cancel_decode = cancel_decode,
                                               .refused = refused,
                                               .tokens = on_tokens,
                                               .finish = on_finish};

struct router_core_options router_rig_options(bool local_prefill, uint32_t wait_max)
{
    return (struct router_core_options){.workers_max = 6,
                                        .requests_max = STREAMS_MAX,
                                        .attempts_max = 3,
                                        .prefixes_max = 64,
                                        .prompt_tokens_max = PROMPT_TOKENS_MAX,
                                        .block_tokens = BLOCK_TOKENS,
                                        .local_prefill = local_prefill,
                                        .wait_max = wait_max,
                                        .wait_limit_ns = WAIT_LIMIT_NS};
}

struct router_rig router_rig_create(const struct router_core_options *options)
{
    struct router_rig rig = {0};
    cr_assert_eq(router_core_create(options, &ROUTER_RIG_OPS, &rig.core), STATUS_OK);
    return rig;
}

uint32_t router_rig_join(struct router_rig *rig, enum worker_role role, const char *address)
{
    uint32_t worker;
    cr_assert_eq(router_core_add_worker(rig->core, role, address, &worker), STATUS_OK);
    router_core_report(rig->core, worker, &READY);
    return worker;
}

struct router_rig router_rig_open_waiting(uint32_t n_gen, uint32_t n_ctx, bool local_prefill,
                                          uint32_t wait_max)
{
    static const char *const GEN[] = {"g0", "g1", "g2"}, *const CTX[] = {"c0", "c1", "c2"};
    const struct router_core_options options = router_rig_options(local_prefill, wait_max);
    struct router_rig rig = router_rig_create(&options);
    for (uint32_t i = 0; i < n_gen; i++)
        rig.gen[i] = router_rig_join(&rig, WORKER_GENERATION, GEN[i]);
    for (uint32_t i = 0; i < n_ctx; i++)
        rig.ctx[i] = router_rig_join(&rig, WORKER_CONTEXT, CTX[i]);
    return rig;
}

struct router_rig router_rig_open(uint32_t n_gen, uint32_t n_ctx, bool local_prefill)
{
    return router_rig_open_waiting(n_gen, n_ctx, local_prefill, 0);
}

enum status router_rig_ask(struct router_rig *rig, struct stream *stream, const uint32_t *tokens,
                           uint32_t n_tokens)
{
    const struct route_request request = {.beside = NOBODY,
                                          .token_ids = tokens,
                                          .n_tokens = n_tokens,
                                          .max_tokens = 8,
                                          .salt = "",
                                          .standing = stream->standing,
                                          .deadline_ns = stream->deadline_ns ? stream->deadline_ns
                                                                             : DEADLINE_NONE};
    return router_core_generate(rig->core, stream, &request);
}

void router_rig_end(struct router_rig *rig, struct stream *stream, enum status status)
{
    router_core_ended(rig->core, stream->attempt, status, "", NULL);
}

uint32_t router_rig_n_waiting(const struct router_rig *rig)
{
    struct router_core_stats stats;
    router_core_read_stats(rig->core, &stats);
    return stats.waiting;
}
