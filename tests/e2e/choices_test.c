/* Several choices of one request: each has the tokens that a request of its own with seed + i has; the prompt's KV crosses once and
 * is shared; one message has them all, or a stream has them by index; a client that leaves, and a tenant's places, leave nothing. */
#include "proto/kvferry/v1/generation.pb-c.h"
#include "support/client.h"
#include "support/cluster.h"
#include "support/dial.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

enum { N_PROMPT = 200, N_TOKENS = 24, N_CHOICES = 5, SEED = 11 };

#define LIMIT_NS (60 * NS_PER_S)

struct choice_out {
    uint32_t ids[N_TOKENS], n_ids, n_ends, usage;
    char text[4096];
    size_t n_text;
    uint64_t kv_bytes;
    int place;
};

struct caller {
    struct cluster cluster;
    struct dial router;
    uint32_t prompt[N_PROMPT];
    struct choice_out choices[N_CHOICES];
    uint32_t n_messages;
    sem_t ended;
    struct rpc_error error;
};

static void open_caller(struct caller *caller, const struct cluster_options *options)
{
    memset(caller, 0, sizeof *caller);
    sem_init(&caller->ended, 0, 0);
    cluster_start(&caller->cluster, options);
    prompt_tokens(3, caller->prompt, N_PROMPT);
    dial_open(&caller->router, "choices", caller->cluster.router.grpc);
}

static void close_caller(struct caller *caller)
{
    cluster_wait_quiet(&caller->cluster);
    dial_close(&caller->router);
    cluster_stop(&caller->cluster);
}

struct question {
    Kvferry__V1__GenerateRequest message;
    Kvferry__V1__SamplingParams sampling;
    Kvferry__V1__TokenIds ids;
};

static void ask_for(struct question *question, struct caller *caller, uint32_t n, uint64_t seed)
{
    kvferry__v1__generate_request__init(&question->message);
    kvferry__v1__sampling_params__init(&question->sampling);
    kvferry__v1__token_ids__init(&question->ids);
    question->ids.ids = caller->prompt;
    question->ids.n_ids = N_PROMPT;
    question->sampling
        .max_tokens_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    question->sampling.max_tokens = N_TOKENS;
    question->sampling.seed_presence_case = KVFERRY__V1__SAMPLING_PARAMS__SEED_PRESENCE_SEED;
    question->sampling.seed = seed;
    question->sampling.ignore_eos = true;
    question->sampling.n = n;
    question->message.sampling = &question->sampling;
    question->message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TOKEN_IDS;
    question->message.token_ids = &question->ids;
    question->message.return_timing = true;
}

static void add(struct choice_out *choice, const uint32_t *ids, size_t n,
                const ProtobufCBinaryData *text)
{
    cr_assert_leq(choice->n_ids + n, N_TOKENS);
    cr_assert_lt(choice->n_text + text->len, sizeof choice->text);
    if (n > 0)
        memcpy(choice->ids + choice->n_ids, ids, n * sizeof *ids);
    choice->n_ids += (uint32_t)n;
    if (text->len > 0)
        memcpy(choice->text + choice->n_text, text->data, text->len);
    choice->n_text += text->len;
}

static void end(struct choice_out *choice, const Kvferry__V1__Usage *usage,
                const Kvferry__V1__Timing *timing)
{
    cr_assert(usage && timing);
    choice->n_ends++;
    choice->usage = usage->generated_tokens;
    choice->kv_bytes = timing->kv_bytes_received;
    choice->place = (int)timing->prefill_place;
}

static void on_piece(void *arg, const ProtobufCMessage *message)
{
    struct caller *caller = arg;
    const Kvferry__V1__GenerateResponse *piece = (const Kvferry__V1__GenerateResponse *)message;
    cr_assert_lt(piece->index, N_CHOICES);
    caller->n_messages++;
    add(&caller->choices[piece->index], piece->token_ids, piece->n_token_ids, &piece->text);
    if (piece->finish_reason)
        end(&caller->choices[piece->index], piece->usage, piece->timing);
}

static void on_whole(void *arg, const ProtobufCMessage *message)
{
    struct caller *caller = arg;
    const Kvferry__V1__CompleteResponse *whole = (const Kvferry__V1__CompleteResponse *)message;
    add(&caller->choices[0], whole->token_ids, whole->n_token_ids, &whole->text);
    end(&caller->choices[0], whole->usage, whole->timing);
    for (size_t i = 1; i <= whole->n_more_choices; i++) {
        const Kvferry__V1__CompleteChoice *one = whole->more_choices[i - 1];
        cr_assert_eq(one->index, i);
        add(&caller->choices[i], one->token_ids, one->n_token_ids, &one->text);
        end(&caller->choices[i], one->usage, one->timing);
    }
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct caller *caller = arg;
    caller->error = *error;
    sem_post(&caller->ended);
}

static struct rpc_client_call *start(struct caller *caller, bool is_stream, uint32_t n,
                                     uint64_t seed)
{
    struct question question;
    struct rpc_client_call *call;
    ask_for(&question, caller, n, seed);
    memset(caller->choices, 0, sizeof caller->choices);
    caller->n_messages = 0;
    const struct rpc_request request = {
        .path = is_stream ? "/kvferry.v1.GenerationService/Generate"
                          : "/kvferry.v1.GenerationService/Complete",
        .message = &question.message.base,
        .response = is_stream ? &kvferry__v1__generate_response__descriptor
                              : &kvferry__v1__complete_response__descriptor,
        .is_stream = is_stream,
        .deadline_ns = clock_now_ns() + LIMIT_NS,
        .on_message = is_stream ? on_piece : on_whole,
        .on_end = on_end,
        .arg = caller,
    };
    cr_assert_eq(rpc_channel_start(caller->router.channel, &request, &call), STATUS_OK);
    return call;
}

static enum status ask(struct caller *caller, bool is_stream, uint32_t n, uint64_t seed)
{
    struct rpc_client_call *call = start(caller, is_stream, n, seed);
    while (sem_wait(&caller->ended) != 0) /* EINTR */
        ;
    rpc_client_call_release(call);
    return caller->error.status;
}

/* The choices of a request, by the prompt's KV that crossed, against requests of their own. */
static void expect_choices(struct caller *caller, bool is_stream, const struct choice_out *alone)
{
    uint32_t n_different = 0;
    cr_assert_eq(ask(caller, is_stream, N_CHOICES, SEED), STATUS_OK, "%s", caller->error.message);
    for (uint32_t i = 0; i < N_CHOICES; i++) {
        const struct choice_out *choice = &caller->choices[i];
        cr_assert_eq(choice->n_ends, 1);
        cr_assert_eq(choice->n_ids, N_TOKENS);
        cr_assert_eq(choice->usage, N_TOKENS);
        cr_assert_arr_eq(choice->ids, alone[i].ids, sizeof choice->ids, "choice %u", i);
        cr_assert_eq(choice->n_text, alone[i].n_text);
        cr_assert_arr_eq(choice->text, alone[i].text, choice->n_text);
        n_different += i > 0 &&
                       memcmp(choice->ids, caller->choices[0].ids, sizeof choice->ids) != 0;
    }
    cr_assert_gt(n_different, 0, "they are drawn apart");
}

/* On workers without context workers, whose caches the others do not share. */
static void ask_alone(struct choice_out alone[N_CHOICES])
{
    static struct caller single;
    open_caller(&single, &(struct cluster_options){.n_generations = 1});
    for (uint32_t i = 0; i < N_CHOICES; i++) {
        cr_assert_eq(ask(&single, true, 1, SEED + i), STATUS_OK, "%s", single.error.message);
        alone[i] = single.choices[0];
    }
    close_caller(&single);
}

static void expect_crossed_once(const struct caller *caller)
{
    cr_assert_gt(caller->choices[0].kv_bytes, 0);
    cr_assert_eq(caller->choices[0].place,
                 KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_CONTEXT_WORKER);
    for (uint32_t i = 1; i < N_CHOICES; i++) {
        cr_assert_eq(caller->choices[i].kv_bytes, 0, "choice %u", i);
        cr_assert_eq(caller->choices[i].place,
                     KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_PREFIX_CACHED, "choice %u", i);
    }
}

Test(choices, each_is_as_a_request_of_its_own_and_the_prompt_crosses_once)
{
    static struct caller caller;
    static struct choice_out alone[N_CHOICES];
    ask_alone(alone);
    open_caller(&caller, &(struct cluster_options){.n_contexts = 1, .n_generations = 2});
    expect_choices(&caller, true, alone);
    expect_crossed_once(&caller);
    expect_choices(&caller, false, alone);
    cr_assert_eq(ask(&caller, false, 17, SEED), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(caller.error.field, "sampling.n");
    cr_assert_str_eq(caller.error.message, "sampling.n is 17; it must be 1 to 16");
    close_caller(&caller);
}

Test(choices, a_worker_that_is_full_or_a_router_with_few_places_serves_or_refuses_them_whole)
{
    static struct caller caller;
    static struct choice_out alone[N_CHOICES];
    static const char *const TWO[] = {"--sequences-max", "2", NULL};
    static const char *const FIVE[] = {"--requests-max", "5", NULL};
    ask_alone(alone);
    open_caller(&caller,
                &(struct cluster_options){
                    .n_contexts = 1, .n_generations = 1, .generation = TWO, .router = FIVE});
    expect_choices(&caller, true, alone);
    cr_assert_eq(ask(&caller, true, 6, SEED), STATUS_QUEUE_FULL);
    expect_choices(&caller, false, alone);
    close_caller(&caller);
}

Test(choices, a_client_that_leaves_ends_all_of_them)
{
    static struct caller caller;
    open_caller(&caller, &(struct cluster_options){.n_contexts = 1, .n_generations = 1});
    for (uint32_t n_messages = 0; n_messages < 8; n_messages += 2) {
        struct rpc_client_call *call = start(&caller, true, N_CHOICES, n_messages);
        while (*(volatile uint32_t *)&caller.n_messages < n_messages)
            (void)poll(NULL, 0, 1);
        rpc_client_call_cancel(call);
        while (sem_wait(&caller.ended) != 0)
            ;
        rpc_client_call_release(call);
        cluster_wait_quiet(&caller.cluster);
    }
    close_caller(&caller);
}
