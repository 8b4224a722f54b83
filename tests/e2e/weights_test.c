/* K and V of other weights are not this model's, be they rounded or spoilt by one bit: a generation
 * worker and a context worker whose weights differ refuse each other by name, nothing of the request
 * stays owned, tokens stay right, and the same processes serve when their weights agree again. */

#include "base/clock.h"
#include "proto/kvferry/internal/v1/generation_worker.pb-c.h"
#include "rpc/client/client.h"
#include "support/client.h"
#include "support/cluster.h"
#include "support/command.h"
#include "support/inner.h"
#include "support/model_copy.h"
#include "support/sampling.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { N_PROMPT = 100, N_DECODED = 4, DECODE_SEED = 7 };

static const char *const BOTH[] = {"--weights", "auto", NULL};
/* Every prompt must cross: a request that cannot is refused and not computed here. */
static const char *const GENERATION[] = {"--local-prefill-max-tokens", "0", "--no-prefix-cache",
                                         "--no-local-prefill", NULL};
static const char *const ROUTER[] = {"--no-local-prefill", "--wait-max", "0", NULL};

static void restart_with_weights(struct child *child, const char *weights)
{
    uint32_t i = 0;
    while (i < child->n_arguments && strcmp(child->arguments[i], "--weights") != 0)
        i++;
    cr_assert_lt(i + 1, child->n_arguments);
    snprintf(child->arguments[i + 1], sizeof child->arguments[i + 1], "%s", weights);
    child_stop(child);
    child_restart(child);
}

/* A prompt through the router: expected says how many of its tokens cross. */
static void serve_one(const struct cluster *cluster, uint64_t seed, uint32_t expected,
                      struct generation *generation_out)
{
    uint32_t prompt[N_PROMPT];
    prompt_tokens(seed, prompt, N_PROMPT);
    struct client *client = client_create(cluster->router.grpc);
    *generation_out = (struct generation){
        .tokens = prompt, .n_tokens = N_PROMPT, .max_tokens = N_DECODED, .ignore_eos = true};
    client_run(client, generation_out);
    cr_assert_eq(generation_out->kv_tokens_received, expected);
    client_destroy(client);
}

struct decoded {
    uint32_t n_tokens;
    uint32_t tokens[N_DECODED];
};

static void on_decoded(void *arg, const ProtobufCMessage *message)
{
    struct decoded *decoded = arg;
    const Kvferry__Internal__V1__DecodeResponse
        *response = (const Kvferry__Internal__V1__DecodeResponse *)message;
    for (size_t i = 0; i < response->n_token_ids && decoded->n_tokens < N_DECODED; i++)
        decoded->tokens[decoded->n_tokens++] = response->token_ids[i];
}

/* What the router would ask, asked of the generation worker itself. */
static struct rpc_error decode(const struct cluster *cluster, const char *request_id,
                               struct decoded *decoded_out)
{
    uint32_t prompt[N_PROMPT];
    char context[32];
    struct rpc_runtime *runtime;
    struct inner inner;
    struct rpc_channel *channel;
    Kvferry__V1__SamplingParams sampling;
    Kvferry__Internal__V1__DecodeRequest message = KVFERRY__INTERNAL__V1__DECODE_REQUEST__INIT;
    prompt_tokens(DECODE_SEED, prompt, N_PROMPT);
    snprintf(context, sizeof context, "%s", address_of(cluster->contexts[0].control));
    sampling_complete(&sampling);
    message.request_id = (char *)request_id;
    message.sampling = &sampling;
    message.token_ids = prompt;
    message.n_token_ids = N_PROMPT;
    message.context_worker = context;
    struct rpc_request request = {
        .path = "/kvferry.internal.v1.GenerationWorkerService/Decode",
        .message = &message.base,
        .response = &kvferry__internal__v1__decode_response__descriptor,
        .is_stream = true,
        .deadline_ns = clock_now_ns() + 30 * NS_PER_S,
        .on_message = on_decoded,
        .arg = decoded_out,
    };
    struct rpc_error error;
    decoded_out->n_tokens = 0;
    cr_assert_eq(rpc_runtime_create("weights", NULL, &runtime), STATUS_OK);
    inner_open(&inner, runtime);
    channel = inner_channel(&inner, cluster->generations[0].control);
    (void)!rpc_channel_call_wait(channel, &request, &error);
    rpc_channel_close(channel);
    inner_close(&inner);
    rpc_runtime_destroy(runtime);
    return error;
}

/* What `ps` prints under the line of a worker of that port. */
static const char *line_under(uint16_t port)
{
    static char line[256];
    const char *found = strstr(last_command.out, address_of(port));
    found = found ? strchr(found, '\n') : NULL;
    snprintf(line, sizeof line, "%.*s", found ? (int)strcspn(found + 1, "\n") : 0,
             found ? found + 1 : "");
    return line;
}

/* The generation worker says which model is served: it is the context worker that does not fit. */
static void wait_until_router_refuses(const struct cluster *cluster)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    do {
        cr_assert_lt(clock_now_ns(), until_ns, "never judged: %s", last_command.out);
        RUN("ps", "--control", address_of(cluster->router.control));
        EXPECT_OK();
    } while (!strstr(line_under(cluster->contexts[0].control), "does not use it: its model is "));
}

TestSuite(weights, .init = command_folder_make, .fini = command_folder_remove);

Test(weights, workers_that_round_differently_refuse_each_other_by_name)
{
    struct cluster cluster;
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1,
                                                      .n_generations = 1,
                                                      .both = BOTH,
                                                      .generation = GENERATION,
                                                      .router = ROUTER});
    struct child *worker = &cluster.generations[0];
    struct generation generation;
    serve_one(&cluster, 1, N_PROMPT, &generation);

    restart_with_weights(worker, "int8");
    struct decoded decoded;
    for (uint32_t i = 0; i < 3; i++) {
        struct rpc_error error = decode(&cluster, "mismatch", &decoded);
        cr_assert_eq(error.status, STATUS_TRANSFER_FAILED, "%s: %s", status_name(error.status),
                     error.message);
        cr_assert(strstr(error.message, "model_digest"), "%s", error.message);
    }
    cluster_wait_quiet(&cluster);
    cr_assert_eq(child_metric(worker, "kvferry_kv_transfer_bytes_total", ""), 0);

    wait_until_router_refuses(&cluster);
    RUN("generate", "--server", address_of(cluster.router.grpc), "In the beginning");
    expect_refused("no context worker is ready");

    restart_with_weights(worker, "auto");
    cluster_wait_ready(&cluster, 1, 1);
    serve_one(&cluster, 2, N_PROMPT, &generation);
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
}

/* A worker that has come back with another folder, at the same address. */
static void restart_with_model(struct child *child, const char *folder)
{
    snprintf(child->arguments[1], sizeof child->arguments[1], "%s", folder);
    child_stop(child);
    child_restart(child);
}

Test(weights, one_bit_in_the_middle_of_a_tensor_is_another_model)
{
    static const char *const FLAGS[] = {"--local-prefill-max-tokens", "0", "--no-prefix-cache",
                                        NULL};
    struct cluster cluster;
    struct generation right, again;
    struct decoded decoded;
    cluster_start(&cluster, &(struct cluster_options){
                                .n_contexts = 1, .n_generations = 1, .generation = FLAGS});
    struct child *worker = &cluster.generations[0];
    serve_one(&cluster, DECODE_SEED, N_PROMPT, &right);
    double crossed = child_metric(worker, "kvferry_kv_transfer_bytes_total", "");
    cr_assert_gt(crossed, 0);

    model_copy_make();
    model_copy_flip("model.layers.2.self_attn.v_proj.weight");
    restart_with_model(&cluster.contexts[0], in_folder("model"));
    struct rpc_error error = decode(&cluster, "spoilt", &decoded);
    cr_assert_eq(error.status, STATUS_OK, "%s: %s", status_name(error.status), error.message);
    cr_assert_arr_eq(decoded.tokens, right.generated, sizeof decoded.tokens);
    cr_assert_eq(child_metric(worker, "kvferry_kv_transfer_bytes_total", ""), crossed);
    cr_assert(child_log_wait(worker, "KV layout: model_digest is "));

    wait_until_router_refuses(&cluster);
    serve_one(&cluster, DECODE_SEED, 0, &again);
    cr_assert_arr_eq(again.generated, right.generated, sizeof decoded.tokens);

    restart_with_model(&cluster.contexts[0], KVFERRY_DEMO_MODEL);
    cluster_wait_ready(&cluster, 1, 1);
    serve_one(&cluster, 8, N_PROMPT, &again);
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
}

static bool has_token(const uint32_t *tokens, uint32_t token)
{
    for (uint32_t i = 0; i < N_PROMPT; i++)
        if (tokens[i] == token)
            return true;
    return false;
}

/* Two prompts at once, of which the first has a token that overflows: whoever computes them. */
static void expect_one_to_overflow(struct cluster *cluster, struct child *computing,
                                   const uint32_t *bad, const uint32_t *good)
{
    struct client *client = client_create(cluster->router.grpc);
    struct generation overflowing = {.tokens = bad,
                                     .n_tokens = N_PROMPT,
                                     .max_tokens = N_DECODED,
                                     .ignore_eos = true,
                                     .request_id = "overflowing"};
    struct generation served = {
        .tokens = good, .n_tokens = N_PROMPT, .max_tokens = N_DECODED, .ignore_eos = true};
    client_start(client, &overflowing);
    client_start(client, &served);
    cr_assert(client_wait(client, &overflowing, 60000) && client_wait(client, &served, 60000));
    cr_assert_eq(overflowing.error.status, STATUS_LOGITS_NOT_FINITE, "%s: %s",
                 status_name(overflowing.error.status), overflowing.error.message);
    cr_assert(strstr(overflowing.error.message, "after 100 tokens the logit of token "), "%s",
              overflowing.error.message);
    cr_assert_eq(overflowing.n_generated, 0);
    cr_assert_eq(served.error.status, STATUS_OK, "%s", served.error.message);
    cr_assert_eq(served.n_generated, N_DECODED);
    client_destroy(client);
    cluster_wait_quiet(cluster);
    cr_assert(child_log_wait(computing, "logits are not finite"));
    cr_assert_eq(child_metric(computing, "kvferry_logit_rows_not_finite_total", ""), 1);
}

Test(weights, a_request_whose_logits_overflow_ends_alone_wherever_it_is_computed)
{
    static const char *const LOCAL[] = {"--local-prefill-max-tokens", "1000", NULL};
    uint32_t bad[N_PROMPT], good[N_PROMPT], i = 0;
    struct cluster cluster;
    prompt_tokens(21, bad, N_PROMPT);
    prompt_tokens(22, good, N_PROMPT);
    while (i < N_PROMPT && has_token(good, bad[i]))
        i++;
    cr_assert_lt(i, N_PROMPT);
    model_copy_make();
    model_copy_overflow(bad[i]);
    for (int is_split = 0; is_split < 2; is_split++) {
        cluster_start(&cluster,
                      &(struct cluster_options){.model = in_folder("model"),
                                                .n_contexts = 1,
                                                .n_generations = 1,
                                                .generation = is_split ? GENERATION : LOCAL});
        expect_one_to_overflow(&cluster, is_split ? &cluster.contexts[0] : &cluster.generations[0],
                               bad, good);
        cluster_stop(&cluster);
    }
}
