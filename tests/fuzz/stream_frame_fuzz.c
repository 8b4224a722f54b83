/*
 * stream_frame - the parser of our own streams, given whatever a peer sends, in pieces of whatever size,
 * on both sides: an owner that has admitted one reader, and a reader that has a few gets out.
 *
 *     0  u8   bit 0: the reader's side, else the owner's; bit 1: the hello is sent for it;
 *             bit 2: pieces get their right CRC
 *     1  u8   bytes a step, 0: all at once
 *     2       the stream
 *
 * Whatever comes: nothing but the target of a get that is out is written, each get ends at most once,
 * what is accepted is the only encoding of what it says, reads stay within their bounds, each read that
 * was begun ends, and no message is lost.
 */
#include "get_out.h"
#include "kvtransfer/drivers/stream/stream_connection.h"
#include "kvtransfer/drivers/stream/stream_traffic.c" /* takes steps without a socket */

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_GETS = 4, N_OUT = 3, N_PIECES = 8, PIECES_MAX = 3, TARGET_BYTES = 64, GUARD = 0xa5 };
enum { IS_READER = 1, HAS_HELLO = 2, HAS_RIGHT_CRC = 4 };
enum { READER = 1, OWNER = 2 }; /* incarnations */
enum { CRC_AT = 8 + 64 };

struct rig {
    struct stream_transport transport;
    struct stream_peer peer;
    struct stream_connection connection;
    struct get gets[N_GETS];
    struct stream_piece pieces[N_PIECES];
    uint8_t targets[N_GETS][TARGET_BYTES];
    uint32_t n_begun, n_ended;
};

static const uint8_t pool[TARGET_BYTES];

static void require(bool holds)
{
    if (!holds)
        abort();
}

static enum status begin_read(void *arg, struct block_read *read)
{
    struct rig *rig = arg;
    require(read->bytes >= 1 && read->bytes <= PIECE_BYTES_MAX &&
            read->reader_incarnation == READER);
    if (read->remote_block != 0 || read->bytes > sizeof pool ||
        read->offset > sizeof pool - read->bytes)
        return STATUS_NOT_HELD;
    require(!read->view);
    rig->n_begun++;
    read->view = pool + read->offset;
    return STATUS_OK;
}

static void end_read(void *arg, struct block_read *read, enum status status)
{
    (void)status;
    require(read->view);
    read->view = NULL;
    ((struct rig *)arg)->n_ended++;
}

static void rig_init(struct rig *rig, unsigned flags)
{
    bool is_reader = (flags & IS_READER) != 0;
    *rig = (struct rig){
        .transport = {.base = {.source = {rig, NULL, begin_read, end_read},
                               .port.n_unproven = !is_reader},
                      .incarnation = is_reader ? READER : OWNER,
                      .peers = {.first = &rig->peer.base, .n = 1},
                      .gets = {.gets = rig->gets, .gets_max = N_GETS},
                      .bounds = {.reads_max = N_PIECES, .pieces_max = PIECES_MAX},
                      .connections = &rig->connection,
                      .connections_max = 1},
        .peer.base = {.is_admitted = !is_reader, .incarnation = is_reader ? OWNER : READER},
        .connection = {.state = is_reader ? CONNECTION_OPEN : CONNECTION_GREETED,
                       .is_accepted = !is_reader,
                       .link.fd = -1}};
    rig->peer.base.transport = &rig->transport.base;
    rig->connection.transport = &rig->transport;
    if (is_reader) {
        rig->connection.peer = &rig->peer;
        rig->peer.connection = &rig->connection;
    }
    frame_parser_init(&rig->connection.parser);
    memset(rig->targets, GUARD, sizeof rig->targets);
    for (uint32_t i = 0; i < N_OUT; i++)
        get_out(&rig->gets[i], i, &rig->peer.base, rig->targets[i]);
    for (uint32_t i = 0; i < N_PIECES; i++)
        message_append(&rig->transport.free_pieces, &rig->pieces[i].message);
}

static void check_gets(const struct rig *rig)
{
    uint32_t n_ended = 0;
    for (const struct get *get = rig->transport.gets.ended.first; get; get = get->next)
        n_ended++;
    for (uint32_t i = 0; i < N_GETS; i++) {
        const struct get *get = &rig->gets[i];
        bool may_write = rig->connection.filling == get ||
                         (get->state == GET_ENDED &&
                          (get->status == STATUS_OK || get->status == STATUS_CORRUPT));
        bool was_cut = get->state == GET_ENDED && get->status == STATUS_PEER_LOST;
        n_ended -= get->state == GET_ENDED;
        require(i < N_OUT || get->state == GET_FREE);
        for (uint32_t at = may_write || was_cut ? get->piece.bytes : 0; at < TARGET_BYTES; at++)
            require(rig->targets[i][at] == GUARD);
    }
    require(n_ended == 0);
}

static uint32_t count(const struct message_list *list, uint32_t *n_reads)
{
    uint32_t n = 0;
    for (const struct stream_message *message = list->first; message; message = message->next, n++)
        *n_reads += !((const struct stream_piece *)message)->asked.is_refused;
    return n;
}

static void check_pieces(const struct rig *rig)
{
    uint32_t n_reads = 0, ignored = 0;
    uint32_t n = count(&rig->connection.asked, &n_reads) + count(&rig->connection.out, &n_reads) +
                 count(&rig->transport.free_pieces, &ignored);
    require(n == N_PIECES);
    require(n_reads == rig->transport.bounds.n_reads && n_reads == rig->peer.base.n_reads &&
            n_reads <= PIECES_MAX);
    require(rig->n_begun >= rig->n_ended);
}

/* What is accepted has no other encoding. */
static void check_head(const uint8_t head[FRAME_HEAD_BYTES])
{
    struct stream_frame frame;
    uint8_t again[FRAME_HEAD_BYTES];
    if (!stream_frame_decode(head, &frame))
        return;
    require(stream_frame_body_bytes(&frame) <= PIECE_BYTES_MAX);
    stream_frame_encode(&frame, again);
    require(memcmp(again, head, sizeof again) == 0);
}

/* As if the head came from an owner that sums what it sends. */
static void correct_crc(uint8_t *head, const uint8_t *body, size_t bytes)
{
    struct stream_frame frame;
    if (!stream_frame_decode(head, &frame) || frame.kind != FRAME_PIECE ||
        stream_frame_body_bytes(&frame) > bytes)
        return;
    frame.piece.crc32c = crc32c(0, body, stream_frame_body_bytes(&frame));
    stream_frame_encode(&frame, head);
}

/* False: the stream has broken a rule. */
static bool give(struct rig *rig, unsigned flags, const uint8_t *data, size_t bytes, size_t rest)
{
    struct stream_connection *connection = &rig->connection;
    while (bytes > 0) {
        size_t room_bytes;
        uint8_t *room = frame_parser_room(&connection->parser, &room_bytes);
        size_t n = bytes < room_bytes ? bytes : room_bytes;
        memcpy(room, data, n);
        bool is_head = !connection->parser.body && n == room_bytes;
        if (is_head && (flags & HAS_RIGHT_CRC) != 0)
            correct_crc(connection->parser.head, data + n, bytes - n + rest);
        if (is_head)
            check_head(connection->parser.head);
        if (connection->filling)
            connection->crc32c = crc32c(connection->crc32c, room, n);
        if (!take_step(connection, frame_parser_take(&connection->parser, n)))
            return false;
        data += n;
        bytes -= n;
        if (connection->is_held)
            return true;
    }
    return true;
}

/* The owner's socket takes everything. */
static void send_all(struct rig *rig)
{
    struct stream_connection *connection = &rig->connection;
    struct iovec parts[PARTS_MAX];
    if (!connection->is_accepted || connection->state != CONNECTION_OPEN)
        return;
    stream_owner_fill(connection);
    for (int n = gather(connection, parts); n > 0; n = gather(connection, parts)) {
        size_t bytes = 0;
        for (int i = 0; i < n; i++)
            bytes += parts[i].iov_len;
        note_sent(connection, bytes);
        stream_owner_fill(connection);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rig rig;
    uint8_t hello[FRAME_HEAD_BYTES];
    if (size < 2)
        return 0;
    unsigned flags = data[0];
    size_t step = data[1] ? data[1] : SIZE_MAX;
    rig_init(&rig, flags);
    stream_frame_encode(&(struct stream_frame){.kind = FRAME_HELLO, .hello = {READER, 1}}, hello);
    bool is_well = (flags & IS_READER) != 0 || (flags & HAS_HELLO) == 0 ||
                   give(&rig, 0, hello, sizeof hello, 0);
    data += 2;
    size -= 2;
    for (size_t n; is_well && size > 0; data += n, size -= n) {
        n = size < step ? size : step;
        is_well = give(&rig, flags, data, n, size - n);
        check_gets(&rig);
        check_pieces(&rig);
        if (step % 2 == 0 || rig.connection.is_held)
            send_all(&rig);
        if (rig.connection.is_held)
            break; /* not read until there is room */
    }
    stream_connection_lose(&rig.connection);
    check_gets(&rig);
    check_pieces(&rig);
    require(rig.transport.bounds.n_reads == 0 && rig.n_begun == rig.n_ended &&
            rig.transport.base.port.n_unproven == 0 && rig.transport.base.port.n_proven == 0 &&
            rig.transport.n_held == 0);
    return 0;
}
