/*
 * ctx_rig - a context engine that a test drives without gRPC: a stream is the list of its events, time is a number, the network is
 * simulated and instant.
 */
#pragma once

#include "ctx_worker/ctx_engine.h"
#include "kvtransfer/drivers/sim/sim_transport.h"
#include "tests/engine/support/engine_rig.h"

#define RIG_EVENTS_MAX     64u
#define RIG_INCARNATION    77ull
#define RIG_READER         88ull
#define RIG_LEASE_LIMIT_NS (10 * NS_PER_S)

struct rig_stream {
    uint32_t n_events;
    enum prefill_event_kind kinds[RIG_EVENTS_MAX];
    struct prefill_event events[RIG_EVENTS_MAX]; /* the arrays of ready and scores are gone */
    uint32_t n_scored; /* tokens of the prompt, and what was told of them */
    struct token_logprobs scores[RIG_CONTEXT_TOKENS];
    uint32_t n_finishes;
    enum status status;
};

struct rig_call {
    uint32_t n_replies;
    enum ctx_abort_found found;
    uint32_t n_evicted;
};

/* What a test may want different; the rest is small and fixed. */
struct ctx_rig_options {
    uint32_t n_blocks, slots_max, queue_max;
    uint64_t queue_limit_ns;
    uint64_t step_target_ns;
    uint32_t caller_share; /* 0: 100 */
    struct device *device; /* the test's; NULL: the host */
    bool overflows;        /* at this token, as tests/model/support/overflow.h has it */
    uint32_t overflow_token;
    bool without_digests;
    bool is_read_alone;           /* readers do not ask: transport_ops.is_direct */
    struct constraint_desk *desk; /* the test's, for DESK_VOCABULARY tokens; NULL: none */
};

struct ctx_rig {
    struct ctx_rig_options options;
    struct engine_rig base;
    struct sim_fabric *fabric;
    struct transport *transport;
    struct transport_ops direct; /* the transport's, is_read_alone */
    struct kv_sender *sender;
    struct ctx_engine *engine;
    uint64_t now_ns;
    /* The time of a layer in a step; meanwhile is called each time the engine asks for the time. */
    uint64_t layer_ns, layers_passed;
    void (*meanwhile)(struct ctx_rig *rig);
};

void ctx_rig_open(struct ctx_rig *rig, struct ctx_rig_options options);
void ctx_rig_close(struct ctx_rig *rig);
/* A prompt of n tokens that depends on seed, named and identified by name. */
enum status ctx_rig_prefill(struct ctx_rig *rig, struct rig_stream *stream, const char *name,
                            uint32_t seed, uint32_t n_tokens);
/* The same with the request changed by the caller first. */
struct ctx_prefill_request ctx_rig_request(const char *name, uint32_t seed, uint32_t n_tokens);
struct transfer_id ctx_rig_id(const char *name);
enum status ctx_rig_commit(struct ctx_rig *rig, const char *name, uint32_t n_blocks);
void ctx_rig_step(struct ctx_rig *rig);
/* Steps and transfer rounds until the engine has nothing to do at this time. */
void ctx_rig_settle(struct ctx_rig *rig);
uint32_t ctx_rig_blocks(const struct ctx_rig *rig, enum block_state state);
