#include "process/process_state.h"

#include "base/utf8.h"
#include "rpc/borrow.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Cut at the border of a character. */
#define COPY_TEXT(to, from) utf8_clean((from), strlen(from), (to), sizeof(to))

void model_card_name(const char *given, const char *folder, char name_out[PROCESS_NAME_MAX])
{
    if (given[0]) {
        utf8_clean(given, strlen(given), name_out, PROCESS_NAME_MAX);
        return;
    }
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && folder[begin - 1] != '/')
        begin--;
    utf8_clean(folder + begin, end - begin, name_out, PROCESS_NAME_MAX);
}

void model_card_encode(const struct model_card *card, struct model_card_message *message_out)
{
    Kvferry__V1__ModelCard *message = &message_out->card;
    kvferry__v1__model_card__init(message);
    message->name = borrow(card->name);
    message->architecture = borrow(card->architecture);
    message->context_tokens = card->context_tokens;
    message->reply_tokens = card->reply_tokens;
    message->vocabulary = card->vocabulary;
    message->tokenizer_digest = borrow(card->tokenizer_digest);
    message->has_chat_template = card->has_chat_template;
    adapters_encode(card->adapters, card->n_adapters, &message_out->adapters);
    message->adapters = message_out->adapters.list;
    message->n_adapters = card->n_adapters;
    if (!card->has_geometry)
        return;
    geometry_encode(&card->geometry, &message_out->geometry);
    message->geometry = &message_out->geometry.message;
}

static enum status model_card_decode(const Kvferry__V1__ModelCard *message,
                                     struct model_card *card_out, struct error *error)
{
    struct model_card card = {
        .context_tokens = message->context_tokens,
        .reply_tokens = message->reply_tokens,
        .vocabulary = message->vocabulary,
        .has_geometry = message->geometry != NULL,
        .has_chat_template = message->has_chat_template,
        .n_adapters = (uint32_t)message->n_adapters,
    };
    TRY(adapters_decode(message->adapters, message->n_adapters, error, card.adapters));
    if (card.has_geometry)
        TRY(geometry_decode(message->geometry, &card.geometry, error));
    COPY_TEXT(card.name, message->name);
    COPY_TEXT(card.architecture, message->architecture);
    COPY_TEXT(card.tokenizer_digest, message->tokenizer_digest);
    *card_out = card;
    return STATUS_OK;
}

static void encode_blocks(const struct process_blocks *blocks,
                          Kvferry__Internal__V1__BlockCounts *out)
{
    kvferry__internal__v1__block_counts__init(out);
    out->n_blocks = blocks->all;
    out->free = blocks->free;
    out->active = blocks->active;
    out->cached = blocks->cached;
    out->pinned = blocks->pinned;
    out->inbound = blocks->inbound;
    out->quarantined = blocks->quarantined;
}

static void encode_prefills(const struct process_prefills *prefills,
                            Kvferry__Internal__V1__PrefillCounts *out)
{
    kvferry__internal__v1__prefill_counts__init(out);
    out->n_prompts = prefills->n;
    out->tokens = prefills->tokens;
    out->done_tokens = prefills->done_tokens;
}

static void encode_kernels(const struct process_kernels *kernels,
                           Kvferry__Internal__V1__KernelChoice *out)
{
    kvferry__internal__v1__kernel_choice__init(out);
    out->products = borrow(kernels->products);
    out->attention = borrow(kernels->attention);
    out->chosen_by = borrow(kernels->chosen_by);
    out->threads = kernels->threads;
}

/* reason has PEER_REASON_MAX bytes. Removes an incomplete character at its end. */
static void mend_reason(char *reason)
{
    char cut[PEER_REASON_MAX];
    COPY_TEXT(cut, reason);
    memcpy(reason, cut, sizeof cut);
}

static void encode_peers(struct process_state *state, struct process_state_message *out)
{
    assert(state->n_peers <= PROCESS_PEERS_MAX && state->n_peers <= state->peers_max);
    assert(state->peers || state->n_peers == 0);
    for (uint32_t i = 0; i < state->n_peers; i++) {
        Kvferry__Internal__V1__PeerState *peer = &out->peers[i];
        mend_reason(state->peers[i].reason);
        kvferry__internal__v1__peer_state__init(peer);
        peer->address = borrow(state->peers[i].address);
        peer->role = state->peers[i].role;
        peer->is_ready = state->peers[i].is_ready;
        peer->is_refused = state->peers[i].is_refused;
        peer->reason = borrow(state->peers[i].reason);
        out->peer_list[i] = peer;
    }
    out->response.n_peers = state->n_peers;
    out->response.peers = out->peer_list;
}

struct rpc_request process_state_request(uint64_t deadline_ns)
{
    static const Kvferry__Internal__V1__GetStateRequest MESSAGE =
        KVFERRY__INTERNAL__V1__GET_STATE_REQUEST__INIT;
    return (struct rpc_request){
        .path = "/kvferry.internal.v1.AdminService/GetState",
        .message = &MESSAGE.base,
        .response = &kvferry__internal__v1__get_state_response__descriptor,
        .for_any_life = true,
        .deadline_ns = deadline_ns,
    };
}

void process_state_encode(struct process_state *state, struct process_state_message *message_out)
{
    Kvferry__Internal__V1__GetStateResponse *response = &message_out->response;
    kvferry__internal__v1__get_state_response__init(response);
    response->name = borrow(state->name);
    response->role = state->role;
    response->incarnation = state->incarnation;
    response->is_ready = state->is_ready;
    response->is_draining = state->is_draining;
    response->drain_delay_left_ms = state->drain_delay_left_ms;
    response->requests_running = state->requests_running;
    response->requests_waiting = state->requests_waiting;
    if (state->tells_room) {
        response->requests_room_presence_case =
            KVFERRY__INTERNAL__V1__GET_STATE_RESPONSE__REQUESTS_ROOM_PRESENCE_REQUESTS_ROOM;
        response->requests_room = state->requests_room;
    }
    response->streams_per_connection = state->streams_per_connection;
    encode_blocks(&state->blocks, &message_out->blocks);
    response->blocks = &message_out->blocks;
    encode_prefills(&state->prefills, &message_out->prefills);
    if (state->prefills.n > 0)
        response->prefills = &message_out->prefills;
    encode_kernels(&state->kernels, &message_out->kernels);
    if (state->kernels.threads > 0)
        response->kernels = &message_out->kernels;
    model_card_encode(&state->model, &message_out->model);
    response->model = &message_out->model.card;
    response->transport = borrow(state->transport);
    response->allow_numerics = borrow(state->allow_numerics);
    response->kv_convert = state->kv_convert;
    encode_peers(state, message_out);
    response->kv_bytes_received = state->kv_bytes_received;
    response->kv_bytes_sent = state->kv_bytes_sent;
    response->resident_bytes = state->resident_bytes;
    response->process_id = state->process_id;
    response->uptime_ms = state->uptime_ms;
}

static void decode_blocks(const Kvferry__Internal__V1__BlockCounts *message,
                          struct process_blocks *out)
{
    *out = (struct process_blocks){
        .all = message->n_blocks,
        .free = message->free,
        .active = message->active,
        .cached = message->cached,
        .pinned = message->pinned,
        .inbound = message->inbound,
        .quarantined = message->quarantined,
    };
}

static void decode_prefills(const Kvferry__Internal__V1__PrefillCounts *message,
                            struct process_prefills *out)
{
    *out = (struct process_prefills){
        .n = message->n_prompts,
        .tokens = message->tokens,
        .done_tokens = message->done_tokens,
    };
}

static void decode_kernels(const Kvferry__Internal__V1__KernelChoice *message,
                           struct process_kernels *out)
{
    COPY_TEXT(out->products, message->products);
    COPY_TEXT(out->attention, message->attention);
    COPY_TEXT(out->chosen_by, message->chosen_by);
    out->threads = message->threads;
}

enum status process_state_decode(const Kvferry__Internal__V1__GetStateResponse *message,
                                 struct process_state *state_out, struct error *error)
{
    struct model_card model = {0};
    assert((state_out->peers || state_out->peers_max == 0) && "room for peers is the caller's");
    if (message->model)
        TRY(model_card_decode(message->model, &model, error));
    *state_out = (struct process_state){
        .peers = state_out->peers,
        .peers_max = state_out->peers_max,
        .role = message->role,
        .incarnation = message->incarnation,
        .is_ready = message->is_ready,
        .is_draining = message->is_draining,
        .drain_delay_left_ms = message->drain_delay_left_ms,
        .requests_running = message->requests_running,
        .requests_waiting = message->requests_waiting,
        .tells_room =
            message->requests_room_presence_case ==
            KVFERRY__INTERNAL__V1__GET_STATE_RESPONSE__REQUESTS_ROOM_PRESENCE_REQUESTS_ROOM,
        .streams_per_connection = message->streams_per_connection,
        .kv_bytes_received = message->kv_bytes_received,
        .kv_bytes_sent = message->kv_bytes_sent,
        .resident_bytes = message->resident_bytes,
        .process_id = message->process_id,
        .uptime_ms = message->uptime_ms,
        .model = model,
    };
    if (state_out->tells_room)
        state_out->requests_room = message->requests_room;
    COPY_TEXT(state_out->name, message->name);
    COPY_TEXT(state_out->transport, message->transport);
    COPY_TEXT(state_out->allow_numerics, message->allow_numerics);
    state_out->kv_convert = message->kv_convert;
    if (message->blocks)
        decode_blocks(message->blocks, &state_out->blocks);
    if (message->prefills)
        decode_prefills(message->prefills, &state_out->prefills);
    if (message->kernels)
        decode_kernels(message->kernels, &state_out->kernels);
    for (size_t i = 0; i < message->n_peers && i < state_out->peers_max; i++) {
        struct process_peer *peer = &state_out->peers[state_out->n_peers++];
        COPY_TEXT(peer->address, message->peers[i]->address);
        peer->role = message->peers[i]->role;
        peer->is_ready = message->peers[i]->is_ready;
        peer->is_refused = message->peers[i]->is_refused;
        COPY_TEXT(peer->reason, message->peers[i]->reason);
    }
    assert(state_out->n_peers <= state_out->peers_max);
    return STATUS_OK;
}

const char *prefill_place_name(Kvferry__V1__PrefillPlace place)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(
        &kvferry__v1__prefill_place__descriptor, (int)place);
    return value ? value->name + strlen("PREFILL_PLACE_") : "UNKNOWN";
}

const char *role_name(Kvferry__Internal__V1__Role role)
{
    switch (role) {
    case KVFERRY__INTERNAL__V1__ROLE__ROLE_ROUTER:
        return "router";
    case KVFERRY__INTERNAL__V1__ROLE__ROLE_CONTEXT_WORKER:
        return "ctx-worker";
    case KVFERRY__INTERNAL__V1__ROLE__ROLE_GENERATION_WORKER:
        return "gen-worker";
    default:
        return "unknown";
    }
}

uint64_t process_resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    unsigned long long all = 0;
    unsigned long long resident = 0;
    int n = fscanf(file, "%llu %llu", &all, &resident);
    fclose(file);
    return n == 2 ? (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}
