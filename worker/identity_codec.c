#include "worker/identity_codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* protobuf-c's strings and bytes are only read when packed. */
static void *borrow(const void *from)
{
    union {
        const void *in;
        void *out;
    } cast = {.in = from};
    return cast.out;
}

void identity_encode(const struct worker_identity *identity, struct identity_message *message_out)
{
    geometry_encode(&identity->geometry, &message_out->geometry);
    Kvferry__Internal__V1__WorkerIdentity *message = &message_out->message;
    kvferry__internal__v1__worker_identity__init(message);
    message->name = borrow(identity->name);
    message->incarnation = identity->address.incarnation;
    message->geometry = &message_out->geometry.message;
    message->transport_address.data = borrow(identity->address.worker);
    message->transport_address.len = identity->address.worker_bytes;
    message->pool_key.data = borrow(identity->address.pool_key);
    message->pool_key.len = identity->address.pool_key_bytes;
    message->pool_base = identity->address.pool_base;
    message->pieces_max = identity->address.pieces_max;
    message->transport = borrow(identity->transport);
    message->ucx_version = borrow(identity->ucx_version);
}

static enum status decode_address(const Kvferry__Internal__V1__WorkerIdentity *message,
                                  struct transport_address *address_out, struct error *error)
{
    struct transport_address *address = address_out;
    size_t worker = message->transport_address.len;
    size_t key = message->pool_key.len;
    if (message->incarnation == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "incarnation is 0");
    if (worker > sizeof address->worker)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "transport_address has %zu bytes; at most %zu are taken", worker,
                         sizeof address->worker);
    if (key > sizeof address->pool_key)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "pool_key has %zu bytes; at most %zu are taken", key,
                         sizeof address->pool_key);
    *address = (struct transport_address){
        .worker_bytes = (uint32_t)worker,
        .pool_key_bytes = (uint32_t)key,
        .pool_base = message->pool_base,
        .incarnation = message->incarnation,
        .pieces_max = message->pieces_max,
    };
    if (worker > 0)
        memcpy(address->worker, message->transport_address.data, worker);
    if (key > 0)
        memcpy(address->pool_key, message->pool_key.data, key);
    return STATUS_OK;
}

enum status identity_decode(const Kvferry__Internal__V1__WorkerIdentity *message,
                            struct worker_identity *identity_out, struct error *error)
{
    if (!message)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "the worker's identity is absent (caller, callee)");
    struct worker_identity identity = {0};
    TRY(geometry_decode(message->geometry, &identity.geometry, error));
    TRY(decode_address(message, &identity.address, error));
    snprintf(identity.name, sizeof identity.name, "%s", message->name);
    snprintf(identity.transport, sizeof identity.transport, "%s", message->transport);
    snprintf(identity.ucx_version, sizeof identity.ucx_version, "%s", message->ucx_version);
    *identity_out = identity;
    return STATUS_OK;
}

enum status identity_match(const struct worker_identity *ours, const struct worker_identity *theirs,
                           struct error *error)
{
    return kv_terms_match(&(struct kv_terms){&ours->geometry, ours->transport},
                          &(struct kv_terms){&theirs->geometry, theirs->transport}, error);
}
