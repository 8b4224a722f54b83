/*
 * generation_call - one Generate call: text to standard output as it comes, then how it went.
 *
 * Thread: main; messages come on the client's queue thread.
 */
#pragma once

#include "process/ports/address.h"
#include "proto/kvferry/v1/generation.pb-c.h"
#include "rpc/client/client.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct generation_result {
    struct rpc_error error; /* status OK: all else is set */
    Kvferry__V1__FinishReason reason;
    uint32_t prompt_tokens, cached_tokens, generated_tokens;
    uint64_t queue_us, prefill_us, transfer_us, decode_us, first_token_us;
    uint64_t total_us; /* as seen here */
    uint64_t kv_bytes_received;
    uint32_t kv_tokens_received, kv_tokens_recomputed;
    char context_worker[ADDRESS_TEXT_MAX], generation_worker[ADDRESS_TEXT_MAX], transport[24];
    Kvferry__V1__PrefillPlace prefill_place;
    char prefill_reason[320];
    bool has_text;     /* some has been printed, and a line feed at its end */
    bool is_unprinted; /* standard output took no more: the call was cancelled, or not begun */
    int signal_number; /* that cancelled it; 0: none did */
};

struct generation_call_options {
    const char *server;
    const struct rpc_client_tls *tls; /* NULL: clear text */
    const char *authorization;        /* that metadata; "": none */
    uint64_t deadline_ms;             /* from the call on */
    bool wait_for_server;             /* it has just been started */
    const char *command;              /* it and what follows as call_guard.h has it */
    void (*end)(void *arg, int signal_number);
    void *arg;
};

/* Returns when it has ended; a first SIGINT or SIGTERM cancels it, a second one ends the process, and so does gRPC when it
 * goes past the deadline. Opens and closes gRPC. A request that asks for progress gets a bar on standard error until its
 * first token. */
void generation_call_run(const struct generation_call_options *options,
                         const Kvferry__V1__GenerateRequest *request,
                         struct generation_result *result_out);

/* Workers, bytes, stage times, tokens/s. */
void generation_result_print(const struct generation_result *result, FILE *out);
