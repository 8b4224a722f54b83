/*
 * gen_rig - a generation engine that a test drives without gRPC, and a context worker that is only a pool of blocks behind a
 * sender: the test says when it describes itself, publishes blocks and ends.
 *
 * Its blocks are zeros: tests/sim checks tokens, these tests check events.
 */
#pragma once

#include "gen_worker/gen_engine.h"
#include "kvtransfer/drivers/sim/sim_transport.h"
#include "kvtransfer/kv_sender.h"
#include "tests/engine/support/engine_rig.h"

#define RIG_READER 88ull /* the engine's incarnation */
#define RIG_OWNER  77ull /* the context worker's */

struct rig_client {
    uint32_t n_tokens;
    uint32_t tokens[128];
    uint32_t slow_after; /* 0: never */
    uint32_t n_told;     /* messages with figures */
    uint32_t told_at;    /* how many tokens had come before the first of them */
    struct gen_finish told;
    char told_worker[64];
    uint32_t n_scored; /* tokens of the prompt, and what was told of them */
    struct token_logprobs scores[RIG_CONTEXT_TOKENS];
    bool refuses_scores;
    uint32_t n_progress, n_prompt; /* messages of progress, and the size of the prompt in them */
    uint32_t progress[32];         /* tokens with KV, of each message */
    uint32_t n_finishes;
    struct gen_finish finish;
    char finish_worker[64], finish_sentence[256];
};

struct gen_rig_options {
    uint32_t n_blocks, sequences_max, queue_max, prefills_max;
    bool no_local_prefill;
    uint32_t local_prefill_max_tokens;
    bool no_prefix_cache;
    enum schedule_policy policy;
    uint32_t headroom_blocks;
    struct device *device; /* the test's; NULL: the host */
    bool overflows;        /* at this token, as tests/model/support/overflow.h has it */
    uint32_t overflow_token;
    struct constraint_desk *desk; /* the test's, for DESK_VOCABULARY tokens; NULL: none */
};

struct gen_rig {
    struct gen_rig_options options;
    struct engine_rig base;
    struct device *owner_device;
    struct sim_fabric *fabric;
    struct transport *transport, *owner_transport;
    uint8_t *owner_blocks;
    struct kv_sender *sender;
    struct kv_receiver *receiver;
    struct gen_engine *engine;
    size_t block_bytes;
    uint64_t now_ns;
    /* The last requests of the engine to context workers. */
    uint32_t n_starts, n_cancels, n_commits;
    uint64_t prefill;
    uint32_t held_tokens, n_prompt;
    struct standing standing;
    uint64_t step_ns;  /* of the last prefill */
    bool wants_scores; /* of the last prefill */
    struct transfer_id transfer;
    uint64_t commit_bytes;
    bool has_other_numerics; /* of the context worker */
    uint32_t context_cached; /* cached_tokens of gen_rig_seal */
    uint64_t last_id;
};

extern const struct gen_rig_options ROOMY,
    STRICT; /* STRICT: a prompt whose hand-over failed is not computed here */

void gen_rig_open(struct gen_rig *rig, struct gen_rig_options options);
void gen_rig_close(struct gen_rig *rig);
/* A greedy request that ignores eos, on a context worker; change it before gen_engine_generate. */
struct gen_request gen_rig_request(const char *name, uint32_t seed, uint32_t n_tokens,
                                   const struct sampling_params *sampling);
struct sampling_params gen_rig_sampling(uint32_t max_tokens);
void gen_rig_ask(struct gen_rig *rig, struct rig_client *client, const char *name,
                 uint32_t n_tokens, uint32_t max_tokens);
void gen_rig_step(struct gen_rig *rig);
/* Steps and transfer rounds of both sides until nothing more happens at this moment. */
void gen_rig_settle(struct gen_rig *rig);
uint32_t gen_rig_blocks(const struct gen_rig *rig, enum block_state state);

/* The context worker's part, for the latest prefill. */
void gen_rig_describe(struct gen_rig *rig);
void gen_rig_say(struct gen_rig *rig, const struct prefill_event *event);
void gen_rig_backlog(struct gen_rig *rig, struct backlog backlog);
void gen_rig_accept(struct gen_rig *rig);
/* Publishes and announces n blocks; digest_error is added to their digests. */
void gen_rig_ready(struct gen_rig *rig, uint32_t first, uint32_t n, uint32_t digest_error);
void gen_rig_first_token(struct gen_rig *rig, uint32_t token_id);
void gen_rig_seal(struct gen_rig *rig);
void gen_rig_end(struct gen_rig *rig, enum status status);
/* All of it up to the commit. */
void gen_rig_hand_over(struct gen_rig *rig, uint32_t first_token);

void expect_ended(const struct rig_client *client, enum status status); /* once */
void expect_all_free_or_cached(const struct gen_rig *rig);
