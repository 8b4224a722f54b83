/* chat_messages - whatever a file of messages holds, `/load` takes all of it or says what is wrong, and what it takes can be sent.
 *
 *     input: [the file...]
 */
#include "cli/chat/conversation.h"
#include "cli/chat/message_check.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

/* Each message has a role, and each call a name: the request's reader needs them. */
static void judge(json_t *messages)
{
    struct error error = {0};
    struct conversation_prompt prompt;
    const struct conversation conversation = {.messages = messages, .messages_max = UINT32_MAX};
    check(conversation_prompt_make(&conversation, &prompt, &error) == STATUS_OK);
    check(prompt.chat.n_messages == json_array_size(messages));
    for (size_t i = 0; i < prompt.chat.n_messages; i++) {
        const Kvferry__V1__ChatMessage *message = prompt.chat.messages[i];
        check(message->role && message->more && message->name && message->tool_call_id);
        for (size_t c = 0; c < message->n_tool_calls; c++)
            check(message->tool_calls[c]->name && message->tool_calls[c]->arguments);
    }
    const size_t packed = protobuf_c_message_get_packed_size(&prompt.chat.base);
    uint8_t *out = malloc(packed + 1);
    check(out && protobuf_c_message_pack(&prompt.chat.base, out) == packed);
    free(out);
    conversation_prompt_finish(&prompt);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    struct error error = {0};
    json_t *messages = NULL;
    enum status status = messages_parse((const char *)bytes, n_bytes, "messages", &messages,
                                        &error);
    check((status == STATUS_OK) == (messages != NULL));
    check(status == STATUS_OK || error.text[0]);
    if (messages)
        judge(messages);
    json_decref(messages);
    return 0;
}
