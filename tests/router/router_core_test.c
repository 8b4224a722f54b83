/* router_core: a request is placed on the best pair, again only before its first token, and ends once. */
#include "base/clock.h"
#include "router/router_core.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_TOKENS = 8, STREAMS_MAX = 8 };

struct stream {
    uint32_t n_starts, n_tokens, n_finishes;
    uint64_t attempt;
    char generation_worker[8], context_worker[8];
    enum status status;
    char sentence[96];
    uint64_t deadline_ns; /* asked for; 0: none */
    struct standing standing;
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
    (void)payload;
    snprintf(stream->sentence, sizeof stream->sentence, "%s", sentence);
    stream->n_finishes++;
    stream->status = status;
}

#define WAIT_LIMIT_NS (5 * NS_PER_MS)

/* wait_max of 0: nothing waits. */
static struct rig open_waiting_rig(uint32_t n_gen, uint32_t n_ctx, bool local_prefill,
                                   uint32_t wait_max)
{
    static const char *const GEN[] = {"g0", "g1", "g2"}, *const CTX[] = {"c0", "c1", "c2"};
    struct rig rig = {0};
    const struct router_core_options options = {.workers_max = 6,
                                                .requests_max = STREAMS_MAX,
                                                .attempts_max = 3,
                                                .prefixes_max = 16,
                                                .prompt_tokens_max = 128,
                                                .block_tokens = BLOCK_TOKENS,
                                                .local_prefill = local_prefill,
                                                .wait_max = wait_max,
                                                .wait_limit_ns = WAIT_LIMIT_NS};
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

static struct rig open_rig(uint32_t n_gen, uint32_t n_ctx, bool local_prefill)
{
    return open_waiting_rig(n_gen, n_ctx, local_prefill, 0);
}

/* The ops get no arg by default: tests that count cancels set it. */
static enum status ask(struct rig *rig, struct stream *stream, const uint32_t *tokens,
                       uint32_t n_tokens)
{
    const struct route_request request = {.token_ids = tokens,
                                          .n_tokens = n_tokens,
                                          .max_tokens = 8,
                                          .salt = "",
                                          .standing = stream->standing,
                                          .deadline_ns = stream->deadline_ns ? stream->deadline_ns
                                                                             : DEADLINE_NONE};
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
        end(&rig, &stream, i < 2 ? STATUS_NO_BLOCKS : STATUS_TRANSFER_FAILED);
    cr_assert_eq(stream.n_starts, 3);
    cr_assert_eq(stream.status, STATUS_TRANSFER_FAILED);
    router_core_destroy(rig.core);
}

Test(router_core, a_worker_that_lost_its_device_gets_nothing_more_and_another_the_request)
{
    struct rig rig = open_rig(2, 1, true);
    struct stream stream = {0};
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    char first = stream.generation_worker[1];
    end(&rig, &stream, STATUS_DEVICE_LOST);
    cr_assert_eq(stream.n_starts, 2);
    cr_assert_neq(stream.generation_worker[1], first);
    cr_assert_eq(router_core_n_ready(rig.core, WORKER_GENERATION), 1);
    end(&rig, &stream, STATUS_OK);
    cr_assert_eq(stream.status, STATUS_OK);
    router_core_destroy(rig.core);
}

Test(router_core, does_not_retry_what_cannot_help)
{
    static const enum status FATAL[] = {STATUS_INVALID_ARGUMENT, STATUS_PROMPT_TOO_LONG,
                                        STATUS_TIMED_OUT,        STATUS_CANCELLED,
                                        STATUS_SLOW_READER,      STATUS_BUG};
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

/* ---- waiting ---- */

static const struct worker_report READY = {.is_ready = true, .n_blocks = 64, .blocks_usable = 64};
static const struct worker_report DOWN = {.is_ready = false};

static uint32_t n_waiting(const struct rig *rig)
{
    struct router_core_stats stats;
    router_core_read_stats(rig->core, &stats);
    return stats.waiting;
}

static uint64_t waiting_tokens(const struct rig *rig)
{
    struct router_core_stats stats;
    router_core_read_stats(rig->core, &stats);
    return stats.waiting_tokens;
}

Test(router_core, what_cannot_be_placed_waits_for_a_report_and_goes_in_order)
{
    struct rig rig = open_waiting_rig(1, 1, true, 4);
    struct stream first = {0}, second = {0};
    router_core_step(rig.core, 5000);
    router_core_report(rig.core, rig.gen[0], &DOWN);
    cr_assert_eq(ask(&rig, &first, PROMPT, 20), STATUS_OK);
    cr_assert_eq(ask(&rig, &second, OTHER, 20), STATUS_OK);
    cr_assert_eq(first.n_starts + second.n_starts, 0);
    cr_assert_eq(n_waiting(&rig), 2);
    cr_assert_eq(waiting_tokens(&rig), 40);
    router_core_report(rig.core, rig.gen[0], &DOWN);
    router_core_report(rig.core, rig.ctx[0], &READY);
    cr_assert_eq(n_waiting(&rig), 2, "a generation worker is what lacks");
    router_core_step(rig.core, 5000 + WAIT_LIMIT_NS - 1);
    cr_assert_eq(first.n_finishes, 0);
    router_core_report(rig.core, rig.gen[0], &READY);
    cr_assert_eq(first.n_starts, 1);
    cr_assert_eq(second.n_starts, 1);
    cr_assert_lt(first.attempt, second.attempt);
    cr_assert_eq(n_waiting(&rig), 0);
    cr_assert_eq(waiting_tokens(&rig), 0);
    router_core_step(rig.core, 5000 + 2 * WAIT_LIMIT_NS);
    end(&rig, &first, STATUS_OK);
    end(&rig, &second, STATUS_OK);
    cr_assert_eq(first.n_finishes + second.n_finishes, 2);
    router_core_destroy(rig.core);
}

Test(router_core, a_wait_ends_with_what_lacks_or_at_the_deadline)
{
    struct rig rig = open_waiting_rig(1, 0, false, 4);
    struct stream patient = {0}, hurried = {.deadline_ns = 5300};
    router_core_step(rig.core, 5000);
    cr_assert_eq(ask(&rig, &patient, PROMPT, 20), STATUS_OK);
    cr_assert_eq(ask(&rig, &hurried, PROMPT, 20), STATUS_OK);
    router_core_step(rig.core, 5299);
    cr_assert_eq(patient.n_finishes + hurried.n_finishes, 0);
    router_core_step(rig.core, 5300);
    cr_assert_eq(hurried.status, STATUS_TIMED_OUT);
    cr_assert_eq(patient.n_finishes, 0);
    router_core_step(rig.core, 5000 + WAIT_LIMIT_NS);
    cr_assert_eq(patient.status, STATUS_NO_CONTEXT_WORKER);
    cr_assert_eq(patient.n_finishes + hurried.n_finishes, 2);
    router_core_report(rig.core, rig.gen[0], &DOWN);
    cr_assert_eq(ask(&rig, &patient, PROMPT, 20), STATUS_OK);
    router_core_step(rig.core, 5000 + 3 * WAIT_LIMIT_NS);
    cr_assert_eq(patient.status, STATUS_NO_GENERATION_WORKER);
    router_core_destroy(rig.core);
}

Test(router_core, a_full_queue_says_so_at_once_and_a_cancel_makes_room)
{
    struct rig rig = open_waiting_rig(0, 0, true, 2);
    struct stream streams[3] = {{0}};
    cr_assert_eq(ask(&rig, &streams[0], PROMPT, 20), STATUS_OK);
    cr_assert_eq(ask(&rig, &streams[1], PROMPT, 20), STATUS_OK);
    cr_assert_eq(ask(&rig, &streams[2], PROMPT, 20), STATUS_QUEUE_FULL);
    cr_assert(router_core_cancel(rig.core, &streams[0]));
    cr_assert_eq(streams[0].status, STATUS_CANCELLED);
    cr_assert_eq(rig.n_cancels, 0, "there was no call");
    cr_assert_eq(ask(&rig, &streams[2], PROMPT, 20), STATUS_OK);
    cr_assert_eq(n_waiting(&rig), 2);
    router_core_drain(rig.core);
    cr_assert_eq(streams[1].status, STATUS_DRAINING);
    cr_assert_eq(streams[2].status, STATUS_DRAINING);
    cr_assert_eq(ask(&rig, &streams[0], PROMPT, 20), STATUS_DRAINING, "nothing waits any more");
    cr_assert_eq(streams[0].n_finishes, 1);
    router_core_destroy(rig.core);
}

Test(router_core, a_retry_waits_when_the_only_worker_is_gone)
{
    struct rig rig = open_waiting_rig(1, 1, true, 4);
    struct stream stream = {0};
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    end(&rig, &stream, STATUS_PEER_LOST);
    cr_assert_eq(stream.n_finishes, 0);
    cr_assert_eq(n_waiting(&rig), 1);
    router_core_report(rig.core, rig.gen[0], &READY);
    cr_assert_eq(stream.n_starts, 2);
    cr_assert_str_eq(stream.context_worker, "c0", "after a wait the pair may be tried again");
    end(&rig, &stream, STATUS_PEER_LOST);
    router_core_report(rig.core, rig.gen[0], &READY);
    cr_assert_eq(stream.n_starts, 3);
    end(&rig, &stream, STATUS_PEER_LOST);
    cr_assert_eq(stream.status, STATUS_PEER_LOST, "attempts_max");
    router_core_destroy(rig.core);
}

Test(router_core, the_only_worker_started_anew_is_asked_again_after_its_next_report)
{
    struct rig rig = open_waiting_rig(1, 1, true, 4);
    struct stream stream = {0};
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    end(&rig, &stream, STATUS_STALE_PEER);
    cr_assert_eq(stream.n_finishes, 0);
    cr_assert_eq(n_waiting(&rig), 1, "not tried again in the life that is over");
    router_core_report(rig.core, rig.gen[0], &READY);
    cr_assert_eq(stream.n_starts, 2);
    end(&rig, &stream, STATUS_OK);
    cr_assert_eq(stream.status, STATUS_OK);
    router_core_destroy(rig.core);
}

Test(router_core, what_every_pair_has_refused_does_not_wait)
{
    struct rig rig = open_waiting_rig(1, 1, false, 4);
    struct stream stream = {0};
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    end(&rig, &stream, STATUS_NO_BLOCKS);
    cr_assert_eq(stream.status, STATUS_NO_BLOCKS);
    router_core_destroy(rig.core);
}

/* ---- room ---- */

static void report_room(struct rig *rig, uint32_t worker, uint32_t room)
{
    struct worker_report report = READY;
    report.tells_room = true;
    report.room = room;
    router_core_report(rig->core, worker, &report);
}

static bool is_placed(const struct stream *stream)
{
    return stream->n_starts > 0 && stream->n_finishes == 0;
}

Test(router_core, attempts_go_to_other_workers_on_both_sides)
{
    struct rig rig = open_rig(3, 3, true);
    struct stream stream = {0};
    uint32_t gens = 0, contexts = 0;
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        gens |= 1u << (stream.generation_worker[1] - '0');
        contexts |= 1u << (stream.context_worker[1] - '0');
        end(&rig, &stream, STATUS_TRANSFER_FAILED);
    }
    cr_assert_eq(gens, 7);
    cr_assert_eq(contexts, 7);
    router_core_destroy(rig.core);
}

Test(router_core, who_is_full_is_not_asked_again_until_a_later_report_tells_of_room)
{
    struct rig rig = open_waiting_rig(2, 1, true, 4);
    struct stream streams[4] = {{0}};
    cr_assert_eq(ask(&rig, &streams[0], PROMPT, 20), STATUS_OK);
    char full = streams[0].generation_worker[1];
    uint32_t worker = rig.gen[full - '0'];
    router_core_ask(rig.core, worker);
    end(&rig, &streams[0], STATUS_QUEUE_FULL);
    cr_assert_eq(streams[0].n_starts, 2);
    cr_assert_neq(streams[0].generation_worker[1], full);
    router_core_report(rig.core, worker, &READY);
    for (int i = 1; i < 3; i++) {
        cr_assert_eq(ask(&rig, &streams[i], OTHER, 20), STATUS_OK);
        cr_assert_neq(streams[i].generation_worker[1], full, "it was asked before it refused");
    }
    router_core_ask(rig.core, worker);
    report_room(&rig, worker, 0);
    cr_assert_eq(ask(&rig, &streams[3], OTHER, 20), STATUS_OK);
    cr_assert_neq(streams[3].generation_worker[1], full);
    end(&rig, &streams[3], STATUS_QUEUE_FULL);
    cr_assert_eq(n_waiting(&rig), 1, "both are full");
    router_core_ask(rig.core, worker);
    report_room(&rig, worker, 1);
    cr_assert(is_placed(&streams[3]));
    cr_assert_eq(streams[3].generation_worker[1], full);
    router_core_destroy(rig.core);
}

Test(router_core, refusals_for_want_of_room_are_no_attempts)
{
    struct rig rig = open_waiting_rig(1, 1, true, 4);
    struct stream stream = {0};
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    for (uint32_t i = 2; i < 8; i++) {
        end(&rig, &stream, STATUS_QUEUE_FULL);
        cr_assert_eq(n_waiting(&rig), 1);
        router_core_report(rig.core, rig.gen[0], &READY);
        cr_assert_eq(stream.n_starts, i);
    }
    end(&rig, &stream, STATUS_OK);
    cr_assert_eq(stream.status, STATUS_OK);
    router_core_destroy(rig.core);
}

Test(router_core, a_worker_that_promises_room_and_refuses_for_ever_keeps_nobody)
{
    struct rig rig = open_waiting_rig(1, 1, true, 4);
    struct stream stream = {0};
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    for (uint32_t i = 0; i < 100 && stream.n_finishes == 0; i++) {
        end(&rig, &stream, STATUS_QUEUE_FULL);
        router_core_step(rig.core, WAIT_LIMIT_NS - 1 + i);
        report_room(&rig, rig.gen[0], 1);
    }
    cr_assert_eq(stream.status, STATUS_QUEUE_FULL);
    cr_assert_eq(stream.n_finishes, 1);
    router_core_destroy(rig.core);
}

Test(router_core, as_many_are_placed_as_there_is_room_and_each_end_makes_some)
{
    struct rig rig = open_waiting_rig(2, 1, true, 4);
    struct stream streams[4] = {{0}};
    report_room(&rig, rig.gen[0], 1);
    report_room(&rig, rig.gen[1], 1);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(ask(&rig, &streams[i], PROMPT, 20), STATUS_OK);
    cr_assert_eq(n_waiting(&rig), 2);
    end(&rig, &streams[0], STATUS_OK);
    cr_assert(is_placed(&streams[2]));
    cr_assert(router_core_cancel(rig.core, &streams[1]));
    cr_assert(is_placed(&streams[3]));
    router_core_destroy(rig.core);
}

Test(router_core, whoever_finds_all_full_is_told_so_after_the_wait)
{
    struct rig rig = open_waiting_rig(2, 1, false, 4);
    struct stream first = {0}, second = {0};
    report_room(&rig, rig.gen[0], 0);
    report_room(&rig, rig.gen[1], 0);
    cr_assert_eq(ask(&rig, &first, PROMPT, 20), STATUS_OK);
    router_core_step(rig.core, WAIT_LIMIT_NS);
    cr_assert_eq(first.status, STATUS_QUEUE_FULL);
    cr_assert_str_eq(first.sentence, "2 generation workers are ready and full: waited 5 ms");
    report_room(&rig, rig.gen[0], 1);
    report_room(&rig, rig.ctx[0], 0);
    cr_assert_eq(ask(&rig, &second, PROMPT, 20), STATUS_OK);
    router_core_step(rig.core, 2 * WAIT_LIMIT_NS);
    cr_assert_str_eq(second.sentence, "1 context worker is ready and full: waited 5 ms");
    router_core_destroy(rig.core);

    rig = open_rig(1, 1, true);
    report_room(&rig, rig.gen[0], 0);
    cr_assert_eq(ask(&rig, &first, PROMPT, 20), STATUS_QUEUE_FULL, "nothing waits here");
    router_core_destroy(rig.core);
}

Test(router_core, a_prompt_goes_to_another_context_worker_while_one_has_room)
{
    struct rig rig = open_waiting_rig(1, 2, true, 4);
    struct stream stream = {0}, next = {0}, last = {0};
    uint32_t one = 1;
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    char full = stream.context_worker[1];
    end(&rig, &stream, STATUS_NO_CONTEXT_WORKER);
    cr_assert_eq(stream.n_starts, 2);
    cr_assert_neq(stream.context_worker[1], full);
    cr_assert_neq(stream.context_worker[0], '\0');
    cr_assert_not(router_core_contexts_are_full(rig.core));
    report_room(&rig, rig.ctx[1 - (full - '0')], 1);
    cr_assert_eq(ask(&rig, &next, OTHER, 20), STATUS_OK);
    cr_assert_eq(next.context_worker[1], stream.context_worker[1]);
    cr_assert(router_core_contexts_are_full(rig.core));
    cr_assert_eq(ask(&rig, &last, PROMPT, 20), STATUS_OK);
    cr_assert_str_empty(last.context_worker, "all are full, and it may be computed here");
    router_core_tokens(rig.core, next.attempt, 1, &one);
    cr_assert_not(router_core_contexts_are_full(rig.core), "its prompt is there no more");
    router_core_destroy(rig.core);
}

/* ---- tenants ---- */

Test(router_core, tenants_have_their_turns_by_weight)
{
    struct rig rig = open_waiting_rig(1, 1, true, 8);
    struct stream heavy[4], light[3];
    report_room(&rig, rig.gen[0], 0);
    for (int i = 0; i < 4; i++) {
        heavy[i] = (struct stream){.standing = {.tenant = 1, .weight = 3}};
        cr_assert_eq(ask(&rig, &heavy[i], PROMPT, 20), STATUS_OK);
    }
    for (int i = 0; i < 3; i++) {
        light[i] = (struct stream){.standing = {.tenant = 2, .weight = 1}};
        cr_assert_eq(ask(&rig, &light[i], PROMPT, 20), STATUS_OK);
    }
    for (uint32_t i = 1; i < 5; i++)
        report_room(&rig, rig.gen[0], 1);
    cr_assert(is_placed(&heavy[0]) && is_placed(&heavy[1]) && is_placed(&heavy[2]));
    cr_assert(is_placed(&light[0]) && !is_placed(&light[1]));
    report_room(&rig, rig.gen[0], 1);
    cr_assert(is_placed(&heavy[3]));
    router_core_destroy(rig.core);
}

Test(router_core, one_small_call_of_another_tenant_does_not_wait_behind_a_crowd)
{
    struct rig rig = open_waiting_rig(1, 1, true, 4);
    struct stream crowd[5], small = {.standing = {.tenant = 2}};
    report_room(&rig, rig.gen[0], 0);
    for (int i = 0; i < 5; i++) {
        crowd[i] = (struct stream){.standing = {.tenant = 1}};
        cr_assert_eq(ask(&rig, &crowd[i], PROMPT, 20), i < 4 ? STATUS_OK : STATUS_QUEUE_FULL);
    }
    cr_assert_eq(ask(&rig, &small, PROMPT, 20), STATUS_OK);
    cr_assert_eq(crowd[3].status, STATUS_QUEUE_FULL, "the last of those that have most gives way");
    cr_assert_eq(crowd[3].n_finishes, 1);
    report_room(&rig, rig.gen[0], 2);
    cr_assert(is_placed(&crowd[0]) && is_placed(&small));
    cr_assert_eq(n_waiting(&rig), 2);
    router_core_destroy(rig.core);
}

/* ---- pairs ---- */

Test(router_core, only_pairs_that_fit_are_used)
{
    struct rig rig = open_rig(2, 2, false);
    for (int i = 0; i < 2; i++)
        router_core_set_fit(rig.core, rig.gen[i], rig.ctx[1 - i], false);
    cr_assert_eq(router_core_n_pairs(rig.core), 2);
    for (int i = 0; i < 4; i++) {
        struct stream stream = {0};
        cr_assert_eq(ask(&rig, &stream, i % 2 ? PROMPT : OTHER, 64), STATUS_OK);
        cr_assert_eq(stream.generation_worker[1], stream.context_worker[1]);
        end(&rig, &stream, STATUS_TRANSFER_FAILED);
        cr_assert_eq(stream.generation_worker[1], stream.context_worker[1], "a retry too");
        router_core_cancel(rig.core, &stream);
    }
    router_core_destroy(rig.core);
}

Test(router_core, without_a_pair_that_fits_there_is_no_context_worker)
{
    struct rig rig = open_waiting_rig(1, 1, false, 1);
    struct stream stream = {0};
    router_core_set_fit(rig.core, rig.gen[0], rig.ctx[0], false);
    cr_assert_eq(router_core_lacks(rig.core), STATUS_NO_CONTEXT_WORKER);
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    cr_assert_eq(stream.n_starts, 0);
    router_core_set_fit(rig.core, rig.gen[0], rig.ctx[0], true);
    cr_assert_eq(stream.n_starts, 1, "what waits goes when a pair fits");
    router_core_destroy(rig.core);

    rig = open_rig(1, 1, true);
    router_core_set_fit(rig.core, rig.gen[0], rig.ctx[0], false);
    cr_assert_eq(ask(&rig, &stream, PROMPT, 20), STATUS_OK);
    cr_assert_str_empty(stream.context_worker);
    router_core_destroy(rig.core);
}
