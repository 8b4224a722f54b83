#include "router/admission/refusal.h"

#include <assert.h>

void refusal_tell(const struct log_about *about, enum status status, const char *tenant,
                  const char *sentence)
{
    assert(status != STATUS_OK);
    log_access(about, "request refused", LOG_TEXT("status", status_name(status)),
               LOG_U64("code", (uint64_t)status_grpc_code(status)),
               LOG_TEXT("reason", status_reason(status)), LOG_TEXT("tenant", tenant),
               LOG_TEXT("why", sentence[0] ? sentence : status_text(status)));
}
