#include "kvtransfer/drivers/ucx/ucx_pieces.h"

#include <assert.h>
#include <stdlib.h>

/* Messages for refusals: those of one pull. */
enum { REFUSALS_MAX = GET_PIECES_MAX };

struct ucx_piece_message *ucx_pieces_take(struct ucx_transport *transport, struct ucx_peer *reader,
                                          const struct wire_pull *pull,
                                          const struct wire_item *item)
{
    struct ucx_piece_message *message = transport->free_pieces;
    if (message) {
        transport->free_pieces = message->next;
        *message = (struct ucx_piece_message){.peer = reader};
    }
    asked_piece_take(&transport->bounds, &reader->base, pull, item,
                     message ? &message->asked : NULL);
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
    asked_piece_end(&transport->bounds, &message->peer->base, &message->asked, status);
    ucx_pieces_end_reading(message);
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
    uint32_t n_pieces = transport->bounds.reads_max + REFUSALS_MAX;
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
