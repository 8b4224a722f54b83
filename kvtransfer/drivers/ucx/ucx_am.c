#include "kvtransfer/drivers/ucx/ucx_am.h"

#include "base/crc32c.h"
#include "kvtransfer/drivers/ucx/ucx_peer.h"
#include "kvtransfer/drivers/ucx/ucx_pieces.h"
#include "kvtransfer/drivers/ucx/ucx_status.h"
#include "kvtransfer/transport/pull_wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

enum { AM_PULL = 1, AM_PIECE = 2 }; /* ids of active messages */

/* Pieces of one reader that the device copies at a time. More would take the device's views from other readers. */
enum { PIECES_READING = 4 };

/* U15: header and data must live until UCX has sent them. */
struct ucx_pull_message {
    struct ucx_pull_message *next;
    struct ucx_peer *peer;
    uint8_t header[PULL_HEADER_BYTES];
    uint8_t items[GET_PIECES_MAX * PULL_ITEM_BYTES];
};

static void count_bad(struct ucx_transport *transport)
{
    atomic_fetch_add(&transport->base.port.bad_messages, 1);
}

/* ---- reader ---- */

static void free_pull(struct ucx_transport *transport, struct ucx_pull_message *pull)
{
    assert(pull >= transport->pulls && pull < transport->pulls + transport->gets.gets_max);
    pull->next = transport->free_pulls;
    transport->free_pulls = pull;
}

static void on_pull_sent(void *request, ucs_status_t code, void *arg)
{
    struct ucx_pull_message *pull = arg;
    struct ucx_peer *peer = pull->peer;
    assert(peer->n_callbacks > 0);
    peer->n_callbacks--;
    if (code != UCS_OK)
        ucx_peer_mark_failed(peer);
    free_pull(ucx_of(peer->base.transport), pull);
    ucp_request_free(request);
}

enum status ucx_am_get(struct ucx_peer *peer, const struct transfer_id *id, struct get *const *gets,
                       uint32_t n)
{
    struct ucx_transport *transport = ucx_of(peer->base.transport);
    assert(n >= 1 && n <= GET_PIECES_MAX && !peer->base.is_admitted && peer->ep);
    struct ucx_pull_message *pull = transport->free_pulls;
    if (!pull)
        return STATUS_QUEUE_FULL;
    transport->free_pulls = pull->next;
    pull->peer = peer;
    wire_pull_encode(&(struct wire_pull){.n = n,
                                         .reader_incarnation = transport->incarnation,
                                         .owner_incarnation = peer->base.incarnation,
                                         .id = *id,
                                         .connection = peer->connection},
                     pull->header);
    for (uint32_t i = 0; i < n; i++) {
        const struct wire_item item = get_table_item(&transport->gets, gets[i]);
        wire_item_encode(&item, pull->items + (size_t)i * PULL_ITEM_BYTES);
    }

    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                       UCP_OP_ATTR_FIELD_USER_DATA |
                                                       UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_AM_SEND_FLAG_EAGER,
                                       .cb.send = on_pull_sent,
                                       .user_data = pull};
    enum status status;
    void *request = ucp_am_send_nbx(peer->ep, AM_PULL, pull->header, sizeof pull->header,
                                    pull->items, (size_t)n * PULL_ITEM_BYTES, &param);
    if (ucx_peer_track(peer, request, &status))
        return STATUS_OK;
    free_pull(transport, pull);
    return status;
}

static ucs_status_t on_piece(void *arg, const void *header, size_t header_bytes, void *data,
                             size_t data_bytes, const ucp_am_recv_param_t *param)
{
    struct ucx_transport *transport = arg;
    struct wire_piece piece;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
        count_bad(transport);
        return UCS_ERR_REJECTED;
    }
    if (!wire_piece_decode(header, header_bytes, data_bytes, &piece)) {
        count_bad(transport);
        return UCS_OK;
    }
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) !=
        0) /* memory of UCX's own: over TCP, of a piece in several segments */
        atomic_fetch_add(&transport->base.joined_pieces, 1);
    struct get *get = get_table_find(&transport->gets, &piece, transport->incarnation);
    if (!get) {
        atomic_fetch_add(&transport->base.late_pieces, 1);
        return UCS_OK;
    }
    if (piece.answer != ANSWER_BYTES) {
        get_table_end(&transport->gets, get, wire_refusal(piece.answer));
    } else {
        /* One pass copies and checks. When the CRC is wrong, nobody reads the target. */
        bool is_right = crc32c_copy(0, get->piece.target, data, data_bytes) == piece.crc32c;
        get_table_end(&transport->gets, get, is_right ? STATUS_OK : STATUS_CORRUPT);
    }
    return UCS_OK;
}

/* ---- owner ---- */

static struct ucx_peer *find_reader(struct ucx_transport *transport, uint64_t incarnation)
{
    return ucx_peer_of(peer_list_reader(&transport->peers, &transport->base.source, incarnation));
}

/* False: the pull came over a connection that the reader has closed. */
static bool note_connection(struct ucx_transport *transport, struct ucx_peer *peer,
                            uint64_t connection)
{
    assert(peer->base.is_admitted);
    if (connection <= peer->connection)
        return connection == peer->connection;
    peer->connection = connection;
    ucx_pieces_forget(transport, peer);
    if (peer->ep)
        ucx_peer_mark_failed(peer); /* what waits is sent by the next endpoint */
    return true;
}

static ucs_status_t on_pull(void *arg, const void *header, size_t header_bytes, void *data,
                            size_t data_bytes, const ucp_am_recv_param_t *param)
{
    struct ucx_transport *transport = arg;
    struct wire_pull pull;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
        count_bad(transport);
        return UCS_ERR_REJECTED;
    }
    bool is_valid = wire_pull_decode(header, header_bytes, data_bytes, &pull);
    struct ucx_peer *peer = is_valid ? find_reader(transport, pull.reader_incarnation) : NULL;
    if (!peer || !note_connection(transport, peer, pull.connection)) {
        count_bad(transport);
        return UCS_OK;
    }
    for (uint32_t i = 0; i < pull.n; i++) {
        struct wire_item item;
        if (!wire_item_decode(data, i, &item)) {
            count_bad(transport);
            continue;
        }
        struct ucx_piece_message *message = ucx_pieces_take(transport, peer, &pull, &item);
        if (message)
            ucx_pieces_ask(transport, message);
    }
    return UCS_OK;
}

static void on_piece_sent(void *request, ucs_status_t code, void *arg)
{
    struct ucx_piece_message *message = arg;
    struct ucx_peer *peer = message->peer;
    assert(peer->n_callbacks > 0);
    peer->n_callbacks--;
    if (code != UCS_OK)
        ucx_peer_mark_failed(peer);
    ucx_pieces_end(ucx_of(peer->base.transport), message,
                   code == UCS_OK ? STATUS_OK : STATUS_PEER_LOST);
    ucp_request_free(request);
}

/* False: the bytes are not there yet. */
static bool send_piece(struct ucx_transport *transport, struct ucx_piece_message *message)
{
    struct wire_piece piece;
    if (!asked_piece_answer(&transport->base.source, transport->incarnation, &message->asked,
                            &piece)) {
        message->peer->n_reading += !message->is_reading && message->asked.read.view;
        message->is_reading = message->asked.read.view;
        return false;
    }
    ucx_pieces_end_reading(message);
    assert(message->peer->ep);
    const uint8_t *bytes = message->asked.read.view;
    uint32_t n_bytes = bytes ? message->asked.item.bytes : 0;
    wire_piece_encode(&piece, message->header);

    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                       UCP_OP_ATTR_FIELD_USER_DATA |
                                                       UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_AM_SEND_FLAG_EAGER,
                                       .cb.send = on_piece_sent,
                                       .user_data = message};
    enum status status;
    void *request = ucp_am_send_nbx(message->peer->ep, AM_PIECE, message->header,
                                    sizeof message->header, bytes, n_bytes, &param);
    if (!ucx_peer_track(message->peer, request, &status))
        ucx_pieces_end(transport, message, status);
    return true;
}

/* False: try later. The old endpoint is still closing, the endpoint has enough to send, or send_piece returned false. */
static bool answer_one(struct ucx_transport *transport, struct ucx_piece_message *message)
{
    struct ucx_peer *peer = message->peer;
    if (!peer->ep && !peer->base.is_closing && !ucx_peer_is_quiet(peer))
        return false;
    bool can_send = !peer->base.is_closing &&
                    (peer->ep || ucx_peer_open_endpoint(peer) == STATUS_OK) &&
                    !peer->base.is_failed;
    if (can_send && (peer->n_callbacks >= PIECES_SENDING ||
                     (peer->n_reading == PIECES_READING && !message->is_reading)))
        return false;
    assert(!can_send || peer->n_callbacks < PIECES_SENDING);
    if (can_send)
        return send_piece(transport, message);
    ucx_pieces_end(transport, message, STATUS_PEER_LOST);
    return true;
}

unsigned ucx_am_answer(struct ucx_transport *transport)
{
    unsigned work = 0;
    struct ucx_piece_message *message = transport->first_asked;
    transport->first_asked = transport->last_asked = NULL;
    while (message) {
        struct ucx_piece_message *next = message->next;
        if (answer_one(transport, message))
            work++;
        else
            ucx_pieces_ask(transport, message);
        message = next;
    }
    return work;
}

/* ---- both ---- */

static enum status set_handler(struct ucx_transport *transport, unsigned id,
                               ucp_am_recv_callback_t callback, struct error *error)
{
    const ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
        .id = id,
        .cb = callback,
        .arg = transport,
        .flags = UCP_AM_FLAG_WHOLE_MSG};
    ucs_status_t code = ucp_worker_set_am_recv_handler(transport->worker, &param);
    if (code == UCS_OK)
        return STATUS_OK;
    return error_set(error, ucx_status(code), "UCX takes no active messages: %s",
                     ucx_code_text(code));
}

enum status ucx_am_init(struct ucx_transport *transport, struct error *error)
{
    transport->pulls = calloc(transport->gets.gets_max, sizeof *transport->pulls);
    if (!transport->pulls)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < transport->gets.gets_max; i++)
        free_pull(transport, &transport->pulls[i]);
    TRY(ucx_pieces_init(transport));
    TRY(set_handler(transport, AM_PULL, on_pull, error));
    return set_handler(transport, AM_PIECE, on_piece, error);
}

void ucx_am_finish(struct ucx_transport *transport)
{
    free(transport->pulls);
    ucx_pieces_finish(transport);
}
