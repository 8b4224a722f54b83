/* request_id - see request_id.h: checks and draws ids. */
#include "rpc/request_id.h"

#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>

enum status rpc_request_id_check(const char *field, const char *id, size_t bytes,
                                 struct rpc_error *error)
{
    if (bytes > RPC_REQUEST_ID_MAX) {
        rpc_error_set(error, STATUS_INVALID_ARGUMENT, field, NULL,
                      "%s has %zu bytes; at most %u are taken", field, bytes, RPC_REQUEST_ID_MAX);
        return STATUS_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (id[i] >= ' ' && id[i] <= '~')
            continue;
        rpc_error_set(error, STATUS_INVALID_ARGUMENT, field, NULL,
                      "%s has byte 0x%02x at %zu; it must be printable ASCII", field,
                      (unsigned)(unsigned char)id[i], i);
        return STATUS_INVALID_ARGUMENT;
    }
    if (bytes > 0 && (id[0] == ' ' || id[bytes - 1] == ' ')) {
        rpc_error_set(error, STATUS_INVALID_ARGUMENT, field, NULL, "%s begins or ends with a space",
                      field);
        return STATUS_INVALID_ARGUMENT;
    }
    return STATUS_OK;
}

void rpc_request_id_draw(char id_out[RPC_REQUEST_ID_MAX + 1])
{
    uint64_t bits[2];
    id_out[0] = '\0';
    if (random_secret(bits, sizeof bits, NULL) == STATUS_OK)
        snprintf(id_out, RPC_REQUEST_ID_MAX + 1, "%016" PRIx64 "%016" PRIx64, bits[0], bits[1]);
}
