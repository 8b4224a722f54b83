#include "kvtransfer/kv_receiver_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- creation ---- */

static enum status create_rings(struct kv_receiver *receiver)
{
    uint32_t n = receiver->options.transfers_max;
    TRY(ring_create(sizeof(struct command), 3 * n, &receiver->commands));
    TRY(ring_create(sizeof(struct event), 3 * n, &receiver->events));
    TRY(ring_create(sizeof(uint64_t), receiver->options.peers_max, &receiver->drops));
    return transfer_map_init(&receiver->by_id, n);
}

static enum status create_slots(struct kv_receiver *receiver)
{
    uint32_t n = receiver->options.transfers_max;
    size_t blocks_max = receiver->options.blocks_max;
    receiver->slots = calloc(n, sizeof *receiver->slots);
    receiver->pulls = calloc(n, sizeof *receiver->pulls);
    receiver->free_slots = calloc(n, sizeof *receiver->free_slots);
    receiver->runnable = calloc(n, sizeof *receiver->runnable);
    receiver->wanted = calloc(n * blocks_max, sizeof *receiver->wanted);
    receiver->order = calloc(n * blocks_max, sizeof *receiver->order);
    receiver->bytes_missing = calloc(n * blocks_max, sizeof *receiver->bytes_missing);
    receiver->landings = calloc(n * blocks_max, sizeof *receiver->landings);
    if (receiver->options.stage_bytes > 0)
        receiver->stage = calloc(1, receiver->options.stage_bytes);
    if (receiver->options.stage_bytes > 0 && !receiver->stage)
        return STATUS_NO_MEMORY;
    if (!receiver->landings || !receiver->slots || !receiver->pulls || !receiver->free_slots ||
        !receiver->runnable || !receiver->wanted || !receiver->order || !receiver->bytes_missing)
        return STATUS_NO_MEMORY;

    for (uint32_t i = 0; i < n; i++) {
        receiver->slots[i].wanted = receiver->wanted + i * blocks_max;
        receiver->slots[i].order = receiver->order + i * blocks_max;
        receiver->pulls[i].bytes_missing = receiver->bytes_missing + i * blocks_max;
        receiver->pulls[i].landings = receiver->landings + i * blocks_max;
        receiver->free_slots[receiver->n_free++] = n - 1 - i;
    }
    return STATUS_OK;
}

static enum status create_peers(struct kv_receiver *receiver)
{
    receiver->peers.on_closing = kv_pull_peer_closing;
    receiver->peers.on_closed = kv_pull_peer_closed;
    receiver->peers.arg = receiver;
    return peer_cache_init(&receiver->peers, receiver->transport, receiver->options.peers_max);
}

/* Multiples of a cache line, but for the last one. */
#define PIECE_STEP 64u

uint32_t kv_piece_bytes(uint64_t block_bytes, uint32_t piece_bytes_max)
{
    assert(block_bytes > 0 && piece_bytes_max >= PIECE_STEP && piece_bytes_max % PIECE_STEP == 0);
    const uint64_t n = (block_bytes + piece_bytes_max - 1) / piece_bytes_max;
    const uint64_t bytes = (block_bytes + n - 1) / n;
    return (uint32_t)((bytes + PIECE_STEP - 1) / PIECE_STEP * PIECE_STEP);
}

enum status kv_receiver_create(const struct kv_receiver_options *options,
                               struct transport *transport, struct kv_receiver **receiver_out)
{
    assert(options->transfers_max > 0 && options->blocks_max > 0 && options->peers_max > 0);
    assert(options->window_max > 0 && options->block_bytes > 0 &&
           options->block_bytes <= UINT32_MAX);
    assert(options->device && options->pool_base);
    struct kv_receiver *receiver = calloc(1, sizeof *receiver);
    if (!receiver)
        return STATUS_NO_MEMORY;
    receiver->options = *options;
    receiver->transport = transport;
    receiver->piece_bytes = kv_piece_bytes(
        options->block_bytes,
        transport->ops->piece_bytes_max ? transport->ops->piece_bytes_max : PIECE_BYTES_MAX);

    enum status status = create_rings(receiver);
    if (status == STATUS_OK)
        status = create_peers(receiver);
    if (status == STATUS_OK)
        status = create_slots(receiver);
    if (status != STATUS_OK) {
        kv_receiver_destroy(receiver);
        return status;
    }
    *receiver_out = receiver;
    return STATUS_OK;
}

void kv_receiver_destroy(struct kv_receiver *receiver)
{
    if (!receiver)
        return;
    ring_destroy(receiver->commands);
    ring_destroy(receiver->drops);
    ring_destroy(receiver->events);
    transfer_map_finish(&receiver->by_id);
    free(receiver->slots);
    free(receiver->pulls);
    free(receiver->free_slots);
    free(receiver->runnable);
    peer_cache_finish(&receiver->peers);
    free(receiver->wanted);
    free(receiver->order);
    free(receiver->bytes_missing);
    free(receiver->landings);
    free(receiver->stage);
    free(receiver);
}

void kv_receiver_on_event(struct kv_receiver *receiver, void (*notify)(void *arg), void *arg)
{
    receiver->notify = notify;
    receiver->notify_arg = arg;
}

uint64_t kv_receiver_bytes_received(const struct kv_receiver *receiver)
{
    return atomic_load_explicit(&receiver->bytes_received, memory_order_relaxed);
}

/* ---- the engine's side ---- */

static void command(struct kv_receiver *receiver, enum command_kind kind, uint32_t slot)
{
    struct command item = {kind, slot};
    enum status status = ring_push(receiver->commands, &item);
    assert(status == STATUS_OK); /* of each kind one a slot */
    receiver->transport->ops->wake(receiver->transport);
}

/* ---- the stage ---- */

/* A part of the stage. */
struct part {
    uint64_t at, bytes;
};

/* Of the slot; 0 bytes: none. */
static struct part part_of(const struct slot *slot)
{
    return (struct part){slot->stage_at, slot->is_open && slot->others.put
                                             ? slot->n_stages * slot->others.block_bytes
                                             : 0};
}

/* The free bytes from there on; 0: another transfer has them. */
static uint64_t free_from(const struct kv_receiver *receiver, uint64_t at)
{
    uint64_t end = receiver->options.stage_bytes;
    for (uint32_t i = 0; i < receiver->options.transfers_max; i++) {
        const struct part part = part_of(&receiver->slots[i]);
        if (part.bytes > 0 && part.at + part.bytes > at && part.at < end)
            end = part.at > at ? part.at : at;
    }
    return end > at ? end - at : 0;
}

/* The first part that has room for all that are wanted, or the largest one. */
static struct part find_part(const struct kv_receiver *receiver, uint64_t wanted)
{
    struct part best = {0, free_from(receiver, 0)};
    for (uint32_t i = 0; i < receiver->options.transfers_max && best.bytes < wanted; i++) {
        const struct part part = part_of(&receiver->slots[i]);
        const uint64_t end = part.at + part.bytes;
        const uint64_t n = part.bytes > 0 ? free_from(receiver, end) : 0;
        if (n > best.bytes)
            best = (struct part){end, n};
    }
    return best;
}

/* Takes a part for the blocks of a peer: its share, but two blocks at least. False: these have no room. */
static bool take_part(const struct kv_receiver *receiver, const struct kv_other_blocks *others,
                      struct slot *slot)
{
    uint64_t n = receiver->options.stage_bytes / receiver->options.transfers_max /
                 others->block_bytes;
    n = n < STAGES_LEAST ? STAGES_LEAST : n < STAGES_MAX ? n : STAGES_MAX;
    const struct part part = find_part(receiver, n * others->block_bytes);
    const uint64_t n_fit = part.bytes / others->block_bytes;
    if (n_fit < STAGES_LEAST)
        return false;
    slot->stage_at = part.at;
    slot->n_stages = (uint32_t)(n_fit < n ? n_fit : n);
    return true;
}

enum status kv_receiver_open(struct kv_receiver *receiver, const struct transfer_id *id,
                             const struct transport_address *peer,
                             const struct kv_other_blocks *others)
{
    if (transfer_map_find(&receiver->by_id, id) != NO_SLOT)
        return STATUS_DUPLICATE_REQUEST;
    if (receiver->n_free == 0)
        return STATUS_QUEUE_FULL;
    const uint32_t index = receiver->free_slots[receiver->n_free - 1];
    struct slot *slot = &receiver->slots[index];
    assert(!slot->is_open);
    if (others && !take_part(receiver, others, slot))
        return STATUS_NO_MEMORY;
    receiver->n_free--;
    slot->id = *id;
    slot->peer = *peer;
    slot->others = others ? *others : (struct kv_other_blocks){0};
    slot->is_open = true;
    slot->close_asked = false;
    transfer_map_add(&receiver->by_id, id, index);
    command(receiver, COMMAND_OPEN, index);
    return STATUS_OK;
}

static struct slot *open_slot(struct kv_receiver *receiver, const struct transfer_id *id)
{
    uint32_t index = transfer_map_find(&receiver->by_id, id);
    assert(index != NO_SLOT);
    struct slot *slot = &receiver->slots[index];
    assert(slot->is_open && !slot->close_asked);
    return slot;
}

void kv_receiver_fetch(struct kv_receiver *receiver, const struct transfer_id *id,
                       const struct kv_fetch *fetch)
{
    struct slot *slot = open_slot(receiver, id);
    uint32_t n_ordered = atomic_load_explicit(&slot->n_ordered, memory_order_relaxed);
    assert(fetch->n <= receiver->options.blocks_max &&
           fetch->first_index <= receiver->options.blocks_max - fetch->n);

    for (uint32_t i = 0; i < fetch->n; i++) {
        uint32_t index = fetch->first_index + i;
        const uint32_t local = fetch->local_blocks ? fetch->local_blocks[i] : 0;
        assert(!slot->wanted[index].is_asked && local < receiver->options.n_blocks);
        assert((fetch->local_blocks == NULL) == (slot->others.put != NULL));
        slot->wanted[index] = (struct wanted){.remote = fetch->remote_blocks[i],
                                              .local = local,
                                              .digest = fetch->digests ? fetch->digests[i] : 0,
                                              .has_digest = fetch->digests != NULL,
                                              .is_asked = true};
        slot->order[n_ordered++] = index;
    }
    atomic_store_explicit(&slot->n_ordered, n_ordered, memory_order_release);
    if (notice_raise(&slot->fetch))
        command(receiver, COMMAND_FETCH, (uint32_t)(slot - receiver->slots));
}

void kv_receiver_close(struct kv_receiver *receiver, const struct transfer_id *id)
{
    struct slot *slot = open_slot(receiver, id);
    slot->close_asked = true;
    command(receiver, COMMAND_CLOSE, (uint32_t)(slot - receiver->slots));
}

void kv_receiver_drop_peer(struct kv_receiver *receiver, uint64_t incarnation)
{
    /* Too many drops at once to store: all peers are dropped. This costs new connections only. */
    if (ring_push(receiver->drops, &incarnation) != STATUS_OK)
        atomic_store(&receiver->drop_all, true);
    receiver->transport->ops->wake(receiver->transport);
}

static void free_slot(struct kv_receiver *receiver, uint32_t index)
{
    struct slot *slot = &receiver->slots[index];
    uint32_t n_ordered = atomic_load_explicit(&slot->n_ordered, memory_order_relaxed);
    for (uint32_t i = 0; i < n_ordered; i++)
        slot->wanted[slot->order[i]].is_asked = false;
    atomic_store_explicit(&slot->n_ordered, 0, memory_order_relaxed);
    slot->is_open = false;
    transfer_map_remove(&receiver->by_id, &slot->id);
    receiver->free_slots[receiver->n_free++] = index;
}

bool kv_receiver_next_event(struct kv_receiver *receiver, struct kv_receiver_event *event_out)
{
    struct event event;
    while (ring_pop(receiver->events, &event)) {
        struct slot *slot = &receiver->slots[event.slot];
        assert(slot->is_open);
        if (event.kind == KV_ARRIVED)
            notice_lower(&slot->arrived);
        if (event.kind != KV_QUIET && slot->close_asked)
            continue; /* nobody wants to know */

        *event_out = (struct kv_receiver_event){.kind = event.kind,
                                                .id = slot->id,
                                                .status = event.status,
                                                .n_blocks = atomic_load(&slot->n_arrived),
                                                .bytes = atomic_load(&slot->bytes)};
        if (event.kind == KV_QUIET)
            free_slot(receiver, event.slot);
        return true;
    }
    return false;
}
