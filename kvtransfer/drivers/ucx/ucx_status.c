#include "kvtransfer/drivers/ucx/ucx_status.h"

#include <ucp/api/ucp.h>

enum status ucx_status(int code)
{
    switch (code) {
    case UCS_OK:
        return STATUS_OK;
    case UCS_ERR_NO_MEMORY:
        return STATUS_NO_MEMORY;
    case UCS_ERR_CANCELED:
        return STATUS_CANCELLED;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_NO_DEVICE:
        return STATUS_INVALID_ARGUMENT;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
        return STATUS_UNSUPPORTED;
    /* U10: the code for a dead peer differs between versions. */
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
    case UCS_ERR_TIMED_OUT:
        return STATUS_PEER_LOST;
    default:
        return STATUS_IO_FAILED;
    }
}

const char *ucx_code_text(int code)
{
    return ucs_status_string((ucs_status_t)code);
}

enum status ucx_status_refused(struct error *error, const char *what, int code)
{
    enum status status = ucx_status(code);
    return error_set(error, status == STATUS_OK ? STATUS_BUG : status, "UCX: no %s: %s", what,
                     ucx_code_text(code));
}
