#include "router/requests/chat_prompt.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status refuse(struct rpc_error *error, const char *field, const char *value,
                          const char *what)
{
    rpc_error_set(error, STATUS_INVALID_ARGUMENT, field, value, "%s %s", field, what);
    return STATUS_INVALID_ARGUMENT;
}

/* Of what, there are n; row: of the configuration, which sets max. */
static enum status check_count(struct rpc_error *error, const char *field, size_t n, size_t max,
                               const char *what, const char *row)
{
    char value[24];
    if (n <= max)
        return STATUS_OK;
    snprintf(value, sizeof value, "%zu", n);
    rpc_error_set(error, STATUS_INVALID_ARGUMENT, field, value,
                  "%s has %zu %s; at most %zu are taken (%s)", field, n, what, max, row);
    return STATUS_INVALID_ARGUMENT;
}

/* Whether objects and arrays are nested more than levels deep. Recurses as often at most. */
static bool is_deeper(const json_t *value, unsigned levels)
{
    const char *name;
    json_t *member;
    size_t i;
    if (!json_is_object(value) && !json_is_array(value))
        return false;
    if (levels == 0)
        return true;
    json_object_foreach((json_t *)value, name,
                        member) if (is_deeper(member, levels - 1)) return true;
    json_array_foreach(value, i, member) if (is_deeper(member, levels - 1)) return true;
    return false;
}

/* A field that holds a JSON object. */
static enum status read_object(const char *text, const char *field, json_t **out,
                               struct rpc_error *error)
{
    char what[200];
    json_error_t why;
    *out = json_loadb(text, strlen(text), JSON_ALLOW_NUL, &why);
    if (!*out)
        snprintf(what, sizeof what, "is not JSON: line %d, column %d: %.120s", why.line, why.column,
                 why.text);
    else if (!json_is_object(*out))
        snprintf(what, sizeof what, "is JSON, but not an object");
    else if (is_deeper(*out, CHAT_DEPTH_MAX))
        snprintf(what, sizeof what, "is nested deeper than %u", CHAT_DEPTH_MAX);
    else
        return STATUS_OK;
    json_decref(*out);
    *out = NULL;
    return refuse(error, field, text, what);
}

/* Takes value. */
static enum status set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status append(json_t *array, json_t *value)
{
    return json_array_append_new(array, value) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

/* What the model wrote is mostly an object, which templates want; else the text itself. */
static json_t *arguments_of(const char *text)
{
    json_t *value = json_loadb(text, strlen(text), JSON_ALLOW_NUL, NULL);
    if (json_is_object(value))
        return value;
    json_decref(value);
    return text[0] ? json_string(text) : json_object();
}

static enum status add_calls(json_t *into, const Kvferry__V1__ChatMessage *message,
                             const char *path, const struct chat_limits *limits,
                             struct rpc_error *error)
{
    char field[96], what[64];
    snprintf(field, sizeof field, "%s.tool_calls", path);
    TRY(check_count(error, field, message->n_tool_calls, limits->calls_max, "calls",
                    "chat_calls_max"));
    json_t *calls = json_array();
    TRY(set(into, "tool_calls", calls));
    for (size_t i = 0; i < message->n_tool_calls; i++) {
        const Kvferry__V1__ChatToolCall *call = message->tool_calls[i];
        json_t *arguments = arguments_of(call->arguments);
        json_t *one = json_pack("{s:s, s:{s:s, s:o}}", "type", "function", "function", "name",
                                call->name, "arguments", arguments);
        TRY(append(calls, one));
        snprintf(field, sizeof field, "%s.tool_calls[%zu].arguments", path, i);
        snprintf(what, sizeof what, "is nested deeper than %u", CHAT_DEPTH_MAX);
        if (is_deeper(arguments, CHAT_DEPTH_MAX))
            return refuse(error, field, call->arguments, what);
        if (call->id[0])
            TRY(set(one, "id", json_string(call->id)));
    }
    return STATUS_OK;
}

/* Other members first: those that have a field of their own count. */
static enum status add_more(json_t *into, const Kvferry__V1__ChatMessage *message, const char *path,
                            struct rpc_error *error)
{
    char field[64];
    json_t *more;
    snprintf(field, sizeof field, "%s.more", path);
    if (!message->more[0])
        return STATUS_OK;
    TRY(read_object(message->more, field, &more, error));
    bool is_added = json_object_update(into, more) == 0;
    json_decref(more);
    return is_added ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status read_text(const ProtobufCBinaryData *text, const char *field, json_t **out,
                             struct rpc_error *error)
{
    const char *bytes = text->data ? (const char *)text->data : "";
    char what[64];
    size_t invalid = utf8_first_invalid(bytes, text->len);
    snprintf(what, sizeof what, "is not UTF-8 at byte %zu", invalid);
    if (invalid < text->len)
        return refuse(error, field, NULL, what);
    *out = json_stringn(bytes, text->len);
    return *out ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status add_parts(json_t *into, const Kvferry__V1__ChatMessage *message,
                             const char *path, const struct chat_limits *limits,
                             struct rpc_error *error)
{
    char field[96];
    snprintf(field, sizeof field, "%s.parts", path);
    if (message->content_presence_case == KVFERRY__V1__CHAT_MESSAGE__CONTENT_PRESENCE_CONTENT)
        return refuse(error, field, NULL, "are there, and so is content: one of them can be");
    TRY(check_count(error, field, message->n_parts, limits->parts_max, "parts", "chat_parts_max"));
    json_t *parts = json_array();
    TRY(set(into, "content", parts));
    for (size_t i = 0; i < message->n_parts; i++) {
        json_t *text;
        snprintf(field, sizeof field, "%s.parts[%zu].text", path, i);
        TRY(read_text(&message->parts[i]->text, field, &text, error));
        TRY(append(parts, json_pack("{s:s, s:o}", "type", "text", "text", text)));
    }
    return STATUS_OK;
}

static enum status add_message(json_t *into, const Kvferry__V1__ChatMessage *message,
                               const char *path, const struct chat_limits *limits,
                               struct rpc_error *error)
{
    char field[64];
    snprintf(field, sizeof field, "%s.role", path);
    if (!message->role[0])
        return refuse(error, field, "", "is missing");
    TRY(add_more(into, message, path, error));
    TRY(set(into, "role", json_string(message->role)));
    if (message->content_presence_case == KVFERRY__V1__CHAT_MESSAGE__CONTENT_PRESENCE_CONTENT) {
        json_t *content;
        snprintf(field, sizeof field, "%s.content", path);
        TRY(read_text(&message->content, field, &content, error));
        TRY(set(into, "content", content));
    }
    if (message->n_parts > 0)
        TRY(add_parts(into, message, path, limits, error));
    if (message->name[0])
        TRY(set(into, "name", json_string(message->name)));
    if (message->tool_call_id[0])
        TRY(set(into, "tool_call_id", json_string(message->tool_call_id)));
    return message->n_tool_calls > 0 ? add_calls(into, message, path, limits, error) : STATUS_OK;
}

static enum status add_messages(json_t *into, const Kvferry__V1__ChatPrompt *chat,
                                const struct chat_limits *limits, struct rpc_error *error)
{
    json_t *messages = json_array();
    TRY(set(into, "messages", messages));
    if (chat->n_messages == 0)
        return refuse(error, "chat.messages", "0", "has no messages; it must have one at least");
    TRY(check_count(error, "chat.messages", chat->n_messages, limits->messages_max, "messages",
                    "chat_messages_max"));
    for (size_t i = 0; i < chat->n_messages; i++) {
        char path[40];
        json_t *one = json_object();
        snprintf(path, sizeof path, "chat.messages[%zu]", i);
        TRY(append(messages, one));
        TRY(add_message(one, chat->messages[i], path, limits, error));
    }
    return STATUS_OK;
}

/* Texts that are objects, as an array of name. */
static enum status add_objects(json_t *into, const char *name, char **texts, size_t n,
                               struct rpc_error *error)
{
    json_t *objects = json_array();
    TRY(set(into, name, objects));
    for (size_t i = 0; i < n; i++) {
        char field[40];
        json_t *object;
        snprintf(field, sizeof field, "chat.%s[%zu]", name, i);
        TRY(read_object(texts[i], field, &object, error));
        TRY(append(objects, object));
    }
    return STATUS_OK;
}

static enum status add_tools(json_t *into, const Kvferry__V1__ChatPrompt *chat,
                             const struct chat_limits *limits, struct rpc_error *error)
{
    size_t bytes = 0;
    TRY(check_count(error, "chat.tools", chat->n_tools, limits->tools_max, "tools",
                    "chat_tools_max"));
    for (size_t i = 0; i < chat->n_tools; i++)
        bytes += strlen(chat->tools[i]);
    TRY(check_count(error, "chat.tools", bytes, limits->tool_bytes_max, "bytes",
                    "chat_tool_bytes_max"));
    return add_objects(into, "tools", chat->tools, chat->n_tools, error);
}

static enum status add_documents(json_t *into, const Kvferry__V1__ChatPrompt *chat,
                                 const struct chat_limits *limits, struct rpc_error *error)
{
    TRY(check_count(error, "chat.documents", chat->n_documents, limits->documents_max, "documents",
                    "chat_documents_max"));
    return add_objects(into, "documents", chat->documents, chat->n_documents, error);
}

/* Names that a template gets from elsewhere. */
static enum status check_arguments(const json_t *arguments, struct rpc_error *error)
{
    static const char *const NAMES[] = {"messages", "tools", "documents", "add_generation_prompt",
                                        "continue_final_message"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        char field[64];
        snprintf(field, sizeof field, "chat.template_arguments.%s", NAMES[i]);
        if (json_object_get(arguments, NAMES[i]))
            return refuse(error, field, NAMES[i], "is a name that no template argument may have");
    }
    return STATUS_OK;
}

static enum status build(json_t *into, const Kvferry__V1__ChatPrompt *chat,
                         const struct chat_limits *limits, struct rpc_error *error)
{
    json_t *arguments;
    bool adds = !chat->continue_final_message;
    if (chat->add_generation_prompt_presence_case ==
        KVFERRY__V1__CHAT_PROMPT__ADD_GENERATION_PROMPT_PRESENCE_ADD_GENERATION_PROMPT)
        adds = chat->add_generation_prompt;
    if (adds && chat->continue_final_message)
        return refuse(error, "chat.add_generation_prompt", "true",
                      "is true, and so is continue_final_message: one of them can be");
    TRY(add_messages(into, chat, limits, error));
    if (chat->n_tools > 0)
        TRY(add_tools(into, chat, limits, error));
    if (chat->n_documents > 0)
        TRY(add_documents(into, chat, limits, error));
    TRY(set(into, "add_generation_prompt", json_boolean(adds)));
    if (chat->continue_final_message)
        TRY(set(into, "continue_final_message", json_true()));
    if (!chat->template_arguments[0])
        return STATUS_OK;
    TRY(check_count(error, "chat.template_arguments", strlen(chat->template_arguments),
                    limits->argument_bytes_max, "bytes", "chat_argument_bytes_max"));
    TRY(read_object(chat->template_arguments, "chat.template_arguments", &arguments, error));
    TRY(set(into, "chat_template_kwargs", arguments));
    return check_arguments(arguments, error);
}

enum status chat_prompt_json(const Kvferry__V1__ChatPrompt *chat, const struct chat_limits *limits,
                             char **json_out, size_t *bytes_out, struct rpc_error *error)
{
    char value[24];
    json_t *root = json_object();
    enum status status = root ? build(root, chat, limits, error) : STATUS_NO_MEMORY;
    *json_out = status == STATUS_OK ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (status != STATUS_OK)
        return status;
    *bytes_out = *json_out ? strlen(*json_out) : 0;
    if (!*json_out)
        return STATUS_NO_MEMORY;
    if (*bytes_out <= limits->bytes_max)
        return STATUS_OK;
    free(*json_out);
    *json_out = NULL;
    snprintf(value, sizeof value, "%zu", *bytes_out);
    rpc_error_set(error, STATUS_PROMPT_TOO_LONG, "chat", value,
                  "chat has %zu bytes as JSON; at most %zu are taken (chat_request_bytes_max)",
                  *bytes_out, limits->bytes_max);
    return STATUS_PROMPT_TOO_LONG;
}
