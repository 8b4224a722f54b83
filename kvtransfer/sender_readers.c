/* sender_readers - the readers of a sender. They are admitted while there is room, and cut off when a read does not end. */
#include "base/log/log.h"
#include "kvtransfer/kv_sender_parts.h"

#define READER_IDLE_NS (60 * NS_PER_S)

struct sender_reader *sender_reader_find(struct kv_sender *sender, uint64_t incarnation)
{
    for (uint32_t i = 0; i < sender->options.readers_max; i++)
        if (sender->readers[i].peer && sender->readers[i].incarnation == incarnation)
            return &sender->readers[i];
    return NULL;
}

static void on_reader_closed(void *arg)
{
    (void)arg; /* another reader has its place in the table already */
}

/* Finds a free place, or that of the reader that was silent for longest. NULL: every reader has a transfer or was active within
 * READER_IDLE_NS, so that no crowd of new readers takes the place of one that is about to read. */
static struct sender_reader *place_for_reader(struct kv_sender *sender)
{
    struct sender_reader *oldest = NULL;
    for (uint32_t i = 0; i < sender->options.readers_max; i++) {
        struct sender_reader *reader = &sender->readers[i];
        if (!reader->peer)
            return reader;
        if (reader->n_open == 0 && sender->now_ns - reader->last_used_ns >= READER_IDLE_NS &&
            (!oldest || reader->last_used_ns < oldest->last_used_ns))
            oldest = reader;
    }
    if (oldest) {
        sender->transport->ops->peer_close(oldest->peer, on_reader_closed, NULL);
        *oldest = (struct sender_reader){0};
    }
    return oldest;
}

/* Counts the transfers of the reader that were opened before it was admitted. */
static uint32_t count_open(const struct kv_sender *sender, uint64_t incarnation)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < sender->options.transfers_max; i++) {
        const struct sender_lease *lease = &sender->leases[i];
        n += lease->is_live && lease->reader_incarnation == incarnation;
    }
    return n;
}

void sender_reader_admit(struct kv_sender *sender, const struct transport_address *address)
{
    struct sender_reader *known = sender_reader_find(sender, address->incarnation);
    if (known) { /* with the address that it has */
        known->last_used_ns = sender->now_ns;
        return;
    }
    struct sender_reader *reader = place_for_reader(sender);
    struct transport_peer *peer = NULL;
    enum status status = STATUS_QUEUE_FULL;
    if (reader)
        status = sender->transport->ops->admit(sender->transport, address, &peer);
    if (status != STATUS_OK) {
        log_event(LOG_WARN, NULL, "reader not admitted",
                  LOG_HEX("incarnation", address->incarnation),
                  LOG_TEXT("why", status_text(status)));
        return;
    }
    *reader = (struct sender_reader){.peer = peer,
                                     .incarnation = address->incarnation,
                                     .last_used_ns = sender->now_ns,
                                     .n_open = count_open(sender, address->incarnation),
                                     .address = *address};
}

/* The sends of all its closing leases end with its endpoint. If the reader goes on later, its next pull makes a new
 * endpoint. */
static void cut_off(struct kv_sender *sender, struct sender_reader *reader)
{
    struct transport_address address = reader->address;
    for (uint32_t i = 0; i < sender->options.transfers_max; i++)
        if (sender->leases[i].reader_incarnation == address.incarnation)
            sender->leases[i].close_limit_ns = DEADLINE_NONE;
    log_event(LOG_WARN, NULL, "reader cut off", LOG_HEX("incarnation", address.incarnation));
    sender->transport->ops->peer_close(reader->peer, on_reader_closed, NULL);
    *reader = (struct sender_reader){0};
    sender_reader_admit(sender, &address);
}

void sender_readers_cut_off_silent(struct kv_sender *sender, uint64_t now_ns)
{
    for (uint32_t i = 0; sender->n_closing > 0 && i < sender->options.transfers_max; i++) {
        struct sender_lease *lease = &sender->leases[i];
        if (!lease->is_live || !lease->is_closing || lease->close_limit_ns > now_ns)
            continue;
        lease->close_limit_ns = DEADLINE_NONE;
        struct sender_reader *reader = sender_reader_find(sender, lease->reader_incarnation);
        if (reader)
            cut_off(sender, reader);
    }
}
