#include "kvtransfer/drivers/stream/stream_reader.h"

#include "kvtransfer/drivers/stream/stream_connection.h"

#include <assert.h>

void stream_reader_get(struct stream_peer *peer, const struct transfer_id *id,
                       struct get *const *gets, uint32_t n)
{
    struct stream_transport *transport = stream_of(peer->base.transport);
    assert(!peer->base.is_admitted && peer->connection && n >= 1 && n <= GET_PIECES_MAX);
    struct stream_pull *pull = (struct stream_pull *)message_take(&transport->free_pulls);
    assert(pull && "there is one for each get");
    const struct stream_frame frame = {.kind = FRAME_PULL,
                                       .pull = {.n = n,
                                                .reader_incarnation = transport->incarnation,
                                                .owner_incarnation = peer->base.incarnation,
                                                .id = *id,
                                                .connection = peer->connection->number}};
    stream_frame_encode(&frame, pull->message.head);
    for (uint32_t i = 0; i < n; i++) {
        const struct wire_item item = get_table_item(&transport->gets, gets[i]);
        wire_item_encode(&item, pull->items + (size_t)i * PULL_ITEM_BYTES);
    }
    pull->message.body = pull->items;
    pull->message.body_bytes = (size_t)n * PULL_ITEM_BYTES;
    stream_connection_send(peer->connection, &pull->message);
}

/* NULL: nobody asked this owner for it. */
static struct get *find_get(struct stream_connection *connection)
{
    const struct wire_piece *piece = &connection->parser.frame.piece;
    struct stream_transport *transport = connection->transport;
    struct get *get = connection->parser.frame.kind == FRAME_PIECE
                          ? get_table_find(&transport->gets, piece, transport->incarnation)
                          : NULL;
    if (get && get->peer == &connection->peer->base)
        return get;
    atomic_fetch_add(&transport->base.late_pieces, 1);
    return NULL;
}

bool stream_reader_place(struct stream_connection *connection)
{
    struct get *get = find_get(connection);
    if (!get)
        return false;
    assert(!connection->filling && get->state == GET_OUT);
    connection->filling = get;
    connection->crc32c = 0;
    frame_parser_place(&connection->parser, get->piece.target);
    return true;
}

bool stream_reader_take(struct stream_connection *connection)
{
    const struct wire_piece *piece = &connection->parser.frame.piece;
    struct get_table *gets = &connection->transport->gets;
    struct get *get = connection->filling;
    connection->filling = NULL;
    if (get) {
        assert(get->state == GET_OUT && get->peer == &connection->peer->base);
        bool is_right = connection->crc32c == piece->crc32c;
        get_table_end(gets, get, is_right ? STATUS_OK : STATUS_CORRUPT);
        return true;
    }
    get = find_get(connection);
    if (get)
        get_table_end(gets, get, wire_refusal(piece->answer));
    return get != NULL;
}
