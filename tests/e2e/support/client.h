/*
 * client - drives a cluster's public API and records how each request ended.
 *
 * One client is one gRPC connection pool; requests run concurrently. Create it after the cluster
 * (processes are started before the first gRPC call).
 */
#pragma once

#include "base/status.h"
#include "rpc/rpc_error.h"

#include <stdbool.h>
#include <stdint.h>

#define TOKENS_MAX   2048
#define PROGRESS_MAX 128

#define SCORE_TOP_MAX 20u

/* The log-probability of a token of the prompt, and the likeliest ones. */
struct client_score {
    float logprob;
    uint32_t n_top, ids[SCORE_TOP_MAX];
    float top[SCORE_TOP_MAX];
};

struct generation {
    /* The request. text or tokens. */
    const char *model; /* NULL: the one model */
    const char *text;
    size_t n_text; /* bytes; 0: to its NUL */
    const uint32_t *tokens;
    uint32_t n_tokens;
    uint32_t max_tokens;
    float temperature; /* 0: greedy */
    uint64_t seed;
    bool ignore_eos;
    const char *stop; /* a stop string; NULL: none */
    const char *salt;
    const char *request_id;
    const char *token; /* bearer; NULL: none */
    bool has_priority;
    int32_t priority;
    uint32_t deadline_ms;           /* 0: 60 s */
    uint32_t cancel_after_messages; /* 0: never */
    bool return_progress;
    uint32_t n_choices; /* 0: one */
    struct client_score
        *scores;    /* [n_tokens], which get the prompt's; NULL: they are not asked for */
    uint32_t n_top; /* likeliest ones of each */

    /* How it ended. */
    uint32_t n_ends;
    struct rpc_error error; /* status OK when it succeeded */
    uint32_t generated[TOKENS_MAX];
    uint32_t n_generated;
    uint32_t n_messages;
    uint32_t n_progress; /* messages of prompt_progress, and of each what is done */
    uint32_t progress[PROGRESS_MAX], progress_tokens;
    bool has_late_progress; /* behind a token */
    uint32_t n_scored;
    bool has_late_scores; /* behind a token, or of another choice than the first */
    size_t n_text_out;    /* bytes; NUL may be among them */
    char text_out[16384];
    int finish_reason;
    uint32_t prompt_tokens, cached_tokens, usage_generated;
    uint64_t kv_bytes_received, prefill_us, first_token_us, started_ns, ended_ns;
    uint32_t kv_tokens_received, kv_tokens_recomputed;
    char context_worker[96], generation_worker[96], transport[24];

    /* The client's own. */
    struct client *client;
    struct rpc_client_call *call;
    bool is_live;
};

struct client;

struct client *client_create(uint16_t grpc_port);
void client_destroy(struct client *client);

/* Starts the request. generation stays where it is until it has ended. */
void client_start(struct client *client, struct generation *generation);
void client_cancel(struct generation *generation);
/* True when it ended within limit_ms. */
bool client_wait(struct client *client, struct generation *generation, uint32_t limit_ms);
/* Waits for its first message or its end. */
bool client_wait_messages(struct client *client, struct generation *generation, uint32_t n_messages,
                          uint32_t limit_ms);
/* Start and wait, asserting success. */
void client_run(struct client *client, struct generation *generation);

/* The demo model's own numbering of a stretch of its book: n tokens, different for each seed. */
void prompt_tokens(uint64_t seed, uint32_t *tokens_out, uint32_t n);
