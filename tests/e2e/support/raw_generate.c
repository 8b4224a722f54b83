#include "raw_generate.h"

#include "base/clock.h"
#include "client.h"
#include "command.h"
#include "proto/kvferry/v1/generation.pb-c.h"
#include "tests/rpc/support/raw_call.h"
#include "text.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>

enum { MESSAGE_BYTES_MAX = 4096 };

static int start(const struct cluster *cluster, const char *text, const char *timeout,
                 Kvferry__V1__SamplingParams *sampling)
{
    Kvferry__V1__GenerateRequest request = KVFERRY__V1__GENERATE_REQUEST__INIT;
    uint8_t packed[MESSAGE_BYTES_MAX];
    sampling
        ->max_tokens_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    request.sampling = sampling;
    request.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
    request.text = text_of(text);
    size_t n = kvferry__v1__generate_request__get_packed_size(&request);
    cr_assert_leq(n, sizeof packed);
    kvferry__v1__generate_request__pack(&request, packed);
    return raw_call_start(cluster->router.grpc,
                          &(struct raw_call){.path = "/kvferry.v1.GenerationService/Generate",
                                             .timeout = timeout,
                                             .message = packed,
                                             .message_bytes = (uint16_t)n});
}

int raw_generate_start(const struct cluster *cluster, const char *text, uint32_t max_tokens,
                       const char *timeout)
{
    Kvferry__V1__SamplingParams sampling = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    sampling.max_tokens = max_tokens;
    sampling.ignore_eos = 1;
    return start(cluster, text, timeout, &sampling);
}

int raw_score_start(const struct cluster *cluster, const char *text)
{
    Kvferry__V1__SamplingParams sampling = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    sampling.max_tokens = 1;
    sampling.prompt_logprobs_presence_case =
        KVFERRY__V1__SAMPLING_PARAMS__PROMPT_LOGPROBS_PRESENCE_PROMPT_LOGPROBS;
    sampling.prompt_logprobs = SCORE_TOP_MAX;
    return start(cluster, text, NULL, &sampling);
}

uint32_t requests_ended(const struct cluster *cluster, const char *reason)
{
    char label[48] = "";
    if (reason)
        snprintf(label, sizeof label, "reason=\"%s\"", reason);
    double n = child_metric(&cluster->router, "kvferry_requests_total", label);
    cr_assert_geq(n, 0, "no request is counted by %s", label);
    return (uint32_t)n;
}

void requests_wait_ended(const struct cluster *cluster, uint32_t n)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    while (requests_ended(cluster, NULL) < n) {
        cr_assert_lt(clock_now_ns(), until_ns, "calls do not end");
        (void)poll(NULL, 0, 10);
    }
}
