#include "ctx_worker/ctx_backlog.h"

uint64_t ctx_backlog_tokens(const struct ctx_backlog *backlog)
{
    return request_queue_tokens(backlog->queue) + prefill_set_n_left(backlog->slots);
}

static void tell(struct prompt *prompt, const struct prefill_home *home,
                 const struct backlog *backlog, uint64_t now_ns)
{
    if (!prompt->takes_backlog || now_ns < prompt->tell_ns)
        return;
    prompt->tell_ns = now_ns + BACKLOG_TELL_NS;
    home->ops->event(home->ops->arg, prompt->request.stream,
                     &(struct ctx_event){.kind = CTX_BACKLOG, .backlog = *backlog});
}

void ctx_backlog_tell(const struct ctx_backlog *backlog, const struct prefill_home *home,
                      uint64_t token_ns, uint64_t now_ns)
{
    const struct backlog all = {.token_ns = token_ns, .n_tokens = ctx_backlog_tokens(backlog)};
    if (backlog_ns(&all) < BACKLOG_TELL_NS)
        return;
    for (uint32_t i = 0; i < request_queue_count(backlog->queue); i++)
        tell(prompt_of(request_queue_at(backlog->queue, i)), home, &all, now_ns);
    for (uint32_t i = 0; i < backlog->slots->n; i++)
        if (backlog->slots->prefills[i].state == PREFILL_COMPUTING)
            tell(backlog->slots->prefills[i].prompt, home, &all, now_ns);
}
