#include "router/unwanted_call.h"

static bool is_late(const struct rpc_call *call)
{
    uint64_t deadline_ns = rpc_call_deadline_ns(call);
    return deadline_ns != DEADLINE_NONE && clock_now_ns() >= deadline_ns;
}

bool unwanted_call_look(void *call)
{
    return rpc_call_is_over(call) || is_late(call);
}

enum status unwanted_call_status(struct rpc_call *call)
{
    enum status status = rpc_call_is_over(call) ? rpc_call_end_status(call) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    return is_late(call) ? STATUS_TIMED_OUT : STATUS_CANCELLED;
}
