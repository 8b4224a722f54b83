#include "kvtransfer/drivers/stream/stream_owner.h"

#include "base/secret.h"
#include "kvtransfer/drivers/stream/stream_connection.h"
#include "kvtransfer/drivers/stream/stream_pieces.h"

#include <assert.h>
#include <string.h>

/* Bytes with a CRC that wait for the socket. This many stay in the cache until they are sent. */
enum { SENDING_BYTES = 2 * (int)PIECE_BYTES_MAX };

/* ---- readers ---- */

static struct stream_peer *find_reader(struct stream_transport *transport, uint64_t incarnation)
{
    return stream_peer_of(
        peer_list_reader(&transport->peers, &transport->base.source, incarnation));
}

bool stream_owner_find_key(void *arg, uint64_t reader_incarnation, uint8_t key_out[TLS_KEY_BYTES])
{
    struct stream_connection *connection = arg;
    struct stream_transport *transport = connection->transport;
    assert(connection->is_accepted && connection->state == CONNECTION_SHAKING);
    const struct stream_peer *peer = find_reader(transport, reader_incarnation);
    if (!peer || tls_key_derive(transport->secret, peer->address.secret, reader_incarnation,
                                key_out) != STATUS_OK)
        return false;
    memcpy(connection->secret, peer->address.secret, sizeof connection->secret);
    return true;
}

/* Connects the reader's peer and this connection. The peer may be another one than at the handshake. */
static bool bind_reader(struct stream_connection *connection)
{
    struct stream_transport *transport = connection->transport;
    if (connection->peer && !connection->peer->base.is_closing)
        return true;
    if (connection->peer)
        return false;
    struct stream_peer *peer = find_reader(transport, connection->reader);
    if (!peer || (connection->link.tls && !secret_equal(connection->secret, peer->address.secret,
                                                        sizeof connection->secret)))
        return false;
    assert(peer->base.is_admitted && peer->connection != connection);
    if (peer->connection) {
        if (peer->connection->number >= connection->number)
            return false;
        stream_connection_lose(peer->connection);
    }
    peer->connection = connection;
    connection->peer = peer;
    return true;
}

bool stream_owner_greet(struct stream_connection *connection)
{
    const struct wire_hello *hello = &connection->parser.frame.hello;
    const struct tls_session *tls = connection->link.tls;
    assert(connection->is_accepted && connection->state == CONNECTION_GREETED);
    assert(!connection->peer && connection->transport->base.port.n_unproven > 0);
    if (connection->parser.frame.kind != FRAME_HELLO ||
        (tls && tls_session_reader(tls) != hello->reader_incarnation))
        return false;
    connection->reader = hello->reader_incarnation;
    connection->number = hello->connection;
    if (!bind_reader(connection))
        return false;
    connection->state = CONNECTION_OPEN;
    connection->transport->base.port.n_unproven--;
    connection->transport->base.port.n_proven++;
    return true;
}

/* ---- what they ask for ---- */

static bool take_items(struct stream_connection *connection)
{
    const struct wire_pull *pull = &connection->parser.frame.pull;
    assert(connection->peer && connection->parser.frame.kind == FRAME_PULL);
    assert(pull->n <= GET_PIECES_MAX && connection->n_taken <= pull->n);
    for (; connection->n_taken < pull->n; connection->n_taken++) {
        struct wire_item item;
        if (!wire_item_decode(connection->parser.items, connection->n_taken, &item))
            return false;
        struct stream_piece *piece = stream_pieces_take(connection->transport, connection->peer,
                                                        pull, &item);
        if (!piece) {
            stream_pieces_hold(connection, true);
            return true;
        }
        message_append(&connection->asked, &piece->message);
    }
    stream_pieces_hold(connection, false);
    return true;
}

bool stream_owner_pull(struct stream_connection *connection)
{
    const struct stream_frame *frame = &connection->parser.frame;
    if (frame->kind != FRAME_PULL || frame->pull.reader_incarnation != connection->reader ||
        !bind_reader(connection))
        return false;
    assert(!connection->is_held); /* it is not read while a pull waits for room */
    connection->n_taken = 0;
    return take_items(connection);
}

void stream_owner_resume(struct stream_transport *transport)
{
    for (uint32_t i = 0; transport->n_held > 0 && i < transport->connections_max; i++) {
        struct stream_connection *connection = &transport->connections[i];
        if (!connection->is_held || !transport->free_pieces.first)
            continue;
        if (take_items(connection)) {
            stream_connection_make_ready(connection);
        } else {
            atomic_fetch_add(&transport->base.port.bad_messages, 1);
            stream_connection_lose(connection);
        }
    }
}

/* ---- what they get ---- */

/* False: the bytes are not there yet. */
static bool read_piece(const struct stream_connection *connection, struct stream_piece *piece)
{
    const struct stream_transport *transport = connection->transport;
    struct stream_frame frame = {.kind = FRAME_PIECE};
    if (!asked_piece_answer(&transport->base.source, transport->incarnation, &piece->asked,
                            &frame.piece))
        return false;
    piece->message.body = piece->asked.read.view;
    piece->message.body_bytes = piece->message.body ? piece->asked.item.bytes : 0;
    stream_frame_encode(&frame, piece->message.head);
    return true;
}

void stream_owner_fill(struct stream_connection *connection)
{
    while (connection->asked.first &&
           (!connection->out.first || connection->out_bytes < SENDING_BYTES)) {
        struct stream_piece *piece = (struct stream_piece *)message_take(&connection->asked);
        assert(connection->out.first || connection->out_bytes == 0);
        if (!read_piece(connection, piece)) {
            message_put_back(&connection->asked, &piece->message);
            stream_connection_make_ready(connection); /* asks again */
            return;
        }
        connection->out_bytes += piece->message.body_bytes;
        message_append(&connection->out, &piece->message);
    }
}

void stream_owner_sent(struct stream_connection *connection, struct stream_message *message)
{
    stream_pieces_end(connection, (struct stream_piece *)message, STATUS_OK);
}

bool stream_owner_is_busy(const struct stream_connection *connection)
{
    return connection->out.first || connection->asked.first || connection->is_held;
}
