/* Every malformed request gets the right code and a sentence that names the field; nothing crashes,
 * nothing leaks (under ASan the processes' exit codes say so), and the next good request works. */

#include "base/clock.h"
#include "proto/kvferry/internal/v1/context_worker.pb-c.h"
#include "proto/kvferry/internal/v1/generation_worker.pb-c.h"
#include "proto/kvferry/v1/generation.pb-c.h"
#include "proto/kvferry/v1/model.pb-c.h"
#include "rpc/client/client.h"
#include "support/client.h"
#include "support/cluster.h"
#include "support/inner.h"
#include "support/sampling.h"
#include "support/text.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT_WORKER "/kvferry.internal.v1.ContextWorkerService/"
#define VOCABULARY     2048u
#define CONTEXT        2048u

static struct cluster cluster;
static struct rpc_runtime *runtime;
static struct rpc_client *calls;
static struct inner inner;
static struct rpc_channel *router, *context_worker, *generation_worker;
static uint32_t n_refused;

/* ---- one call ---- */

static struct rpc_error call(struct rpc_channel *channel, const char *path,
                             const ProtobufCMessage *message,
                             const ProtobufCMessageDescriptor *response, uint64_t deadline_ns)
{
    struct rpc_request request = {
        .path = path,
        .message = message,
        .response = response,
        .is_stream = strstr(path, "/Generate") || strstr(path, "/Prefill") ||
                     strstr(path, "/Decode"),
        .deadline_ns = deadline_ns,
    };
    struct rpc_error error;
    (void)!rpc_channel_call_wait(channel, &request, &error);
    return error;
}

static void expect_error(const char *what, const struct rpc_error *error, enum status status,
                         const char *named)
{
    cr_expect_eq(error->status, status, "%s: %s (%s), not %s", what, status_name(error->status),
                 error->message, status_name(status));
    cr_expect(strstr(error->message, named) || strstr(error->field, named),
              "%s: the sentence names no %s: %s", what, named, error->message);
    n_refused++;
}

static void refuse(const char *what, const Kvferry__V1__GenerateRequest *request,
                   enum status status, const char *named)
{
    struct rpc_error error = call(router, "/kvferry.v1.GenerationService/Generate", &request->base,
                                  &kvferry__v1__generate_response__descriptor,
                                  clock_now_ns() + 30 * NS_PER_S);
    expect_error(what, &error, status, named);
}

struct good {
    Kvferry__V1__SamplingParams sampling;
    Kvferry__V1__TokenIds ids;
    Kvferry__V1__GenerateRequest request;
};

/* A request that would be served: each case breaks one thing of it. */
static Kvferry__V1__GenerateRequest *good(struct good *good)
{
    kvferry__v1__sampling_params__init(&good->sampling);
    kvferry__v1__token_ids__init(&good->ids);
    kvferry__v1__generate_request__init(&good->request);
    good->sampling
        .max_tokens_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    good->sampling.max_tokens = 4;
    good->request.sampling = &good->sampling;
    good->request.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
    good->request.text = text_of("In the beginning");
    return &good->request;
}

static void use_ids(struct good *good, uint32_t *ids, size_t n)
{
    good->ids.ids = ids;
    good->ids.n_ids = n;
    good->request.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TOKEN_IDS;
    good->request.token_ids = &good->ids;
}

/* ---- sampling ---- */

static void refuse_float(const char *field, float value, struct good *bad)
{
    char what[96], path[64];
    snprintf(what, sizeof what, "%s = %g", field, (double)value);
    snprintf(path, sizeof path, "sampling.%s", field);
    refuse(what, &bad->request, STATUS_INVALID_ARGUMENT, path);
}

#define REFUSE_FLOAT(member, MEMBER, ...)                                                          \
    do {                                                                                           \
        static const float values[] = {__VA_ARGS__};                                               \
        for (size_t i_ = 0; i_ < sizeof values / sizeof *values; i_++) {                           \
            struct good bad;                                                                       \
            good(&bad);                                                                            \
            bad.sampling.member##_presence_case =                                                  \
                KVFERRY__V1__SAMPLING_PARAMS__##MEMBER##_PRESENCE_##MEMBER;                        \
            bad.sampling.member = values[i_];                                                      \
            refuse_float(#member, values[i_], &bad);                                               \
        }                                                                                          \
    } while (0)

static void sampling_numbers(void)
{
    REFUSE_FLOAT(temperature, TEMPERATURE, NAN, INFINITY, -INFINITY, -1, -1e-6f, 100.5f, 1e30f);
    REFUSE_FLOAT(top_p, TOP_P, NAN, INFINITY, -INFINITY, 0, -0.5f, 1.0001f, 2);
    REFUSE_FLOAT(repetition_penalty, REPETITION_PENALTY, NAN, INFINITY, -INFINITY, 0, -1, 100.5f);
    REFUSE_FLOAT(min_p, MIN_P, NAN, INFINITY, -INFINITY, -0.1f, 1.001f, 7);
    REFUSE_FLOAT(presence_penalty, PRESENCE_PENALTY, NAN, INFINITY, -INFINITY, -2.1f, 2.1f);
    REFUSE_FLOAT(frequency_penalty, FREQUENCY_PENALTY, NAN, INFINITY, -INFINITY, -2.1f, 2.1f);
}

static void sampling_counts(void)
{
    struct good bad;
    good(&bad);
    bad.sampling.max_tokens = 0;
    refuse("max_tokens 0", &bad.request, STATUS_INVALID_ARGUMENT, "sampling.max_tokens");
    static const uint32_t too_many[] = {CONTEXT, 1u << 30, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        good(&bad);
        bad.sampling.max_tokens = too_many[i];
        refuse("max_tokens over the context", &bad.request, STATUS_PROMPT_TOO_LONG, "max_tokens");
    }
    static const uint32_t logprobs[] = {21, 1000, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        good(&bad);
        bad.sampling.logprobs = logprobs[i];
        refuse("logprobs", &bad.request, STATUS_INVALID_ARGUMENT, "sampling.logprobs");
        good(&bad);
        bad.sampling.prompt_logprobs_presence_case =
            KVFERRY__V1__SAMPLING_PARAMS__PROMPT_LOGPROBS_PRESENCE_PROMPT_LOGPROBS;
        bad.sampling.prompt_logprobs = logprobs[i];
        refuse("prompt_logprobs", &bad.request, STATUS_INVALID_ARGUMENT,
               "sampling.prompt_logprobs");
    }
    static uint32_t stop_ids[17] = {1, 2, VOCABULARY};
    good(&bad);
    bad.sampling.stop_token_ids = stop_ids;
    bad.sampling.n_stop_token_ids = 17;
    refuse("17 stop ids", &bad.request, STATUS_INVALID_ARGUMENT, "sampling.stop_token_ids");
    bad.sampling.n_stop_token_ids = 3;
    refuse("stop id = vocabulary", &bad.request, STATUS_INVALID_ARGUMENT,
           "sampling.stop_token_ids");
    stop_ids[2] = UINT32_MAX;
    refuse("stop id of 32 bits", &bad.request, STATUS_INVALID_ARGUMENT, "sampling.stop_token_ids");
}

static void stop_strings(void)
{
    static char longest[258];
    memset(longest, 'x', 257);
    static char *const bad_stops[] = {"", longest, "\xff", "ab\xc0\xaf", "\xed\xa0\x80"};
    for (size_t i = 0; i < sizeof bad_stops / sizeof *bad_stops; i++) {
        struct good bad;
        good(&bad);
        ProtobufCBinaryData stop[] = {text_of("fine"), text_of(bad_stops[i])};
        bad.sampling.stop = stop;
        bad.sampling.n_stop = 2;
        refuse("stop string", &bad.request, STATUS_INVALID_ARGUMENT, "sampling.stop");
    }
    struct good bad;
    good(&bad);
    ProtobufCBinaryData many[17];
    for (size_t i = 0; i < 17; i++)
        many[i] = text_of("x");
    bad.sampling.stop = many;
    bad.sampling.n_stop = 17;
    refuse("17 stop strings", &bad.request, STATUS_INVALID_ARGUMENT, "sampling.stop");
}

/* ---- prompts and names ---- */

static void prompts(void)
{
    struct good bad;
    good(&bad)->prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT__NOT_SET;
    refuse("no prompt", &bad.request, STATUS_INVALID_ARGUMENT, "prompt");
    static const char *const texts[] = {
        "\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        good(&bad)->text = text_of(texts[i]);
        refuse("text that is no UTF-8", &bad.request, STATUS_INVALID_ARGUMENT, "text");
    }
    size_t n = 64 * 1024;
    char *book = malloc(n + 1);
    for (size_t i = 0; i < n; i++)
        book[i] = i % 2 ? ' ' : 'q';
    book[n] = '\0';
    good(&bad)->text = text_of(book);
    refuse("text over the context", &bad.request, STATUS_PROMPT_TOO_LONG, "prompt");
    free(book);
}

static void prompt_ids(void)
{
    static uint32_t ids[CONTEXT + 1];
    struct good bad;
    good(&bad);
    use_ids(&bad, ids, 0);
    refuse("no ids", &bad.request, STATUS_INVALID_ARGUMENT, "token_ids");
    static const uint32_t unknown[] = {VOCABULARY, VOCABULARY + 1, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < 4; i++)
        for (size_t place = 0; place < 3; place++) {
            memset(ids, 0, sizeof ids);
            ids[place * 50] = unknown[i];
            good(&bad);
            use_ids(&bad, ids, 101);
            refuse("id over the vocabulary", &bad.request, STATUS_INVALID_ARGUMENT, "token_ids");
        }
    memset(ids, 0, sizeof ids);
    good(&bad);
    use_ids(&bad, ids, CONTEXT + 1);
    refuse("ids over the context", &bad.request, STATUS_PROMPT_TOO_LONG, "prompt");
    use_ids(&bad, ids, CONTEXT);
    refuse("no room for a token", &bad.request, STATUS_PROMPT_TOO_LONG, "prompt");
    size_t n = 1 << 20;
    uint32_t *giant = calloc(n, sizeof *giant);
    use_ids(&bad, giant, n);
    refuse("a million ids", &bad.request, STATUS_PROMPT_TOO_LONG, "prompt");
    free(giant);
}

static void names(void)
{
    struct good bad;
    good(&bad)->model = "no-such-model";
    refuse("unknown model", &bad.request, STATUS_MODEL_NOT_FOUND, "model");
    good(&bad)->model = "\xff";
    refuse("model that is no UTF-8", &bad.request, STATUS_INVALID_ARGUMENT, "model");
    static char longest[130];
    memset(longest, 'r', 129);
    static const char *const ids[] = {longest, "a\nb", "\x01", "a b\x7f", "ä", "\xfe", "tab\t"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        good(&bad)->request_id = (char *)ids[i];
        refuse("request_id", &bad.request, STATUS_INVALID_ARGUMENT, "request_id");
    }
    good(&bad)->cache_salt = longest;
    refuse("long salt", &bad.request, STATUS_INVALID_ARGUMENT, "cache_salt");
    good(&bad)->cache_salt = "\xf8";
    refuse("salt that is no UTF-8", &bad.request, STATUS_INVALID_ARGUMENT, "cache_salt");
}

/* ---- the wire itself: unknown fields are sent as they are ---- */

static void refuse_wire(const char *what, uint32_t tag, ProtobufCWireType type, const void *data,
                        size_t n, uint32_t times, const char *named)
{
    struct good bad;
    good(&bad);
    ProtobufCMessageUnknownField *fields = calloc(times, sizeof *fields);
    for (uint32_t i = 0; i < times; i++)
        fields[i] = (ProtobufCMessageUnknownField){
            .tag = tag, .wire_type = type, .len = n, .data = (uint8_t *)data};
    bad.request.base.unknown_fields = fields;
    bad.request.base.n_unknown_fields = times;
    refuse(what, &bad.request, STATUS_INVALID_ARGUMENT, named);
    free(fields);
}

static void wire(void)
{
    refuse_wire("sampling twice", 4, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, "\0", 1, 1, "sampling");
    refuse_wire("both prompts", 3, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, "\0", 1, 1, "");
    refuse_wire("text as a number", 2, PROTOBUF_C_WIRE_TYPE_VARINT, "\1", 1, 1, "text");
    refuse_wire("model as 32 bits", 1, PROTOBUF_C_WIRE_TYPE_32BIT, "abcd", 4, 1, "model");
    refuse_wire("a length past the end", 5, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, "\x7f", 1, 1,
                "request_id");
    refuse_wire("an endless number", 7, PROTOBUF_C_WIRE_TYPE_VARINT,
                "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11, 1, "");
    refuse_wire("a hundred unknown fields", 900, PROTOBUF_C_WIRE_TYPE_VARINT, "\1", 1, 100, "");
    refuse_wire("a group", 901, (ProtobufCWireType)3, "", 0, 1, "");
    refuse_wire("wire type 7", 902, (ProtobufCWireType)7, "", 0, 1, "");
    refuse_wire("sampling a thousand times", 4, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, "\0", 1, 1000,
                "sampling");
    /* Sub-messages in sub-messages, each but the innermost a length and a tag. */
    enum { DEPTH = 60 };
    uint8_t nested[2 * DEPTH + 1] = {0};
    size_t n = 1;
    for (uint32_t i = 0; i < DEPTH; i++, n += 2) {
        memmove(nested + 2, nested, n);
        nested[0] = (uint8_t)(n + 1);
        nested[1] = 0x22;
    }
    refuse_wire("deep nesting", 4, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, nested, n, 1, "sampling");
}

/* ---- other methods ---- */

static void other_methods(void)
{
    struct good bad;
    uint64_t deadline_ns = clock_now_ns() + 60 * NS_PER_S;
    const char *path = "/kvferry.v1.GenerationService/Complete";
    good(&bad);
    bad.sampling.min_p_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MIN_P_PRESENCE_MIN_P;
    bad.sampling.min_p = NAN;
    struct rpc_error error = call(router, path, &bad.request.base, /* the same fields */
                                  &kvferry__v1__complete_response__descriptor, deadline_ns);
    expect_error("Complete", &error, STATUS_INVALID_ARGUMENT, "sampling.min_p");

    Kvferry__V1__TokenizeRequest tokenize = KVFERRY__V1__TOKENIZE_REQUEST__INIT;
    tokenize.model = "nobody";
    error = call(router, "/kvferry.v1.GenerationService/Tokenize", &tokenize.base,
                 &kvferry__v1__tokenize_response__descriptor, deadline_ns);
    expect_error("Tokenize", &error, STATUS_MODEL_NOT_FOUND, "model");
    tokenize.model = "";
    tokenize.text = text_of("\xff");
    error = call(router, "/kvferry.v1.GenerationService/Tokenize", &tokenize.base,
                 &kvferry__v1__tokenize_response__descriptor, deadline_ns);
    expect_error("Tokenize", &error, STATUS_INVALID_ARGUMENT, "text");

    Kvferry__V1__DetokenizeRequest detokenize = KVFERRY__V1__DETOKENIZE_REQUEST__INIT;
    uint32_t id = VOCABULARY;
    detokenize.token_ids = &id;
    detokenize.n_token_ids = 1;
    error = call(router, "/kvferry.v1.GenerationService/Detokenize", &detokenize.base,
                 &kvferry__v1__detokenize_response__descriptor, deadline_ns);
    expect_error("Detokenize", &error, STATUS_INVALID_ARGUMENT, "token_ids");

    Kvferry__V1__GetModelRequest get = KVFERRY__V1__GET_MODEL_REQUEST__INIT;
    get.name = "nobody";
    error = call(router, "/kvferry.v1.ModelService/GetModel", &get.base,
                 &kvferry__v1__get_model_response__descriptor, deadline_ns);
    expect_error("GetModel", &error, STATUS_MODEL_NOT_FOUND, "name");

    good(&bad);
    error = call(router, "/kvferry.v1.GenerationService/NoSuchMethod", &bad.request.base,
                 &kvferry__v1__generate_response__descriptor, deadline_ns);
    expect_error("unknown method", &error, STATUS_UNIMPLEMENTED, "");
}

/* ---- the inner services believe their callers no more than the router believes clients ---- */

struct prefill {
    Kvferry__V1__SamplingParams sampling;
    Kvferry__Internal__V1__PrefillRequest request;
    uint32_t ids[40];
};

static struct prefill good_prefill(void)
{
    struct prefill prefill;
    memset(&prefill, 0, sizeof prefill);
    sampling_complete(&prefill.sampling);
    kvferry__internal__v1__prefill_request__init(&prefill.request);
    prefill.request.request_id = "prefill";
    prefill.request.transfer_id.data = (uint8_t *)"0123456789abcdef";
    prefill.request.transfer_id.len = 16;
    prefill.request.n_token_ids = 40;
    prefill.request.caller_incarnation = 1;
    prefill.request.callee_incarnation = cluster.contexts[0].incarnation;
    return prefill;
}

static void refuse_prefill(const char *what, struct prefill *prefill, enum status status,
                           const char *named)
{
    prefill->request.token_ids = prefill->ids;
    prefill->request.sampling = &prefill->sampling;
    struct rpc_error error = call(context_worker, CONTEXT_WORKER "Prefill", &prefill->request.base,
                                  &kvferry__internal__v1__prefill_response__descriptor,
                                  clock_now_ns() + 30 * NS_PER_S);
    expect_error(what, &error, status, named);
}

static void context_service(void)
{
    struct prefill bad = good_prefill();
    bad.request.callee_incarnation++;
    refuse_prefill("another life", &bad, STATUS_STALE_PEER, "incarnation");
    bad = good_prefill();
    bad.request.transfer_id.len = 15;
    refuse_prefill("transfer_id of 15 bytes", &bad, STATUS_INVALID_ARGUMENT, "transfer_id");
    bad.request.transfer_id.len = 0;
    refuse_prefill("no transfer_id", &bad, STATUS_INVALID_ARGUMENT, "transfer_id");
    bad = good_prefill();
    bad.request.n_token_ids = 0;
    refuse_prefill("no tokens", &bad, STATUS_INVALID_ARGUMENT, "token_ids");
    bad = good_prefill();
    bad.ids[39] = VOCABULARY;
    refuse_prefill("token over the vocabulary", &bad, STATUS_INVALID_ARGUMENT, "token_ids");
    bad = good_prefill();
    bad.request.held_tokens = 3;
    refuse_prefill("held_tokens no whole block", &bad, STATUS_INVALID_ARGUMENT, "held_tokens");
    bad.request.held_tokens = 1u << 20;
    refuse_prefill("held_tokens over the prompt", &bad, STATUS_INVALID_ARGUMENT, "held_tokens");
    bad = good_prefill();
    bad.sampling.min_p = NAN;
    refuse_prefill("sampling", &bad, STATUS_INVALID_ARGUMENT, "min_p");
    bad = good_prefill();
    bad.request.request_id = "";
    refuse_prefill("no request_id", &bad, STATUS_INVALID_ARGUMENT, "request_id");

    Kvferry__Internal__V1__CommitRequest commit = KVFERRY__INTERNAL__V1__COMMIT_REQUEST__INIT;
    uint64_t deadline_ns = clock_now_ns() + 30 * NS_PER_S;
    struct rpc_error error = call(context_worker, CONTEXT_WORKER "Commit", &commit.base,
                                  &kvferry__internal__v1__commit_response__descriptor, deadline_ns);
    expect_error("Commit without an id", &error, STATUS_INVALID_ARGUMENT, "transfer_id");

    Kvferry__Internal__V1__DescribeRequest describe = KVFERRY__INTERNAL__V1__DESCRIBE_REQUEST__INIT;
    error = call(context_worker, CONTEXT_WORKER "Describe", &describe.base,
                 &kvferry__internal__v1__describe_response__descriptor, deadline_ns);
    expect_error("Describe without a caller", &error, STATUS_INVALID_ARGUMENT, "caller");
    Kvferry__Internal__V1__WorkerIdentity identity = KVFERRY__INTERNAL__V1__WORKER_IDENTITY__INIT;
    Kvferry__V1__Geometry geometry = KVFERRY__V1__GEOMETRY__INIT;
    describe.caller = &identity;
    identity.incarnation = 5;
    identity.protocol_revision = 1;
    identity.geometry = &geometry;
    geometry.n_layers = 7;
    geometry.n_kv_heads = 2;
    geometry.head_dim = 32;
    geometry.block_tokens = 16;
    geometry.dtype = "bf16";
    geometry.block_bytes = 7ull * 2 * 2 * 32 * 16 * 2;
    geometry.model_digest = "00000000000000000000000000000000";
    error = call(context_worker, CONTEXT_WORKER "Describe", &describe.base,
                 &kvferry__internal__v1__describe_response__descriptor, deadline_ns);
    expect_error("another geometry", &error, STATUS_GEOMETRY_MISMATCH, "n_layers");
    geometry.dtype = "int3";
    error = call(context_worker, CONTEXT_WORKER "Describe", &describe.base,
                 &kvferry__internal__v1__describe_response__descriptor, deadline_ns);
    expect_error("unknown dtype", &error, STATUS_INVALID_ARGUMENT, "dtype");
}

static void refuse_decode(const char *what, const Kvferry__Internal__V1__DecodeRequest *request,
                          const char *named)
{
    struct rpc_error error = call(
        generation_worker, "/kvferry.internal.v1.GenerationWorkerService/Decode", &request->base,
        &kvferry__internal__v1__decode_response__descriptor, clock_now_ns() + 30 * NS_PER_S);
    expect_error(what, &error, STATUS_INVALID_ARGUMENT, named);
}

/* What the router would not send. */
static void decode_rules(Kvferry__Internal__V1__DecodeRequest *bad,
                         Kvferry__V1__SamplingParams *sampling)
{
    static uint32_t ids[3] = {1, 2, 1};
    static float biases[3];
    static uint32_t length[1] = {4};
    Kvferry__Internal__V1__RuledSampling ruled = KVFERRY__INTERNAL__V1__RULED_SAMPLING__INIT;
    ruled.sampling = sampling;
    bad->ruled_sampling = &ruled;
    refuse_decode("both", bad, "sampling and ruled_sampling are both there");
    bad->sampling = NULL;
    ruled.bias_token_ids = ids;
    ruled.biases = biases;
    ruled.n_bias_token_ids = 3;
    refuse_decode("ids without biases", bad, "ruled_sampling.biases are 0");
    ruled.n_biases = 3;
    refuse_decode("a token with two biases", bad, "sampling.logit_bias[2].token_id is 1");
    ruled.n_biases = ruled.n_bias_token_ids = 0;
    ruled.bad_token_ids = ids;
    ruled.n_bad_token_ids = 3;
    ruled.bad_lengths = length;
    ruled.n_bad_lengths = 1;
    refuse_decode("lengths that do not fit", bad, "sampling.bad_words, the number of tokens");
    ruled.sampling = NULL;
    refuse_decode("rules alone", bad, "sampling is absent");
    bad->ruled_sampling = NULL;
    bad->sampling = sampling;
}

static void generation_service(void)
{
    Kvferry__V1__SamplingParams sampling;
    sampling_complete(&sampling);
    uint32_t ids[3] = {1, 2, 3};
    Kvferry__Internal__V1__DecodeRequest bad = KVFERRY__INTERNAL__V1__DECODE_REQUEST__INIT;
    bad.request_id = "decode";
    bad.sampling = &sampling;
    refuse_decode("no tokens", &bad, "token_ids");
    bad.token_ids = ids;
    bad.n_token_ids = 3;
    ids[1] = UINT32_MAX;
    refuse_decode("token over the vocabulary", &bad, "token_ids");
    ids[1] = 2;
    bad.context_worker = "no address";
    refuse_decode("context_worker without a port", &bad, "context_worker");
    bad.context_worker = "";
    bad.request_id = "";
    refuse_decode("no request_id", &bad, "request_id");
    bad.request_id = "decode";
    sampling.frequency_penalty = INFINITY;
    refuse_decode("sampling", &bad, "frequency_penalty");
    sampling_complete(&sampling);
    decode_rules(&bad, &sampling);
}

/* ---- time and identity ---- */

static void late_and_double(void)
{
    struct good bad;
    good(&bad);
    struct rpc_error error = call(router, "/kvferry.v1.GenerationService/Generate",
                                  &bad.request.base, &kvferry__v1__generate_response__descriptor,
                                  clock_now_ns() - NS_PER_S);
    expect_error("a deadline that is over", &error, STATUS_TIMED_OUT, "");

    struct client *client = client_create(cluster.router.grpc);
    struct generation generation = {
        .text = "Psalms 151", .max_tokens = 1500, .ignore_eos = true, .request_id = "twice"};
    client_start(client, &generation);
    cr_assert(client_wait_messages(client, &generation, 1, 30000));
    good(&bad)->request_id = "twice";
    refuse("a live request_id", &bad.request, STATUS_DUPLICATE_REQUEST, "request_id");
    client_cancel(&generation);
    cr_assert(client_wait(client, &generation, 30000));
    client_destroy(client);
}

static void still_serves(void)
{
    struct client *client = client_create(cluster.router.grpc);
    struct generation generation = {.text = "In the beginning God created", .max_tokens = 8};
    client_run(client, &generation);
    cr_assert_gt(generation.n_generated, 0);
    client_destroy(client);
}

static struct rpc_channel *open_channel(uint16_t port)
{
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    struct rpc_channel *channel;
    cr_assert_eq(rpc_channel_open(calls, address, &channel), STATUS_OK);
    return channel;
}

Test(bad_request, each_is_refused_by_name_and_nothing_breaks)
{
    static const char *const both[] = {"--name", "worker", NULL};
    cluster_start(&cluster,
                  &(struct cluster_options){.n_contexts = 1, .n_generations = 1, .both = both});
    cr_assert_eq(rpc_runtime_create("bad requests", NULL, &runtime), STATUS_OK);
    cr_assert_eq(rpc_client_create(runtime, NULL, &calls), STATUS_OK);
    router = open_channel(cluster.router.grpc);
    inner_open(&inner, runtime);
    context_worker = inner_channel(&inner, cluster.contexts[0].control);
    generation_worker = inner_channel(&inner, cluster.generations[0].control);

    sampling_numbers();
    sampling_counts();
    stop_strings();
    prompts();
    prompt_ids();
    names();
    wire();
    other_methods();
    context_service();
    generation_service();
    late_and_double();
    cr_assert_geq(n_refused, 120, "only %u cases", n_refused);
    still_serves();

    rpc_channel_close(router);
    rpc_channel_close(context_worker);
    rpc_channel_close(generation_worker);
    inner_close(&inner);
    rpc_client_destroy(calls);
    rpc_runtime_destroy(runtime);
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
}
