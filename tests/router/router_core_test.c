/* router_core: a request is placed on the best pair, again only before its first token, and ends once. */
#include "router/router_core.h"

#include <criterion/criterion.h>
#include <string.h>

enum { BLOCK_TOKENS = 8, STREAMS_MAX = 4 };

struct stream {
    uint32_t n_starts, n_tokens, n_finishes;
    uint64_t attempt;
    char generation_worker[8], context_worker[8];
    enum status status;
};

struct rig {
    struct router_core *core;
    uint32_t n_cancels;
    uint32_t gen[3], ctx[3]; /* names */
};

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
        ((struct rig *)arg)->n_cancels++;
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
    (void)sentence;
    (void)payload;
    stream->n_finishes++;
    stream->status = status;
}

static struct rig open_rig(uint32_t n_gen, uint32_t n_ctx, bool local_prefill)
{
    static const char *const GEN[] = {"g0", "g1", "g2"}, *const CTX[] = {"c0", "c1", "c2"};
    struct rig rig = {0};
    const struct router_core_options options = {.workers_max = 6,
                                                .requests_max = STREAMS_MAX,
                                                .attempts_max = 3,
                                                .prefixes_max = 16,
                                                .prompt_tokens_max = 128,
                                                .block_tokens = BLOCK_TOKENS,
                                                .local_prefill = local_prefill};
    const struct router_core_ops ops = {.start_decode = start_decode,
                                        .cancel_decode = cancel_decode,
                                        .tokens = on_tokens,
                                        .finish = on_finish};
    struct worker_report ready = {.is_ready = true, .n_blocks = 64, .blocks_usable = 64};
    cr_assert_eq(router_core_create(&options, &ops, &rig.core), STATUS_OK);
    for (uint32_t i = 0; i < n_gen; i++) {
        cr_assert_eq(router_core_add_worker(rig.core, WORKER_GENERATION, GEN[i], &rig.gen[i]),
                     STATUS_OK);
        router_core_report(rig.core, rig.gen[i], &ready);
    }
    for (uint32_t i = 0; i < n_ctx; i++) {
        cr_assert_eq(router_core_add_worker(rig.core, WORKER_CONTEXT, CTX[i], &rig.ctx[i]),
                     STATUS_OK);
        router_core_report(rig.core, rig.ctx[i], &ready);
    }
    return rig;
}

/* The ops get no arg by default: tests that count cancels set it. */
static enum status ask(struct rig *rig, struct stream *stream, const uint32_t *tokens,
                       uint32_t n_tokens)
{
    const struct route_request request = {
        .token_ids = tokens, .n_tokens = n_tokens, .max_tokens = 8, .salt = ""};
    return router_core_generate(rig->core, stream, &request);
}

static void end(struct rig *rig, struct stream *stream, enum status status)
{
    router_core_ended(rig->core, stream->attempt, status, "", NULL);
}

static const uint32_t PROMPT[64] = {1, 2, 3};
static const uint32_t OTHER[64] = {9, 9, 9};

Test(router_core, says_which_role_is_missing)
{
    struct rig rig = open_rig(0, 1, true);
    struct stream stream = {0};
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_NO_GENERATION_WORKER);
    router_core_destroy(rig.core);

    rig = open_rig(1, 0, false);
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_NO_CONTEXT_WORKER);
    router_core_destroy(rig.core);

    rig = open_rig(1, 0, true);
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    cr_assert_str_empty(stream.context_worker, "it computes the prompt itself");
    router_core_destroy(rig.core);
    cr_assert_eq(stream.n_finishes, 0);
}

Test(router_core, relays_and_finishes_once)
{
    struct rig rig = open_rig(1, 1, true);
    struct stream stream = {0};
    uint32_t one = 1;
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    router_core_tokens(rig.core, stream.attempt, 1, &one);
    router_core_tokens(rig.core, stream.attempt, 1, &one);
    end(&rig, &stream, STATUS_OK);
    end(&rig, &stream, STATUS_OK);
    router_core_tokens(rig.core, stream.attempt, 1, &one);
    cr_assert_eq(stream.n_tokens, 2);
    cr_assert_eq(stream.n_finishes, 1);
    router_core_destroy(rig.core);
}

Test(router_core, tries_other_pairs_until_the_first_token)
{
    struct rig rig = open_rig(2, 1, true);
    struct stream stream = {0};
    uint32_t one = 1;
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    char first = stream.generation_worker[1];
    end(&rig, &stream, STATUS_NO_BLOCKS);
    cr_assert_eq(stream.n_starts, 2);
    cr_assert_neq(stream.generation_worker[1], first, "a pair is tried once");
    router_core_tokens(rig.core, stream.attempt, 1, &one);
    end(&rig, &stream, STATUS_PEER_LOST);
    cr_assert_eq(stream.n_starts, 2, "a token was sent");
    cr_assert_eq(stream.n_finishes, 1);
    cr_assert_eq(stream.status, STATUS_PEER_LOST);
    router_core_destroy(rig.core);
}

Test(router_core, gives_up_after_attempts_max_with_the_last_status)
{
    struct rig rig = open_rig(3, 3, true);
    struct stream stream = {0};
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    for (int i = 0; i < 3; i++)
        end(&rig, &stream, i < 2 ? STATUS_QUEUE_FULL : STATUS_TRANSFER_FAILED);
    cr_assert_eq(stream.n_starts, 3);
    cr_assert_eq(stream.status, STATUS_TRANSFER_FAILED);
    router_core_destroy(rig.core);
}

Test(router_core, does_not_retry_what_cannot_help)
{
    static const enum status FATAL[] = {
        STATUS_INVALID_ARGUMENT, STATUS_PROMPT_TOO_LONG,   STATUS_TIMED_OUT, STATUS_CANCELLED,
        STATUS_SLOW_READER,      STATUS_DUPLICATE_REQUEST, STATUS_BUG};
    struct rig rig = open_rig(3, 3, true);
    for (size_t i = 0; i < sizeof FATAL / sizeof *FATAL; i++) {
        struct stream stream = {0};
        cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
        end(&rig, &stream, FATAL[i]);
        cr_assert_eq(stream.n_starts, 1);
        cr_assert_eq(stream.status, FATAL[i]);
    }
    router_core_destroy(rig.core);
}

Test(router_core, its_own_earlier_attempt_is_no_duplicate_of_the_clients)
{
    struct rig rig = open_rig(1, 3, true);
    struct stream stream = {0};
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    end(&rig, &stream, STATUS_TRANSFER_FAILED);
    end(&rig, &stream, STATUS_DUPLICATE_REQUEST);
    end(&rig, &stream, STATUS_DUPLICATE_REQUEST);
    cr_assert_eq(stream.n_starts, 3);
    cr_assert_eq(stream.status, STATUS_PEER_LOST);
    router_core_destroy(rig.core);
}

Test(router_core, a_worker_whose_call_broke_waits_for_its_next_report)
{
    struct rig rig = open_rig(1, 1, true);
    struct stream stream = {0}, next = {0};
    const struct worker_report ready = {.is_ready = true, .n_blocks = 64, .blocks_usable = 64};
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    end(&rig, &stream, STATUS_PEER_LOST);
    cr_assert_eq(stream.status, STATUS_PEER_LOST);
    cr_assert_eq(router_core_n_ready(rig.core, WORKER_GENERATION), 0);
    cr_assert_eq(ask(&rig, &next, PROMPT, 20), STATUS_NO_GENERATION_WORKER);
    router_core_report(rig.core, rig.gen[0], &ready);
    cr_assert_eq(ask(&rig, &next, PROMPT, 20), STATUS_OK);
    router_core_destroy(rig.core);
}

Test(router_core, sends_a_known_prefix_where_it_was_and_spreads_the_rest)
{
    struct rig rig = open_rig(2, 2, true);
    struct stream first = {0}, again = {0}, other = {0};
    cr_assert_eq(ask(&rig, &first, PROMPT, 64), STATUS_OK);
    cr_assert_eq(ask(&rig, &other, OTHER, 64), STATUS_OK);
    cr_assert_str_neq(first.generation_worker, other.generation_worker);
    cr_assert_str_neq(first.context_worker, other.context_worker);
    end(&rig, &first, STATUS_OK);
    end(&rig, &other, STATUS_OK);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(ask(&rig, &again, OTHER, 40), STATUS_OK);
        cr_assert_str_eq(again.generation_worker, other.generation_worker);
        cr_assert_str_eq(again.context_worker, other.context_worker);
        end(&rig, &again, STATUS_OK);
    }
    router_core_destroy(rig.core);
}

Test(router_core, remembers_the_prompt_of_a_request_that_was_cut_short)
{
    struct rig rig = open_rig(2, 2, true);
    struct stream cut = {0}, other = {0}, again = {0};
    uint32_t token = 1;
    cr_assert_eq(ask(&rig, &other, OTHER, 64), STATUS_OK);
    cr_assert_eq(ask(&rig, &cut, PROMPT, 64), STATUS_OK);
    cr_assert_str_neq(cut.generation_worker, other.generation_worker);
    router_core_tokens(rig.core, cut.attempt, 1, &token);
    cr_assert(router_core_cancel(rig.core, &cut));
    end(&rig, &other, STATUS_OK);
    cr_assert_eq(ask(&rig, &again, PROMPT, 40), STATUS_OK);
    cr_assert_str_eq(again.generation_worker, cut.generation_worker);
    cr_assert_str_eq(again.context_worker, cut.context_worker);
    router_core_destroy(rig.core);
}

Test(router_core, prefers_a_worker_with_room)
{
    struct rig rig = open_rig(2, 1, true);
    struct stream first = {0}, second = {0};
    const struct worker_report busy = {
        .is_ready = true, .running = 50, .n_blocks = 64, .blocks_usable = 64};
    const struct worker_report full = {.is_ready = true, .n_blocks = 64, .blocks_usable = 8};
    router_core_report(rig.core, rig.gen[0], &busy);
    router_core_report(rig.core, rig.gen[1], &full);
    cr_assert_eq(ask(&rig, &first, PROMPT, 64), STATUS_OK);
    cr_assert_str_eq(first.generation_worker, "g0", "9 blocks are wanted");
    cr_assert_eq(ask(&rig, &second, PROMPT, 56), STATUS_OK);
    cr_assert_str_eq(second.generation_worker, "g1");
    router_core_destroy(rig.core);
}

Test(router_core, a_client_that_left_is_finished_at_once_and_its_call_cancelled)
{
    struct rig rig = {0};
    struct stream stream = {0};
    uint32_t one = 1, worker;
    const struct router_core_options options = {.workers_max = 1,
                                                .requests_max = 1,
                                                .attempts_max = 1,
                                                .prefixes_max = 1,
                                                .prompt_tokens_max = 128,
                                                .block_tokens = BLOCK_TOKENS,
                                                .local_prefill = true};
    const struct router_core_ops ops = {.arg = &rig,
                                        .start_decode = start_decode,
                                        .cancel_decode = cancel_decode,
                                        .tokens = on_tokens,
                                        .finish = on_finish};
    const struct worker_report ready = {.is_ready = true, .n_blocks = 64, .blocks_usable = 64};
    cr_assert_eq(router_core_create(&options, &ops, &rig.core), STATUS_OK);
    cr_assert_eq(router_core_add_worker(rig.core, WORKER_GENERATION, "g0", &worker), STATUS_OK);
    cr_assert_eq(router_core_add_worker(rig.core, WORKER_GENERATION, "g0", &worker),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_eq(router_core_add_worker(rig.core, WORKER_CONTEXT, "c0", &worker),
                 STATUS_QUEUE_FULL);
    router_core_report(rig.core, 0, &ready);
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    struct stream refused = {0};
    cr_assert_eq(ask(&rig, &refused, PROMPT, 20), STATUS_QUEUE_FULL);
    cr_assert(router_core_cancel(rig.core, &stream));
    cr_assert_eq(rig.n_cancels, 1);
    cr_assert_eq(stream.status, STATUS_CANCELLED);
    cr_assert_not(router_core_cancel(rig.core, &stream));
    router_core_tokens(rig.core, stream.attempt, 1, &one);
    end(&rig, &stream, STATUS_OK);
    cr_assert_eq(stream.n_tokens, 0);
    cr_assert_eq(stream.n_finishes, 1);
    router_core_destroy(rig.core);
}
