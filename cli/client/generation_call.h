/*
 * generation_call - one Generate call: gives the reply to a printer as it arrives, then returns
 * the statistics.
 *
 * Thread: main; messages arrive on the client's queue thread.
 */
#pragma once

#include "cli/client/reply_printer.h"
#include "process/ports/address.h"
#include "proto/kvferry/v1/generation.pb-c.h"
#include "router/watch/timeline.h"
#include "rpc/client/client.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct generation_result {
    struct rpc_error error; /* status OK: all other members are set */
    Kvferry__V1__FinishReason reason;
    uint32_t prompt_tokens, cached_tokens, generated_tokens, draft_tokens, accepted_tokens;
    uint64_t queue_us, prefill_us, transfer_us, decode_us, first_token_us;
    uint64_t total_us; /* measured here */
    /* The same, after the start of the call: the messages with tokens of the first choice; 0: there was none. */
    uint64_t first_seen_us, second_seen_us, last_seen_us;
    char request_id[136];
    uint64_t kv_bytes_received;
    uint32_t kv_tokens_received, kv_tokens_recomputed;
    char context_worker[ADDRESS_TEXT_MAX], generation_worker[ADDRESS_TEXT_MAX], transport[24];
    Kvferry__V1__PrefillPlace prefill_place;
    char prefill_reason[320];
    bool has_text;          /* text was printed, with a line feed at its end */
    bool is_unprinted;      /* standard output failed: the call was cancelled, or not started */
    bool has_chat_template; /* of the model; asked if asks_for_template is set */
    uint32_t
        context_tokens; /* the same; or if asks_for_context is, and the reply was cut. 0: not known */
    int signal_number; /* the signal that cancelled it; 0: none */
};

struct generation_call_options {
    const char *server;
    const struct rpc_client_tls *tls; /* NULL: clear text */
    const char *authorization;        /* the value of the metadata; "": none */
    uint64_t deadline_ms;             /* from the start of the call */
    bool wait_for_server;             /* the server was just started */
    bool asks_for_template;           /* after the reply */
    bool asks_for_context;            /* after a reply that was cut */
    const char *command;              /* this and the members below: see call_guard.h */
    void (*end)(void *arg, int signal_number);
    void *arg;
};

/* Returns when the call has ended. A first SIGINT or SIGTERM cancels it; a second one ends the process, and so does
 * gRPC if it exceeds the deadline. Opens and closes gRPC. A request with progress shows a bar on standard error until
 * its first token. After a whole reply the printer has printed its end, too. */
void generation_call_run(const struct generation_call_options *options,
                         const Kvferry__V1__GenerateRequest *request, struct reply_printer *printer,
                         struct generation_result *result_out);

/* Returns the status of the call, and says what a person can do about a failure. address: of a server that was there
 * before; NULL: it was started for this call. */
MUST_CHECK enum status generation_result_check(const struct generation_result *result,
                                               const char *address, uint64_t deadline_ms,
                                               struct error *error);

/* Where its stages were between the start of the call and its last token. */
void generation_result_timeline(const struct generation_result *result,
                                struct timeline *timeline_out);
/* Prints workers, bytes, stage times, tokens/s, and a timeline. */
void generation_result_print(const struct generation_result *result, FILE *out);
