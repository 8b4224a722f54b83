#include "base/clock.h"
#include "kvtransfer/kv_receiver_state.h"

#include <assert.h>
#include <string.h>

static_assert(PIECE_BYTES_MAX <= DEVICE_PIECE_BYTES, "a piece has a view of its own");

/* Pieces that one transfer asks for in a turn. */
enum { TURN_PIECES = 32 };

/* ---- what becomes of a transfer ---- */

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

/* Nothing needs the n blocks from that place on. */
static void clear_stage(const struct kv_receiver *receiver, uint32_t index, uint32_t first,
                        uint32_t n)
{
    const struct slot *slot = &receiver->slots[index];
    const uint64_t bytes = slot->others.block_bytes;
    if (receiver->options.scrubs)
        memset(receiver->stage + slot->stage_at + first * bytes, 0, n * bytes);
}

static void quiet(struct kv_receiver *receiver, uint32_t slot)
{
    struct pull *pull = &receiver->pulls[slot];
    assert(pull->is_live && pull->is_closing && pull->n_outstanding == 0);
    assert(device_poll(receiver->options.device, pull->written) != STATUS_NOT_READY);
    if (pull->peer)
        peer_cache_release(pull->peer);
    if (pull->stages_used != 0)
        clear_stage(receiver, slot, 0, receiver->slots[slot].n_stages);
    pull->is_live = false;
    pull->peer = NULL;
    push_event(receiver, slot, KV_QUIET, STATUS_OK);
    wake_engine(receiver);
}

void kv_pull_peer_closing(void *arg, struct cached_peer *peer)
{
    struct kv_receiver *receiver = arg;
    for (uint32_t i = 0; i < receiver->options.transfers_max; i++)
        if (receiver->pulls[i].is_live && receiver->pulls[i].peer == peer)
            fail(receiver, i, STATUS_PEER_LOST);
}

void kv_pull_peer_closed(void *arg, struct cached_peer *peer)
{
    struct kv_receiver *receiver = arg;
    for (uint32_t i = 0; i < receiver->options.transfers_max; i++)
        if (receiver->pulls[i].peer == peer)
            receiver->pulls[i].peer = NULL;
}

/* Of the peer. */
static uint64_t block_bytes_of(const struct kv_receiver *receiver, uint32_t index)
{
    const struct slot *slot = &receiver->slots[index];
    return slot->others.put ? slot->others.block_bytes : receiver->options.block_bytes;
}

/* Where a block, or a piece of it, is to go: the pool, or the stage. */
static uint8_t *address_of(const struct kv_receiver *receiver, uint32_t index,
                           const struct wanted *wanted, uint32_t offset)
{
    const uint64_t bytes = block_bytes_of(receiver, index);
    if (receiver->slots[index].others.put)
        return receiver->stage + receiver->slots[index].stage_at + wanted->stage * bytes + offset;
    return receiver->options.pool_base + (size_t)wanted->local * bytes + offset;
}

/* Takes a free place of the stage for a block. False: there is none now. */
static bool take_stage(struct kv_receiver *receiver, uint32_t index, struct wanted *wanted,
                       uint64_t *used)
{
    for (uint32_t i = 0; i < receiver->slots[index].n_stages; i++)
        if (!(*used >> i & 1)) {
            *used |= UINT64_C(1) << i;
            wanted->stage = (uint8_t)i;
            return true;
        }
    return false;
}

/* No view: what has come is in its block. */
static bool is_direct(const struct kv_receiver *receiver)
{
    return receiver->transport->ops->is_direct;
}

/* A block has arrived in the pool, or status says why not. */
static void take_block(struct kv_receiver *receiver, uint32_t index, const struct landing *landing,
                       enum status status)
{
    struct slot *slot = &receiver->slots[index];
    const struct wanted *wanted = &slot->wanted[landing->block_index];
    if (status == STATUS_OK && wanted->has_digest && landing->digest != wanted->digest)
        status = STATUS_CORRUPT;
    if (status != STATUS_OK) {
        fail(receiver, index, status);
        return;
    }
    if (slot->others.put) {
        slot->others.put(slot->others.arg, landing->block_index,
                         address_of(receiver, index, wanted, 0));
        clear_stage(receiver, index, wanted->stage, 1);
        receiver->pulls[index].stages_used &= ~(UINT64_C(1) << wanted->stage);
    }
    atomic_fetch_add(&slot->n_arrived, 1);
    if (notice_raise(&slot->arrived))
        push_event(receiver, index, KV_ARRIVED, STATUS_OK);
}

/* Takes the blocks whose copies are done; the others wait for the device. */
static void take_landed(struct kv_receiver *receiver, uint32_t index)
{
    struct pull *pull = &receiver->pulls[index];
    while (pull->n_landed < pull->n_landings && !pull->is_closing && !pull->is_failed) {
        const struct landing *landing = &pull->landings[pull->n_landed];
        enum status status = device_poll(receiver->options.device, landing->done);
        if (status == STATUS_NOT_READY) {
            receiver->is_copying = true;
            return;
        }
        pull->n_landed++;
        take_block(receiver, index, landing, status);
    }
}

/* Enqueues the copy of a piece from its view to its block, unless the driver has put it there. Behind the last piece it enqueues
 * the block's digest. */
static void land(struct kv_receiver *receiver, const struct piece *piece)
{
    struct device *device = receiver->options.device;
    struct pull *pull = &receiver->pulls[piece->tag];
    const struct wanted *wanted = &receiver->slots[piece->tag].wanted[piece->block_index];
    assert(pull->bytes_missing[piece->block_index] >= piece->bytes);
    if (!is_direct(receiver))
        device_write(device, DEVICE_COPY, address_of(receiver, piece->tag, wanted, piece->offset),
                     piece->target, piece->bytes);
    pull->bytes_missing[piece->block_index] -= piece->bytes;
    bool is_whole = pull->bytes_missing[piece->block_index] == 0;
    struct landing *landing = &pull->landings[pull->n_landings];
    if (is_whole && wanted->has_digest)
        device_digest(device, DEVICE_COPY, address_of(receiver, piece->tag, wanted, 0),
                      block_bytes_of(receiver, piece->tag), &landing->digest);
    pull->written = device_record(device, DEVICE_COPY);
    if (!is_whole)
        return;
    landing->block_index = piece->block_index;
    landing->done = pull->written;
    pull->n_landings++;
    take_landed(receiver, piece->tag);
}

/* Everything that was fetched so far has come. */
static bool has_all(const struct kv_receiver *receiver, uint32_t index)
{
    const struct pull *pull = &receiver->pulls[index];
    return pull->n_outstanding == 0 && pull->n_landed == pull->n_landings &&
           pull->n_done == atomic_load(&receiver->slots[index].n_ordered);
}

/* False: pieces are outstanding, or copies of the device. */
static bool try_quiet(struct kv_receiver *receiver, uint32_t index)
{
    struct pull *pull = &receiver->pulls[index];
    assert(pull->is_closing);
    if (pull->n_outstanding > 0)
        return false;
    if (device_poll(receiver->options.device, pull->written) == STATUS_NOT_READY) {
        receiver->is_copying = true;
        return false;
    }
    quiet(receiver, index);
    return true;
}

static void drop_views(const struct kv_receiver *receiver, const struct piece *pieces, uint32_t n)
{
    for (uint32_t i = 0; i < n && !is_direct(receiver); i++)
        device_write_drop(receiver->options.device, pieces[i].target);
}

static void on_got(void *arg, const struct piece *piece, enum status status)
{
    struct kv_receiver *receiver = arg;
    struct pull *pull = &receiver->pulls[piece->tag];
    assert(pull->is_live && pull->n_outstanding > 0 && pull->peer);
    pull->n_outstanding--;
    pull->peer->n_outstanding--;
    receiver->n_outstanding--;

    bool is_wanted = status == STATUS_OK && !pull->is_closing && !pull->is_failed;
    if (!is_wanted)
        drop_views(receiver, piece, 1);
    if (status == STATUS_OK) {
        atomic_fetch_add(&receiver->slots[piece->tag].bytes, piece->bytes);
        atomic_fetch_add_explicit(&receiver->bytes_received, piece->bytes, memory_order_relaxed);
        if (is_wanted)
            land(receiver, piece);
        if (has_all(receiver, piece->tag)) /* the engine has no use for a part */
            wake_engine(receiver);
    } else {
        if (status == STATUS_PEER_LOST)
            peer_cache_mark_lost(pull->peer);
        fail(receiver, piece->tag, status);
    }
    if (pull->is_closing && try_quiet(receiver, piece->tag))
        receiver->n_closing--;
}

/* What waited for the device. */
static void look_at_copies(struct kv_receiver *receiver)
{
    if (!receiver->is_copying)
        return;
    receiver->is_copying = false;
    for (uint32_t i = 0; i < receiver->options.transfers_max; i++) {
        struct pull *pull = &receiver->pulls[i];
        if (!pull->is_live)
            continue;
        uint32_t n_landed = pull->n_landed;
        take_landed(receiver, i);
        if (pull->n_landed > n_landed && has_all(receiver, i))
            wake_engine(receiver);
        if (pull->is_closing && try_quiet(receiver, i))
            receiver->n_closing--;
    }
}

/* ---- asking for pieces ---- */

/* Where a pull stands. */
struct position {
    uint32_t n_done, offset;
    uint64_t stages_used;
};

/* Makes up to n_max pieces from there on, each with a target: a view of the device, or the block itself. QUEUE_FULL: there are no
 * more views. DEVICE_LOST. In each case *n_out pieces have their targets. */
static enum status next_pieces(struct kv_receiver *receiver, uint32_t index, uint32_t n_max,
                               struct piece *pieces, struct position *position, uint32_t *n_out)
{
    const struct slot *slot = &receiver->slots[index];
    uint32_t n_ordered = atomic_load_explicit(&slot->n_ordered, memory_order_acquire);
    const bool is_other = slot->others.put != NULL;
    uint32_t block_bytes = (uint32_t)block_bytes_of(receiver, index), n;
    *n_out = 0;
    for (n = 0; n < n_max && position->n_done < n_ordered; n++) {
        uint32_t block_index = slot->order[position->n_done];
        struct wanted *wanted = &slot->wanted[block_index];
        uint64_t stages_used = position->stages_used;
        if (is_other && position->offset == 0 && !take_stage(receiver, index, wanted, &stages_used))
            return STATUS_QUEUE_FULL;
        uint32_t bytes = block_bytes - position->offset;
        if (bytes > receiver->piece_bytes)
            bytes = receiver->piece_bytes;
        pieces[n] = (struct piece){.block_index = block_index,
                                   .remote_block = wanted->remote,
                                   .offset = position->offset,
                                   .bytes = bytes,
                                   .remote_offset = (uint64_t)wanted->remote * block_bytes +
                                                    position->offset,
                                   .target = address_of(receiver, index, wanted, position->offset),
                                   .tag = index};
        if (!is_direct(receiver))
            TRY(device_write_begin(receiver->options.device, pieces[n].target, bytes,
                                   &pieces[n].target));
        *n_out = n + 1;
        position->stages_used = stages_used; /* a piece without a view has not taken its place */
        position->offset += bytes;
        if (position->offset == block_bytes) {
            position->offset = 0;
            ++position->n_done;
        }
    }
    return STATUS_OK;
}

/* Asks for n pieces; the pull stands at position then. True: it may have more to ask for. */
static bool ask(struct kv_receiver *receiver, uint32_t index, const struct piece *pieces,
                uint32_t n, struct position position)
{
    struct pull *pull = &receiver->pulls[index];
    enum status status = receiver->transport->ops->get(pull->peer->peer, &receiver->slots[index].id,
                                                       pieces, n, on_got, receiver);
    if (status != STATUS_OK) {
        drop_views(receiver, pieces, n);
        if (status == STATUS_QUEUE_FULL)
            return true;
        peer_cache_mark_lost(pull->peer);
        fail(receiver, index, STATUS_PEER_LOST);
        return false;
    }
    for (uint32_t i = 0; i < n; i++)
        if (pieces[i].offset == 0)
            pull->bytes_missing[pieces[i].block_index] = (uint32_t)block_bytes_of(receiver, index);
    pull->stages_used = position.stages_used;
    pull->n_done = position.n_done;
    pull->offset = position.offset;
    pull->n_outstanding += n;
    pull->peer->n_outstanding += n;
    receiver->n_outstanding += n;
    return true;
}

/* The number of pieces of a peer that may be outstanding. A peer gets as many of the device's views as it leaves free, so that a
 * peer that does not answer does not block the others. This is the threshold of Choudhury and Hahne, "Dynamic queue length
 * thresholds for shared-memory packet switches" (1998), with a factor of 1. */
static uint32_t window_of(const struct kv_receiver *receiver, const struct cached_peer *peer)
{
    const uint32_t n_views = device_n_views(receiver->options.device);
    uint32_t window = receiver->options.window_max;
    if (window > peer->pieces_max)
        window = peer->pieces_max;
    if (is_direct(receiver) || n_views == 0)
        return window;
    const uint32_t n_others = receiver->n_outstanding - peer->n_outstanding;
    const uint32_t n_fair = n_others < n_views ? (n_views - n_others + 1) / 2 : 1;
    return window < n_fair ? window : n_fair;
}

/* One turn of a transfer. False: it has nothing to ask for now. */
static bool run_pull(struct kv_receiver *receiver, uint32_t index, unsigned *work)
{
    struct pull *pull = &receiver->pulls[index];
    if (!pull->is_live || pull->is_closing || pull->is_failed || pull->peer->state != PEER_OPEN)
        return false;
    struct cached_peer *peer = pull->peer;
    const uint32_t window = window_of(receiver, peer);
    const uint32_t space = window > peer->n_outstanding ? window - peer->n_outstanding : 0;
    /* A pull for each piece that arrives would cost as much as the piece. */
    if (space == 0 || space < window / 4)
        return true;

    struct piece pieces[TURN_PIECES];
    struct position position = {pull->n_done, pull->offset, pull->stages_used};
    uint32_t n;
    enum status status = next_pieces(receiver, index, space < TURN_PIECES ? space : TURN_PIECES,
                                     pieces, &position, &n);
    if (status == STATUS_DEVICE_LOST) {
        drop_views(receiver, pieces, n);
        fail(receiver, index, status);
        return false;
    }
    /* Of other blocks: one of the stage has to arrive first. */
    receiver->is_copying |= status == STATUS_QUEUE_FULL && !receiver->slots[index].others.put;
    *work += n;
    return n > 0 ? ask(receiver, index, pieces, n, position) : status == STATUS_QUEUE_FULL;
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
    *pull = (struct pull){.is_live = true,
                          .is_runnable = pull->is_runnable,
                          .bytes_missing = pull->bytes_missing,
                          .landings = pull->landings};
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
    if (try_quiet(receiver, index))
        return;
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
            work += take_drops(receiver); /* drops from before the open must not take its peer */
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
        if (pull->is_live && pull->is_closing && pull->n_outstanding > 0 &&
            pull->peer->state == PEER_OPEN && pull->close_limit_ns < deadline_ns)
            deadline_ns = pull->close_limit_ns;
    }
    return deadline_ns;
}

/* A peer that does not answer within the limit of a close is closed by force. */
static void close_silent_peers(struct kv_receiver *receiver, uint64_t now_ns)
{
    for (uint32_t i = 0; receiver->n_closing > 0 && i < receiver->options.transfers_max; i++) {
        const struct pull *pull = &receiver->pulls[i];
        if (pull->is_live && pull->is_closing && pull->n_outstanding > 0 &&
            pull->close_limit_ns <= now_ns)
            peer_cache_mark_lost(pull->peer);
    }
}

unsigned kv_receiver_progress(struct kv_receiver *receiver, uint64_t now_ns)
{
    unsigned work = take_commands(receiver, now_ns);
    look_at_copies(receiver);
    work += run_pulls(receiver);
    work += receiver->transport->ops->progress(receiver->transport, now_ns);
    close_silent_peers(receiver, now_ns);
    peer_cache_close_lost(&receiver->peers);
    work += run_pulls(receiver);
    return work + receiver->is_copying; /* nobody wakes who waits for the device */
}
