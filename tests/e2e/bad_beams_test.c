/* What does not go with a beam search, or is no search, gets a sentence with the field; the router asks no worker. */
#include "base/clock.h"
#include "proto/kvferry/v1/generation.pb-c.h"
#include "support/client.h"
#include "support/cluster.h"
#include "support/dial.h"
#include "support/text.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct cluster cluster;
static struct dial router;
static Kvferry__V1__SamplingParams sampling;

static void refuse(const char *what, const char *field)
{
    Kvferry__V1__GenerateRequest message = KVFERRY__V1__GENERATE_REQUEST__INIT;
    struct rpc_error error;
    char path[64];
    message.sampling = &sampling;
    message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
    message.text = text_of("In the beginning");
    struct rpc_request request = {
        .path = "/kvferry.v1.GenerationService/Generate",
        .message = &message.base,
        .response = &kvferry__v1__generate_response__descriptor,
        .is_stream = true,
        .deadline_ns = clock_now_ns() + 30 * NS_PER_S,
    };
    (void)!rpc_channel_call_wait(router.channel, &request, &error);
    snprintf(path, sizeof path, "sampling.%s", field);
    cr_expect_eq(error.status, STATUS_INVALID_ARGUMENT, "%s: %s", what, error.message);
    cr_expect_str_eq(error.field, path, "%s", what);
    cr_expect_eq(strncmp(error.message, path, strlen(path)), 0, "%s: %s", what, error.message);
}

#define REFUSE(field, ...)                                                                         \
    do {                                                                                           \
        kvferry__v1__sampling_params__init(&sampling);                                             \
        sampling.beam_width = 4;                                                                   \
        __VA_ARGS__;                                                                               \
        refuse(#__VA_ARGS__, field);                                                               \
    } while (0)

#define SET(member, MEMBER, number)                                                                \
    sampling.member##_presence_case = KVFERRY__V1__SAMPLING_PARAMS__##MEMBER##_PRESENCE_##MEMBER,  \
    sampling.member = (number)

static void numbers(void)
{
    static const float penalties[] = {NAN, INFINITY, -INFINITY, -10.5f, 10.5f, 1e30f};
    static const float temperatures[] = {1e-6f, 1, 101, -1, NAN};
    REFUSE("beam_width", sampling.beam_width = 17);
    REFUSE("beam_width", sampling.beam_width = UINT32_MAX);
    REFUSE("n", sampling.n = 5);
    REFUSE("n", sampling.n = UINT32_MAX);
    REFUSE("n", sampling.beam_width = 16, sampling.n = 17);
    REFUSE("early_stopping", sampling.early_stopping = 4);
    REFUSE("early_stopping", sampling.early_stopping = -1);
    REFUSE("max_tokens", SET(max_tokens, MAX_TOKENS, 0));
    for (size_t i = 0; i < sizeof penalties / sizeof *penalties; i++)
        REFUSE("length_penalty", SET(length_penalty, LENGTH_PENALTY, penalties[i]));
    for (size_t i = 0; i < sizeof temperatures / sizeof *temperatures; i++)
        REFUSE("temperature", SET(temperature, TEMPERATURE, temperatures[i]));
}

static void what_a_search_has_not(void)
{
    static const Kvferry__V1__Constraint__KindCase kinds[] = {
        KVFERRY__V1__CONSTRAINT__KIND_REGEX, KVFERRY__V1__CONSTRAINT__KIND_GRAMMAR,
        KVFERRY__V1__CONSTRAINT__KIND_JSON_SCHEMA};
    static uint8_t long_text[257];
    ProtobufCBinaryData stop[17] = {text_of("light")};
    Kvferry__V1__Constraint constraint = KVFERRY__V1__CONSTRAINT__INIT;
    memset(long_text, 'x', sizeof long_text);
    REFUSE("stop", sampling.stop = stop, sampling.n_stop = 17);
    REFUSE("stop[1]", sampling.stop = stop, sampling.n_stop = 2);
    stop[1] = (ProtobufCBinaryData){sizeof long_text, long_text};
    REFUSE("stop[1]", sampling.stop = stop, sampling.n_stop = 2);
    long_text[0] = 0xff;
    stop[1].len = 1;
    REFUSE("stop[1]", sampling.stop = stop, sampling.n_stop = 2);
    REFUSE("logprobs", sampling.logprobs = 1);
    REFUSE("logprobs", sampling.logprobs = 21);
    REFUSE("prompt_logprobs", SET(prompt_logprobs, PROMPT_LOGPROBS, 0));
    REFUSE("reply_window", SET(reply_window, REPLY_WINDOW, 64));
    for (size_t i = 0; i < 3; i++) {
        constraint.kind_case = kinds[i];
        constraint.regex = "a+"; /* all of these are texts of one place */
        REFUSE("constraint", sampling.constraint = &constraint);
    }
}

static void what_needs_a_search(void)
{
    REFUSE("length_penalty", sampling.beam_width = 0, SET(length_penalty, LENGTH_PENALTY, 0.5f));
    REFUSE("length_penalty", sampling.beam_width = 1, SET(length_penalty, LENGTH_PENALTY, NAN));
    REFUSE("early_stopping", sampling.beam_width = 0, sampling.early_stopping = 2);
    REFUSE("early_stopping", sampling.beam_width = 1, sampling.early_stopping = 3);
    REFUSE("early_stopping", sampling.beam_width = 0, sampling.early_stopping = 4);
}

Test(bad_beams, each_is_refused_by_name)
{
    const struct cluster_options options = {.n_contexts = 1, .n_generations = 1};
    cluster_start(&cluster, &options);
    dial_open(&router, "beams", cluster.router.grpc);
    numbers();
    what_a_search_has_not();
    what_needs_a_search();
    dial_close(&router);
    cluster_stop(&cluster);
}
