#include "kvtransfer/kv_receiver.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/ring.h"
#include "kvtransfer/notice.h"
#include "kvtransfer/peer_cache.h"
#include "kvtransfer/transfer_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Pieces of one transfer that are asked for before it is another one's turn. */
enum { TURN_PIECES = 32 };

/* A block that the engine wants. */
struct wanted {
    uint32_t remote, local, digest;
    bool has_digest;
    bool is_asked; /* (engine) */
};

/* One transfer, the engine thread's half: written before OPEN and after QUIET was taken; in between
 * wanted and order only grow, behind n_ordered. */
struct slot {
    struct transfer_id id;
    struct transport_address peer;
    struct wanted *wanted;      /* [blocks_max] by index in the prompt */
    uint32_t *order;            /* [blocks_max] indices, in the order of fetch */
    _Atomic uint32_t n_ordered; /* of order */
    struct notice fetch;        /* a FETCH is in commands: n_ordered has grown */
    bool is_open;               /* from open to the QUIET it has taken */
    bool close_asked;
    /* What the transfer thread tells. */
    struct notice arrived; /* an ARRIVED is in events: n_arrived and bytes have grown */
    _Atomic uint32_t n_arrived;
    _Atomic uint64_t bytes;
};

/* The transfer thread's half of the slot of the same number, from OPEN to QUIET. */
struct pull {
    bool is_live, is_closing, is_failed, is_runnable;
    struct cached_peer *peer; /* NULL: none, or gone */
    uint32_t n_done;          /* of order: every piece was asked for */
    uint32_t offset;          /* in the block order[n_done] */
    uint32_t *bytes_missing;  /* [blocks_max] of blocks that were asked for */
    uint32_t n_outstanding;   /* pieces */
    uint64_t close_limit_ns;  /* when is_closing with pieces outstanding */
};

enum command_kind { COMMAND_OPEN, COMMAND_FETCH, COMMAND_CLOSE };

struct command {
    enum command_kind kind;
    uint32_t slot;
};

struct event {
    enum kv_receiver_event_kind kind;
    enum status status;
    uint32_t slot;
};

struct kv_receiver {
    struct kv_receiver_options options;
    struct transport *transport;
    struct ring *commands, *drops, *events;
    _Atomic bool drop_all; /* drops was full */
    struct slot *slots;    /* [transfers_max] */
    struct pull *pulls;    /* [transfers_max] */
    struct wanted *wanted; /* [transfers_max][blocks_max] */
    uint32_t *order, *bytes_missing;
    struct transfer_map by_id; /* (engine) open */
    uint32_t *free_slots;      /* (engine) [n_free], a stack */
    uint32_t n_free;
    struct peer_cache peers; /* (transfer) */
    uint32_t *runnable;      /* (transfer) ring of slots that have something to ask for */
    uint32_t runnable_head, n_runnable;
    uint32_t n_closing; /* (transfer) pulls that wait for their last piece */
    void (*notify)(void *arg);
    void *notify_arg;
    _Atomic uint64_t bytes_received;
};

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
    if (!receiver->slots || !receiver->pulls || !receiver->free_slots || !receiver->runnable ||
        !receiver->wanted || !receiver->order || !receiver->bytes_missing)
        return STATUS_NO_MEMORY;

    for (uint32_t i = 0; i < n; i++) {
        receiver->slots[i].wanted = receiver->wanted + i * blocks_max;
        receiver->slots[i].order = receiver->order + i * blocks_max;
        receiver->pulls[i].bytes_missing = receiver->bytes_missing + i * blocks_max;
        receiver->free_slots[receiver->n_free++] = n - 1 - i;
    }
    return STATUS_OK;
}

static void on_peer_closing(void *arg, struct cached_peer *peer);
static void on_peer_closed(void *arg, struct cached_peer *peer);

static enum status create_peers(struct kv_receiver *receiver)
{
    receiver->peers.on_closing = on_peer_closing;
    receiver->peers.on_closed = on_peer_closed;
    receiver->peers.arg = receiver;
    return peer_cache_init(&receiver->peers, receiver->transport, receiver->options.peers_max);
}

enum status kv_receiver_create(const struct kv_receiver_options *options,
                               struct transport *transport, struct kv_receiver **receiver_out)
{
    assert(options->transfers_max > 0 && options->blocks_max > 0 && options->peers_max > 0);
    assert(options->window_max > 0 && options->block_bytes > 0 &&
           options->block_bytes <= UINT32_MAX);
    struct kv_receiver *receiver = calloc(1, sizeof *receiver);
    if (!receiver)
        return STATUS_NO_MEMORY;
    receiver->options = *options;
    receiver->transport = transport;

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

enum status kv_receiver_open(struct kv_receiver *receiver, const struct transfer_id *id,
                             const struct transport_address *peer)
{
    if (transfer_map_find(&receiver->by_id, id) != NO_SLOT)
        return STATUS_DUPLICATE_REQUEST;
    if (receiver->n_free == 0)
        return STATUS_QUEUE_FULL;
    uint32_t index = receiver->free_slots[--receiver->n_free];
    struct slot *slot = &receiver->slots[index];
    assert(!slot->is_open);
    slot->id = *id;
    slot->peer = *peer;
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
        assert(!slot->wanted[index].is_asked &&
               fetch->local_blocks[i] < receiver->options.n_blocks);
        slot->wanted[index] = (struct wanted){.remote = fetch->remote_blocks[i],
                                              .local = fetch->local_blocks[i],
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
    /* So many at once that nobody counts them any more: all go. It costs new connections only. */
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

/* ---- the transfer thread's side: what becomes of a transfer ---- */

static void push_event(struct kv_receiver *receiver, uint32_t slot,
                       enum kv_receiver_event_kind kind, enum status status)
{
    struct event event = {kind, status, slot};
    enum status pushed = ring_push(receiver->events, &event);
    assert(pushed == STATUS_OK); /* of each kind one a slot */
}

static void wake_engine(const struct kv_receiver *receiver)
{
    if (receiver->notify)
        receiver->notify(receiver->notify_arg);
}

static void fail(struct kv_receiver *receiver, uint32_t slot, enum status status)
{
    struct pull *pull = &receiver->pulls[slot];
    if (pull->is_failed || pull->is_closing)
        return;
    pull->is_failed = true;
    push_event(receiver, slot, KV_FAILED, status);
    wake_engine(receiver);
}

static void quiet(struct kv_receiver *receiver, uint32_t slot)
{
    struct pull *pull = &receiver->pulls[slot];
    assert(pull->is_live && pull->is_closing && pull->n_outstanding == 0);
    if (pull->peer)
        peer_cache_release(pull->peer);
    pull->is_live = false;
    pull->peer = NULL;
    push_event(receiver, slot, KV_QUIET, STATUS_OK);
    wake_engine(receiver);
}

static void on_peer_closing(void *arg, struct cached_peer *peer)
{
    struct kv_receiver *receiver = arg;
    for (uint32_t i = 0; i < receiver->options.transfers_max; i++)
        if (receiver->pulls[i].is_live && receiver->pulls[i].peer == peer)
            fail(receiver, i, STATUS_PEER_LOST);
}

static void on_peer_closed(void *arg, struct cached_peer *peer)
{
    struct kv_receiver *receiver = arg;
    for (uint32_t i = 0; i < receiver->options.transfers_max; i++)
        if (receiver->pulls[i].peer == peer)
            receiver->pulls[i].peer = NULL;
}

/* Every byte of a block has arrived. */
static void take_block(struct kv_receiver *receiver, uint32_t index, uint32_t block_index)
{
    struct slot *slot = &receiver->slots[index];
    const struct wanted *wanted = &slot->wanted[block_index];
    size_t block_bytes = receiver->options.block_bytes;
    if (wanted->has_digest) {
        const uint8_t *block = receiver->options.pool_base + wanted->local * block_bytes;
        if (crc32c(0, block, block_bytes) != wanted->digest) {
            fail(receiver, index, STATUS_CORRUPT);
            return;
        }
    }
    atomic_fetch_add(&slot->n_arrived, 1);
    if (notice_raise(&slot->arrived))
        push_event(receiver, index, KV_ARRIVED, STATUS_OK);
}

/* Everything that was fetched so far has come. */
static bool has_all(const struct kv_receiver *receiver, uint32_t index)
{
    const struct pull *pull = &receiver->pulls[index];
    return pull->n_outstanding == 0 &&
           pull->n_done == atomic_load(&receiver->slots[index].n_ordered);
}

static void on_got(void *arg, const struct piece *piece, enum status status)
{
    struct kv_receiver *receiver = arg;
    struct pull *pull = &receiver->pulls[piece->tag];
    assert(pull->is_live && pull->n_outstanding > 0 && pull->peer);
    pull->n_outstanding--;
    pull->peer->n_outstanding--;

    if (status == STATUS_OK) {
        atomic_fetch_add(&receiver->slots[piece->tag].bytes, piece->bytes);
        atomic_fetch_add_explicit(&receiver->bytes_received, piece->bytes, memory_order_relaxed);
        pull->bytes_missing[piece->block_index] -= piece->bytes;
        if (!pull->is_closing && !pull->is_failed && pull->bytes_missing[piece->block_index] == 0)
            take_block(receiver, piece->tag, piece->block_index);
        if (has_all(receiver, piece->tag)) /* the engine has no use for a part */
            wake_engine(receiver);
    } else {
        if (status == STATUS_PEER_LOST)
            peer_cache_mark_lost(pull->peer);
        fail(receiver, piece->tag, status);
    }
    if (pull->is_closing && pull->n_outstanding == 0) {
        receiver->n_closing--;
        quiet(receiver, piece->tag);
    }
}

/* ---- asking for pieces ---- */

/* Up to n_max pieces from where the pull stands; moves copies of its position. */
static uint32_t next_pieces(const struct kv_receiver *receiver, uint32_t index, uint32_t n_max,
                            struct piece *pieces, uint32_t *n_done, uint32_t *offset)
{
    const struct slot *slot = &receiver->slots[index];
    uint32_t n_ordered = atomic_load_explicit(&slot->n_ordered, memory_order_acquire);
    uint32_t block_bytes = (uint32_t)receiver->options.block_bytes, n = 0;
    for (; n < n_max && *n_done < n_ordered; n++) {
        uint32_t block_index = slot->order[*n_done];
        const struct wanted *wanted = &slot->wanted[block_index];
        uint32_t bytes = block_bytes - *offset;
        if (bytes > PIECE_BYTES_MAX)
            bytes = PIECE_BYTES_MAX;
        pieces[n] = (struct piece){
            .block_index = block_index,
            .remote_block = wanted->remote,
            .offset = *offset,
            .bytes = bytes,
            .remote_offset = (uint64_t)wanted->remote * block_bytes + *offset,
            .target = receiver->options.pool_base + (size_t)wanted->local * block_bytes + *offset,
            .tag = index};
        *offset += bytes;
        if (*offset == block_bytes) {
            *offset = 0;
            ++*n_done;
        }
    }
    return n;
}

/* One turn of a transfer. False: it has nothing to ask for, now. */
static bool run_pull(struct kv_receiver *receiver, uint32_t index, unsigned *work)
{
    struct pull *pull = &receiver->pulls[index];
    if (!pull->is_live || pull->is_closing || pull->is_failed || pull->peer->state != PEER_OPEN)
        return false;
    struct cached_peer *peer = pull->peer;
    uint32_t window = receiver->options.window_max;
    if (window > peer->pieces_max)
        window = peer->pieces_max;
    uint32_t space = window - peer->n_outstanding;
    /* A message for each piece that has arrived would cost as much as the piece. */
    if (space == 0 || space < window / 4)
        return true;

    struct piece pieces[TURN_PIECES];
    uint32_t n_done = pull->n_done, offset = pull->offset;
    uint32_t n = next_pieces(receiver, index, space < TURN_PIECES ? space : TURN_PIECES, pieces,
                             &n_done, &offset);
    if (n == 0)
        return false;
    enum status status = receiver->transport->ops->get(peer->peer, &receiver->slots[index].id,
                                                       pieces, n, on_got, receiver);
    if (status == STATUS_QUEUE_FULL)
        return true;
    if (status != STATUS_OK) {
        peer_cache_mark_lost(peer);
        fail(receiver, index, STATUS_PEER_LOST);
        return false;
    }
    for (uint32_t i = 0; i < n; i++)
        if (pieces[i].offset == 0)
            pull->bytes_missing[pieces[i].block_index] = (uint32_t)receiver->options.block_bytes;
    pull->n_done = n_done;
    pull->offset = offset;
    pull->n_outstanding += n;
    peer->n_outstanding += n;
    *work += n;
    return true;
}

static void make_runnable(struct kv_receiver *receiver, uint32_t index)
{
    struct pull *pull = &receiver->pulls[index];
    if (pull->is_runnable)
        return;
    pull->is_runnable = true;
    uint32_t tail = (receiver->runnable_head + receiver->n_runnable++) %
                    receiver->options.transfers_max;
    receiver->runnable[tail] = index;
}

/* One turn for each transfer that has something to ask for. */
static unsigned run_pulls(struct kv_receiver *receiver)
{
    unsigned work = 0;
    for (uint32_t n = receiver->n_runnable; n > 0; n--) {
        uint32_t index = receiver->runnable[receiver->runnable_head];
        receiver->runnable_head = (receiver->runnable_head + 1) % receiver->options.transfers_max;
        receiver->n_runnable--;
        receiver->pulls[index].is_runnable = false;
        if (run_pull(receiver, index, &work))
            make_runnable(receiver, index);
    }
    return work;
}

/* ---- commands and time ---- */

static void take_open(struct kv_receiver *receiver, uint32_t index)
{
    struct slot *slot = &receiver->slots[index];
    struct pull *pull = &receiver->pulls[index];
    *pull = (struct pull){
        .is_live = true, .is_runnable = pull->is_runnable, .bytes_missing = pull->bytes_missing};
    atomic_store(&slot->n_arrived, 0);
    atomic_store(&slot->bytes, 0);
    enum status status = peer_cache_acquire(&receiver->peers, &slot->peer, &pull->peer);
    if (status != STATUS_OK)
        fail(receiver, index, status);
}

static void take_close(struct kv_receiver *receiver, uint32_t index, uint64_t now_ns)
{
    struct pull *pull = &receiver->pulls[index];
    assert(pull->is_live && !pull->is_closing);
    pull->is_closing = true;
    if (pull->n_outstanding == 0) {
        quiet(receiver, index);
        return;
    }
    receiver->n_closing++;
    pull->close_limit_ns = now_ns + receiver->options.quiet_limit_ns;
}

static unsigned take_drops(struct kv_receiver *receiver)
{
    unsigned work = 0;
    uint64_t incarnation;
    for (; ring_pop(receiver->drops, &incarnation); work++)
        peer_cache_drop(&receiver->peers, incarnation);
    if (atomic_exchange(&receiver->drop_all, false))
        peer_cache_drop_all(&receiver->peers);
    return work;
}

static unsigned take_commands(struct kv_receiver *receiver, uint64_t now_ns)
{
    unsigned work = take_drops(receiver);
    struct command item;
    for (; ring_pop(receiver->commands, &item); work++) {
        if (item.kind == COMMAND_OPEN) {
            work += take_drops(receiver); /* of before the open: they are not to take its peer */
            take_open(receiver, item.slot);
        } else if (item.kind == COMMAND_CLOSE) {
            take_close(receiver, item.slot, now_ns);
        } else {
            notice_lower(&receiver->slots[item.slot].fetch);
            make_runnable(receiver, item.slot);
        }
    }
    return work;
}

uint64_t kv_receiver_deadline_ns(const struct kv_receiver *receiver)
{
    uint64_t deadline_ns = DEADLINE_NONE;
    for (uint32_t i = 0; receiver->n_closing > 0 && i < receiver->options.transfers_max; i++) {
        const struct pull *pull = &receiver->pulls[i];
        if (pull->is_live && pull->is_closing && pull->peer->state == PEER_OPEN &&
            pull->close_limit_ns < deadline_ns)
            deadline_ns = pull->close_limit_ns;
    }
    return deadline_ns;
}

/* A peer that has not answered within the limit of a close never may again. */
static void close_silent_peers(struct kv_receiver *receiver, uint64_t now_ns)
{
    for (uint32_t i = 0; receiver->n_closing > 0 && i < receiver->options.transfers_max; i++) {
        const struct pull *pull = &receiver->pulls[i];
        if (pull->is_live && pull->is_closing && pull->close_limit_ns <= now_ns)
            peer_cache_mark_lost(pull->peer);
    }
}

unsigned kv_receiver_progress(struct kv_receiver *receiver, uint64_t now_ns)
{
    unsigned work = take_commands(receiver, now_ns);
    work += run_pulls(receiver);
    work += receiver->transport->ops->progress(receiver->transport, now_ns);
    close_silent_peers(receiver, now_ns);
    peer_cache_close_lost(&receiver->peers);
    return work + run_pulls(receiver);
}
