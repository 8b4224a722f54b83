#include "process/adapter_codec.h"

#include "rpc/borrow.h"

#include <assert.h>

void adapter_encode(const struct adapter_id *id, struct adapter_message *message_out)
{
    kvferry__v1__adapter_card__init(&message_out->message);
    adapter_digest_format(id->digest, message_out->digest);
    message_out->message.name = borrow(id->name);
    message_out->message.digest = message_out->digest;
}

enum status adapter_decode(const Kvferry__V1__AdapterCard *message, struct error *error,
                           struct adapter_id *id_out)
{
    *id_out = (struct adapter_id){0};
    return message ? adapter_id_read(message->name, message->digest, "adapter", error, id_out)
                   : STATUS_OK;
}

void adapters_encode(const struct adapter_id *ids, uint32_t n, struct adapters_message *message_out)
{
    assert(n <= ADAPTERS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        adapter_encode(&ids[i], &message_out->adapters[i]);
        message_out->list[i] = &message_out->adapters[i].message;
    }
}

enum status adapters_decode(Kvferry__V1__AdapterCard *const *messages, size_t n,
                            struct error *error, struct adapter_id *ids_out)
{
    if (n > ADAPTERS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "adapters are %zu; at most %u are taken",
                         n, ADAPTERS_MAX);
    for (size_t i = 0; i < n; i++)
        TRY(adapter_decode(messages[i], error, &ids_out[i]));
    return STATUS_OK;
}
