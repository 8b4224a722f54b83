/*
 * engine_bed - a cluster whose router has a port of gateways, and a gateway of the test's own before it.
 *
 * Asserts (Criterion) on anything unexpected.
 */
#pragma once

#include "client.h"
#include "cluster.h"
#include "dial.h"
#include "proto/vllm/grpc/engine/vllm_engine.pb-c.h"

#include <stdatomic.h>

enum { N_PROMPT = 64, N_TOKENS = 12, ENGINE_LIMIT_MS = 60000 };

#define ENGINE      "/vllm.grpc.engine.VllmEngine/"
#define ENGINE_PORT "--engine-address", "127.0.0.1:0"

/* What has come of a call. */
struct engine_reply {
    _Atomic uint32_t n_messages;
    _Atomic bool is_over;
    uint32_t ids[TOKENS_MAX], n_ids, n_ends, n_prompt_infos;
    char finish[16], text[4096];
    size_t n_text;
    struct rpc_error error;
    struct rpc_client_call *call;
};

struct engine_bed {
    struct cluster cluster;
    struct client *client; /* of the public port */
    struct dial port;      /* of gateways */
    uint32_t prompt[N_PROMPT];
    uint32_t wanted[N_TOKENS]; /* what kvferry.v1 answers to it */
    char text[256];
};

struct engine_question {
    Vllm__Grpc__Engine__GenerateRequest request;
    Vllm__Grpc__Engine__TokenizedInput tokenized;
    Vllm__Grpc__Engine__SamplingParams sampling;
};

/* router: its arguments, ENGINE_PORT among them. */
void engine_bed_open(struct engine_bed *bed, const char *const *router);
/* Nothing is owned, KV was handed over, and every process that runs ends well. */
void engine_bed_close(struct engine_bed *bed);

/* Starts a call of the port. reply stays where it is until it is over. */
void engine_begin(struct engine_bed *bed, const char *path, const ProtobufCMessage *message,
                  const ProtobufCMessageDescriptor *response, struct engine_reply *reply);
/* Until that many messages have come, or it is over. */
void engine_await(struct engine_reply *reply, uint32_t n_messages);
void engine_await_end(struct engine_reply *reply);

/* A stream of max_tokens greedy tokens, whatever they are. */
void engine_question_init(struct engine_question *question, struct engine_bed *bed,
                          uint32_t max_tokens);
void engine_start(struct engine_bed *bed, const struct engine_question *question,
                  struct engine_reply *reply);
/* Of VllmEngine. */
void engine_abort(struct engine_bed *bed, char *const *ids, size_t n);

/* It has the tokens that kvferry.v1 gives. */
void engine_expect_wanted(struct engine_bed *bed, const struct engine_reply *reply);
void engine_expect_good(struct engine_bed *bed);
/* A status that says whose fault it is, and a sentence with named and without an address. */
void engine_expect_told(const char *what, const struct rpc_error *error, enum status like,
                        const char *named);
