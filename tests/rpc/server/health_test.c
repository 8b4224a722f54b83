/* health: Check and Watch as grpc.health.v1 says, and a drain ends every watch. */
#include "grpc/health/v1/health.pb-c.h"
#include "tests/rpc/support/probe.h"

#include <string.h>

TestSuite(health, .timeout = 60);

#define SERVING         GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

/* What a health stream has said so far. */
struct heard {
    struct outcome outcome;
    int statuses[64];
};

static void hear(void *arg, const ProtobufCMessage *message)
{
    struct heard *heard = arg;
    struct outcome *outcome = &heard->outcome;
    pthread_mutex_lock(&outcome->lock);
    if (outcome->n_messages < 64)
        heard->statuses[outcome->n_messages] =
            (int)((const Grpc__Health__V1__HealthCheckResponse *)message)->status;
    outcome->n_messages++;
    pthread_cond_broadcast(&outcome->changed);
    pthread_mutex_unlock(&outcome->lock);
}

static struct rpc_request health_request(const char *service, bool is_watch, struct heard *heard,
                                         Grpc__Health__V1__HealthCheckRequest *message)
{
    Kvferry__Probe__Ask unused = KVFERRY__PROBE__ASK__INIT;
    outcome_init(&heard->outcome);
    struct rpc_request request = probe_request("Echo", &unused.base, &heard->outcome);
    grpc__health__v1__health_check_request__init(message);
    message->service = (char *)service;
    request.path = is_watch ? "/grpc.health.v1.Health/Watch" : "/grpc.health.v1.Health/Check";
    request.message = &message->base;
    request.response = &grpc__health__v1__health_check_response__descriptor;
    request.is_stream = is_watch;
    request.on_message = hear;
    return request;
}

static enum status check(struct probe *probe, const char *service, int *serving_out)
{
    struct heard heard;
    struct rpc_error error;
    Grpc__Health__V1__HealthCheckRequest message;
    struct rpc_request request = health_request(service, false, &heard, &message);
    request.on_end = NULL;
    enum status status = rpc_channel_call_wait(probe->channel, &request, &error);
    *serving_out = heard.statuses[0];
    outcome_finish(&heard.outcome);
    return status;
}

static struct rpc_client_call *watch(struct probe *probe, const char *service, struct heard *heard)
{
    Grpc__Health__V1__HealthCheckRequest message;
    struct rpc_client_call *call;
    struct rpc_request request = health_request(service, true, heard, &message);
    cr_assert_eq(rpc_channel_start(probe->channel, &request, &call), STATUS_OK);
    outcome_wait_messages(&heard->outcome, 1);
    return call;
}

Test(health, check_follows_set)
{
    struct probe probe;
    int serving;
    probe_start(&probe, NULL);
    cr_assert_eq(check(&probe, "", &serving), STATUS_OK);
    cr_assert_eq(serving, SERVING);
    cr_assert_eq(check(&probe, "readiness", &serving), STATUS_NOT_FOUND);
    rpc_health_set(probe.health, "readiness", false);
    cr_assert_eq(check(&probe, "readiness", &serving), STATUS_OK);
    cr_assert_eq(serving, NOT_SERVING);
    rpc_health_set(probe.health, "readiness", true);
    cr_assert_eq(check(&probe, "readiness", &serving), STATUS_OK);
    cr_assert_eq(serving, SERVING);
    probe_stop(&probe);
}

Test(health, watch_sends_each_change_once_and_in_order)
{
    struct probe probe;
    struct heard heard;
    probe_start(&probe, NULL);
    struct rpc_client_call *call = watch(&probe, "readiness", &heard);
    cr_assert_eq(heard.statuses[0], SERVICE_UNKNOWN);
    for (int i = 0; i < 20; i++) {
        rpc_health_set(probe.health, "readiness", i % 2 == 0);
        rpc_health_set(probe.health, "readiness", i % 2 == 0); /* no change */
        rpc_health_set(probe.health, "other", i % 2 == 0);
    }
    outcome_wait_messages(&heard.outcome, 21);
    for (int i = 0; i < 20; i++)
        cr_assert_eq(heard.statuses[i + 1], i % 2 == 0 ? SERVING : NOT_SERVING);
    rpc_client_call_cancel(call);
    outcome_wait_end(&heard.outcome);
    cr_assert_eq(heard.outcome.n_messages, 21);
    cr_assert_eq(heard.outcome.error.status, STATUS_CANCELLED);
    rpc_client_call_release(call);
    outcome_finish(&heard.outcome);
    probe_stop(&probe);
}

Test(health, a_drain_tells_not_serving_and_ends_the_watches)
{
    enum { N_WATCHES = 20 };
    struct probe probe;
    static struct heard heard[N_WATCHES];
    int serving;
    probe_start(&probe, NULL);
    for (int i = 0; i < N_WATCHES; i++)
        rpc_client_call_release(watch(&probe, "", &heard[i]));
    rpc_server_drain(probe.server, PROBE_WAIT_S * NS_PER_S);
    for (int i = 0; i < N_WATCHES; i++) {
        outcome_wait_end(&heard[i].outcome);
        cr_assert_eq(heard[i].outcome.n_messages, 2);
        cr_assert_eq(heard[i].statuses[0], SERVING);
        cr_assert_eq(heard[i].statuses[1], NOT_SERVING);
        cr_assert_eq(heard[i].outcome.error.status, STATUS_DRAINING);
        outcome_finish(&heard[i].outcome);
    }
    cr_assert_eq(check(&probe, "", &serving), STATUS_OK, "Check is answered during a drain");
    cr_assert_eq(serving, NOT_SERVING);
    rpc_health_set(probe.health, "", true);
    cr_assert_eq(check(&probe, "", &serving), STATUS_OK);
    cr_assert_eq(serving, NOT_SERVING, "a drain is for good");
    probe_stop(&probe);
}

Test(health, a_long_name_is_refused_by_watch)
{
    struct probe probe;
    struct heard heard;
    char name[200];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    probe_start(&probe, NULL);
    Grpc__Health__V1__HealthCheckRequest message;
    struct rpc_request request = health_request(name, true, &heard, &message);
    cr_assert_eq(rpc_channel_start(probe.channel, &request, NULL), STATUS_OK);
    outcome_wait_end(&heard.outcome);
    cr_assert_eq(heard.outcome.error.status, STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(heard.outcome.error.field, "service");
    outcome_finish(&heard.outcome);
    probe_stop(&probe);
}
