#include "kvtransfer/kv_sender.h"

#include "kvtransfer/kv_sender_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define UNPUBLISHED UINT32_MAX

enum command_kind { COMMAND_OPEN, COMMAND_CLOSE };

struct command {
    enum command_kind kind;
    uint32_t slot;
};

struct event {
    uint32_t slot;
    uint64_t bytes_sent;
};

/* ---- reads of the transport (transfer thread) ---- */

static unsigned take_commands(struct kv_sender *sender);

static void refresh(void *arg)
{
    take_commands(arg);
}

/* The lease that allows the read. NULL: none. */
static struct sender_lease *find_lease(struct kv_sender *sender, const struct block_read *read)
{
    uint32_t index = transfer_map_find(&sender->live, &read->id);
    if (index == NO_SLOT) {
        /* A fast reader may ask before this round has taken the command that opens its transfer. */
        take_commands(sender);
        index = transfer_map_find(&sender->live, &read->id);
    }
    if (index == NO_SLOT || read->block_index >= sender->options.blocks_max)
        return NULL;

    struct sender_lease *lease = &sender->leases[index];
    uint32_t block = atomic_load_explicit(&sender->slots[index].published[read->block_index],
                                          memory_order_acquire);
    size_t block_bytes = sender->options.block_bytes;
    bool is_held = !lease->is_closing && lease->reader_incarnation == read->reader_incarnation &&
                   block != UNPUBLISHED && block == read->remote_block &&
                   read->bytes <= block_bytes && read->offset <= block_bytes - read->bytes;
    return is_held ? lease : NULL;
}

/* Enqueues the copy, behind what wrote the block. */
static enum status begin_copy(struct kv_sender *sender, struct block_read *read)
{
    struct sender_lease *lease = find_lease(sender, read);
    if (!lease)
        return STATUS_NOT_HELD;
    struct device *device = sender->options.device;
    const struct sender_slot *slot = &sender->slots[lease - sender->leases];
    const uint8_t *bytes = sender->options.pool_base +
                           read->remote_block * sender->options.block_bytes + read->offset;
    device_after(device, DEVICE_COPY, slot->written[read->block_index]);
    TRY(device_read(device, DEVICE_COPY, bytes, read->bytes, &read->view));
    read->copied = device_record(device, DEVICE_COPY);
    lease->n_reads++;
    return STATUS_OK;
}

static void read_end(void *arg, struct block_read *read, enum status status);

static enum status read_begin(void *arg, struct block_read *read)
{
    struct kv_sender *sender = arg;
    enum status status = read->view ? STATUS_OK : begin_copy(sender, read);
    if (status == STATUS_OK)
        status = device_poll(sender->options.device, read->copied);
    if (status == STATUS_QUEUE_FULL) /* of the device */
        status = STATUS_NOT_READY;
    if (status == STATUS_NOT_READY)
        sender->is_copying = true;
    else if (status != STATUS_OK && read->view)
        read_end(arg, read, status);
    return status;
}

static void push_quiet(struct kv_sender *sender, uint32_t index)
{
    struct sender_lease *lease = &sender->leases[index];
    assert(lease->is_live && lease->is_closing && lease->n_reads == 0);
    lease->is_live = false;
    transfer_map_remove(&sender->live, &lease->id);
    struct sender_reader *reader = sender_reader_find(sender, lease->reader_incarnation);
    if (reader) {
        assert(reader->n_open > 0);
        reader->n_open--;
    }

    struct event event = {index, lease->bytes_sent};
    enum status status = ring_push(sender->events, &event);
    assert(status == STATUS_OK); /* one a slot */
    if (sender->notify)
        sender->notify(sender->notify_arg);
}

/* A reader that left during a copy. The block stays fenced until the copy is done. */
static void end_copy(struct kv_sender *sender, struct block_read *read)
{
    struct device *device = sender->options.device;
    assert(read->view && read->copied.queue == DEVICE_COPY);
    enum status status = device_wait(device, read->copied);
    assert(status == STATUS_OK || status == STATUS_DEVICE_LOST);
    (void)status;
    device_read_end(device, read->view);
    read->view = NULL;
}

static void read_end(void *arg, struct block_read *read, enum status status)
{
    struct kv_sender *sender = arg;
    uint32_t index = transfer_map_find(&sender->live, &read->id);
    assert(index != NO_SLOT);
    struct sender_lease *lease = &sender->leases[index];
    assert(lease->n_reads > 0);
    end_copy(sender, read);
    lease->n_reads--;
    if (status == STATUS_OK) {
        lease->bytes_sent += read->bytes;
        atomic_fetch_add_explicit(&sender->bytes_sent, read->bytes, memory_order_relaxed);
    }
    if (lease->is_closing && lease->n_reads == 0) {
        sender->n_closing--;
        push_quiet(sender, index);
    }
}

/* ---- creation ---- */

static enum status create_rings(struct kv_sender *sender)
{
    uint32_t n = sender->options.transfers_max;
    TRY(ring_create(sizeof(struct command), 2 * n, &sender->commands));
    TRY(ring_create(sizeof(struct event), n, &sender->events));
    TRY(ring_create(sizeof(struct transport_address), sender->options.readers_max,
                    &sender->admissions));
    TRY(transfer_map_init(&sender->by_id, n));
    return transfer_map_init(&sender->live, n);
}

static enum status create_slots(struct kv_sender *sender)
{
    uint32_t n = sender->options.transfers_max, blocks_max = sender->options.blocks_max;
    sender->slots = calloc(n, sizeof *sender->slots);
    sender->leases = calloc(n, sizeof *sender->leases);
    sender->free_slots = calloc(n, sizeof *sender->free_slots);
    sender->readers = calloc(sender->options.readers_max, sizeof *sender->readers);
    sender->published = calloc((size_t)n * blocks_max, sizeof *sender->published);
    sender->written = calloc((size_t)n * blocks_max, sizeof *sender->written);
    if (!sender->slots || !sender->leases || !sender->free_slots || !sender->readers ||
        !sender->published || !sender->written)
        return STATUS_NO_MEMORY;

    for (size_t i = 0; i < (size_t)n * blocks_max; i++)
        atomic_init(&sender->published[i], UNPUBLISHED);
    for (uint32_t i = 0; i < n; i++) {
        sender->slots[i].published = sender->published + (size_t)i * blocks_max;
        sender->slots[i].written = sender->written + (size_t)i * blocks_max;
        sender->free_slots[sender->n_free++] = n - 1 - i;
    }
    return STATUS_OK;
}

enum status kv_sender_create(const struct kv_sender_options *options, struct transport *transport,
                             struct kv_sender **sender_out)
{
    assert(options->transfers_max > 0 && options->blocks_max > 0 && options->block_bytes > 0);
    assert(options->device && options->pool_base);
    struct kv_sender *sender = calloc(1, sizeof *sender);
    if (!sender)
        return STATUS_NO_MEMORY;
    sender->options = *options;
    if (sender->options.readers_max == 0)
        sender->options.readers_max = KV_READERS_DEFAULT;
    if (sender->options.quiet_limit_ns == 0)
        sender->options.quiet_limit_ns = KV_SENDER_QUIET_NS;

    enum status status = create_rings(sender);
    if (status == STATUS_OK)
        status = create_slots(sender);
    if (status != STATUS_OK)
        goto fail;

    assert(!transport->source.read_begin);
    sender->transport = transport;
    transport->source = (struct transport_source){sender, refresh, read_begin, read_end};
    *sender_out = sender;
    return STATUS_OK;

fail:
    kv_sender_destroy(sender);
    return status;
}

void kv_sender_destroy(struct kv_sender *sender)
{
    if (!sender)
        return;
    if (sender->transport)
        sender->transport->source = (struct transport_source){0};
    ring_destroy(sender->commands);
    ring_destroy(sender->admissions);
    ring_destroy(sender->events);
    transfer_map_finish(&sender->by_id);
    transfer_map_finish(&sender->live);
    free(sender->slots);
    free(sender->leases);
    free(sender->free_slots);
    free(sender->readers);
    free(sender->published);
    free(sender->written);
    free(sender);
}

void kv_sender_on_event(struct kv_sender *sender, void (*notify)(void *arg), void *arg)
{
    sender->notify = notify;
    sender->notify_arg = arg;
}

/* ---- the engine's side ---- */

static void command(struct kv_sender *sender, enum command_kind kind, uint32_t slot)
{
    struct command item = {kind, slot};
    enum status status = ring_push(sender->commands, &item);
    assert(status == STATUS_OK); /* an OPEN and a CLOSE a slot */
    sender->transport->ops->wake(sender->transport);
}

enum status kv_sender_admit(struct kv_sender *sender, const struct transport_address *reader)
{
    if (sender->transport->ops->expect)
        sender->transport->ops->expect(sender->transport, reader);
    TRY(ring_push(sender->admissions, reader));
    sender->transport->ops->wake(sender->transport);
    return STATUS_OK;
}

enum status kv_sender_open(struct kv_sender *sender, const struct transfer_id *id,
                           uint64_t reader_incarnation)
{
    if (transfer_map_find(&sender->by_id, id) != NO_SLOT)
        return STATUS_DUPLICATE_REQUEST;
    if (sender->n_free == 0)
        return STATUS_QUEUE_FULL;
    uint32_t index = sender->free_slots[--sender->n_free];
    struct sender_slot *slot = &sender->slots[index];
    assert(!slot->is_open);
    *slot = (struct sender_slot){.id = *id,
                                 .reader_incarnation = reader_incarnation,
                                 .published = slot->published,
                                 .written = slot->written,
                                 .is_open = true};
    transfer_map_add(&sender->by_id, id, index);
    command(sender, COMMAND_OPEN, index);
    return STATUS_OK;
}

static struct sender_slot *open_slot(struct kv_sender *sender, const struct transfer_id *id)
{
    uint32_t index = transfer_map_find(&sender->by_id, id);
    assert(index != NO_SLOT);
    struct sender_slot *slot = &sender->slots[index];
    assert(slot->is_open && !slot->close_asked);
    return slot;
}

bool kv_sender_is_read_alone(const struct kv_sender *sender)
{
    return sender->transport->ops->is_direct;
}

void kv_sender_publish(struct kv_sender *sender, const struct transfer_id *id, uint32_t first_index,
                       const uint32_t *block_ids, uint32_t n)
{
    struct sender_slot *slot = open_slot(sender, id);
    assert(n <= sender->options.blocks_max && first_index <= sender->options.blocks_max - n);
    struct device_ticket written = device_record(sender->options.device, DEVICE_COMPUTE);
    for (uint32_t i = 0; i < n; i++) {
        assert(block_ids[i] < sender->options.n_blocks);
        slot->written[first_index + i] = written;
        atomic_store_explicit(&slot->published[first_index + i], block_ids[i],
                              memory_order_release);
    }
    if (slot->n_published_end < first_index + n)
        slot->n_published_end = first_index + n;
}

void kv_sender_close(struct kv_sender *sender, const struct transfer_id *id)
{
    struct sender_slot *slot = open_slot(sender, id);
    slot->close_asked = true;
    command(sender, COMMAND_CLOSE, (uint32_t)(slot - sender->slots));
}

bool kv_sender_next_event(struct kv_sender *sender, struct kv_sender_event *event_out)
{
    struct event event;
    if (!ring_pop(sender->events, &event))
        return false;
    struct sender_slot *slot = &sender->slots[event.slot];
    assert(slot->is_open && slot->close_asked);
    *event_out = (struct kv_sender_event){slot->id, event.bytes_sent};

    for (uint32_t i = 0; i < slot->n_published_end; i++)
        atomic_store_explicit(&slot->published[i], UNPUBLISHED, memory_order_relaxed);
    slot->is_open = false;
    transfer_map_remove(&sender->by_id, &slot->id);
    sender->free_slots[sender->n_free++] = event.slot;
    return true;
}

uint64_t kv_sender_bytes_sent(const struct kv_sender *sender)
{
    return atomic_load_explicit(&sender->bytes_sent, memory_order_relaxed);
}

uint64_t kv_sender_pieces_refused(const struct kv_sender *sender)
{
    return atomic_load_explicit(&sender->transport->full_pieces, memory_order_relaxed);
}

/* ---- the transfer thread's side ---- */

static void take_command(struct kv_sender *sender, const struct command *item)
{
    struct sender_lease *lease = &sender->leases[item->slot];
    if (item->kind == COMMAND_OPEN) {
        const struct sender_slot *slot = &sender->slots[item->slot];
        *lease = (struct sender_lease){
            .id = slot->id, .reader_incarnation = slot->reader_incarnation, .is_live = true};
        transfer_map_add(&sender->live, &lease->id, item->slot);
        struct sender_reader *reader = sender_reader_find(sender, lease->reader_incarnation);
        if (reader) {
            reader->n_open++;
            reader->last_used_ns = sender->now_ns;
        }
        return;
    }
    assert(lease->is_live && !lease->is_closing);
    lease->is_closing = true;
    lease->close_limit_ns = sender->now_ns + sender->options.quiet_limit_ns;
    if (lease->n_reads == 0)
        push_quiet(sender, item->slot);
    else
        sender->n_closing++;
}

uint64_t kv_sender_deadline_ns(const struct kv_sender *sender)
{
    uint64_t deadline_ns = DEADLINE_NONE;
    for (uint32_t i = 0; sender->n_closing > 0 && i < sender->options.transfers_max; i++) {
        const struct sender_lease *lease = &sender->leases[i];
        if (lease->is_live && lease->is_closing && lease->close_limit_ns < deadline_ns)
            deadline_ns = lease->close_limit_ns;
    }
    return deadline_ns;
}

static unsigned take_commands(struct kv_sender *sender)
{
    unsigned work = 0;
    struct transport_address address;
    for (; ring_pop(sender->admissions, &address); work++)
        sender_reader_admit(sender, &address);
    struct command item;
    for (; ring_pop(sender->commands, &item); work++)
        take_command(sender, &item);
    return work;
}

unsigned kv_sender_progress(struct kv_sender *sender, uint64_t now_ns)
{
    sender->now_ns = now_ns;
    sender->is_copying = false;
    unsigned work = take_commands(sender);
    work += sender->transport->ops->progress(sender->transport, now_ns);
    sender_readers_cut_off_silent(sender, now_ns);
    return work + sender->is_copying; /* nobody wakes who waits for the device */
}
