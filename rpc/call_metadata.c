/* call_metadata - what a call's client told beside its message: see call.h and serving.h. */
#include "rpc/byte_buffer.h"
#include "rpc/relay/peer_table.h"
#include "rpc/request_id.h"
#include "rpc/serving.h"

#include <assert.h>
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <string.h>

size_t rpc_call_header(const struct rpc_call *call, const char *key, const char **value_out,
                       size_t *bytes_out)
{
    size_t n = 0;
    for (size_t i = call->metadata.count; i-- > 0;) {
        const grpc_metadata *header = &call->metadata.metadata[i];
        if (grpc_slice_str_cmp(header->key, key) != 0)
            continue;
        n++;
        *value_out = (const char *)GRPC_SLICE_START_PTR(header->value);
        *bytes_out = GRPC_SLICE_LENGTH(header->value);
    }
    return n;
}

/* Spaces around a value are none of it; whoever handed it on may have left them out or not. */
static void trim(const char **value, size_t *bytes)
{
    while (*bytes > 0 && (*value)[*bytes - 1] == ' ')
        (*bytes)--;
    for (; *bytes > 0 && **value == ' '; (*bytes)--)
        (*value)++;
}

enum status rpc_call_take_request_id(struct rpc_call *call, struct rpc_error *error)
{
    const char *id = "";
    size_t length = 0;
    rpc_call_header(call, RPC_REQUEST_ID_KEY, &id, &length);
    trim(&id, &length);
    rpc_request_id_draw(call->request_id);
    if (length > 0) {
        TRY(rpc_request_id_check(RPC_REQUEST_ID_KEY, id, length, error));
        memcpy(call->request_id, id, length);
        call->request_id[length] = '\0';
    }
    if (call->request_id[0])
        return STATUS_OK;
    rpc_error_set(error, STATUS_IO_FAILED, NULL, NULL, "%s cannot be drawn", RPC_REQUEST_ID_KEY);
    return STATUS_IO_FAILED;
}

enum status rpc_call_authenticate(struct rpc_call *call, struct rpc_error *error)
{
    const struct rpc_method *row = call->method->row;
    const char *text = NULL;
    size_t bytes = 0;
    struct call_terms terms = {.method = row->path};
    enum call_refusal refusal;
    struct error why;
    rpc_call_header(call, CALL_AUTH_KEY, &text, &bytes);
    rpc_byte_buffer_digest(call->request, &terms.digest);
    enum status status = call_auth_check(call->server->options.auth, &terms, row->takes_any_life,
                                         text, bytes, &call->bond, &refusal, &why);
    call->is_bound = status == STATUS_OK || status == STATUS_STALE_PEER;
    if (status != STATUS_OK)
        rpc_error_set(error, status, NULL, NULL, "%s", why.text);
    return status;
}

grpc_metadata rpc_call_proof(const struct rpc_call *call, enum call_answer answer,
                             const struct sha256 *digest)
{
    char text[CALL_TEXT_MAX];
    call_proof_make(call->server->options.auth, &call->bond, answer, digest, text);
    return (grpc_metadata){.key = grpc_slice_from_static_string(CALL_PROOF_KEY),
                           .value = grpc_slice_from_copied_string(text)};
}

const char *rpc_call_request_id(const struct rpc_call *call)
{
    return call->request_id;
}

void rpc_call_origin(const struct rpc_call *call, struct request_origin *origin_out)
{
    const char *text = NULL;
    size_t bytes = 0;
    _Static_assert(sizeof origin_out->request_id == sizeof call->request_id, "the same ids");
    memcpy(origin_out->request_id, call->request_id, sizeof origin_out->request_id);
    origin_out->trace = (struct trace_context){.is_sampled = false};
    if (rpc_call_header(call, TRACEPARENT_KEY, &text, &bytes) != 1)
        return;
    trim(&text, &bytes);
    (void)traceparent_parse(text, bytes, &origin_out->trace);
}

void rpc_call_set_request_id(struct rpc_call *call, const char *id)
{
    size_t length = strlen(id);
    assert(length > 0 && length <= RPC_REQUEST_ID_MAX);
    pthread_mutex_lock(&call->lock);
    memcpy(call->request_id, id, length + 1);
    pthread_mutex_unlock(&call->lock);
}

void rpc_call_peer_of(const struct rpc_call *call, struct rpc_peer *peer_out)
{
    char *core_peer = grpc_call_get_peer(call->call);
    if (!peer_table_find(core_peer, peer_out)) {
        *peer_out = (struct rpc_peer){.is_encrypted = false};
        snprintf(peer_out->address, sizeof peer_out->address, "%s", core_peer);
    }
    gpr_free(core_peer);
}

void rpc_call_peer(const struct rpc_call *call, char *peer_out, size_t peer_bytes)
{
    struct rpc_peer peer;
    rpc_call_peer_of(call, &peer);
    snprintf(peer_out, peer_bytes, "%s", peer.address);
}
