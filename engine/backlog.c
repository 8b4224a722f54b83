#include "engine/backlog.h"

uint64_t backlog_ns(const struct backlog *backlog)
{
    uint64_t ns;
    return __builtin_mul_overflow(backlog->token_ns, backlog->n_tokens, &ns) ? UINT64_MAX : ns;
}
