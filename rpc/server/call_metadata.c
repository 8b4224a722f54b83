/* call_metadata - the metadata of a call: deadline, request id, trace, proofs. See call.h and
 * call_state.h. */
#include "rpc/byte_buffer.h"
#include "rpc/relay/peer_table.h"
#include "rpc/request_id.h"
#include "rpc/server/call.h"
#include "rpc/server/call_state.h"
#include "rpc/server/server_state.h"
#include "rpc/tls/tls_identity.h"

#include <assert.h>
#include <grpc/support/alloc.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A hundred years. A later deadline becomes this one: it fits a 64-bit count of nanoseconds. */
#define DEADLINE_S_MAX (100ull * 365 * 86400)

#define HEADER_ENTRY_BYTES 32 /* overhead of an entry: RFC 9113, 6.5.2 */

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

/* Removes spaces around a value; a proxy may have kept or removed them. */
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
        assert(length <= RPC_REQUEST_ID_MAX);
        memcpy(call->request_id, id, length);
        call->request_id[length] = '\0';
    }
    if (call->request_id[0])
        return STATUS_OK;
    rpc_error_set(error, STATUS_IO_FAILED, NULL, NULL, "%s cannot be drawn", RPC_REQUEST_ID_KEY);
    return STATUS_IO_FAILED;
}

enum status rpc_call_check_headers(const struct rpc_call *call, struct rpc_error *error)
{
    uint32_t n_max = call->server->options.header_bytes_max;
    size_t n = 0;
    for (size_t i = 0; i < call->metadata.count; i++)
        n += GRPC_SLICE_LENGTH(call->metadata.metadata[i].key) +
             GRPC_SLICE_LENGTH(call->metadata.metadata[i].value) + HEADER_ENTRY_BYTES;
    if (n <= n_max)
        return STATUS_OK;
    rpc_error_set(error, STATUS_INVALID_ARGUMENT, NULL, NULL,
                  "metadata of %zu entries takes %zu bytes: at most %" PRIu32, call->metadata.count,
                  n, n_max);
    return STATUS_INVALID_ARGUMENT;
}

static uint64_t deadline_of(const struct rpc_call *call)
{
    gpr_timespec deadline = call->method ? call->deadline : call->details.deadline;
    deadline = gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC);
    if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)) != 0) {
        gpr_timespec left = gpr_time_sub(deadline, gpr_now(GPR_CLOCK_MONOTONIC));
        if (gpr_time_cmp(left, gpr_time_0(GPR_TIMESPAN)) <= 0)
            return call->accepted_ns;
        uint64_t seconds = (uint64_t)left.tv_sec;
        if (seconds > DEADLINE_S_MAX)
            seconds = DEADLINE_S_MAX;
        return call->accepted_ns + seconds * NS_PER_S + (uint32_t)left.tv_nsec;
    }
    if (call->method && call->method->row->idles)
        return DEADLINE_NONE;
    return call->accepted_ns + call->server->options.default_deadline_ns;
}

void rpc_call_take_deadline(struct rpc_call *call)
{
    call->deadline_ns = deadline_of(call);
}

static void say(struct rpc_error *error, enum status status, const struct error *why)
{
    if (status != STATUS_OK)
        rpc_error_set(error, status, NULL, NULL, "%s", why->text);
}

enum status rpc_call_authenticate(struct rpc_call *call, struct rpc_error *error)
{
    const struct rpc_method *row = call->method->row;
    assert(call->method->is_inner && !call->is_bound);
    const char *text = NULL;
    size_t bytes = 0;
    enum call_refusal refusal;
    struct error why;
    rpc_call_header(call, CALL_AUTH_KEY, &text, &bytes);
    enum status status = call_auth_check(call->server->options.auth, row->path, row->takes_any_life,
                                         text, bytes, &call->bond, &refusal, &why);
    call->is_bound = status == STATUS_OK || status == STATUS_STALE_PEER;
    say(error, status, &why);
    return status;
}

enum status rpc_call_authenticate_message(struct rpc_call *call, struct rpc_error *error)
{
    struct sha256 digest;
    assert(call->is_bound && call->request);
    struct error why;
    rpc_byte_buffer_digest(call->request, &digest);
    enum status status = call_auth_check_message(call->server->options.auth, &call->bond, &digest,
                                                 &why);
    pthread_mutex_lock(&call->lock);
    call->is_bound = status == STATUS_OK;
    pthread_mutex_unlock(&call->lock);
    say(error, status, &why);
    return status;
}

enum status rpc_call_check_role(const struct rpc_call *call, struct rpc_error *error)
{
    const char *cluster = call->server->options.cluster;
    const struct rpc_method *row = call->method->row;
    uint32_t roles = row->roles ? row->roles : TLS_ROLES_ALL;
    struct tls_identity identity;
    struct rpc_peer peer;
    if (!cluster)
        return STATUS_OK;
    rpc_call_peer_of(call, &peer);
    if (tls_identity_read(peer.identity, strlen(peer.identity), cluster, &identity) &&
        identity.roles & roles)
        return STATUS_OK;
    char text[TLS_ROLES_TEXT];
    tls_roles_format(roles, text);
    rpc_error_set(error, STATUS_NOT_ALLOWED, NULL, NULL,
                  "for certificates of role %s of cluster %s, not for \"%s\"", text, cluster,
                  peer.identity);
    return error->status;
}

grpc_metadata rpc_call_proof(const struct rpc_call *call, enum call_answer answer,
                             const struct sha256 *digest)
{
    assert(call->is_bound);
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
