#include "kvtransfer/drivers/ucx/ucx_peer.h"

#include "base/log/log.h"
#include "kvtransfer/drivers/ucx/ucx_address.h"
#include "kvtransfer/drivers/ucx/ucx_pieces.h"
#include "kvtransfer/transport/accept_gate.h"

#include <assert.h>
#include <string.h>
#include <ucp/api/ucp.h>

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t code)
{
    struct ucx_peer *peer = arg;
    (void)ep;
    log_event(LOG_DEBUG, NULL, "endpoint failed", LOG_HEX("incarnation", peer->base.incarnation),
              LOG_TEXT("why", ucs_status_string(code)));
    ucx_peer_mark_failed(peer);
}

void ucx_peer_mark_failed(struct ucx_peer *peer)
{
    struct ucx_transport *transport = ucx_of(peer->base.transport);
    assert(transport->peers.n > 0);
    if (!peer->base.is_failed && peer->base.is_admitted)
        ucx_pieces_forget(transport, peer); /* the pieces of the connection that died */
    peer->base.is_failed = true;
    transport->any_failed = true;
}

enum status ucx_peer_create(struct ucx_transport *transport,
                            const struct transport_address *address, bool is_admitted,
                            struct ucx_peer **peer_out)
{
    if (address->worker_bytes == 0 || address->worker_bytes > sizeof address->worker)
        return STATUS_CORRUPT;
    if (transport->knows_addresses && !ucx_address_is_sane(address->worker, address->worker_bytes))
        return STATUS_CORRUPT;
    struct transport_peer *base;
    TRY(peer_list_add(&transport->peers, &transport->base, address->incarnation, sizeof **peer_out,
                      &base));
    struct ucx_peer *peer = ucx_peer_of(base);
    peer->address = *address;
    base->is_admitted = is_admitted;
    *peer_out = peer;
    return STATUS_OK;
}

void ucx_peer_revoke(struct ucx_peer *peer)
{
    struct ucx_transport *transport = ucx_of(peer->base.transport);
    bool is_known = false; /* as another peer, by now */
    for (struct transport_peer *next = transport->peers.first; next; next = next->next)
        is_known |= next != &peer->base && next->incarnation == peer->base.incarnation;
    if (!is_known)
        accept_gate_revoke(peer->base.incarnation);
}

enum status ucx_peer_open_endpoint(struct ucx_peer *peer)
{
    struct ucx_transport *transport = ucx_of(peer->base.transport);
    assert(!peer->ep && !peer->close_request && peer->n_callbacks == 0);
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)(const void *)peer->address.worker,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {on_error, peer}};
    peer->base.is_failed = false;
    ucs_status_t code = ucp_ep_create(transport->worker, &params, &peer->ep);
    if (code != UCS_OK) {
        peer->ep = NULL;
        log_event(LOG_WARN, NULL, "no endpoint", LOG_HEX("incarnation", peer->base.incarnation),
                  LOG_TEXT("why", ucs_status_string(code)));
        return code == UCS_ERR_NO_MEMORY ? STATUS_NO_MEMORY : STATUS_PEER_LOST;
    }
    return STATUS_OK;
}

void ucx_peer_close_endpoint(struct ucx_peer *peer)
{
    if (!peer->ep)
        return;
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE}; /* U12 */
    assert(!peer->close_request); /* one endpoint at a time */
    void *request = ucp_ep_close_nbx(peer->ep, &param);
    peer->ep = NULL;
    if (UCS_PTR_IS_PTR(request))
        peer->close_request = request;
    else if (UCS_PTR_IS_ERR(request))
        log_debug("endpoint closed with an error: %s", ucs_status_string(UCS_PTR_STATUS(request)));
}

bool ucx_peer_is_quiet(struct ucx_peer *peer)
{
    if (peer->close_request && ucp_request_check_status(peer->close_request) != UCS_INPROGRESS) {
        ucp_request_free(peer->close_request);
        peer->close_request = NULL;
    }
    return !peer->ep && !peer->close_request && peer->n_callbacks == 0;
}

bool ucx_peer_track(struct ucx_peer *peer, void *request, enum status *status_out)
{
    if (!request) {
        *status_out = STATUS_OK;
        return false;
    }
    if (UCS_PTR_IS_ERR(request)) {
        *status_out = STATUS_PEER_LOST;
        ucx_peer_mark_failed(peer);
        return false;
    }
    assert(peer->ep && UCS_PTR_IS_PTR(request));
    peer->n_callbacks++;
    return true;
}
