/* call_metadata - what a call's client told beside its message: see call.h and serving.h. */
#include "rpc/request_id.h"
#include "rpc/serving.h"

#include <assert.h>
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <string.h>

static const grpc_metadata *find(const struct rpc_call *call, const char *key)
{
    for (size_t i = 0; i < call->metadata.count; i++)
        if (grpc_slice_str_cmp(call->metadata.metadata[i].key, key) == 0)
            return &call->metadata.metadata[i];
    return NULL;
}

enum status rpc_call_take_request_id(struct rpc_call *call, struct rpc_error *error)
{
    const grpc_metadata *header = find(call, RPC_REQUEST_ID_KEY);
    size_t length = header ? GRPC_SLICE_LENGTH(header->value) : 0;
    rpc_request_id_draw(call->request_id);
    if (length > 0) {
        const char *id = (const char *)GRPC_SLICE_START_PTR(header->value);
        TRY(rpc_request_id_check(RPC_REQUEST_ID_KEY, id, length, error));
        memcpy(call->request_id, id, length);
        call->request_id[length] = '\0';
    }
    if (call->request_id[0])
        return STATUS_OK;
    rpc_error_set(error, STATUS_IO_FAILED, NULL, NULL, "%s cannot be drawn", RPC_REQUEST_ID_KEY);
    return STATUS_IO_FAILED;
}

const char *rpc_call_request_id(const struct rpc_call *call)
{
    return call->request_id;
}

void rpc_call_set_request_id(struct rpc_call *call, const char *id)
{
    size_t length = strlen(id);
    assert(length > 0 && length <= RPC_REQUEST_ID_MAX);
    pthread_mutex_lock(&call->lock);
    memcpy(call->request_id, id, length + 1);
    pthread_mutex_unlock(&call->lock);
}

void rpc_call_peer(struct rpc_call *call, char *peer_out, size_t peer_bytes)
{
    char *peer = grpc_call_get_peer(call->call);
    snprintf(peer_out, peer_bytes, "%s", peer);
    gpr_free(peer);
}
