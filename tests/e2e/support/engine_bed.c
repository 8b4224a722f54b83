#include "engine_bed.h"

#include "base/clock.h"
#include "proto/vllm/inference.pb-c.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* ---- the cluster ---- */

static void ask_v1(struct engine_bed *bed)
{
    static struct generation reply;
    reply = (struct generation){
        .tokens = bed->prompt, .n_tokens = N_PROMPT, .max_tokens = N_TOKENS, .ignore_eos = true};
    client_run(bed->client, &reply);
    cr_assert_eq(reply.n_generated, N_TOKENS);
    memcpy(bed->wanted, reply.generated, sizeof bed->wanted);
    cr_assert_lt(reply.n_text_out, sizeof bed->text);
    memcpy(bed->text, reply.text_out, reply.n_text_out + 1);
}

void engine_bed_open(struct engine_bed *bed, const char *const *router)
{
    memset(bed, 0, sizeof *bed);
    cluster_start(&bed->cluster,
                  &(struct cluster_options){.n_contexts = 1, .n_generations = 1, .router = router});
    prompt_tokens(7, bed->prompt, N_PROMPT);
    bed->client = client_create(bed->cluster.router.grpc);
    dial_open(&bed->port, "gateway", bed->cluster.router.engine);
    ask_v1(bed);
}

void engine_bed_close(struct engine_bed *bed)
{
    struct child *worker = &bed->cluster.generations[0];
    cluster_wait_quiet(&bed->cluster);
    cr_expect_eq(child_metric(worker, "kvferry_kv_blocks_unowned", ""), 0);
    cr_expect_gt(child_metric(worker, "kvferry_kv_transfer_bytes_total", ""), 0);
    dial_close(&bed->port);
    client_destroy(bed->client);
    cluster_stop(&bed->cluster);
}

/* ---- calls ---- */

static void add_ids(struct engine_reply *reply, const uint32_t *ids, size_t n)
{
    cr_assert_leq(reply->n_ids + n, TOKENS_MAX);
    for (size_t i = 0; i < n; i++)
        reply->ids[reply->n_ids++] = ids[i];
}

static void take_engine(struct engine_reply *reply,
                        const Vllm__Grpc__Engine__GenerateResponse *response)
{
    if (response->response_case == VLLM__GRPC__ENGINE__GENERATE_RESPONSE__RESPONSE_CHUNK) {
        add_ids(reply, response->chunk->token_ids, response->chunk->n_token_ids);
        return;
    }
    const Vllm__Grpc__Engine__GenerateComplete *complete = response->complete;
    add_ids(reply, complete->output_ids, complete->n_output_ids);
    snprintf(reply->finish, sizeof reply->finish, "%s", complete->finish_reason);
    reply->n_ends++;
}

static void take_inference(struct engine_reply *reply, const Vllm__GenerateResponse *response)
{
    const Vllm__SequenceOutput *outputs = response->outputs;
    reply->n_prompt_infos += response->prompt_info != NULL;
    add_ids(reply, outputs->token_ids, outputs->n_token_ids);
    cr_assert_lt(reply->n_text + outputs->text.len, sizeof reply->text);
    if (outputs->text.len > 0)
        memcpy(reply->text + reply->n_text, outputs->text.data, outputs->text.len);
    reply->n_text += outputs->text.len;
    reply->n_ends += outputs->finish_info != NULL;
}

static void on_message(void *arg, const ProtobufCMessage *message)
{
    struct engine_reply *reply = arg;
    if (message->descriptor == &vllm__grpc__engine__generate_response__descriptor)
        take_engine(reply, (const Vllm__Grpc__Engine__GenerateResponse *)message);
    else if (message->descriptor == &vllm__generate_response__descriptor)
        take_inference(reply, (const Vllm__GenerateResponse *)message);
    reply->n_messages++;
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct engine_reply *reply = arg;
    reply->error = *error;
    reply->is_over = true;
}

void engine_begin(struct engine_bed *bed, const char *path, const ProtobufCMessage *message,
                  const ProtobufCMessageDescriptor *response, struct engine_reply *reply)
{
    const struct rpc_request request = {
        .path = path,
        .message = message,
        .response = response,
        .is_stream = strstr(path, "Generate") && strcmp(path, "/vllm.Inference/Generate") != 0,
        .deadline_ns = clock_now_ns() + ENGINE_LIMIT_MS * NS_PER_MS,
        .on_message = on_message,
        .on_end = on_end,
        .arg = reply,
    };
    memset(reply, 0, sizeof *reply);
    cr_assert_eq(rpc_channel_start(bed->port.channel, &request, &reply->call), STATUS_OK);
}

void engine_await(struct engine_reply *reply, uint32_t n_messages)
{
    uint64_t until_ns = clock_now_ns() + ENGINE_LIMIT_MS * NS_PER_MS;
    while (!reply->is_over && reply->n_messages < n_messages) {
        cr_assert_lt(clock_now_ns(), until_ns, "%u messages came", reply->n_messages);
        (void)poll(NULL, 0, 2);
    }
}

void engine_await_end(struct engine_reply *reply)
{
    engine_await(reply, UINT32_MAX);
    rpc_client_call_release(reply->call);
    reply->call = NULL;
}

void engine_question_init(struct engine_question *question, struct engine_bed *bed,
                          uint32_t max_tokens)
{
    vllm__grpc__engine__generate_request__init(&question->request);
    vllm__grpc__engine__tokenized_input__init(&question->tokenized);
    vllm__grpc__engine__sampling_params__init(&question->sampling);
    question->request.input_case = VLLM__GRPC__ENGINE__GENERATE_REQUEST__INPUT_TOKENIZED;
    question->request.tokenized = &question->tokenized;
    question->request.sampling_params = &question->sampling;
    question->request.stream = true;
    question->tokenized.input_ids = bed->prompt;
    question->tokenized.n_input_ids = N_PROMPT;
    question->sampling.temperature_presence_case =
        VLLM__GRPC__ENGINE__SAMPLING_PARAMS__TEMPERATURE_PRESENCE_TEMPERATURE;
    question->sampling.max_tokens_presence_case =
        VLLM__GRPC__ENGINE__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    question->sampling.max_tokens = max_tokens;
    question->sampling.ignore_eos = true;
}

void engine_start(struct engine_bed *bed, const struct engine_question *question,
                  struct engine_reply *reply)
{
    engine_begin(bed, ENGINE "Generate", &question->request.base,
                 &vllm__grpc__engine__generate_response__descriptor, reply);
}

void engine_expect_wanted(struct engine_bed *bed, const struct engine_reply *reply)
{
    cr_assert_eq(reply->error.status, STATUS_OK, "%s", reply->error.message);
    cr_assert_eq(reply->n_ids, N_TOKENS, "%u tokens", reply->n_ids);
    cr_expect_arr_eq(reply->ids, bed->wanted, sizeof bed->wanted);
    cr_expect_eq(reply->n_ends, 1);
}

void engine_expect_good(struct engine_bed *bed)
{
    static struct engine_reply reply;
    struct engine_question question;
    engine_question_init(&question, bed, N_TOKENS);
    engine_start(bed, &question, &reply);
    engine_await_end(&reply);
    engine_expect_wanted(bed, &reply);
    cr_expect_str_eq(reply.finish, "length");
}

void engine_expect_told(const char *what, const struct rpc_error *error, enum status like,
                        const char *named)
{
    cr_expect_eq(status_grpc_code(error->status), status_grpc_code(like), "%s: %s (%s)", what,
                 status_name(error->status), error->message);
    cr_expect(strstr(error->message, named) || strstr(error->field, named), "%s: no %s in: %s",
              what, named, error->message);
    cr_expect_null(strstr(error->message, "127.0.0.1"), "%s: %s", what, error->message);
}

void engine_abort(struct engine_bed *bed, char *const *ids, size_t n)
{
    static struct engine_reply reply;
    Vllm__Grpc__Engine__AbortRequest request = VLLM__GRPC__ENGINE__ABORT_REQUEST__INIT;
    request.request_ids = (char **)(uintptr_t)ids;
    request.n_request_ids = n;
    engine_begin(bed, ENGINE "Abort", &request.base,
                 &vllm__grpc__engine__abort_response__descriptor, &reply);
    engine_await_end(&reply);
    cr_assert_eq(reply.error.status, STATUS_OK, "%s", reply.error.message);
}
