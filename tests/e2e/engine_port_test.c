/* The port of gateways: both protocols have the tokens of kvferry.v1, and KV is handed over; Abort and leaving end a request at once;
 * limits are said before the first message; a drain is told, and what runs ends well. */
#include "base/clock.h"
#include "proto/grpc/health/v1/health.pb-c.h"
#include "proto/vllm/inference.pb-c.h"
#include "support/engine_bed.h"
#include "support/raw_generate.h"
#include "tests/rpc/support/raw_call.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ID_MAX = 512, LONG = 1500 };

/* ---- replies ---- */

static void expect_inference(struct engine_bed *bed, bool is_stream)
{
    static struct engine_reply reply;
    Vllm__GenerateRequest request = VLLM__GENERATE_REQUEST__INIT;
    Vllm__TokenIds ids = VLLM__TOKEN_IDS__INIT;
    Vllm__StoppingCriteria stopping = VLLM__STOPPING_CRITERIA__INIT;
    Vllm__ResponseOptions options = VLLM__RESPONSE_OPTIONS__INIT;
    ids.ids = bed->prompt;
    ids.n_ids = N_PROMPT;
    request.prompt_case = VLLM__GENERATE_REQUEST__PROMPT_TOKEN_IDS;
    request.token_ids = &ids;
    request.temperature_presence_case = VLLM__GENERATE_REQUEST__TEMPERATURE_PRESENCE_TEMPERATURE;
    stopping.max_new_tokens = N_TOKENS;
    stopping.ignore_eos = true;
    request.stopping = &stopping;
    options.output_token_ids = true;
    request.response = &options;
    engine_begin(bed, is_stream ? "/vllm.Inference/GenerateStream" : "/vllm.Inference/Generate",
                 &request.base, &vllm__generate_response__descriptor, &reply);
    engine_await_end(&reply);
    engine_expect_wanted(bed, &reply);
    cr_expect_eq(reply.n_prompt_infos, 1);
    cr_expect_str_eq(reply.text, bed->text);
}

Test(engine_port, both_protocols_have_the_tokens_of_kvferry_v1)
{
    static struct engine_bed bed;
    static struct engine_reply reply;
    struct engine_question question;
    engine_bed_open(&bed, (const char *const[]){ENGINE_PORT, NULL});
    engine_expect_good(&bed);
    engine_question_init(&question, &bed, N_TOKENS);
    question.request.stream = false;
    engine_start(&bed, &question, &reply);
    engine_await_end(&reply);
    engine_expect_wanted(&bed, &reply);
    cr_expect_eq(reply.n_messages, 1);
    expect_inference(&bed, true);
    expect_inference(&bed, false);
    engine_bed_close(&bed);
}

Test(engine_port, an_abort_and_a_client_that_leaves_end_a_request_at_once)
{
    static struct engine_bed bed;
    static struct engine_reply replies[2];
    static char id[ID_MAX + 1];
    static char nobody[] = "nobody";
    struct engine_question question;
    engine_bed_open(&bed, (const char *const[]){ENGINE_PORT, NULL});
    memset(id, 'i', ID_MAX);
    engine_question_init(&question, &bed, LONG);
    question.request.request_id = id;
    for (int i = 0; i < 2; i++) {
        engine_start(&bed, &question, &replies[i]);
        engine_await(&replies[i], 1);
    }
    rpc_client_call_cancel(replies[1].call);
    engine_await_end(&replies[1]);
    engine_abort(&bed, (char *const[]){nobody, id, id}, 3);
    engine_await_end(&replies[0]);
    cr_expect_eq(replies[0].error.status, STATUS_OK, "%s", replies[0].error.message);
    cr_expect_str_eq(replies[0].finish, "abort");
    cr_expect_lt(replies[0].n_ids, LONG);
    cluster_wait_quiet(&bed.cluster);
    engine_expect_good(&bed);
    engine_bed_close(&bed);
}

/* ---- limits ---- */

Test(engine_port, who_does_not_read_is_ended_and_owns_nothing)
{
    static struct engine_bed bed;
    struct engine_question question;
    uint8_t packed[1024];
    engine_bed_open(&bed,
                    (const char *const[]){ENGINE_PORT, "--stream-buffer-bytes-max", "4K", NULL});
    engine_question_init(&question, &bed, LONG);
    size_t n = vllm__grpc__engine__generate_request__pack(&question.request, packed);
    int fd = raw_call_start(bed.cluster.router.engine,
                            &(struct raw_call){.path = ENGINE "Generate",
                                               .message = packed,
                                               .message_bytes = (uint16_t)n});
    requests_wait_ended(&bed.cluster, 2);
    cr_expect_eq(requests_ended(&bed.cluster, "SLOW_READER"), 1);
    cluster_wait_quiet(&bed.cluster);
    close(fd);
    engine_expect_good(&bed);
    engine_bed_close(&bed);
}

/* It answers no ping: a gateway's machine that is gone, while its request waits for a worker. */
Test(engine_port, a_gateway_that_is_dead_is_found)
{
    static struct engine_bed bed;
    struct engine_question question;
    uint8_t packed[1024];
    engine_bed_open(&bed, (const char *const[]){ENGINE_PORT, "--keepalive-ms", "1s",
                                                "--keepalive-timeout-ms", "500ms",
                                                "--wait-limit-ms", "10m", NULL});
    child_kill(&bed.cluster.generations[0]);
    engine_question_init(&question, &bed, N_TOKENS);
    size_t n = vllm__grpc__engine__generate_request__pack(&question.request, packed);
    int fd = raw_call_start(bed.cluster.router.engine,
                            &(struct raw_call){.path = ENGINE "Generate",
                                               .window = 255,
                                               .message = packed,
                                               .message_bytes = (uint16_t)n});
    requests_wait_ended(&bed.cluster, 2);
    cr_expect_eq(requests_ended(&bed.cluster, "CANCELLED"), 1);
    close(fd);
    child_restart(&bed.cluster.generations[0]);
    cluster_wait_ready(&bed.cluster, 1, 1);
    engine_expect_good(&bed);
    engine_bed_close(&bed);
}

static void expect_full(struct engine_bed *bed)
{
    static struct engine_reply reply;
    struct engine_question question;
    engine_question_init(&question, bed, N_TOKENS);
    engine_start(bed, &question, &reply);
    engine_await_end(&reply);
    engine_expect_told("a second request", &reply.error, STATUS_QUEUE_FULL, "");
    cr_expect_eq(reply.n_messages, 0);
}

static void expect_big_question_refused(struct engine_bed *bed)
{
    static struct engine_reply reply;
    static uint8_t bytes[5002] = {0x88, 0x27}; /* a length of 5000 */
    Vllm__Grpc__Engine__HealthCheckRequest big = VLLM__GRPC__ENGINE__HEALTH_CHECK_REQUEST__INIT;
    ProtobufCMessageUnknownField field = {.tag = 9,
                                          .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
                                          .len = sizeof bytes,
                                          .data = bytes};
    big.base.unknown_fields = &field;
    big.base.n_unknown_fields = 1;
    engine_begin(bed, ENGINE "HealthCheck", &big.base,
                 &vllm__grpc__engine__health_check_response__descriptor, &reply);
    engine_await_end(&reply);
    cr_expect_neq(reply.error.status, STATUS_OK);
}

Test(engine_port, what_is_too_much_is_refused_before_the_first_message)
{
    static struct engine_bed bed;
    static struct engine_reply running;
    struct engine_question question;
    engine_bed_open(
        &bed, (const char *const[]){ENGINE_PORT, "--requests-max", "1", "--wait-max", "0", NULL});
    engine_question_init(&question, &bed, LONG);
    engine_start(&bed, &question, &running);
    engine_await(&running, 1);
    expect_full(&bed);
    expect_big_question_refused(&bed);
    rpc_client_call_cancel(running.call);
    engine_await_end(&running);
    cluster_wait_quiet(&bed.cluster);
    engine_expect_good(&bed);
    engine_bed_close(&bed);
}

/* ---- draining ---- */

static bool healthy;
static int health_status;

static void take_health(void *arg, const ProtobufCMessage *message)
{
    (void)arg;
    if (message->descriptor == &vllm__grpc__engine__health_check_response__descriptor)
        healthy = ((const Vllm__Grpc__Engine__HealthCheckResponse *)message)->healthy;
    else
        health_status = (int)((const Grpc__Health__V1__HealthCheckResponse *)message)->status;
}

static void ask_health(struct engine_bed *bed, const char *path, const ProtobufCMessage *message,
                       const ProtobufCMessageDescriptor *response)
{
    struct rpc_error error;
    const struct rpc_request request = {.path = path,
                                        .message = message,
                                        .response = response,
                                        .deadline_ns = clock_now_ns() + ENGINE_LIMIT_MS * NS_PER_MS,
                                        .on_message = take_health};
    cr_assert_eq(rpc_channel_call_wait(bed->port.channel, &request, &error), STATUS_OK, "%s",
                 error.message);
}

static bool is_healthy(struct engine_bed *bed)
{
    const Vllm__Grpc__Engine__HealthCheckRequest request =
        VLLM__GRPC__ENGINE__HEALTH_CHECK_REQUEST__INIT;
    ask_health(bed, ENGINE "HealthCheck", &request.base,
               &vllm__grpc__engine__health_check_response__descriptor);
    return healthy;
}

static void expect_health(struct engine_bed *bed, int status)
{
    static char names[][32] = {"", "vllm.Inference", "vllm.Control", "vllm.grpc.engine.VllmEngine"};
    for (size_t i = 0; i < 4; i++) {
        Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
        request.service = names[i];
        ask_health(bed, "/grpc.health.v1.Health/Check", &request.base,
                   &grpc__health__v1__health_check_response__descriptor);
        cr_expect_eq(health_status, status, "%s", names[i]);
    }
}

static void close_drained(struct engine_bed *bed)
{
    int status = child_wait(&bed->cluster.router, ENGINE_LIMIT_MS);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "wait status %d", status);
    engine_bed_close(bed);
}

/* A stopped worker is not lost. */
#define PATIENT "--poll-limit-ms", "60s"

Test(engine_port, a_drain_is_told_and_what_runs_ends_well)
{
    static struct engine_bed bed;
    static struct engine_reply running;
    struct engine_question question;
    engine_bed_open(&bed,
                    (const char *const[]){ENGINE_PORT, "--drain-delay-ms", "2s", PATIENT, NULL});
    cr_expect(is_healthy(&bed));
    expect_health(&bed, GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING);
    engine_question_init(&question, &bed, LONG);
    engine_start(&bed, &question, &running);
    engine_await(&running, 1);
    cr_assert_eq(kill(bed.cluster.generations[0].pid, SIGSTOP), 0);
    child_signal(&bed.cluster.router, SIGTERM);
    uint64_t until_ns = clock_now_ns() + ENGINE_LIMIT_MS * NS_PER_MS;
    while (is_healthy(&bed))
        cr_assert_lt(clock_now_ns(), until_ns, "it stays healthy");
    expect_health(&bed, GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING);
    cr_assert_eq(kill(bed.cluster.generations[0].pid, SIGCONT), 0);
    engine_await_end(&running);
    cr_expect_eq(running.error.status, STATUS_OK, "%s", running.error.message);
    cr_expect_eq(running.n_ids, LONG);
    close_drained(&bed);
}

Test(engine_port, a_second_signal_ends_what_runs_with_a_status)
{
    static struct engine_bed bed;
    static struct engine_reply running;
    struct engine_question question;
    engine_bed_open(&bed,
                    (const char *const[]){ENGINE_PORT, "--drain-delay-ms", "10m", PATIENT, NULL});
    engine_question_init(&question, &bed, LONG);
    engine_start(&bed, &question, &running);
    engine_await(&running, 1);
    cr_assert_eq(kill(bed.cluster.generations[0].pid, SIGSTOP), 0);
    child_signal(&bed.cluster.router, SIGTERM);
    uint64_t until_ns = clock_now_ns() + ENGINE_LIMIT_MS * NS_PER_MS;
    while (is_healthy(&bed))
        cr_assert_lt(clock_now_ns(), until_ns, "it stays healthy");
    child_signal(&bed.cluster.router, SIGTERM);
    engine_await_end(&running);
    cr_expect_eq(status_grpc_code(running.error.status), status_grpc_code(STATUS_DRAINING), "%s",
                 running.error.message);
    cr_assert_eq(kill(bed.cluster.generations[0].pid, SIGCONT), 0);
    close_drained(&bed);
}
