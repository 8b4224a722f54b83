/*
 * process_state - the state of a process: the answer of AdminService.GetState as a plain struct.
 *
 * Each role fills it; the router's placement, `kvferry ps` and tests read it.
 *
 * Thread: any (plain data); the functions keep no state.
 */
#pragma once

#include "base/status.h"
#include "process/adapter_codec.h"
#include "process/geometry_codec.h"
#include "process/ports/address.h"
#include "proto/kvferry/internal/v1/admin.pb-c.h"
#include "proto/kvferry/v1/sampling.pb-c.h"
#include "rpc/client/client.h"

#include <stdbool.h>
#include <stdint.h>

#define PROCESS_PEERS_MAX 256 /* peers in one state */
#define PROCESS_NAME_MAX  128
#define PEER_REASON_MAX   192 /* bytes, NUL included */

/* The served model, as in ModelService. */
struct model_card {
    char name[PROCESS_NAME_MAX];
    char architecture[64];
    uint32_t context_tokens;
    uint32_t reply_tokens; /* at most; 0: what the context leaves */
    uint32_t vocabulary;
    char tokenizer_digest[64]; /* hexadecimal */
    bool has_chat_template;    /* of a router */
    bool has_geometry;
    struct geometry geometry;
    uint32_t n_adapters;
    struct adapter_id adapters[ADAPTERS_MAX]; /* as ModelCard.adapters says */
};

struct process_peer {
    char address[ADDRESS_TEXT_MAX];
    Kvferry__Internal__V1__Role role;
    bool is_ready;
    bool is_refused; /* see PeerState */
    char reason[PEER_REASON_MAX];
};

struct process_blocks {
    uint32_t all, free, active, cached, pinned, inbound, quarantined;
};

/* Prompts in progress. */
struct process_prefills {
    uint32_t n;
    uint64_t tokens, done_tokens;
};

/* What a worker computes with. */
struct process_kernels {
    char products[32], attention[32]; /* names of sets: "avx512_bf16" */
    char chosen_by[16];               /* "default", "configured", "measured" */
    uint32_t threads;                 /* 0: an older version, or none */
};

struct process_state {
    char name[PROCESS_NAME_MAX];
    Kvferry__Internal__V1__Role role;
    uint64_t incarnation;
    bool is_ready;
    bool is_draining;             /* or will be soon: see drain_delay_left_ms */
    uint64_t drain_delay_left_ms; /* time for which it still accepts new work */
    uint32_t requests_running;
    uint32_t requests_waiting;
    bool tells_room;                 /* of a worker; false: an older version */
    uint32_t requests_room;          /* requests that it would accept now */
    uint32_t streams_per_connection; /* 0: not reported */
    struct process_blocks blocks;
    struct process_prefills prefills; /* of a worker */
    struct model_card model;
    struct process_kernels kernels;          /* of a worker */
    char transport[24];                      /* of a worker: "am-tcp" */
    bool kv_convert;                         /* of a generation worker: geometry_match_converting */
    char allow_numerics[NUMERICS_ALLOW_MAX]; /* of a generation worker: "equal"; "": an older one */
    /* The owner's memory for at most PROCESS_PEERS_MAX peers, of which n_peers are set. */
    struct process_peer *peers;
    uint32_t peers_max, n_peers;
    uint64_t kv_bytes_received;
    uint64_t kv_bytes_sent;
    uint64_t resident_bytes;
    uint32_t process_id;
    uint64_t uptime_ms;
};

/* A message and the sub-messages that it points to; borrows the strings of its source. */
struct model_card_message {
    Kvferry__V1__ModelCard card;
    struct adapters_message adapters;
    struct geometry_message geometry;
};
struct process_state_message {
    Kvferry__Internal__V1__GetStateResponse response;
    struct model_card_message model;
    Kvferry__Internal__V1__BlockCounts blocks;
    Kvferry__Internal__V1__PrefillCounts prefills;
    Kvferry__Internal__V1__KernelChoice kernels;
    Kvferry__Internal__V1__PeerState peers[PROCESS_PEERS_MAX];
    Kvferry__Internal__V1__PeerState *peer_list[PROCESS_PEERS_MAX];
};

/* The name of a model: the given name, or if that is "", the last part of its path ("demo" for "model/demo/"). */
void model_card_name(const char *given, const char *folder, char name_out[PROCESS_NAME_MAX]);

void model_card_encode(const struct model_card *card, struct model_card_message *message_out);

/* A call of GetState to any incarnation; the caller adds its callbacks. */
struct rpc_request process_state_request(uint64_t deadline_ns);
/* If a reason was cut inside a character, that part is removed: readers refuse invalid UTF-8. */
void process_state_encode(struct process_state *state, struct process_state_message *message_out);
/* A text that is too long is cut between two characters, and peers beyond peers_max are left out: they are for
 * people. Set peers and peers_max of state_out before; they are kept. INVALID_ARGUMENT with the field: an
 * invalid geometry. */
MUST_CHECK enum status process_state_decode(const Kvferry__Internal__V1__GetStateResponse *message,
                                            struct process_state *state_out, struct error *error);

const char *role_name(Kvferry__Internal__V1__Role role);         /* "ctx-worker" */
const char *prefill_place_name(Kvferry__V1__PrefillPlace place); /* "SHORT_PROMPT" */
/* Of this process, from the kernel; 0: not known. */
uint64_t process_resident_bytes(void);
