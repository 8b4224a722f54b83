#include "cli/chat/conversation.h"

#include "base/regular_file.h"
#include "cli/chat/message_check.h"
#include "cli/client/prompt.h"
#include "rpc/borrow.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum status conversation_init(struct conversation *conversation, uint32_t messages_max)
{
    assert(messages_max > 0);
    *conversation = (struct conversation){.messages = json_array(), .messages_max = messages_max};
    return conversation->messages ? STATUS_OK : STATUS_NO_MEMORY;
}

void conversation_finish(struct conversation *conversation)
{
    json_decref(conversation->messages);
    conversation->messages = NULL;
}

static enum status check_room(const struct conversation *conversation, size_t n,
                              struct error *error)
{
    if (n <= conversation->messages_max)
        return STATUS_OK;
    return error_set(error, STATUS_PROMPT_TOO_LONG,
                     "the conversation would have %zu messages; messages_max is %u", n,
                     conversation->messages_max);
}

static json_t *make_message(const char *role, const char *text, size_t bytes)
{
    return json_pack("{s:s, s:s%}", "role", role, "content", text, bytes);
}

enum status conversation_add(struct conversation *conversation, const char *role, const char *text,
                             size_t bytes, struct error *error)
{
    assert(role[0] && (text || bytes == 0));
    TRY(check_room(conversation, json_array_size(conversation->messages) + 1, error));
    json_t *message = make_message(role, bytes ? text : "", bytes);
    return message && json_array_append_new(conversation->messages, message) == 0
               ? STATUS_OK
               : STATUS_NO_MEMORY;
}

static const char *role_at(const struct conversation *conversation, size_t index)
{
    return json_string_value(
        json_object_get(json_array_get(conversation->messages, index), "role"));
}

const char *conversation_last_role(const struct conversation *conversation)
{
    size_t n = json_array_size(conversation->messages);
    return n > 0 ? role_at(conversation, n - 1) : NULL;
}

void conversation_drop_last(struct conversation *conversation)
{
    size_t n = json_array_size(conversation->messages);
    assert(n > 0);
    (void)json_array_remove(conversation->messages, n - 1);
}

static bool has_system(const struct conversation *conversation)
{
    const char *role = role_at(conversation, 0);
    return role && strcmp(role, "system") == 0;
}

void conversation_clear(struct conversation *conversation)
{
    size_t kept = has_system(conversation) ? 1 : 0;
    while (json_array_size(conversation->messages) > kept)
        conversation_drop_last(conversation);
}

enum status conversation_set_system(struct conversation *conversation, const char *text,
                                    struct error *error)
{
    bool has_one = has_system(conversation);
    size_t n = json_array_size(conversation->messages);
    if (has_one)
        (void)json_array_remove(conversation->messages, 0);
    if (!text[0])
        return STATUS_OK;
    if (!has_one)
        TRY(check_room(conversation, n + 1, error));
    json_t *message = make_message("system", text, strlen(text));
    return message && json_array_insert_new(conversation->messages, 0, message) == 0
               ? STATUS_OK
               : STATUS_NO_MEMORY;
}

const char *conversation_system(const struct conversation *conversation)
{
    if (!has_system(conversation))
        return NULL;
    return json_string_value(json_object_get(json_array_get(conversation->messages, 0), "content"));
}

/* ---- files ---- */

static enum status write_all(int file, const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        ssize_t n = write(file, text, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return STATUS_IO_FAILED;
        text += n;
        left -= (size_t)n;
    }
    return fsync(file) == 0 || errno == EINVAL ? STATUS_OK : STATUS_IO_FAILED;
}

enum status conversation_save(const struct conversation *conversation, const char *path,
                              struct error *error)
{
    char beside[PATH_MAX];
    if (snprintf(beside, sizeof beside, "%s.XXXXXX", path) >= (int)sizeof beside)
        return error_set(error, STATUS_IO_FAILED, "the name is longer than %d bytes: %.60s",
                         PATH_MAX - 8, path);
    TRY(regular_file_check_place(path, error));
    json_t *root = json_pack("{s:O}", "messages", conversation->messages);
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!text)
        return STATUS_NO_MEMORY;
    int file = mkostemp(beside, O_CLOEXEC);
    enum status status = file >= 0 ? write_all(file, text) : STATUS_IO_FAILED;
    int reason = errno;
    free(text);
    if (file >= 0)
        close(file);
    if (status == STATUS_OK && rename(beside, path) != 0) {
        status = STATUS_IO_FAILED;
        reason = errno;
    }
    if (status == STATUS_OK)
        return STATUS_OK;
    if (file >= 0)
        (void)unlink(beside);
    return error_set(error, status, "cannot write %.120s: %s", path, strerror(reason));
}

enum status conversation_load(struct conversation *conversation, const char *path,
                              struct error *error)
{
    char *text = NULL;
    size_t bytes = 0;
    json_t *messages = NULL;
    TRY(regular_file_read(path, CONVERSATION_FILE_BYTES_MAX, &text, &bytes, error));
    enum status status = messages_parse(text, bytes, path, &messages, error);
    free(text);
    assert(status != STATUS_OK || json_is_array(messages));
    if (status == STATUS_OK)
        status = check_room(conversation, json_array_size(messages), error);
    if (status != STATUS_OK) {
        json_decref(messages);
        return status;
    }
    json_decref(conversation->messages);
    conversation->messages = messages;
    return STATUS_OK;
}

/* ---- the request ---- */

/* The members of a message that have no field of their own, as text; *out stays "" if there are none. */
static enum status take_more(json_t *message, struct conversation_prompt *prompt, char **out)
{
    static const char *const FIELDS[] = {"role", "content", "tool_calls", "tool_call_id", "name"};
    json_t *more = json_copy(message);
    if (!more)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
        (void)json_object_del(more, FIELDS[i]);
    char *text = json_object_size(more) > 0 ? json_dumps(more, JSON_COMPACT) : NULL;
    bool is_lost = json_object_size(more) > 0 && !text;
    json_decref(more);
    if (text)
        prompt->owned[prompt->n_owned++] = *out = text;
    return is_lost ? STATUS_NO_MEMORY : STATUS_OK;
}

static char *text_of(const json_t *object, const char *key, char *fallback)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? borrow(text) : fallback;
}

/* One allocation: the list, then its rows. */
static enum status take_calls(const json_t *calls, struct conversation_prompt *prompt,
                              Kvferry__V1__ChatMessage *out)
{
    size_t n = json_array_size(calls);
    if (n == 0)
        return STATUS_OK;
    Kvferry__V1__ChatToolCall **list = calloc(n, sizeof *list + sizeof **list);
    if (!list)
        return STATUS_NO_MEMORY;
    prompt->owned[prompt->n_owned++] = (char *)list;
    Kvferry__V1__ChatToolCall *rows = (Kvferry__V1__ChatToolCall *)(list + n);
    for (size_t i = 0; i < n; i++) {
        const json_t *call = json_array_get(calls, i),
                     *function = json_object_get(call, "function");
        kvferry__v1__chat_tool_call__init(&rows[i]);
        rows[i].id = text_of(call, "id", rows[i].id);
        rows[i].name = text_of(function, "name", rows[i].name);
        rows[i].arguments = text_of(function, "arguments", rows[i].arguments);
        list[i] = &rows[i];
    }
    out->tool_calls = list;
    out->n_tool_calls = n;
    return STATUS_OK;
}

static enum status take_message(json_t *message, struct conversation_prompt *prompt,
                                Kvferry__V1__ChatMessage *out)
{
    const json_t *content = json_object_get(message, "content");
    kvferry__v1__chat_message__init(out);
    out->role = text_of(message, "role", out->role);
    out->name = text_of(message, "name", out->name);
    out->tool_call_id = text_of(message, "tool_call_id", out->tool_call_id);
    if (json_is_string(content)) {
        out->content_presence_case = KVFERRY__V1__CHAT_MESSAGE__CONTENT_PRESENCE_CONTENT;
        out->content = (ProtobufCBinaryData){json_string_length(content),
                                             (uint8_t *)borrow(json_string_value(content))};
    }
    TRY(take_calls(json_object_get(message, "tool_calls"), prompt, out));
    return take_more(message, prompt, &out->more);
}

enum status conversation_prompt_make(const struct conversation *conversation,
                                     struct conversation_prompt *prompt_out, struct error *error)
{
    size_t n = json_array_size(conversation->messages), bytes = 0;
    struct conversation_prompt prompt = {
        .list = calloc(n + 1, sizeof *prompt.list),
        .rows = calloc(n + 1, sizeof *prompt.rows),
        .owned = calloc(2 * n + 1, sizeof *prompt.owned),
    };
    enum status status = prompt.list && prompt.rows && prompt.owned ? STATUS_OK : STATUS_NO_MEMORY;
    kvferry__v1__chat_prompt__init(&prompt.chat);
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        status = take_message(json_array_get(conversation->messages, i), &prompt, &prompt.rows[i]);
        prompt.list[i] = &prompt.rows[i];
        bytes += prompt.rows[i].content.len;
    }
    if (status == STATUS_OK && bytes > PROMPT_BYTES_MAX)
        status = error_set(error, STATUS_PROMPT_TOO_LONG,
                           "the conversation has %zu bytes of text; %u can be sent", bytes,
                           PROMPT_BYTES_MAX);
    assert(prompt.n_owned <= 2 * n); /* of a message, its calls and its other members */
    prompt.chat.messages = prompt.list;
    prompt.chat.n_messages = n;
    if (status == STATUS_OK)
        *prompt_out = prompt;
    else
        conversation_prompt_finish(&prompt);
    return status;
}

void conversation_prompt_finish(struct conversation_prompt *prompt)
{
    assert(prompt->owned || prompt->n_owned == 0);
    for (size_t i = 0; i < prompt->n_owned; i++)
        free(prompt->owned[i]);
    free(prompt->owned);
    free(prompt->list);
    free(prompt->rows);
    *prompt = (struct conversation_prompt){0};
}
