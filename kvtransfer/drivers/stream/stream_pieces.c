#include "kvtransfer/drivers/stream/stream_pieces.h"

#include <assert.h>

struct stream_piece *stream_pieces_take(struct stream_transport *transport,
                                        struct stream_peer *reader, const struct wire_pull *pull,
                                        const struct wire_item *item)
{
    struct stream_piece *piece = (struct stream_piece *)message_take(&transport->free_pieces);
    if (piece)
        asked_piece_take(&transport->bounds, &reader->base, pull, item, &piece->asked);
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
    assert(connection->peer && "whoever asked stays until it is answered");
    asked_piece_end(&transport->bounds, &connection->peer->base, &piece->asked, status);
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
