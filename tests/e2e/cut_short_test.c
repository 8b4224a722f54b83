/* A reader that does not read, and a deadline that passes while tokens come, are counted and logged by
 * the router as what they are, not as a client that left. */

#include "base/clock.h"
#include "proto/kvferry/v1/generation.pb-c.h"
#include "support/cluster.h"
#include "support/command.h"
#include "support/text.h"
#include "tests/rpc/support/raw_call.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { N_CALLS = 64, MESSAGE_BYTES_MAX = 512 };

/* One long answer that the caller never reads. */
static int start_unread(const struct cluster *cluster, const char *timeout)
{
    Kvferry__V1__SamplingParams sampling = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    Kvferry__V1__GenerateRequest request = KVFERRY__V1__GENERATE_REQUEST__INIT;
    uint8_t packed[MESSAGE_BYTES_MAX];
    sampling
        .max_tokens_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    sampling.max_tokens = 1900;
    sampling.ignore_eos = 1;
    request.sampling = &sampling;
    request.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
    request.text = text_of("In the beginning");
    size_t n = kvferry__v1__generate_request__get_packed_size(&request);
    cr_assert_leq(n, sizeof packed);
    kvferry__v1__generate_request__pack(&request, packed);
    return raw_call_start(cluster->router.grpc,
                          &(struct raw_call){.path = "/kvferry.v1.GenerationService/Generate",
                                             .timeout = timeout,
                                             .message = packed,
                                             .message_bytes = (uint16_t)n});
}

static double ended(const struct cluster *cluster, const char *reason)
{
    char label[48];
    snprintf(label, sizeof label, "reason=\"%s\"", reason);
    return child_metric(&cluster->router, "kvferry_requests_total", label);
}

/* All N_CALLS have ended, and so. */
static void expect_all(const struct cluster *cluster, const char *reason)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    while (child_metric(&cluster->router, "kvferry_requests_total", "") < N_CALLS) {
        cr_assert_lt(clock_now_ns(), until_ns, "calls do not end");
        (void)poll(NULL, 0, 10);
    }
    cr_assert_eq(ended(cluster, "CANCELLED"), 0);
    cr_assert_eq(ended(cluster, reason), N_CALLS);
}

static void run(const char *const *router, const char *timeout, const char *reason)
{
    struct cluster cluster;
    int calls[N_CALLS];
    cluster_start(&cluster,
                  &(struct cluster_options){.n_contexts = 1, .n_generations = 1, .router = router});
    for (uint32_t i = 0; i < N_CALLS; i++)
        calls[i] = start_unread(&cluster, timeout);
    expect_all(&cluster, reason);
    for (uint32_t i = 0; i < N_CALLS; i++)
        close(calls[i]);
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
}

Test(cut_short, a_reader_that_is_too_slow_is_called_that)
{
    static const char *const ROUTER[] = {"--stream-buffer-bytes-max", "4096", NULL};
    run(ROUTER, NULL, "SLOW_READER");
}

Test(cut_short, a_deadline_among_tokens_is_called_that)
{
    run(NULL, "2S", "DEADLINE");
}
