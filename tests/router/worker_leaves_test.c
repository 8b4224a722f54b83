/* router_core: a worker that left gets nothing any more, what it has goes on, and who takes its place has none
 * of what was its. */
#include "base/clock.h"
#include "router/router_core.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { BLOCK_TOKENS = 8, WORKERS_MAX = 4, PROMPT_TOKENS = 256 };

struct stream {
    uint32_t n_starts, n_tokens, n_finishes;
    uint64_t attempt;
    char generation_worker[8], context_worker[8];
    enum status status;
};

static void start_decode(void *arg, void *handle, uint64_t attempt, const char *generation_worker,
                         const char *context_worker)
{
    struct stream *stream = handle;
    (void)arg;
    stream->n_starts++;
    stream->attempt = attempt;
    snprintf(stream->generation_worker, 8, "%s", generation_worker);
    snprintf(stream->context_worker, 8, "%s", context_worker);
}

static void cancel_decode(void *arg, uint64_t attempt)
{
    (void)arg;
    (void)attempt;
}

static void on_tokens(void *arg, void *handle, const void *payload)
{
    (void)arg;
    (void)payload;
    ((struct stream *)handle)->n_tokens++;
}

static void on_finish(void *arg, void *handle, enum status status, const char *sentence,
                      const void *payload)
{
    struct stream *stream = handle;
    (void)arg;
    (void)sentence;
    (void)payload;
    stream->n_finishes++;
    stream->status = status;
}

static struct router_core *open_core(uint32_t wait_max)
{
    const struct router_core_options options = {.workers_max = WORKERS_MAX,
                                                .requests_max = 8,
                                                .attempts_max = 4,
                                                .prefixes_max = 64,
                                                .prompt_tokens_max = PROMPT_TOKENS,
                                                .block_tokens = BLOCK_TOKENS,
                                                .local_prefill = false,
                                                .wait_max = wait_max,
                                                .wait_limit_ns = 1000};
    const struct router_core_ops ops = {.start_decode = start_decode,
                                        .cancel_decode = cancel_decode,
                                        .tokens = on_tokens,
                                        .finish = on_finish};
    struct router_core *core;
    cr_assert_eq(router_core_create(&options, &ops, &core), STATUS_OK);
    return core;
}

static uint32_t join(struct router_core *core, enum worker_role role, const char *address)
{
    static const struct worker_report READY = {
        .is_ready = true, .n_blocks = 640, .blocks_usable = 640};
    uint32_t worker;
    cr_assert_eq(router_core_add_worker(core, role, address, &worker), STATUS_OK);
    router_core_report(core, worker, &READY);
    return worker;
}

static enum status ask(struct router_core *core, struct stream *stream, const uint32_t *tokens)
{
    const struct route_request request = {.token_ids = tokens,
                                          .n_tokens = PROMPT_TOKENS,
                                          .max_tokens = 8,
                                          .salt = "",
                                          .deadline_ns = DEADLINE_NONE};
    *stream = (struct stream){0};
    return router_core_generate(core, stream, &request);
}

static const uint32_t PROMPT[PROMPT_TOKENS] = {1, 2, 3};
static const uint32_t OTHER[PROMPT_TOKENS] = {9, 9, 9};

Test(worker_leaves, gets_nothing_more_and_its_calls_go_on_to_their_end)
{
    struct router_core *core = open_core(0);
    struct stream first, second, third;
    uint32_t one = 1;
    join(core, WORKER_GENERATION, "g0");
    uint32_t context = join(core, WORKER_CONTEXT, "c0");
    cr_assert_eq(ask(core, &first, PROMPT), STATUS_OK);
    join(core, WORKER_CONTEXT, "c1");
    router_core_remove_worker(core, context);
    cr_assert_eq(router_core_n_ready(core, WORKER_CONTEXT), 1);
    cr_assert_eq(router_core_n_pairs(core), 1);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(ask(core, &second, PROMPT), STATUS_OK);
        cr_assert_str_eq(second.context_worker, "c1");
        router_core_ended(core, second.attempt, STATUS_OK, "", NULL);
    }
    router_core_tokens(core, first.attempt, 1, &one);
    router_core_ended(core, first.attempt, STATUS_OK, "", NULL);
    cr_assert_eq(first.n_finishes, 1);
    cr_assert_eq(first.status, STATUS_OK);
    cr_assert_eq(ask(core, &third, PROMPT), STATUS_OK);
    cr_assert_str_eq(third.context_worker, "c1", "the end of its call brought nothing back");
    router_core_destroy(core);
}

Test(worker_leaves, what_it_had_cached_is_forgotten)
{
    struct router_core *core = open_core(0);
    struct stream stream;
    struct router_core_stats stats;
    join(core, WORKER_GENERATION, "g0");
    uint32_t context = join(core, WORKER_CONTEXT, "c0");
    cr_assert_eq(ask(core, &stream, PROMPT), STATUS_OK);
    router_core_ended(core, stream.attempt, STATUS_OK, "", NULL);
    router_core_remove_worker(core, context);
    cr_assert_eq(join(core, WORKER_CONTEXT, "c1"), context, "its place is used again");
    join(core, WORKER_CONTEXT, "c2");

    /* One request of load is less than the prompt: c1 would be chosen if it knew that. */
    router_core_report(core, context, &(struct worker_report){.is_ready = true, .running = 1});
    cr_assert_eq(ask(core, &stream, PROMPT), STATUS_OK);
    cr_assert_str_eq(stream.context_worker, "c2");
    router_core_read_stats(core, &stats);
    cr_assert_eq(stats.placed_by_prefix, 1, "g0 stayed, and knows it");
    router_core_destroy(core);
}

Test(worker_leaves, its_place_is_taken_only_when_no_call_is_on_it)
{
    struct router_core *core = open_core(0);
    struct stream stream;
    uint32_t worker;
    join(core, WORKER_GENERATION, "g0");
    uint32_t context = join(core, WORKER_CONTEXT, "c0");
    cr_assert_eq(ask(core, &stream, PROMPT), STATUS_OK);
    router_core_remove_worker(core, context);
    cr_assert_neq(join(core, WORKER_CONTEXT, "c0"), context, "the same address, another life");
    join(core, WORKER_CONTEXT, "c1");
    cr_assert_eq(router_core_add_worker(core, WORKER_CONTEXT, "c2", &worker), STATUS_QUEUE_FULL);
    router_core_ended(core, stream.attempt, STATUS_OK, "", NULL);
    cr_assert_eq(router_core_add_worker(core, WORKER_CONTEXT, "c2", &worker), STATUS_OK);
    cr_assert_eq(worker, context);
    cr_assert_eq(router_core_add_worker(core, WORKER_CONTEXT, "c2", &worker),
                 STATUS_INVALID_ARGUMENT);
    router_core_destroy(core);
}

Test(worker_leaves, who_takes_its_place_fits_and_was_not_tried)
{
    struct router_core *core = open_core(0);
    struct stream stream;
    uint32_t generation = join(core, WORKER_GENERATION, "g0");
    uint32_t context = join(core, WORKER_CONTEXT, "c0");
    uint32_t other = join(core, WORKER_CONTEXT, "c1");
    router_core_set_fit(core, generation, other, false);
    cr_assert_eq(ask(core, &stream, PROMPT), STATUS_OK);
    cr_assert_str_eq(stream.context_worker, "c0");
    router_core_remove_worker(core, other);
    cr_assert_eq(join(core, WORKER_CONTEXT, "c2"), other);
    router_core_ended(core, stream.attempt, STATUS_TRANSFER_FAILED, "", NULL);
    cr_assert_str_eq(stream.context_worker, "c2", "it fits, and c0 was tried");
    router_core_remove_worker(core, context);
    cr_assert_eq(join(core, WORKER_CONTEXT, "c3"), context);
    router_core_ended(core, stream.attempt, STATUS_TRANSFER_FAILED, "", NULL);
    cr_assert_str_eq(stream.context_worker, "c3", "in the place of one that was tried");
    router_core_ended(core, stream.attempt, STATUS_TRANSFER_FAILED, "", NULL);
    cr_assert_eq(stream.n_starts, 3);
    cr_assert_eq(stream.status, STATUS_TRANSFER_FAILED);
    router_core_destroy(core);
}

Test(worker_leaves, requests_wait_for_another_one)
{
    struct router_core *core = open_core(4);
    struct stream stream;
    join(core, WORKER_GENERATION, "g0");
    uint32_t context = join(core, WORKER_CONTEXT, "c0");
    router_core_remove_worker(core, context);
    cr_assert_eq(router_core_lacks(core), STATUS_NO_CONTEXT_WORKER);
    cr_assert_eq(ask(core, &stream, PROMPT), STATUS_OK);
    cr_assert_eq(stream.n_starts, 0);
    join(core, WORKER_CONTEXT, "c1");
    cr_assert_eq(stream.n_starts, 1);
    cr_assert_str_eq(stream.context_worker, "c1");
    router_core_destroy(core);
}

Test(worker_leaves, equals_take_turns)
{
    struct router_core *core = open_core(0);
    struct stream stream;
    uint32_t tokens[PROMPT_TOKENS] = {0};
    uint32_t n_first = 0;
    join(core, WORKER_GENERATION, "g0");
    join(core, WORKER_CONTEXT, "c0");
    join(core, WORKER_CONTEXT, "c1");
    cr_assert_eq(ask(core, &stream, OTHER), STATUS_OK);
    router_core_ended(core, stream.attempt, STATUS_NO_BLOCKS, "", NULL);
    router_core_ended(core, stream.attempt, STATUS_NO_BLOCKS, "", NULL);
    for (uint32_t i = 0; i < 12; i++) {
        tokens[0] = 100 + i;
        cr_assert_eq(ask(core, &stream, tokens), STATUS_OK);
        n_first += stream.context_worker[1] == '0';
        router_core_ended(core, stream.attempt, STATUS_CANCELLED, "", NULL);
    }
    cr_assert_eq(n_first, 6);
    router_core_destroy(core);
}
