/* Rules of sampling: what may be drawn, and what the text shows. Each does what it says, from the first token on, and split equals
 * single bit for bit. A worker of an earlier version is asked for none: others are, or the request ends with the field's name. */
#include "proto/kvferry/v1/generation.pb-c.h"
#include "support/client.h"
#include "support/cluster.h"
#include "support/command.h"
#include "support/dial.h"
#include "support/model_copy.h"

#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

enum { N_PROMPT = 200, N_TOKENS = 24, N_LIST = 8 };

#define LIMIT_NS (60 * NS_PER_S)
/* Special tokens of the demo model. */
#define BOS 2046u
#define EOS 2047u

struct reply {
    enum status status;
    char message[512];
    uint32_t ids[N_TOKENS], n_ids;
    float logprobs[N_TOKENS];
    char text[4096], bytes[4096];
    size_t n_text, n_bytes;
    int place, reason;
    uint64_t kv_bytes;
    char stop[64];
};

struct caller {
    struct cluster cluster;
    struct dial router;
    uint32_t prompt[N_PROMPT];
    struct reply reply;
    sem_t ended;
};

static void open_caller(struct caller *caller, const struct cluster_options *options)
{
    memset(caller, 0, sizeof *caller);
    sem_init(&caller->ended, 0, 0);
    cluster_start(&caller->cluster, options);
    prompt_tokens(3, caller->prompt, N_PROMPT);
    dial_open(&caller->router, "rules", caller->cluster.router.grpc);
}

static void close_caller(struct caller *caller)
{
    cluster_wait_quiet(&caller->cluster);
    dial_close(&caller->router);
    cluster_stop(&caller->cluster);
}

/* ---- a question ---- */

struct question {
    Kvferry__V1__GenerateRequest message;
    Kvferry__V1__SamplingParams sampling;
    Kvferry__V1__TokenIds ids;
    uint32_t list[N_LIST];
    Kvferry__V1__LogitBias biases[N_LIST], *bias_list[N_LIST];
    ProtobufCBinaryData texts[N_LIST];
};

static void begin(struct question *question, struct caller *caller, uint64_t seed)
{
    Kvferry__V1__SamplingParams *sampling = &question->sampling;
    kvferry__v1__generate_request__init(&question->message);
    kvferry__v1__sampling_params__init(sampling);
    kvferry__v1__token_ids__init(&question->ids);
    question->ids.ids = caller->prompt;
    question->ids.n_ids = N_PROMPT;
    sampling
        ->max_tokens_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    sampling->max_tokens = N_TOKENS;
    sampling->seed_presence_case = KVFERRY__V1__SAMPLING_PARAMS__SEED_PRESENCE_SEED;
    sampling->seed = seed;
    sampling->logprobs = 2;
    question->message.sampling = sampling;
    question->message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TOKEN_IDS;
    question->message.token_ids = &question->ids;
    question->message.return_timing = true;
}

static void add_bias(struct question *question, uint32_t id, float bias)
{
    size_t n = question->sampling.n_logit_bias++;
    cr_assert_lt(n, N_LIST);
    kvferry__v1__logit_bias__init(&question->biases[n]);
    question->biases[n].token_id = id;
    question->biases[n].bias = bias;
    question->bias_list[n] = &question->biases[n];
    question->sampling.logit_bias = question->bias_list;
}

static void allow(struct question *question, const uint32_t *ids, uint32_t n)
{
    cr_assert_leq(n, N_LIST);
    memcpy(question->list, ids, n * sizeof *ids);
    question->sampling.allowed_token_ids = question->list;
    question->sampling.n_allowed_token_ids = n;
}

/* ---- the answer ---- */

static void put(char *to, size_t *n, const ProtobufCBinaryData *from)
{
    cr_assert_lt(*n + from->len, 4096);
    if (from->len > 0)
        memcpy(to + *n, from->data, from->len);
    *n += from->len;
    to[*n] = '\0';
}

static void on_piece(void *arg, const ProtobufCMessage *message)
{
    struct reply *reply = &((struct caller *)arg)->reply;
    const Kvferry__V1__GenerateResponse *piece = (const Kvferry__V1__GenerateResponse *)message;
    cr_assert_leq(reply->n_ids + piece->n_token_ids, N_TOKENS);
    cr_assert_eq(piece->n_logprobs, piece->n_token_ids);
    for (size_t i = 0; i < piece->n_token_ids; i++) {
        const Kvferry__V1__TokenLogprobs *told = piece->logprobs[i];
        reply->logprobs[reply->n_ids] = told->logprob;
        reply->ids[reply->n_ids++] = piece->token_ids[i];
        put(reply->bytes, &reply->n_bytes, &told->bytes);
        cr_assert_eq(told->n_top, 2);
        cr_assert(told->top[0]->token_id != piece->token_ids[i] ||
                  told->top[0]->bytes.len == told->bytes.len);
    }
    put(reply->text, &reply->n_text, &piece->text);
    if (!piece->finish_reason)
        return;
    reply->reason = (int)piece->finish_reason;
    reply->place = (int)piece->timing->prefill_place;
    reply->kv_bytes = piece->timing->kv_bytes_received;
    if (piece->matched_stop_case == KVFERRY__V1__GENERATE_RESPONSE__MATCHED_STOP_STOP_STRING)
        snprintf(reply->stop, sizeof reply->stop, "%.*s", (int)piece->stop_string.len,
                 (const char *)piece->stop_string.data);
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct caller *caller = arg;
    caller->reply.status = error->status;
    snprintf(caller->reply.message, sizeof caller->reply.message, "%s", error->message);
    sem_post(&caller->ended);
}

static const struct reply *ask(struct caller *caller, const struct question *question)
{
    struct rpc_client_call *call;
    memset(&caller->reply, 0, sizeof caller->reply);
    const struct rpc_request request = {
        .path = "/kvferry.v1.GenerationService/Generate",
        .message = &question->message.base,
        .response = &kvferry__v1__generate_response__descriptor,
        .is_stream = true,
        .deadline_ns = clock_now_ns() + LIMIT_NS,
        .on_message = on_piece,
        .on_end = on_end,
        .arg = caller,
    };
    cr_assert_eq(rpc_channel_start(caller->router.channel, &request, &call), STATUS_OK);
    while (sem_wait(&caller->ended) != 0) /* EINTR */
        ;
    rpc_client_call_release(call);
    return &caller->reply;
}

static const struct reply *ask_well(struct caller *caller, const struct question *question)
{
    const struct reply *reply = ask(caller, question);
    cr_assert_eq(reply->status, STATUS_OK, "%s", reply->message);
    return reply;
}

static bool has(const struct reply *reply, uint32_t id, uint32_t n_first)
{
    for (uint32_t i = 0; i < reply->n_ids && i < n_first; i++)
        if (reply->ids[i] == id)
            return true;
    return false;
}

/* ---- both clusters ---- */

static struct caller single, split;

static void expect_equal(const struct reply *one, const struct reply *other)
{
    cr_assert_eq(one->n_ids, other->n_ids);
    cr_assert_arr_eq(one->ids, other->ids, one->n_ids * sizeof *one->ids);
    cr_assert_arr_eq(one->logprobs, other->logprobs, one->n_ids * sizeof *one->logprobs);
    cr_assert_str_eq(one->text, other->text);
    cr_assert_str_eq(one->bytes, other->bytes);
    cr_assert_str_eq(one->stop, other->stop);
    cr_assert_eq(one->reason, other->reason);
}

/* The reply of both, which has crossed in one of them; a salt of its own each time, so that it crosses each time. */
static const struct reply *ask_both(struct question *question)
{
    static uint32_t n_asked;
    char salt[32];
    snprintf(salt, sizeof salt, "salt %u", n_asked++);
    question->message.cache_salt = salt;
    ask_well(&single, question);
    const struct reply *reply = ask_well(&split, question);
    if (!reply->stop[0]) { /* of one in the first token no worker's figures come */
        cr_assert_eq(reply->place, KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_CONTEXT_WORKER);
        cr_assert(reply->kv_bytes > 0 || reply->n_ids == 1);
    }
    expect_equal(&single.reply, reply);
    question->message.cache_salt = (char *)protobuf_c_empty_string;
    return reply;
}

static void open_both(void)
{
    open_caller(&single, &(struct cluster_options){.n_generations = 1});
    open_caller(&split, &(struct cluster_options){.n_contexts = 1, .n_generations = 1});
}

static void close_both(void)
{
    close_caller(&single);
    close_caller(&split);
}

/* generation_config.json of a copy of the model; both clusters get it. */
static void open_both_suppressing(const uint32_t *ids)
{
    char folder[300];
    model_copy_make();
    FILE *file = fopen(in_folder("model/generation_config.json"), "w");
    cr_assert_not_null(file);
    fprintf(file, "{\"eos_token_id\": %u, \"suppress_tokens\": [%u, %u]}", EOS, ids[0], ids[1]);
    cr_assert_eq(fclose(file), 0);
    snprintf(folder, sizeof folder, "%s", in_folder("model"));
    open_caller(&single, &(struct cluster_options){.n_generations = 1, .model = folder});
    open_caller(&split,
                &(struct cluster_options){.n_contexts = 1, .n_generations = 1, .model = folder});
}

/* The first token, which the context worker draws, and a later one: as if each request had kept them away. */
Test(rules, what_the_model_suppresses_is_not_drawn, .init = command_folder_make,
     .fini = command_folder_remove)
{
    static struct question question;
    struct reply plain, without;
    uint32_t ids[2];
    open_both();
    begin(&question, &single, 5);
    plain = *ask_both(&question);
    ids[0] = plain.ids[0];
    add_bias(&question, ids[0], -100);
    ids[1] = ask_both(&question)->ids[3];
    cr_assert_neq(ids[0], ids[1]);
    add_bias(&question, ids[1], -100);
    without = *ask_both(&question);
    close_both();
    open_both_suppressing(ids);
    begin(&question, &single, 5);
    expect_equal(&without, ask_both(&question));
    cr_expect_not(has(&split.reply, ids[0], N_TOKENS) || has(&split.reply, ids[1], N_TOKENS));
    add_bias(&question, ids[0], 100);
    expect_equal(&without, ask_both(&question));
    close_both();
}

Test(rules, min_tokens_keep_ends_away)
{
    static struct question question;
    struct reply plain;
    open_both();
    begin(&question, &single, 5);
    plain = *ask_both(&question);
    cr_assert_eq(plain.n_ids, N_TOKENS);
    /* The first token would end it, at the context worker already. */
    question.sampling.stop_token_ids = plain.ids;
    question.sampling.n_stop_token_ids = 1;
    cr_assert_eq(ask_both(&question)->n_ids, 1);
    question.sampling.min_tokens = 9;
    cr_assert_gt(ask_both(&question)->n_ids, 9);
    cr_assert_not(has(&split.reply, plain.ids[0], 9));
    add_bias(&question, plain.ids[0], 100);
    cr_assert_eq(ask_both(&question)->n_ids, 10, "drawn as soon as it may be");
    cr_assert_eq(split.reply.ids[9], plain.ids[0]);

    /* A stop string counts behind them. */
    static char piece[4];
    begin(&question, &single, 5);
    snprintf(piece, sizeof piece, "%.3s", plain.text);
    question.texts[0] = (ProtobufCBinaryData){strlen(piece), (uint8_t *)piece};
    question.sampling.stop = question.texts;
    question.sampling.n_stop = 1;
    ask_both(&question);
    cr_assert_str_eq(split.reply.text, "");
    cr_assert_str_eq(split.reply.stop, piece);
    question.sampling.include_stop_str_in_output = true;
    ask_both(&question);
    cr_assert_str_eq(split.reply.text, piece, "the text ends behind it");
    question.sampling.min_tokens = N_TOKENS;
    ask_both(&question);
    cr_assert_str_eq(split.reply.text, plain.text);
    close_both();
}

Test(rules, biases_lists_and_words_hold_from_the_first_token_on)
{
    static struct question question;
    static const uint32_t IDS[3] = {700, 11, 1500};
    struct reply plain;
    open_both();
    begin(&question, &single, 7);
    plain = *ask_both(&question);
    cr_assert_str_eq(plain.text, plain.bytes, "the tokens' bytes are the text");

    begin(&question, &single, 7);
    add_bias(&question, plain.ids[0], -100);
    cr_assert_not(has(ask_both(&question), plain.ids[0], N_TOKENS));
    begin(&question, &single, 7);
    add_bias(&question, 900, 100);
    ask_both(&question);
    for (uint32_t i = 0; i < N_TOKENS; i++)
        cr_assert_eq(split.reply.ids[i], 900);
    cr_assert_lt(split.reply.logprobs[0], -3, "the model's own, not that of the bias");

    begin(&question, &single, 7);
    allow(&question, IDS, 3);
    ask_both(&question);
    for (uint32_t i = 0; i < N_TOKENS; i++)
        cr_assert(split.reply.ids[i] == 700 || split.reply.ids[i] == 11 ||
                  split.reply.ids[i] == 1500);

    begin(&question, &single, 7);
    for (uint32_t i = 0; i < 2; i++) /* the first two words of the reply */
        question.texts[i] = (ProtobufCBinaryData){strcspn(plain.text + 1, " ,.;:\n") + 1,
                                                  (uint8_t *)plain.text};
    question.sampling.bad_words = question.texts;
    question.sampling.n_bad_words = 2;
    ask_both(&question);
    cr_assert(memcmp(split.reply.text, plain.text, question.texts[0].len) != 0, "%s",
              split.reply.text);
    close_both();
}

Test(rules, special_tokens_and_faults_are_said)
{
    static struct question question;
    static const uint32_t BOS_ID[1] = {BOS}, EOS_ID[1] = {EOS};
    open_both();
    begin(&question, &single, 9);
    allow(&question, BOS_ID, 1);
    question.sampling.ignore_eos = true;
    ask_both(&question);
    cr_assert_str_eq(split.reply.text, "");
    question.sampling.skip_special_tokens_presence_case =
        KVFERRY__V1__SAMPLING_PARAMS__SKIP_SPECIAL_TOKENS_PRESENCE_SKIP_SPECIAL_TOKENS;
    ask_both(&question);
    cr_assert_eq(strncmp(split.reply.text, "<|begin_of_text|><|begin_of_text|>", 34), 0, "%s",
                 split.reply.text);
    cr_assert_eq(split.reply.n_text, N_TOKENS * strlen("<|begin_of_text|>"));

    /* Nothing is left to draw, at the context worker already. */
    begin(&question, &single, 9);
    allow(&question, EOS_ID, 1);
    cr_assert_eq(ask_both(&question)->n_ids, 1);
    question.sampling.min_tokens = 2;
    for (uint32_t i = 0; i < 2; i++) {
        const struct reply *reply = ask(i == 0 ? &single : &split, &question);
        cr_assert_eq(reply->status, STATUS_INVALID_ARGUMENT, "%s", reply->message);
        cr_assert_not_null(strstr(reply->message, "leaves no token to draw after 200 tokens"));
        cr_assert_eq(reply->n_ids, 0);
    }
    begin(&question, &single, 9);
    add_bias(&question, 1, 1);
    add_bias(&question, 1, 2);
    cr_assert_eq(ask(&split, &question)->status, STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(split.reply.message,
                     "sampling.logit_bias[1].token_id is 1; it must be of a token without another "
                     "bias");
    close_both();
}

/* ---- workers of an earlier version ---- */

static void set_rules(struct question *question, struct caller *caller)
{
    begin(question, caller, 4);
    question->sampling.min_tokens = 3;
    add_bias(question, 900, 100);
}

Test(rules, a_worker_of_an_earlier_version_is_not_asked_for_them)
{
    static struct caller alone, beside;
    static struct question question;
    static const char *const NEVER_LOCAL[] = {"--local-prefill=no", NULL};
    struct reply expected;
    open_caller(&beside, &(struct cluster_options){.n_generations = 2,
                                                   .first_generation_binary = BEFORE_BINARY});
    set_rules(&question, &beside);
    for (uint32_t i = 0; i < 6; i++) /* whichever is asked first */
        cr_assert_eq(ask_well(&beside, &question)->ids[i], 900);
    expected = beside.reply;
    close_caller(&beside);

    open_caller(&alone, &(struct cluster_options){.n_generations = 1,
                                                  .first_generation_binary = BEFORE_BINARY});
    cr_assert_eq(ask(&alone, &question)->status, STATUS_UNSUPPORTED, "%s", alone.reply.message);
    cr_assert_not_null(strstr(alone.reply.message, "sampling.min_tokens is not supported"));
    begin(&question, &alone, 4);
    cr_assert_eq(ask_well(&alone, &question)->n_ids, N_TOKENS);
    close_caller(&alone);

    open_caller(&alone, &(struct cluster_options){.n_contexts = 1,
                                                  .n_generations = 1,
                                                  .first_context_binary = BEFORE_BINARY});
    set_rules(&question, &alone);
    ask_well(&alone, &question);
    cr_assert_eq(alone.reply.place, KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_HAND_OVER_FAILED);
    expect_equal(&alone.reply, &expected);
    begin(&question, &alone, 4);
    question.message.cache_salt = (char *)"another";
    ask_well(&alone, &question);
    cr_assert_eq(alone.reply.place, KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_CONTEXT_WORKER);
    close_caller(&alone);

    open_caller(&alone, &(struct cluster_options){.n_contexts = 1,
                                                  .n_generations = 1,
                                                  .first_context_binary = BEFORE_BINARY,
                                                  .router = NEVER_LOCAL,
                                                  .generation = NEVER_LOCAL});
    set_rules(&question, &alone);
    cr_assert_eq(ask(&alone, &question)->status, STATUS_UNSUPPORTED, "%s", alone.reply.message);
    cr_assert_not_null(strstr(alone.reply.message, "sampling.min_tokens is not supported"));
    close_caller(&alone);
}
