#include "router/unwanted_call.h"

bool unwanted_call_look(void *call)
{
    return rpc_call_is_over(call);
}

enum status unwanted_call_status(struct rpc_call *call)
{
    enum status status = rpc_call_end_status(call);
    return status == STATUS_OK ? STATUS_CANCELLED : status;
}
