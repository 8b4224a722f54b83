#include "ctx_worker/ctx_backlog.h"

#include "ctx_worker/ctx_inbox.h"

#include <assert.h>

uint64_t ctx_backlog_tokens(const struct ctx_backlog *backlog)
{
    return request_queue_tokens(backlog->queue) + request_queue_tokens(backlog->pending) +
           prefill_set_n_left(backlog->slots);
}

static void tell(struct prompt *prompt, const struct prefill_home *home,
                 const struct backlog *backlog, uint64_t now_ns)
{
    if (!prompt->takes_backlog || now_ns < prompt->tell_ns)
        return;
    prompt->tell_ns = now_ns + BACKLOG_TELL_NS;
    home->ops->event(home->ops->arg, prompt->request.stream,
                     &(struct prefill_event){.kind = EVENT_BACKLOG, .backlog = *backlog});
}

static void tell_waiting(const struct request_queue *waiting, const struct prefill_home *home,
                         const struct backlog *backlog, uint64_t now_ns)
{
    for (uint32_t i = 0; i < request_queue_count(waiting); i++)
        tell(prompt_of(request_queue_at(waiting, i)), home, backlog, now_ns);
}

void ctx_backlog_tell(const struct ctx_backlog *backlog, const struct prefill_home *home,
                      uint64_t token_ns, uint64_t now_ns)
{
    const struct backlog all = {.token_ns = token_ns, .n_tokens = ctx_backlog_tokens(backlog)};
    if (backlog_ns(&all) < BACKLOG_TELL_NS)
        return;
    tell_waiting(backlog->queue, home, &all, now_ns);
    tell_waiting(backlog->pending, home, &all, now_ns);
    for (uint32_t i = 0; i < backlog->slots->n; i++)
        if (backlog->slots->prefills[i].state == PREFILL_COMPUTING)
            tell(backlog->slots->prefills[i].prompt, home, &all, now_ns);
}

void ctx_backlog_step(struct ctx_backlog *backlog, uint32_t n_tokens, uint64_t now_ns)
{
    assert(n_tokens > 0 && backlog->n_layers > 0);
    backlog->n_tokens = n_tokens;
    backlog->n_done = 0;
    backlog->began_ns = now_ns;
    backlog->tell_ns = now_ns + BACKLOG_TELL_NS;
}

/* Prompts that arrive during a step are taken after it. Until then no other code uses them. */
static void tell_inbox(const struct ctx_backlog *backlog, const struct prefill_home *home,
                       uint64_t token_ns, uint64_t now_ns)
{
    struct backlog all = {.token_ns = token_ns, .n_tokens = ctx_backlog_tokens(backlog)};
    struct ctx_message message;
    for (uint32_t i = 0; engine_inbox_peek(backlog->inbox, i, &message); i++) {
        if (message.kind != CTX_MESSAGE_PREFILL)
            continue;
        all.n_tokens += message.prompt->request.n_tokens;
        if (backlog_ns(&all) >= BACKLOG_TELL_NS)
            tell(message.prompt, home, &all, now_ns);
    }
}

void ctx_backlog_layer(struct ctx_backlog *backlog, const struct prefill_home *home,
                       uint64_t token_ns, uint64_t now_ns)
{
    backlog->n_done++;
    assert(now_ns >= backlog->began_ns);
    if (now_ns < backlog->tell_ns)
        return;
    backlog->tell_ns = now_ns + BACKLOG_TELL_NS;
    double layer_ns = (double)(now_ns - backlog->began_ns) / backlog->n_done;
    uint32_t n_all = backlog->n_done > backlog->n_layers ? backlog->n_done : backlog->n_layers;
    uint64_t so_far_ns = (uint64_t)(layer_ns * n_all / backlog->n_tokens);
    if (so_far_ns > token_ns)
        token_ns = so_far_ns;
    ctx_backlog_tell(backlog, home, token_ns, now_ns);
    tell_inbox(backlog, home, token_ns, now_ns);
}
