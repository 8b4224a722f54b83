#include "kvtransfer/ucx_shm.h"

#include "kvtransfer/ucx_peer.h"

#include <assert.h>
#include <ucp/api/ucp.h>

enum { ROUND_BYTES = 1 << 20 };

void ucx_shm_get(struct ucx_transport *transport, struct ucx_get *const *gets, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        get_list_append(&transport->waiting_gets, gets[i]);
}

static void on_read(void *request, ucs_status_t code, void *arg)
{
    struct ucx_get *get = arg;
    struct ucx_peer *peer = get->peer;
    assert(peer->n_callbacks > 0);
    peer->n_callbacks--;
    ucx_get_end(ucx_of(peer->base.transport), get, code == UCS_OK ? STATUS_OK : STATUS_PEER_LOST);
    ucp_request_free(request);
}

static void read_one(struct ucx_transport *transport, struct ucx_get *get)
{
    struct ucx_peer *peer = get->peer;
    const struct piece *piece = &get->piece;
    if (!peer->ep || peer->base.is_failed || peer->is_closing) {
        ucx_get_end(transport, get, STATUS_PEER_LOST);
        return;
    }
    /* UCX does not look whether the address is inside the pool; what a peer says never counts. */
    if (piece->bytes > peer->pool_bytes || piece->remote_offset > peer->pool_bytes - piece->bytes) {
        ucx_get_end(transport, get, STATUS_NOT_HELD);
        return;
    }
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                       UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send = on_read,
                                       .user_data = get};
    enum status status;
    void *request = ucp_get_nbx(peer->ep, piece->target, piece->bytes,
                                peer->address.pool_base + piece->remote_offset, peer->rkey, &param);
    if (!ucx_peer_track(peer, request, &status))
        ucx_get_end(transport, get, status);
}

unsigned ucx_shm_read(struct ucx_transport *transport)
{
    unsigned work = 0;
    for (uint64_t bytes = 0; bytes < ROUND_BYTES; work++) {
        struct ucx_get *get = get_list_take(&transport->waiting_gets);
        if (!get)
            break;
        bytes += get->piece.bytes;
        read_one(transport, get);
    }
    return work;
}
