/*
 * ucx_am - the handlers of the am-tcp driver, given whatever a peer sends. A few gets are out, one
 * reader is admitted, and the input is a run of messages:
 *
 *     0  u8   bit 0: piece, else pull; bit 1: by rendezvous; bit 2: a piece gets its right CRC
 *     1  u8   bytes of the header      2  u16  bytes of the data      4  header, then data
 *
 * Whatever comes: nothing but the target of a get that is out is written, each get ends at most
 * once, what is accepted keeps the bounds of pull_wire.h and is the only encoding of what it says,
 * and no message of the owner is lost.
 */
#include "get_out.h"
#include "kvtransfer/drivers/ucx/ucx_am.c" /* its handlers are only reachable through UCX */
#include "kvtransfer/drivers/ucx/ucx_pieces.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_GETS = 4, N_OUT = 3, N_MESSAGES = 8, TARGET_BYTES = 64, GUARD = 0xa5 };
/* The owner takes READER_READS_MAX of the reader's reads, and refuses as many as there are messages left. */
enum { PIECES_MAX = 3, READER_READS_MAX = PIECES_MAX + PIECES_SENDING };
enum { IS_PIECE = 1, IS_RENDEZVOUS = 2, HAS_RIGHT_CRC = 4 };
enum { READER = 1, OWNER = 2 }; /* incarnations: every message is from the other one of the two */

struct rig {
    struct ucx_transport transport;
    struct ucx_peer owner, reader; /* the owner is got from, the reader may pull */
    struct get gets[N_GETS];
    struct ucx_piece_message pieces[N_MESSAGES];
    uint8_t targets[N_GETS][TARGET_BYTES];
};

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void rig_init(struct rig *rig)
{
    *rig = (struct rig){.transport = {.incarnation = READER,
                                      .gets = {.gets = rig->gets, .gets_max = N_GETS},
                                      .bounds = {.reads_max = N_MESSAGES,
                                                 .pieces_max = PIECES_MAX,
                                                 .spare = PIECES_SENDING},
                                      .peers = {.first = &rig->owner.base, .n = 2}},
                        .owner = {.base = {.next = &rig->reader.base, .incarnation = OWNER}},
                        .reader = {.base = {.is_admitted = true, .incarnation = OWNER}}};
    rig->owner.base.transport = rig->reader.base.transport = &rig->transport.base;
    memset(rig->targets, GUARD, sizeof rig->targets);
    for (uint32_t i = 0; i < N_OUT; i++)
        get_out(&rig->gets[i], i, &rig->owner.base, rig->targets[i]);
    for (uint32_t i = 0; i < N_MESSAGES; i++)
        add_free(&rig->transport, &rig->pieces[i]);
}

static void check_gets(const struct rig *rig)
{
    uint32_t n_ended = 0;
    for (const struct get *get = rig->transport.gets.ended.first; get; get = get->next)
        n_ended++;
    for (uint32_t i = 0; i < N_GETS; i++) {
        const struct get *get = &rig->gets[i];
        bool may_write = get->state == GET_ENDED &&
                         (get->status == STATUS_OK || get->status == STATUS_CORRUPT);
        n_ended -= get->state == GET_ENDED;
        require(i < N_OUT || get->state == GET_FREE);
        for (uint32_t at = may_write ? get->piece.bytes : 0; at < TARGET_BYTES; at++)
            require(rig->targets[i][at] == GUARD);
    }
    require(n_ended == 0);
}

static void check_asked(const struct rig *rig)
{
    uint32_t n = 0, n_reads = 0;
    for (const struct ucx_piece_message *message = rig->transport.free_pieces; message;
         message = message->next)
        n++;
    for (const struct ucx_piece_message *message = rig->transport.first_asked; message;
         message = message->next, n++) {
        require(message->peer == &rig->reader && message->asked.read.bytes >= 1 &&
                message->asked.read.bytes <= PIECE_BYTES_MAX &&
                message->asked.read.reader_incarnation == OWNER && !message->asked.read.view);
        n_reads += !message->asked.is_refused;
    }
    require(n == N_MESSAGES);
    require(n_reads == rig->reader.base.n_reads && n_reads == rig->transport.bounds.n_reads);
    require(n_reads <= READER_READS_MAX);
}

static void check_pull(const uint8_t *header, size_t header_bytes, const uint8_t *data,
                       size_t data_bytes)
{
    struct wire_pull pull;
    uint8_t again[PULL_HEADER_BYTES], item_again[PULL_ITEM_BYTES];
    if (!wire_pull_decode(header, header_bytes, data_bytes, &pull))
        return;
    require(pull.n >= 1 && pull.n <= GET_PIECES_MAX);
    wire_pull_encode(&pull, again);
    require(memcmp(again, header, header_bytes) == 0);
    for (uint32_t i = 0; i < pull.n; i++) {
        struct wire_item item;
        bool is_valid = wire_item_decode(data, i, &item);
        require(is_valid == (item.bytes >= 1 && item.bytes <= PIECE_BYTES_MAX));
        wire_item_encode(&item, item_again);
        require(memcmp(item_again, data + (size_t)i * PULL_ITEM_BYTES, sizeof item_again) == 0);
    }
}

static void check_piece(const uint8_t *header, size_t header_bytes, size_t data_bytes)
{
    struct wire_piece piece;
    uint8_t again[PIECE_HEADER_BYTES];
    if (!wire_piece_decode(header, header_bytes, data_bytes, &piece))
        return;
    require(piece.answer < N_ANSWERS);
    require(data_bytes == (piece.answer == ANSWER_BYTES ? piece.item.bytes : 0));
    wire_piece_encode(&piece, again);
    require(memcmp(again, header, header_bytes) == 0);
}

static void give(struct rig *rig, unsigned flags, const uint8_t *header, size_t header_bytes,
                 uint8_t *data, size_t data_bytes)
{
    const ucp_am_recv_param_t param = {
        .recv_attr = (flags & IS_RENDEZVOUS) != 0 ? UCP_AM_RECV_ATTR_FLAG_RNDV : 0};
    if ((flags & IS_PIECE) != 0) {
        check_piece(header, header_bytes, data_bytes);
        on_piece(&rig->transport, header, header_bytes, data, data_bytes, &param);
    } else {
        check_pull(header, header_bytes, data, data_bytes);
        on_pull(&rig->transport, header, header_bytes, data, data_bytes, &param);
    }
}

/* In memory of exactly their sizes, so that a sanitizer sees a read behind them. */
static void give_copies(struct rig *rig, unsigned flags, const uint8_t *message,
                        size_t header_bytes, size_t data_bytes)
{
    enum { CRC_AT = 64 };
    uint8_t *header = malloc(header_bytes), *data = malloc(data_bytes);
    require((header || header_bytes == 0) && (data || data_bytes == 0));
    if (header_bytes > 0)
        memcpy(header, message, header_bytes);
    if (data_bytes > 0)
        memcpy(data, message + header_bytes, data_bytes);
    uint32_t crc = crc32c(0, data, data_bytes);
    if ((flags & HAS_RIGHT_CRC) != 0 && header_bytes == PIECE_HEADER_BYTES)
        memcpy(header + CRC_AT, &crc, sizeof crc);
    give(rig, flags, header, header_bytes, data, data_bytes);
    free(header);
    free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { PREFIX_BYTES = 4 };
    static struct rig rig;
    rig_init(&rig);
    while (size >= PREFIX_BYTES) {
        unsigned flags = data[0];
        size_t header_bytes = data[1], data_bytes = data[2] | (size_t)data[3] << 8;
        data += PREFIX_BYTES;
        size -= PREFIX_BYTES;
        if (header_bytes > size)
            header_bytes = size;
        if (data_bytes > size - header_bytes)
            data_bytes = size - header_bytes;
        give_copies(&rig, flags, data, header_bytes, data_bytes);
        data += header_bytes + data_bytes;
        size -= header_bytes + data_bytes;
        check_gets(&rig);
        check_asked(&rig);
    }
    ucx_pieces_forget(&rig.transport, &rig.reader);
    require(!rig.transport.first_asked);
    check_asked(&rig);
    return 0;
}
