#include "worker/identity_codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGEST_HEX 16 /* characters of one half */

/* protobuf-c's strings and bytes are only read when packed. */
static void *borrow(const void *from)
{
    union {
        const void *in;
        void *out;
    } cast = {.in = from};
    return cast.out;
}

void digest_format(const uint64_t digest[2], char text_out[DIGEST_TEXT_BYTES])
{
    snprintf(text_out, DIGEST_TEXT_BYTES, "%016" PRIx64 "%016" PRIx64, digest[0], digest[1]);
}

static bool digest_parse(const char *text, uint64_t digest_out[2])
{
    if (strlen(text) != 2 * DIGEST_HEX || strspn(text, "0123456789abcdef") != 2 * DIGEST_HEX)
        return false;
    char half[DIGEST_HEX + 1] = {0};
    memcpy(half, text, DIGEST_HEX);
    digest_out[0] = strtoull(half, NULL, 16);
    digest_out[1] = strtoull(text + DIGEST_HEX, NULL, 16);
    return true;
}

void identity_encode(const struct worker_identity *identity, struct identity_message *message_out)
{
    const struct geometry *geometry = &identity->geometry;
    Kvferry__V1__Geometry *to = &message_out->geometry;
    kvferry__v1__geometry__init(to);
    to->n_layers = geometry->n_layers;
    to->n_kv_heads = geometry->n_kv_heads;
    to->head_dim = geometry->head_dim;
    to->block_tokens = geometry->block_tokens;
    to->dtype = borrow(kv_dtype_name(geometry->dtype));
    to->block_bytes = geometry_block_bytes(geometry);
    digest_format(geometry->model_digest, message_out->digest);
    to->model_digest = message_out->digest;

    Kvferry__V1__WorkerIdentity *message = &message_out->message;
    kvferry__v1__worker_identity__init(message);
    message->name = borrow(identity->name);
    message->incarnation = identity->address.incarnation;
    message->geometry = to;
    message->transport_address.data = borrow(identity->address.worker);
    message->transport_address.len = identity->address.worker_bytes;
    message->pool_key.data = borrow(identity->address.pool_key);
    message->pool_key.len = identity->address.pool_key_bytes;
    message->pool_base = identity->address.pool_base;
    message->pieces_max = identity->address.pieces_max;
    message->transport = borrow(identity->transport);
    message->ucx_version = borrow(identity->ucx_version);
}

static enum status decode_geometry(const Kvferry__V1__Geometry *message,
                                   struct geometry *geometry_out, struct error *error)
{
    if (!message)
        return error_set(error, STATUS_INVALID_ARGUMENT, "geometry is absent");
    struct geometry geometry = {
        .n_layers = message->n_layers,
        .n_kv_heads = message->n_kv_heads,
        .head_dim = message->head_dim,
        .block_tokens = message->block_tokens,
    };
    if (kv_dtype_parse(message->dtype, &geometry.dtype) != STATUS_OK)
        return error_set(error, STATUS_INVALID_ARGUMENT, "geometry.dtype \"%.20s\" is unknown",
                         message->dtype);
    if (!digest_parse(message->model_digest, geometry.model_digest))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "geometry.model_digest \"%.40s\" is not 32 hexadecimal digits",
                         message->model_digest);
    TRY(geometry_check(&geometry, error));
    if (geometry_block_bytes(&geometry) != message->block_bytes)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "geometry.block_bytes is %" PRIu64 "; its other fields make %" PRIu64,
                         message->block_bytes, geometry_block_bytes(&geometry));
    *geometry_out = geometry;
    return STATUS_OK;
}

static enum status decode_address(const Kvferry__V1__WorkerIdentity *message,
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

enum status identity_decode(const Kvferry__V1__WorkerIdentity *message,
                            struct worker_identity *identity_out, struct error *error)
{
    if (!message)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "the worker's identity is absent (caller, callee)");
    struct worker_identity identity = {0};
    TRY(decode_geometry(message->geometry, &identity.geometry, error));
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
    TRY(geometry_match(&ours->geometry, &theirs->geometry, error));
    if (strcmp(ours->transport, theirs->transport) != 0)
        return error_set(error, STATUS_GEOMETRY_MISMATCH, "transport is %s here and %s there",
                         ours->transport, theirs->transport);
    return STATUS_OK;
}
