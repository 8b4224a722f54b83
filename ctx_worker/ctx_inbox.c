#include "ctx_worker/ctx_inbox.h"

void ctx_inbox_finish(struct engine_inbox *inbox)
{
    struct ctx_message message;
    while (inbox->ring && engine_inbox_take(inbox, &message))
        if (message.kind == CTX_MESSAGE_PREFILL)
            prompt_destroy(message.prompt);
    engine_inbox_finish(inbox);
}

enum status ctx_inbox_take_prompt(struct engine_inbox *inbox, struct prompt *prompt)
{
    return engine_inbox_post_stream(inbox, &(struct ctx_message){.kind = CTX_MESSAGE_PREFILL,
                                                                 .handle = prompt->request.stream,
                                                                 .prompt = prompt});
}

bool ctx_inbox_take(struct engine_inbox *inbox, struct ctx_message *message_out)
{
    if (!engine_inbox_take(inbox, message_out))
        return false;
    if (message_out->kind >= CTX_MESSAGE_COMMIT)
        engine_inbox_taken_counted(inbox);
    return true;
}
