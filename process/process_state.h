/*
 * process_state - what a process says of itself: AdminService.GetState as a plain struct.
 *
 * Filled by each role, read by the router's placement, `kvferry ps` and tests.
 *
 * Thread: any (plain data); the functions keep no state.
 */
#pragma once

#include "base/status.h"
#include "process/geometry_codec.h"
#include "process/ports/address.h"
#include "proto/kvferry/internal/v1/admin.pb-c.h"
#include "proto/kvferry/v1/sampling.pb-c.h"
#include "rpc/client/client.h"

#include <stdbool.h>
#include <stdint.h>

#define PROCESS_PEERS_MAX 256 /* other processes that one tells of */
#define PROCESS_NAME_MAX  128
#define PEER_REASON_MAX   192 /* bytes, NUL included */

/* What is served, as ModelService tells it. */
struct model_card {
    char name[PROCESS_NAME_MAX];
    char architecture[64];
    uint32_t context_tokens;
    uint32_t vocabulary;
    char tokenizer_digest[64]; /* hexadecimal */
    bool has_geometry;
    struct geometry geometry;
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

/* Prompts under way. */
struct process_prefills {
    uint32_t n;
    uint64_t tokens, done_tokens;
};

struct process_state {
    char name[PROCESS_NAME_MAX];
    Kvferry__Internal__V1__Role role;
    uint64_t incarnation;
    bool is_ready;
    bool is_draining;             /* or is about to: see drain_delay_left_ms */
    uint64_t drain_delay_left_ms; /* for which it takes new work, though it drains */
    uint32_t requests_running;
    uint32_t requests_waiting;
    bool tells_room;                 /* of a worker; an older one does not */
    uint32_t requests_room;          /* more that it would take now */
    uint32_t streams_per_connection; /* 0: it does not say */
    struct process_blocks blocks;
    struct process_prefills prefills; /* of a worker */
    struct model_card model;
    char transport[24];                      /* of a worker: "am-tcp" */
    char allow_numerics[NUMERICS_ALLOW_MAX]; /* of a generation worker: "equal"; "": an older one */
    /* The owner's memory for the peers, at most PROCESS_PEERS_MAX; of which n_peers are known. */
    struct process_peer *peers;
    uint32_t peers_max, n_peers;
    uint64_t kv_bytes_received;
    uint64_t kv_bytes_sent;
    uint64_t resident_bytes;
    uint32_t process_id;
    uint64_t uptime_ms;
};

/* A message and the sub-messages that it points to; borrows the strings of what it was made of. */
struct model_card_message {
    Kvferry__V1__ModelCard card;
    struct geometry_message geometry;
};
struct process_state_message {
    Kvferry__Internal__V1__GetStateResponse response;
    struct model_card_message model;
    Kvferry__Internal__V1__BlockCounts blocks;
    Kvferry__Internal__V1__PrefillCounts prefills;
    Kvferry__Internal__V1__PeerState peers[PROCESS_PEERS_MAX];
    Kvferry__Internal__V1__PeerState *peer_list[PROCESS_PEERS_MAX];
};

/* The name of a model: what it was given or, where that is "", the last part of its path, of
 * "model/demo/" "demo". */
void model_card_name(const char *given, const char *folder, char name_out[PROCESS_NAME_MAX]);

void model_card_encode(const struct model_card *card, struct model_card_message *message_out);

/* GetState of whichever life answers; who calls adds what to do with the answer. */
struct rpc_request process_state_request(uint64_t deadline_ns);
/* Reasons in state that were cut within a character lose that part: what is no UTF-8 no reader takes. */
void process_state_encode(struct process_state *state, struct process_state_message *message_out);
/* A text that is too long is cut between two characters, a peer too many is left out: they are for people.
 * state_out's peers and peers_max are set before, and kept. INVALID_ARGUMENT with the field: a geometry that is
 * none. */
MUST_CHECK enum status process_state_decode(const Kvferry__Internal__V1__GetStateResponse *message,
                                            struct process_state *state_out, struct error *error);

const char *role_name(Kvferry__Internal__V1__Role role);         /* "ctx-worker" */
const char *prefill_place_name(Kvferry__V1__PrefillPlace place); /* "SHORT_PROMPT" */
/* Of this process, from the kernel; 0 when it does not say. */
uint64_t process_resident_bytes(void);
