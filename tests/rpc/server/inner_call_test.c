/* Calls of an inner service over a real connection: without the key they reach no handler, and a server
 * without it hands nothing over. */
#include "tests/rpc/support/probe.h"
#include "tests/rpc/support/raw_call.h"
#include "tests/rpc/support/test_key.h"

#include <string.h>
#include <unistd.h>

#define LIFE 4711

static struct call_auth *auth_of(struct cluster_key *key, uint64_t life)
{
    struct call_auth_options options = {.key = key, .life = life, .nonces_max = 64};
    struct call_auth *auth;
    cr_assert_eq(call_auth_create(&options, &auth), STATUS_OK);
    return auth;
}

static enum status stream(struct probe *probe, struct outcome *outcome)
{
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    ask.count = 3;
    outcome_init(outcome);
    struct rpc_request request = probe_request("Count", &ask.base, outcome);
    request.is_stream = true;
    cr_assert_eq(rpc_channel_start(probe->channel, &request, NULL), STATUS_OK);
    outcome_wait_end(outcome);
    return outcome->error.status;
}

Test(inner_call, both_ends_know_the_key_and_the_life_is_learnt)
{
    struct cluster_key *key = test_key(1);
    struct call_auth *auth = auth_of(key, LIFE);
    struct probe probe;
    struct outcome outcome;
    struct rpc_error error;
    probe_start_inner(&probe, auth, key);
    cr_expect_eq(rpc_channel_life(probe.channel), 0);
    cr_expect_eq(probe_echo(&probe, "first", &error), STATUS_STALE_PEER, "%s", error.message);
    cr_expect_eq(rpc_channel_life(probe.channel), LIFE);
    cr_expect_eq(probe_echo(&probe, "second", &error), STATUS_OK, "%s", error.message);
    cr_expect_eq(stream(&probe, &outcome), STATUS_OK);
    cr_expect_eq(outcome.n_messages, 3);
    cr_expect(outcome.is_in_order);
    outcome_finish(&outcome);

    pthread_mutex_lock(&probe.lock);
    rpc_error_set(&probe.fail_with, STATUS_GEOMETRY_MISMATCH, "field", "17", "they differ");
    pthread_mutex_unlock(&probe.lock);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    struct rpc_request request = probe_request("Fail", &ask.base, NULL);
    request.on_end = NULL;
    request.on_message = NULL;
    cr_expect_eq(rpc_channel_call_wait(probe.channel, &request, &error), STATUS_GEOMETRY_MISMATCH);
    cr_expect_str_eq(error.field, "field");
    probe_stop(&probe);
    call_auth_destroy(auth);
    cluster_key_destroy(key);
}

static void expect_unauthenticated(struct cluster_key *servers, struct cluster_key *clients)
{
    struct call_auth *auth = auth_of(servers, LIFE);
    struct probe probe;
    struct outcome outcome;
    struct rpc_error error;
    probe_start_inner(&probe, auth, clients);
    cr_expect_eq(probe_echo(&probe, "hello", &error), STATUS_UNAUTHENTICATED, "%s", error.message);
    cr_expect_eq(stream(&probe, &outcome), STATUS_UNAUTHENTICATED);
    cr_expect_eq(outcome.n_messages, 0);
    outcome_finish(&outcome);
    cr_expect_eq(probe_last_call(&probe).request_id[0], '\0', "a handler ran");
    cr_expect_eq(call_auth_refused(auth, CALL_REFUSED_UNPROVEN), 2);
    cr_expect_eq(rpc_channel_life(probe.channel), 0);
    probe_stop(&probe);
    call_auth_destroy(auth);
}

Test(inner_call, without_the_key_or_with_another_no_handler_runs)
{
    struct cluster_key *key = test_key(1), *other = test_key(2);
    expect_unauthenticated(key, NULL);
    expect_unauthenticated(key, other);
    cluster_key_destroy(key);
    cluster_key_destroy(other);
}

/* A server for everybody answers everything, and proves nothing. */
Test(inner_call, nothing_is_taken_of_a_server_that_does_not_prove_itself)
{
    struct cluster_key *key = test_key(1);
    struct probe probe;
    struct outcome outcome;
    struct rpc_error error;
    probe_start_inner(&probe, NULL, key);
    cr_expect_eq(probe_echo(&probe, "hello", &error), STATUS_UNAUTHENTICATED, "%s", error.message);
    cr_expect_eq(stream(&probe, &outcome), STATUS_UNAUTHENTICATED);
    cr_expect_eq(outcome.n_messages, 0);
    outcome_finish(&outcome);
    /* Nor its typed errors: they would make us distrust honest ones. */
    pthread_mutex_lock(&probe.lock);
    rpc_error_set(&probe.fail_with, STATUS_GEOMETRY_MISMATCH, NULL, NULL, "lies");
    pthread_mutex_unlock(&probe.lock);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    struct rpc_request request = probe_request("Fail", &ask.base, NULL);
    request.on_end = NULL;
    request.on_message = NULL;
    cr_expect_eq(rpc_channel_call_wait(probe.channel, &request, &error), STATUS_UNAUTHENTICATED);
    cr_expect_null(strstr(error.message, "lies"));
    probe_stop(&probe);
    cluster_key_destroy(key);
}

Test(inner_call, nobody_there_is_still_peer_lost)
{
    struct cluster_key *key = test_key(1);
    struct call_auth *auth = auth_of(key, LIFE);
    struct probe probe;
    struct rpc_error error;
    struct rpc_channel *nobody;
    probe_start_inner(&probe, auth, key);
    cr_assert_eq(rpc_channel_open(probe.client, "127.0.0.1:1", &nobody), STATUS_OK);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    struct rpc_request request = probe_request("Echo", &ask.base, NULL);
    request.wait_for_ready = false;
    request.on_end = NULL;
    request.on_message = NULL;
    cr_expect_eq(rpc_channel_call_wait(nobody, &request, &error), STATUS_PEER_LOST);
    rpc_channel_close(nobody);
    probe_stop(&probe);
    call_auth_destroy(auth);
    cluster_key_destroy(key);
}

Test(inner_call, without_the_key_it_is_refused_before_its_message_has_come)
{
    struct cluster_key *key = test_key(1);
    struct call_auth *auth = auth_of(key, LIFE);
    struct probe probe;
    probe_start_inner(&probe, auth, NULL);
    const struct raw_call half = {
        .path = "/kvferry.probe.Probe/Echo", .window = 255, .is_half = true};
    int fd = raw_call_start(rpc_server_port(probe.server), &half);
    cr_expect(raw_call_await_trailers(fd));
    cr_expect_eq(call_auth_refused(auth, CALL_REFUSED_UNPROVEN), 1);
    close(fd);
    probe_stop(&probe);
    call_auth_destroy(auth);
    cluster_key_destroy(key);
}
