#include "api/openai/chat_message.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything that the prompt points to and that is not the body's. */
struct chat_message {
    const struct chat_limits *limits;
    Kvferry__V1__ChatPrompt prompt;
    Kvferry__V1__ChatMessage *messages; /* [n_messages] */
    Kvferry__V1__ChatMessage **list;
    uint32_t n_messages;
    void **owned; /* freed at the end */
    size_t n_owned, owned_room;
};

static bool fail_memory(const struct json_fields *fields)
{
    if (fields->error->code == 0)
        openai_error_set(fields->error, 500, NULL, NULL, "%s", status_text(STATUS_NO_MEMORY));
    return false;
}

/* NULL: no memory, as the error says; bytes may be NULL, too. */
static void *own(struct chat_message *chat, const struct json_fields *fields, void *bytes)
{
    if (bytes && chat->n_owned == chat->owned_room) {
        size_t room = chat->owned_room ? 2 * chat->owned_room : 16;
        void **larger = realloc(chat->owned, room * sizeof(void *));
        if (!larger) {
            free(bytes);
            bytes = NULL;
        } else {
            chat->owned = larger;
            chat->owned_room = room;
        }
    }
    if (!bytes) {
        fail_memory(fields);
        return NULL;
    }
    chat->owned[chat->n_owned++] = bytes;
    return bytes;
}

static char *own_json(struct chat_message *chat, const struct json_fields *fields,
                      const json_t *value)
{
    return own(chat, fields, json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY));
}

/* An array of at most n_max elements; row: of the configuration, which sets that. NULL: it is absent, or wrong. */
static const json_t *list_of(const struct json_fields *fields, const char *name, uint32_t n_max,
                             const char *elements, const char *row)
{
    const json_t *list = json_field_list(fields, name, SIZE_MAX, elements);
    if (json_array_size(list) <= n_max)
        return list;
    json_field_fail(fields, "invalid_value", name, "has %zu %s; at most %" PRIu32 " are taken (%s)",
                    json_array_size(list), elements, n_max, row);
    return NULL;
}

/* ---- one message ---- */

static const char *part_text(const struct json_fields *fields, const json_t *part, size_t i)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *text = json_object_get(part, "text");
    char name[32];
    snprintf(name, sizeof name, "content[%zu]", i);
    if (!type || strcmp(type, "text") != 0)
        json_field_fail(fields, "unsupported_parameter", name,
                        "is of type \"%.40s\"; \"text\" is served", type ? type : "");
    else if (!json_is_string(text))
        json_field_fail(fields, "invalid_type", name, "has no text");
    return json_string_value(text);
}

/* Its parts, joined by line feeds. */
static void join_parts(struct chat_message *chat, const struct json_fields *fields,
                       const json_t *parts, Kvferry__V1__ChatMessage *message)
{
    size_t bytes = 0, n = json_array_size(parts), at = 0;
    for (size_t i = 0; i < n; i++) {
        if (!part_text(fields, json_array_get(parts, i), i) || fields->error->code != 0)
            return;
        bytes += json_string_length(json_object_get(json_array_get(parts, i), "text")) + 1;
    }
    char *text = own(chat, fields, malloc(bytes + 1));
    for (size_t i = 0; text && i < n; i++) {
        const json_t *part = json_object_get(json_array_get(parts, i), "text");
        if (i > 0)
            text[at++] = '\n';
        memcpy(text + at, json_string_value(part), json_string_length(part));
        at += json_string_length(part);
    }
    message->content_presence_case = KVFERRY__V1__CHAT_MESSAGE__CONTENT_PRESENCE_CONTENT;
    message->content = (ProtobufCBinaryData){at, (uint8_t *)text};
}

static void read_content(struct chat_message *chat, const struct json_fields *fields,
                         Kvferry__V1__ChatMessage *message)
{
    const json_t *content = json_field(fields, "content");
    if (json_is_array(content)) {
        content = list_of(fields, "content", chat->limits->parts_max, "parts", "chat_parts_max");
        if (content)
            join_parts(chat, fields, content, message);
    } else if (json_is_string(content)) {
        message->content_presence_case = KVFERRY__V1__CHAT_MESSAGE__CONTENT_PRESENCE_CONTENT;
        message->content = (ProtobufCBinaryData){json_string_length(content),
                                                 (uint8_t *)json_string_value(content)};
    } else if (content) {
        json_field_refuse_type(fields, "content", "a string or an array of parts");
    }
}

static void read_call(struct chat_message *chat, const struct json_fields *fields,
                      const json_t *value, Kvferry__V1__ChatToolCall *call)
{
    const json_t *function = json_object_get(value, "function");
    const json_t *name = json_object_get(function, "name");
    const json_t *arguments = json_object_get(function, "arguments");
    const json_t *id = json_object_get(value, "id");
    kvferry__v1__chat_tool_call__init(call);
    if (!json_is_text(name)) {
        json_field_fail(fields, "invalid_type", "tool_calls",
                        "has an element without function.name");
        return;
    }
    if ((json_is_string(id) && !json_is_text(id)) ||
        (json_is_string(arguments) && !json_is_text(arguments))) {
        json_field_fail(fields, "invalid_value", "tool_calls", "has an element that holds U+0000");
        return;
    }
    call->name = (char *)json_string_value(name);
    call->id = json_is_string(id) ? (char *)json_string_value(id) : call->id;
    if (json_is_string(arguments))
        call->arguments = (char *)json_string_value(arguments);
    else if (json_is_object(arguments))
        call->arguments = own_json(chat, fields, arguments);
}

static void read_calls(struct chat_message *chat, const struct json_fields *fields,
                       Kvferry__V1__ChatMessage *message)
{
    const json_t *calls = list_of(fields, "tool_calls", chat->limits->calls_max, "calls",
                                  "chat_calls_max");
    size_t n = json_array_size(calls);
    if (n == 0)
        return;
    Kvferry__V1__ChatToolCall *all = own(chat, fields, calloc(n, sizeof *all));
    Kvferry__V1__ChatToolCall **list = own(chat, fields, calloc(n, sizeof(void *)));
    for (size_t i = 0; all && list && i < n; i++) {
        read_call(chat, fields, json_array_get(calls, i), &all[i]);
        list[i] = &all[i];
    }
    message->n_tool_calls = all && list ? n : 0;
    message->tool_calls = list;
}

/* What the template may look at besides. */
static void read_more(struct chat_message *chat, const struct json_fields *fields,
                      Kvferry__V1__ChatMessage *message)
{
    static const char *const KNOWN[] = {"role", "content", "tool_calls", "tool_call_id", "name"};
    json_t *more = json_copy((json_t *)fields->object);
    for (size_t i = 0; more && i < sizeof KNOWN / sizeof *KNOWN; i++)
        json_object_del(more, KNOWN[i]);
    if (!more)
        fail_memory(fields);
    else if (json_object_size(more) > 0)
        message->more = own_json(chat, fields, more);
    json_decref(more);
}

static void read_message(struct chat_message *chat, const struct json_fields *fields,
                         Kvferry__V1__ChatMessage *message)
{
    const char *text;
    kvferry__v1__chat_message__init(message);
    if (json_field_string(fields, "role", &text) && text)
        message->role = (char *)text;
    else
        json_field_refuse_type(fields, "role", "a string");
    if (json_field_string(fields, "name", &text) && text)
        message->name = (char *)text;
    if (json_field_string(fields, "tool_call_id", &text) && text)
        message->tool_call_id = (char *)text;
    read_content(chat, fields, message);
    read_calls(chat, fields, message);
    if (fields->error->code == 0)
        read_more(chat, fields, message);
}

/* ---- the whole ---- */

static void read_messages(struct chat_message *chat, const struct json_fields *fields)
{
    if (!json_is_array(json_field(fields, "messages"))) {
        json_field_refuse_type(fields, "messages", "an array");
        return;
    }
    const json_t *messages = list_of(fields, "messages", chat->limits->messages_max, "messages",
                                     "chat_messages_max");
    size_t n = json_array_size(messages);
    if (n == 0) {
        json_field_fail(fields, "invalid_value", "messages",
                        "has no messages; it must have one at least");
        return;
    }
    chat->messages = own(chat, fields, calloc(n, sizeof *chat->messages));
    chat->list = own(chat, fields, calloc(n, sizeof(void *)));
    for (size_t i = 0; chat->messages && chat->list && i < n; i++) {
        char path[32];
        snprintf(path, sizeof path, "messages[%zu].", i);
        const struct json_fields one = {json_array_get(messages, i), path, fields->error};
        if (!json_is_object(one.object)) {
            json_field_refuse_element(fields, "messages", i, "an object");
            return;
        }
        read_message(chat, &one, &chat->messages[i]);
        chat->list[i] = &chat->messages[i];
    }
    chat->prompt.n_messages = fields->error->code == 0 ? n : 0;
    chat->prompt.messages = chat->list;
}

/* The texts of a list of objects. n_out: 0 after a failure. */
static char **read_objects(struct chat_message *chat, const struct json_fields *fields,
                           const char *name, const json_t *objects, size_t *n_out)
{
    size_t n = json_array_size(objects);
    char **list = own(chat, fields, calloc(n + 1, sizeof(char *)));
    for (size_t i = 0; list && i < n && fields->error->code == 0; i++) {
        const json_t *object = json_array_get(objects, i);
        if (!json_is_object(object))
            json_field_refuse_element(fields, name, i, "an object");
        else
            list[i] = own_json(chat, fields, object);
    }
    *n_out = fields->error->code == 0 ? n : 0;
    return list;
}

static void read_tools(struct chat_message *chat, const struct json_fields *fields)
{
    const char *choice = json_string_value(json_field(fields, "tool_choice"));
    if (choice && strcmp(choice, "none") == 0)
        return;
    const json_t *tools = list_of(fields, "tools", chat->limits->tools_max, "tools",
                                  "chat_tools_max");
    if (tools)
        chat->prompt.tools = read_objects(chat, fields, "tools", tools, &chat->prompt.n_tools);
}

/* As vLLM has them. */
static void read_documents(struct chat_message *chat, const struct json_fields *fields)
{
    const json_t *documents = list_of(fields, "documents", chat->limits->documents_max, "documents",
                                      "chat_documents_max");
    if (documents)
        chat->prompt.documents = read_objects(chat, fields, "documents", documents,
                                              &chat->prompt.n_documents);
}

/* Names that other servers have for them. */
static void read_rest(struct chat_message *chat, const struct json_fields *fields)
{
    bool add = true, goes_on = false;
    const json_t *arguments = json_field(fields, "chat_template_kwargs");
    if (json_field(fields, "chat_template"))
        json_field_fail(fields, "unsupported_parameter", "chat_template",
                        "is not taken from requests: the model's own is used");
    if (json_field(fields, "add_generation_prompt")) {
        json_field_bool(fields, "add_generation_prompt", &add);
        chat->prompt.add_generation_prompt_presence_case =
            KVFERRY__V1__CHAT_PROMPT__ADD_GENERATION_PROMPT_PRESENCE_ADD_GENERATION_PROMPT;
        chat->prompt.add_generation_prompt = add;
    }
    json_field_bool(fields, "continue_final_message", &goes_on);
    chat->prompt.continue_final_message = goes_on;
    if (arguments && !json_is_object(arguments))
        json_field_refuse_type(fields, "chat_template_kwargs", "an object");
    else if (arguments)
        chat->prompt.template_arguments = own_json(chat, fields, arguments);
}

void chat_messages_read(const struct json_fields *fields, const struct chat_limits *limits,
                        Kvferry__V1__GenerateRequest *message, struct chat_message **chat_out)
{
    struct chat_message *chat = calloc(1, sizeof *chat);
    *chat_out = chat;
    if (!chat) {
        fail_memory(fields);
        return;
    }
    chat->limits = limits;
    kvferry__v1__chat_prompt__init(&chat->prompt);
    read_messages(chat, fields);
    read_tools(chat, fields);
    read_documents(chat, fields);
    read_rest(chat, fields);
    message->prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_CHAT;
    message->chat = &chat->prompt;
}

void chat_messages_free(struct chat_message *chat)
{
    if (!chat)
        return;
    for (size_t i = 0; i < chat->n_owned; i++)
        free(chat->owned[i]);
    free(chat->owned);
    free(chat);
}
