#include "kvtransfer/drivers/sim/sim_transport.h"

#include "kvtransfer/drivers/sim/sim_fabric_state.h"
#include "kvtransfer/transport/peer_list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { COPY_LOOK_NS = 1000 }; /* until the source is asked again for a read that is not ready */

struct sim_get {
    uint64_t number; /* 0: free */
    struct sim_peer *peer;
    struct transfer_id id;
    struct piece piece;
    transport_got got;
    void *arg;
};

struct sim_peer {
    struct transport_peer base;
    uint64_t number;
    uint32_t place;
};

struct sim_transport {
    struct transport base;
    struct sim_endpoint endpoint;
    struct peer_list peers; /* of struct sim_peer */
    struct sim_get *gets;   /* [gets_max], grows */
    uint32_t gets_max, n_gets;
};

static struct sim_transport *sim_of(const struct transport *transport)
{
    return (struct sim_transport *)transport; /* base is its first member */
}

static struct sim_peer *peer_of(struct transport_peer *peer)
{
    return (struct sim_peer *)peer; /* base is its first member */
}

/* ---- the owner's side ---- */

static void answer(struct sim_transport *owner, const struct sim_message *request,
                   enum status status, uint8_t *bytes)
{
    struct sim_message piece = {.kind = SIM_PIECE,
                                .to_incarnation = request->read.reader_incarnation,
                                .number = request->number,
                                .read = request->read,
                                .bytes = bytes,
                                .status = status};
    piece.read.view = NULL; /* the owner's */
    sim_fabric_send(&owner->endpoint, request->from_place, piece, bytes ? request->read.bytes : 0);
}

static void on_request(struct sim_transport *owner, const struct sim_message *request)
{
    struct sim_fabric *fabric = owner->endpoint.fabric;
    if (request->to_incarnation != owner->endpoint.incarnation) {
        answer(owner, request, STATUS_STALE_PEER, NULL);
        return;
    }
    struct sim_message sent = *request;
    enum status status = transport_read(&owner->base.source, &sent.read);
    if (status == STATUS_NOT_READY) { /* asks again */
        sent.due_ns = fabric->now_ns + COPY_LOOK_NS;
        sim_fabric_push(&owner->endpoint, sent);
        return;
    }
    if (status != STATUS_OK) {
        answer(owner, request, STATUS_NOT_HELD, NULL);
        return;
    }
    sent.kind = SIM_SENT;
    sent.due_ns = fabric->now_ns + sim_fabric_delay(fabric, fabric->options.jitter_ns);
    sim_fabric_push(&owner->endpoint, sent);
}

static void end_read(struct sim_transport *owner, struct sim_message *sent, enum status status)
{
    transport_read_end(&owner->base.source, &sent->read, status);
}

static void on_sent(struct sim_transport *owner, struct sim_message *sent)
{
    struct sim_fabric *fabric = owner->endpoint.fabric;
    uint8_t *bytes = malloc(sent->read.bytes);
    if (bytes) {
        memcpy(bytes, sent->read.view, sent->read.bytes);
        if (sim_fabric_happens(fabric, fabric->options.corrupt))
            bytes[random_below(&fabric->random, sent->read.bytes)] ^=
                (uint8_t)(1 + random_below(&fabric->random, 255));
    }
    if (bytes && sim_fabric_happens(fabric, fabric->options.duplicate)) {
        uint8_t *again = malloc(sent->read.bytes);
        if (again)
            memcpy(again, bytes, sent->read.bytes);
        answer(owner, sent, STATUS_OK, again);
    }
    if (bytes)
        answer(owner, sent, STATUS_OK, bytes);
    end_read(owner, sent, STATUS_OK);
}

/* ---- the reader's side ---- */

static struct sim_get *find_get(struct sim_transport *reader, uint64_t number)
{
    for (uint32_t i = 0; i < reader->gets_max; i++)
        if (reader->gets[i].number == number)
            return &reader->gets[i];
    return NULL;
}

static void finish_get(struct sim_transport *reader, struct sim_get *get, enum status status)
{
    struct sim_get ended = *get;
    get->number = 0;
    reader->n_gets--;
    ended.got(ended.arg, &ended.piece, status);
}

static void on_piece(struct sim_transport *reader, const struct sim_message *piece)
{
    struct sim_get *get = find_get(reader, piece->number);
    if (!get || piece->to_incarnation != reader->endpoint.incarnation ||
        memcmp(&get->id, &piece->read.id, sizeof get->id) != 0) {
        atomic_fetch_add(&reader->base.late_pieces, 1);
        return;
    }
    if (piece->status == STATUS_OK && piece->bytes)
        memcpy(get->piece.target, piece->bytes, get->piece.bytes);
    finish_get(reader, get, piece->status);
}

static struct sim_peer *find_peer(const struct sim_transport *transport, uint64_t number)
{
    for (struct transport_peer *peer = transport->peers.first; peer; peer = peer->next)
        if (peer_of(peer)->number == number)
            return peer_of(peer);
    return NULL;
}

static void end_gets(struct sim_transport *reader, const struct sim_peer *peer)
{
    for (uint32_t i = 0; i < reader->gets_max; i++) /* a callback may move gets */
        if (reader->gets[i].number != 0 && reader->gets[i].peer == peer)
            finish_get(reader, &reader->gets[i], STATUS_PEER_LOST);
}

static void on_close_end(struct sim_transport *transport, struct sim_peer *peer)
{
    end_gets(transport, peer);
    peer_list_end(&transport->peers, &peer->base);
}

static void deliver(struct sim_transport *transport, struct sim_message *message)
{
    struct sim_peer *peer;
    switch (message->kind) {
    case SIM_REQUEST:
        on_request(transport, message);
        return;
    case SIM_SENT:
        on_sent(transport, message);
        return;
    case SIM_PIECE:
        on_piece(transport, message);
        return;
    case SIM_LOST:
        peer = find_peer(transport, message->number);
        if (peer) {
            peer->base.is_failed = true;
            end_gets(transport, peer);
        }
        return;
    case SIM_CLOSE_END:
        on_close_end(transport, find_peer(transport, message->number));
        return;
    }
}

static void push_lost(struct sim_transport *transport, const struct sim_peer *peer)
{
    struct sim_fabric *fabric = transport->endpoint.fabric;
    if (fabric->options.detect_ns == UINT64_MAX)
        return;
    sim_fabric_push(&transport->endpoint,
                    (struct sim_message){.kind = SIM_LOST,
                                         .number = peer->number,
                                         .due_ns = fabric->now_ns + fabric->options.detect_ns});
}

/* ---- transport_ops ---- */

static void sim_close(struct transport *base)
{
    struct sim_transport *transport = sim_of(base);
    struct sim_fabric *fabric = transport->endpoint.fabric;
    if (!transport->endpoint.is_dead)
        sim_transport_kill(base); /* its peers see the connection end, as with a dead one */
    for (uint32_t i = 0; i < transport->endpoint.messages.n; i++) {
        struct sim_message *message = &transport->endpoint.messages.heap[i];
        if (message->kind == SIM_SENT || message->kind == SIM_REQUEST)
            end_read(transport, message, STATUS_CANCELLED);
        free(message->bytes);
        fabric->n_messages--;
    }
    while (transport->peers.first)
        peer_list_remove(&transport->peers, transport->peers.first);
    sim_fabric_remove(&transport->endpoint);
    free(transport->gets);
    sim_messages_finish(&transport->endpoint.messages);
    free(transport);
}

static void sim_address(const struct transport *base, struct transport_address *address_out)
{
    const struct sim_transport *transport = sim_of(base);
    *address_out = (struct transport_address){.worker_bytes = sizeof transport->endpoint.place,
                                              .incarnation = transport->endpoint.incarnation,
                                              .pieces_max = UINT32_MAX};
    memcpy(address_out->worker, &transport->endpoint.place, sizeof transport->endpoint.place);
}

static bool is_gone(const struct sim_fabric *fabric, const struct sim_peer *peer)
{
    const struct sim_endpoint *there = sim_fabric_find(fabric, peer->place);
    return !there || there->incarnation != peer->base.incarnation;
}

static enum status sim_connect(struct transport *base, const struct transport_address *address,
                               struct transport_peer **peer_out)
{
    struct sim_transport *transport = sim_of(base);
    if (address->worker_bytes != sizeof(uint32_t))
        return STATUS_CORRUPT;
    TRY(peer_list_add(&transport->peers, base, address->incarnation, sizeof(struct sim_peer),
                      peer_out));
    struct sim_peer *peer = peer_of(*peer_out);
    peer->number = ++transport->endpoint.fabric->sequence;
    memcpy(&peer->place, address->worker, sizeof peer->place);
    return STATUS_OK;
}

static struct sim_get *free_get(struct sim_transport *transport)
{
    if (transport->n_gets < transport->gets_max)
        return find_get(transport, 0);
    uint32_t gets_max = transport->gets_max ? 2 * transport->gets_max : 64;
    struct sim_get *gets = realloc(transport->gets, gets_max * sizeof *gets);
    if (!gets)
        return NULL;
    memset(gets + transport->gets_max, 0, (gets_max - transport->gets_max) * sizeof *gets);
    transport->gets = gets;
    transport->gets_max = gets_max;
    return find_get(transport, 0);
}

static enum status sim_get(struct transport_peer *peer_base, const struct transfer_id *id,
                           const struct piece *pieces, uint32_t n, transport_got got, void *arg)
{
    struct sim_peer *peer = peer_of(peer_base);
    struct sim_transport *transport = sim_of(peer_base->transport);
    struct sim_fabric *fabric = transport->endpoint.fabric;
    assert(n > 0 && n <= GET_PIECES_MAX && !peer_base->is_closing);
    if (peer->base.is_failed)
        return STATUS_PEER_LOST;

    for (uint32_t i = 0; i < n; i++) {
        assert(pieces[i].bytes > 0 && pieces[i].bytes <= PIECE_BYTES_MAX);
        struct sim_get *get = free_get(transport);
        assert(get); /* a simulation out of memory is of no use */
        *get = (struct sim_get){++fabric->sequence, peer, *id, pieces[i], got, arg};
        transport->n_gets++;
        struct sim_message request = {
            .kind = SIM_REQUEST,
            .to_incarnation = peer->base.incarnation,
            .number = get->number,
            .read = {.id = *id,
                     .reader_incarnation = transport->endpoint.incarnation,
                     .block_index = pieces[i].block_index,
                     .remote_block = pieces[i].remote_block,
                     .offset = pieces[i].offset,
                     .bytes = pieces[i].bytes}};
        sim_fabric_send(&transport->endpoint, peer->place, request, 0);
    }
    if (is_gone(fabric, peer))
        push_lost(transport, peer);
    return STATUS_OK;
}

static void sim_peer_close(struct transport_peer *peer, transport_done done, void *arg)
{
    struct sim_transport *transport = sim_of(peer->transport);
    peer_list_close(&transport->peers, peer, done, arg);
    struct sim_fabric *fabric = transport->endpoint.fabric;
    sim_fabric_push(&transport->endpoint,
                    (struct sim_message){.kind = SIM_CLOSE_END,
                                         .number = peer_of(peer)->number,
                                         .due_ns = fabric->now_ns + fabric->options.close_ns});
}

static unsigned sim_progress(struct transport *base, uint64_t now_ns)
{
    struct sim_transport *transport = sim_of(base);
    struct sim_fabric *fabric = transport->endpoint.fabric;
    if (fabric->now_ns < now_ns)
        fabric->now_ns = now_ns;
    if (transport->endpoint.is_dead || fabric->now_ns < transport->endpoint.stalled_until_ns)
        return 0;

    unsigned work = 0;
    while (transport->endpoint.messages.n > 0 &&
           transport->endpoint.messages.heap[0].due_ns <= fabric->now_ns) {
        struct sim_message message = sim_fabric_pop(&transport->endpoint);
        bool is_new = message.kind == SIM_REQUEST &&
                      !message.read.view; /* else it has come already */
        bool crosses = is_new || message.kind == SIM_PIECE;
        if (crosses && sim_fabric_is_cut(fabric, message.from_place, transport->endpoint.place))
            fabric->n_lost++;
        else
            deliver(transport, &message);
        free(message.bytes);
        work++;
    }
    return work;
}

static void sim_wait(struct transport *base, uint64_t until_ns)
{
    (void)base;
    (void)until_ns;
}

static void sim_wake(struct transport *base)
{
    (void)base;
}

static const struct transport_ops SIM_OPS = {
    .name = "sim",
    .close = sim_close,
    .address = sim_address,
    .connect = sim_connect,
    .admit = sim_connect, /* everybody may ask; the source decides */
    .get = sim_get,
    .peer_close = sim_peer_close,
    .progress = sim_progress,
    .wait = sim_wait,
    .wake = sim_wake,
};

/* ---- open ---- */

enum status sim_transport_open(struct sim_fabric *fabric, uint32_t place, uint64_t incarnation,
                               struct transport **transport_out)
{
    struct sim_transport *transport = calloc(1, sizeof *transport);
    if (!transport)
        return STATUS_NO_MEMORY;
    transport->base.ops = &SIM_OPS;
    transport->peers.n_max = UINT32_MAX;
    transport->endpoint.transport = transport;
    transport->endpoint.place = place;
    transport->endpoint.incarnation = incarnation;
    sim_fabric_add(fabric, &transport->endpoint);
    *transport_out = &transport->base;
    return STATUS_OK;
}

void sim_transport_kill(struct transport *base)
{
    struct sim_endpoint *victim = &sim_of(base)->endpoint;
    assert(!victim->is_dead);
    victim->is_dead = true;
    for (struct sim_endpoint *at = victim->fabric->endpoints; at; at = at->next) {
        if (at->is_dead)
            continue;
        for (struct transport_peer *next = at->transport->peers.first; next; next = next->next) {
            const struct sim_peer *peer = peer_of(next);
            if (peer->place == victim->place && peer->base.incarnation == victim->incarnation)
                push_lost(at->transport, peer);
        }
    }
}

void sim_transport_stall(struct transport *base, uint64_t until_ns)
{
    sim_of(base)->endpoint.stalled_until_ns = until_ns;
}
