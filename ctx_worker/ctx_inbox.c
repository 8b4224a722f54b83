#include "ctx_worker/ctx_inbox.h"

#include <assert.h>
#include <string.h>

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
    assert(prompt->request.stream && "the end of a stream finds its prompt");
    return engine_inbox_post_stream(inbox, &(struct ctx_message){.kind = CTX_MESSAGE_PREFILL,
                                                                 .handle = prompt->request.stream,
                                                                 .prompt = prompt});
}

enum status ctx_inbox_post_abort(struct engine_inbox *inbox, void *call, const char *request_id)
{
    struct ctx_message message = {.kind = CTX_MESSAGE_ABORT, .handle = call};
    size_t bytes = strnlen(request_id, sizeof message.request_id);
    if (bytes < sizeof message.request_id)
        memcpy(message.request_id, request_id, bytes);
    assert(message.request_id[ENGINE_REQUEST_ID_MAX] == '\0');
    return engine_inbox_post_counted(inbox, &message);
}

bool ctx_inbox_take(struct engine_inbox *inbox, struct ctx_message *message_out)
{
    if (!engine_inbox_take(inbox, message_out))
        return false;
    assert(message_out->kind <= CTX_MESSAGE_FLUSH);
    assert((message_out->handle || message_out->kind == CTX_MESSAGE_COMMITTED) &&
           "others are about a stream, or a call to answer");
    if (message_out->kind >= CTX_MESSAGE_ABORT)
        engine_inbox_taken_counted(inbox);
    return true;
}
