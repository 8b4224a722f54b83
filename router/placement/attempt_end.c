#include "router/placement/attempt_end.h"

bool attempt_end_lacks_room(enum status status)
{
    return status == STATUS_QUEUE_FULL || status == STATUS_NO_CONTEXT_WORKER ||
           status == STATUS_SHARE_FULL;
}

bool attempt_end_is_retryable(enum status status)
{
    switch (status) {
    case STATUS_DUPLICATE_REQUEST:
    case STATUS_NO_BLOCKS:
    case STATUS_LOADING:
    case STATUS_DRAINING:
    case STATUS_TRANSFER_FAILED:
    case STATUS_STALE_PEER:
    case STATUS_PEER_LOST:
    case STATUS_DEVICE_LOST:
    case STATUS_NO_MEMORY:
    case STATUS_ADAPTER_MISMATCH: /* it was unloaded, or is another one there */
    case STATUS_UNSUPPORTED:      /* by a worker of an earlier version, or without a tokenizer */
        return true;
    default:
        return false;
    }
}

bool attempt_end_takes_out(enum status status)
{
    return status == STATUS_PEER_LOST || status == STATUS_LOADING || status == STATUS_DRAINING ||
           status == STATUS_STALE_PEER || status == STATUS_DEVICE_LOST;
}

enum status attempt_end_for_client(enum status status)
{
    switch (status) {
    case STATUS_DUPLICATE_REQUEST:
        return STATUS_PEER_LOST;
    case STATUS_ADAPTER_MISMATCH: /* no worker has it any more */
        return STATUS_MODEL_NOT_FOUND;
    case STATUS_NO_CONTEXT_WORKER:
    case STATUS_SHARE_FULL:
        return STATUS_QUEUE_FULL;
    default:
        return status;
    }
}
