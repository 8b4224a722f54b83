#include "dial.h"

#include <criterion/criterion.h>
#include <stdio.h>

void dial_open(struct dial *dial, const char *name, uint16_t port)
{
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    cr_assert_eq(rpc_runtime_create(name, NULL, &dial->runtime), STATUS_OK);
    cr_assert_eq(rpc_client_create(dial->runtime, NULL, &dial->client), STATUS_OK);
    cr_assert_eq(rpc_channel_open(dial->client, address, &dial->channel), STATUS_OK);
}

void dial_close(struct dial *dial)
{
    rpc_channel_close(dial->channel);
    rpc_client_destroy(dial->client);
    rpc_runtime_destroy(dial->runtime);
}
