/*
 * adapter_codec - converts the messages AdapterCard from and to struct adapter_id.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/adapter_id.h"
#include "proto/kvferry/v1/model.pb-c.h"

/* A message with the memory that it points to; borrows the name. */
struct adapter_message {
    Kvferry__V1__AdapterCard message;
    char digest[ADAPTER_DIGEST_BYTES];
};

/* Several. */
struct adapters_message {
    struct adapter_message adapters[ADAPTERS_MAX];
    Kvferry__V1__AdapterCard *list[ADAPTERS_MAX];
};

void adapter_encode(const struct adapter_id *id, struct adapter_message *message_out);
/* message NULL: none. INVALID_ARGUMENT: names the field adapter and what is wrong. */
MUST_CHECK enum status adapter_decode(const Kvferry__V1__AdapterCard *message, struct error *error,
                                      struct adapter_id *id_out);
void adapters_encode(const struct adapter_id *ids, uint32_t n,
                     struct adapters_message *message_out);
/* ids_out [ADAPTERS_MAX]. INVALID_ARGUMENT: more than that, or one that is no adapter. */
MUST_CHECK enum status adapters_decode(Kvferry__V1__AdapterCard *const *messages, size_t n,
                                       struct error *error, struct adapter_id *ids_out);
