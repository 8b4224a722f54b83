/*
 * messages - what crosses the wire in tests/sim: plain copies of what the engines say and hear.
 */
#pragma once

#include "tests/sim/cluster.h"
#include "tests/sim/oracle_beams.h"

enum sim_message_kind {
    /* client to worker */
    SIM_DESCRIBE,
    SIM_PREFILL,
    SIM_COMMIT,
    SIM_DECODE,
    /* worker to client */
    SIM_DESCRIBED,
    SIM_CTX_EVENT,
    SIM_TOKENS,
    SIM_SCORES,
    SIM_END
};

struct sim_message {
    struct wire_message base; /* kind is a sim_message_kind */
    union {
        struct transport_address described;
        struct ctx_prefill_request prefill; /* with pointers to wire memory */
        struct {
            struct transfer_id id;
            uint64_t kv_bytes, callee_incarnation;
        } commit;
        struct gen_request decode;  /* with pointers to wire memory */
        struct prefill_event event; /* the same */
        struct {
            uint32_t n;
            uint32_t token_id;
            bool has_logprobs;
        } tokens;
        struct prompt_scores scores; /* with a pointer to wire memory */
        struct {
            enum status status;
            char sentence[128];
            struct gen_finish finish;             /* of a decode */
            const struct oracle_replies *replies; /* of a beam search; NULL: none */
        } end;
    };
};

struct sim_message *sim_message_new(struct wire *wire, enum sim_message_kind kind);
void *sim_copy(struct wire *wire, const void *bytes, size_t n_bytes);
/* Of a search that is over. */
struct oracle_replies *sim_copy_replies(struct wire *wire, const struct beam_search *search);
void sim_copy_scores(struct wire *wire, const struct prompt_scores *scores,
                     struct prompt_scores *copy_out);
void sim_send_end(struct wire_call *call, struct wire *wire, enum status status,
                  const char *sentence);
