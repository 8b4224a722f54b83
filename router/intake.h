/*
 * intake - takes requests from the doors (door.h): judges each, and tokenizes and dispatches it.
 *
 *     intake_generate: judge and copy -> tokenize here, or on the text thread when long
 *       |          ^                  -> dispatch_start -> the reply by the call's door_ops
 *       v          |
 *     early_requests: the tokenizer is loading, or what is served, by which to judge, is not known yet
 *
 * The inner form of a request is kvferry.v1's GenerateRequest, whatever its protocol was.
 *
 * Thread: intake_generate and intake_serve any thread of a door that may work for a moment; long texts on the text thread;
 * _look and _drain on main.
 */
#pragma once

#include "process/process.h"
#include "router/dispatch/dispatch.h"
#include "router/kv_event_client.h"
#include "router/requests/chat_limits.h"
#include "router/requests/early_requests.h"
#include "router/text_thread.h"
#include "router/workers/worker_client.h"
#include "text/constraint/constraint.h"

#include <stdatomic.h>

struct intake {
    /* Set before a port opens: */
    struct process *process;
    struct early_requests *early;
    struct router_metrics *metrics;
    const char *model_name;
    uint64_t text_inline_bytes; /* of a text that is tokenized at once */
    uint64_t text_bytes_max;
    struct chat_limits chat;              /* of a chat request */
    uint32_t chat_tokens_max;             /* of its answer, without max_tokens */
    struct constraint_limits constraints; /* no more than is checked here */
    int32_t priority_max;                 /* where there are no tenants */
    /* Set before process_serving: */
    const struct generation_defaults *defaults;
    const struct tokenizer *tokenizer;
    struct text_thread *text_thread;
    struct template_renderer *renderer; /* NULL: there is no chat template */
    struct dispatch *dispatch;
    struct worker_clients *workers;
    const struct kv_event_client *events; /* NULL: gateways are told none */
    _Atomic bool has_told_double;         /* that a text began with what is added to it */
};

/* The call ends once: by its reply, or by fail. The message is read before this returns. */
void intake_generate(struct intake *intake, struct door_call *call,
                     const Kvferry__V1__GenerateRequest *message);
/* A request about text alone; its arrived_ns is set here. arrival->serve is called when the tokenizer is there, maybe before this returns; or the call
 * fails. */
void intake_serve(struct intake *intake, const struct arrival *arrival);

/* MODEL_NOT_FOUND: it is neither the model's name nor that of an adapter that is known by now. */
MUST_CHECK enum status intake_check_model(struct intake *intake, const char *model,
                                          const char *field, struct rpc_error *error);

/* Counts the failure and tells the client. An error without a sentence gets the status's own. */
void intake_fail(struct intake *intake, struct door_call *call, enum status status,
                 struct rpc_error *error);
/* The same of a request that was not begun, which gets its access line here. */
void intake_refuse(struct intake *intake, struct door_call *call, enum status status,
                   struct rpc_error *error);

/* Takes the early requests when it is known what is served, and ends those that shall wait no longer. */
void intake_look(struct intake *intake, uint64_t now_ns);
/* Refuses them, and lets none wait any more. */
void intake_drain(struct intake *intake);
