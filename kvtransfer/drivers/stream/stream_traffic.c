#include "kvtransfer/drivers/stream/stream_traffic.h"

#include "base/crc32c.h"
#include "kvtransfer/drivers/stream/stream_connection.h"
#include "kvtransfer/drivers/stream/stream_owner.h"
#include "kvtransfer/drivers/stream/stream_reader.h"

#include <assert.h>

/* Of one connection in a turn. */
enum { ROUND_BYTES = 1 << 20 };
enum { PARTS_MAX = 32 }; /* of one write */

static bool take_frame(struct stream_connection *connection)
{
    assert(connection->state >= CONNECTION_GREETED);
    if (!connection->is_accepted)
        return stream_reader_take(connection);
    return connection->state == CONNECTION_GREETED ? stream_owner_greet(connection)
                                                   : stream_owner_pull(connection);
}

static bool take_step(struct stream_connection *connection, enum frame_step step)
{
    switch (step) {
    case FRAME_MORE:
        return true;
    case FRAME_PLACE:
        return !connection->is_accepted && stream_reader_place(connection);
    case FRAME_WHOLE:
        return take_frame(connection);
    case FRAME_BAD:
        break;
    }
    return false;
}

static bool receive(struct stream_connection *connection)
{
    struct stream_transport *transport = connection->transport;
    for (size_t left = ROUND_BYTES; left > 0 && !connection->is_held;) {
        size_t bytes;
        uint8_t *room = frame_parser_room(&connection->parser, &bytes);
        ssize_t n = stream_link_read(&connection->link, room, bytes < left ? bytes : left);
        if (n == LINK_LATER)
            return true;
        if (n == LINK_LOST)
            return false;
        assert(n > 0 && (size_t)n <= bytes && (size_t)n <= left);
        if (connection->filling)
            connection->crc32c = crc32c(connection->crc32c, room, (size_t)n);
        left -= (size_t)n;
        uint64_t n_late = atomic_load(&transport->base.late_pieces);
        enum frame_step step = frame_parser_take(&connection->parser, (size_t)n);
        if (!take_step(connection, step)) {
            bool is_stranger = connection->is_accepted && connection->state != CONNECTION_OPEN;
            if (!is_stranger && atomic_load(&transport->base.late_pieces) == n_late)
                atomic_fetch_add(&transport->base.port.bad_messages, 1);
            return false;
        }
    }
    if (!connection->is_held)
        stream_connection_make_ready(connection);
    return true;
}

static int gather(const struct stream_connection *connection, struct iovec parts[PARTS_MAX])
{
    int n = 0;
    size_t skip = connection->sent;
    for (const struct stream_message *message = connection->out.first;
         message && n + 2 <= PARTS_MAX; message = message->next) {
        union {
            const uint8_t *in;
            void *out;
        } head = {.in = message->head}, body = {.in = message->body};
        if (skip < FRAME_HEAD_BYTES) {
            parts[n++] = (struct iovec){(uint8_t *)head.out + skip, FRAME_HEAD_BYTES - skip};
            skip = 0;
        } else {
            skip -= FRAME_HEAD_BYTES;
        }
        if (message->body_bytes > 0)
            parts[n++] = (struct iovec){(uint8_t *)body.out + skip, message->body_bytes - skip};
        skip = 0;
    }
    return n;
}

static void note_sent(struct stream_connection *connection, size_t bytes)
{
    connection->sent += bytes;
    assert(bytes == 0 || connection->out.first);
    for (struct stream_message *message; (message = connection->out.first);) {
        size_t whole = FRAME_HEAD_BYTES + message->body_bytes;
        if (connection->sent < whole)
            break;
        connection->sent -= whole;
        message_take(&connection->out);
        if (connection->is_accepted) {
            assert(connection->out_bytes >= message->body_bytes);
            connection->out_bytes -= message->body_bytes;
            stream_owner_sent(connection, message);
        } else {
            stream_connection_sent(connection, message);
        }
    }
}

static bool transmit(struct stream_connection *connection)
{
    connection->is_blocked = false;
    for (size_t done = 0; !connection->is_blocked;) {
        struct iovec parts[PARTS_MAX];
        if (connection->is_accepted)
            stream_owner_fill(connection);
        int n_parts = gather(connection, parts);
        if (n_parts == 0)
            break;
        if (done >= ROUND_BYTES) {
            stream_connection_make_ready(connection);
            break;
        }
        ssize_t n = stream_link_write(&connection->link, parts, n_parts);
        if (n == LINK_LOST)
            return false;
        connection->is_blocked = n == LINK_LATER;
        note_sent(connection, (size_t)n);
        done += (size_t)n;
    }
    int flushed = stream_link_flush(&connection->link);
    connection->is_blocked |= flushed == LINK_LATER;
    return flushed != LINK_LOST;
}

void stream_traffic_serve(struct stream_connection *connection)
{
    bool is_well = stream_connection_advance(connection);
    if (is_well && connection->state >= CONNECTION_GREETED)
        is_well = receive(connection);
    if (is_well && connection->state == CONNECTION_OPEN)
        is_well = transmit(connection);
    if (!is_well || !stream_connection_watch(connection))
        stream_connection_lose(connection);
}
