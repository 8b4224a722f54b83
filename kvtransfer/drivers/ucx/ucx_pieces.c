#include "kvtransfer/drivers/ucx/ucx_pieces.h"

#include "base/log/log.h"

#include <assert.h>
#include <stdlib.h>

/* Messages that only say no: those of one pull. */
enum { REFUSALS_MAX = GET_PIECES_MAX };

static void note_overrun(struct ucx_transport *transport, struct ucx_peer *reader)
{
    atomic_fetch_add(&transport->base.full_pieces, 1);
    if (!reader->has_overrun)
        log_event(LOG_WARN, NULL, "a reader that asks for too many pieces at a time is refused",
                  LOG_HEX("incarnation", reader->base.incarnation),
                  LOG_U64("pieces_max", transport->pieces_max));
    reader->has_overrun = true;
}

struct ucx_piece_message *ucx_pieces_take(struct ucx_transport *transport, struct ucx_peer *reader)
{
    assert(reader->base.is_admitted && transport->n_reads <= transport->reads_max);
    struct ucx_piece_message *message = transport->free_pieces;
    /* What was being sent when its connection broke is over later than it asks again. */
    bool is_full = reader->n_reads >= transport->pieces_max + PIECES_SENDING ||
                   transport->n_reads == transport->reads_max;
    if (is_full)
        note_overrun(transport, reader);
    if (!message)
        return NULL;
    transport->free_pieces = message->next;
    *message = (struct ucx_piece_message){.peer = reader, .is_refused = is_full};
    if (!is_full) {
        transport->n_reads++;
        reader->n_reads++;
        assert(reader->n_reads <= transport->n_reads);
    }
    return message;
}

static void add_free(struct ucx_transport *transport, struct ucx_piece_message *message)
{
    message->next = transport->free_pieces;
    transport->free_pieces = message;
}

void ucx_pieces_end_reading(struct ucx_piece_message *message)
{
    if (!message->is_reading)
        return;
    assert(message->peer->n_reading > 0);
    message->peer->n_reading--;
    message->is_reading = false;
}

void ucx_pieces_ask(struct ucx_transport *transport, struct ucx_piece_message *message)
{
    message->next = NULL;
    *(transport->first_asked ? &transport->last_asked->next : &transport->first_asked) = message;
    transport->last_asked = message;
}

void ucx_pieces_end(struct ucx_transport *transport, struct ucx_piece_message *message,
                    enum status status)
{
    transport_read_end(&transport->base.source, &message->read, status);
    ucx_pieces_end_reading(message);
    if (!message->is_refused) {
        assert(transport->n_reads > 0 && message->peer->n_reads > 0);
        transport->n_reads--;
        message->peer->n_reads--;
    }
    add_free(transport, message);
}

void ucx_pieces_forget(struct ucx_transport *transport, const struct ucx_peer *peer)
{
    struct ucx_piece_message *message = transport->first_asked;
    transport->first_asked = transport->last_asked = NULL;
    while (message) {
        struct ucx_piece_message *next = message->next;
        if (message->peer == peer)
            ucx_pieces_end(transport, message, STATUS_PEER_LOST);
        else
            ucx_pieces_ask(transport, message);
        message = next;
    }
}

enum status ucx_pieces_init(struct ucx_transport *transport)
{
    uint32_t n_pieces = transport->reads_max + REFUSALS_MAX;
    transport->pieces = calloc(n_pieces, sizeof *transport->pieces);
    if (!transport->pieces)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < n_pieces; i++)
        add_free(transport, &transport->pieces[i]);
    return STATUS_OK;
}

void ucx_pieces_finish(struct ucx_transport *transport)
{
    free(transport->pieces);
}
