#include "worker_common/identity_codec.h"

#include "base/secret.h"
#include "kvtransfer/driver.h"
#include "kvtransfer/revision.h"
#include "rpc/borrow.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the secret ---- */

static struct seal_terms terms_of(const struct identity_way *way, uint64_t sender)
{
    assert(sender != 0 && "a secret is some life's");
    return (struct seal_terms){.field = "transport_secret",
                               .role = way->sender == IDENTITY_CALLEE ? "context" : "generation",
                               .sender = sender,
                               .receiver = way->receiver};
}

static enum status seal_secret(const struct transport_address *address,
                               const struct identity_way *way, struct identity_message *message,
                               struct error *error)
{
    if (address->secret_bytes == 0)
        return STATUS_OK;
    if (!way->key)
        return error_set(error, STATUS_UNSUPPORTED,
                         "transport_secret is sent only with a cluster key, and there is none");
    const struct seal_terms terms = terms_of(way, address->incarnation);
    enum status status = sealed_secret_make(way->key, &terms, address->secret,
                                            sizeof address->secret, message->secret);
    if (status != STATUS_OK)
        return error_set(error, status, "transport_secret cannot be encrypted: %s",
                         status_text(status));
    message->message.transport_secret.data = message->secret;
    message->message.transport_secret.len = sizeof message->secret;
    return STATUS_OK;
}

static enum status open_secret(const Kvferry__Internal__V1__WorkerIdentity *message,
                               const struct identity_way *way, struct transport_address *address,
                               struct error *error)
{
    const ProtobufCBinaryData *sealed = &message->transport_secret;
    if (sealed->len == 0)
        return STATUS_OK;
    if (sealed->len != SEALED_TRANSPORT_SECRET_BYTES)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "transport_secret has %zu bytes; %u, encrypted, or none are taken",
                         sealed->len, SEALED_TRANSPORT_SECRET_BYTES);
    if (!way->key)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "transport_secret is encrypted, and there is no cluster key here");
    const struct seal_terms terms = terms_of(way, message->incarnation);
    enum status status = sealed_secret_open(way->key, &terms, sealed->data, sealed->len,
                                            address->secret);
    if (status == STATUS_UNAUTHENTICATED)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "transport_secret cannot be decrypted: it is for another cluster key or "
                         "another run of the worker");
    if (status != STATUS_OK)
        return error_set(error, status, "transport_secret cannot be opened: %s",
                         status_text(status));
    address->secret_bytes = sizeof address->secret;
    return STATUS_OK;
}

/* ---- the identity ---- */

enum status identity_encode(const struct worker_identity *identity, const struct identity_way *way,
                            struct identity_message *message_out, struct error *error)
{
    assert(identity->address.n_hosts <= HOST_ADDRESSES_MAX);
    assert(identity->address.worker_bytes <= sizeof identity->address.worker);
    assert(identity->address.pool_key_bytes <= sizeof identity->address.pool_key);
    assert(identity->address.incarnation != 0 && identity->geometry.block_tokens > 0);
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
    for (uint32_t i = 0; i < identity->address.n_hosts; i++)
        message_out->hosts[i] = (ProtobufCBinaryData){
            .data = borrow(identity->address.hosts[i].bytes),
            .len = identity->address.hosts[i].n_bytes};
    message->host_addresses = message_out->hosts;
    message->n_host_addresses = identity->address.n_hosts;
    message->transport = borrow(identity->transport);
    message->ucx_version = borrow(identity->ucx_version);
    message->protocol_revision = identity->revision;
    return seal_secret(&identity->address, way, message_out, error);
}

static enum status decode_hosts(const Kvferry__Internal__V1__WorkerIdentity *message,
                                struct transport_address *address, struct error *error)
{
    if (message->n_host_addresses > HOST_ADDRESSES_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "host_addresses are %zu; at most %u are taken", message->n_host_addresses,
                         HOST_ADDRESSES_MAX);
    for (size_t i = 0; i < message->n_host_addresses; i++) {
        const ProtobufCBinaryData *host = &message->host_addresses[i];
        if (host->len != 4 && host->len != 16)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "host_addresses has one of %zu bytes; 4 or 16 are taken", host->len);
        address->hosts[i].n_bytes = (uint8_t)host->len;
        memcpy(address->hosts[i].bytes, host->data, host->len);
    }
    address->n_hosts = (uint32_t)message->n_host_addresses;
    return STATUS_OK;
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
    return decode_hosts(message, address, error);
}

enum status identity_decode(const Kvferry__Internal__V1__WorkerIdentity *message,
                            const struct identity_way *way, struct worker_identity *identity_out,
                            struct error *error)
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
    identity.revision = message->protocol_revision;
    TRY(open_secret(message, way, &identity.address, error)); /* last: a failure leaves no secret */
    assert(identity.address.secret_bytes == 0 || way->key);
    *identity_out = identity;
    secret_wipe(&identity.address.secret, sizeof identity.address.secret);
    return STATUS_OK;
}

enum status identity_match(const struct worker_identity *ours, const struct worker_identity *theirs,
                           const struct identity_allowance *allowed, struct error *error)
{
    if (!kv_revision_pairs(ours->revision, theirs->revision))
        return error_set(error, STATUS_REVISION_MISMATCH,
                         "protocol revision %" PRIu32 " does not pair with %" PRIu32
                         ": only adjacent revisions do, so upgrade one process after the other",
                         ours->revision, theirs->revision);
    TRY(kv_terms_match(
        &(struct kv_terms){&ours->geometry, ours->transport, allowed->numerics, allowed->converts},
        &(struct kv_terms){&theirs->geometry, theirs->transport, "", false}, error));
    bool is_shm = strcmp(theirs->transport, driver_name(KV_SHM_READ)) == 0;
    if (is_shm && (ours->revision < 2 || theirs->revision < 2))
        return error_set(error, STATUS_REVISION_MISMATCH,
                         "protocol revision %" PRIu32 " does not pair with %" PRIu32
                         " over shm-read, which reads the pool in another way since 2",
                         ours->revision, theirs->revision);
    if (!driver_may_reach(theirs->transport, &ours->address, &theirs->address))
        return error_set(error, STATUS_REVISION_MISMATCH,
                         "UCX %s does not reach UCX %s over a loopback, which they describe in "
                         "different ways: use the same UCX for both, or another network device",
                         ours->ucx_version, theirs->ucx_version);
    if (!driver_needs_hosts(theirs->transport) || theirs->address.n_hosts > 0)
        return STATUS_OK;
    return error_set(error, STATUS_REVISION_MISMATCH,
                     "host_addresses are absent, and %s needs them: protocol revision %" PRIu32
                     " need not tell any, 2 must",
                     theirs->transport, theirs->revision);
}
