#include "kvtransfer/drivers/stream/stream_pieces.h"

#include "base/log/log.h"

#include <assert.h>

static void note_overrun(struct stream_transport *transport, struct stream_peer *reader)
{
    atomic_fetch_add(&transport->base.full_pieces, 1);
    if (!reader->has_overrun)
        log_event(LOG_WARN, NULL, "a reader that asks for too many pieces at a time is refused",
                  LOG_HEX("incarnation", reader->base.incarnation),
                  LOG_U64("pieces_max", transport->pieces_max));
    reader->has_overrun = true;
}

struct stream_piece *stream_pieces_take(struct stream_transport *transport,
                                        struct stream_peer *reader)
{
    struct stream_piece *piece = (struct stream_piece *)message_take(&transport->free_pieces);
    if (!piece)
        return NULL;
    bool is_full = reader->n_reads >= transport->pieces_max ||
                   transport->n_reads == transport->reads_max;
    *piece = (struct stream_piece){.is_refused = is_full};
    if (is_full) {
        note_overrun(transport, reader);
    } else {
        transport->n_reads++;
        reader->n_reads++;
        assert(reader->n_reads <= transport->n_reads && transport->n_reads <= transport->reads_max);
    }
    return piece;
}

void stream_pieces_hold(struct stream_connection *connection, bool is_held)
{
    if (is_held && !connection->is_held)
        connection->transport->n_held++;
    assert(!connection->is_held || connection->transport->n_held > 0);
    if (!is_held && connection->is_held)
        connection->transport->n_held--;
    connection->is_held = is_held;
}

void stream_pieces_end(struct stream_connection *connection, struct stream_piece *piece,
                       enum status status)
{
    struct stream_transport *transport = connection->transport;
    transport_read_end(&transport->base.source, &piece->read, status);
    if (!piece->is_refused) {
        assert(connection->peer && connection->peer->n_reads > 0 && transport->n_reads > 0);
        transport->n_reads--;
        connection->peer->n_reads--;
    }
    message_append(&transport->free_pieces, &piece->message);
}

void stream_pieces_drop(struct stream_connection *connection)
{
    struct message_list *lists[] = {&connection->out, &connection->asked};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (struct stream_message *message; (message = message_take(lists[i]));)
            stream_pieces_end(connection, (struct stream_piece *)message, STATUS_PEER_LOST);
    stream_pieces_hold(connection, false);
}
