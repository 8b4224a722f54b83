#include "cli/chat/message_check.h"

#include "base/json_text.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 120

/* A value as a sentence shows it: as JSON, cut. */
static enum status refuse(const char *file, const char *path, const json_t *value,
                          const char *wanted, struct error *error)
{
    char *shown = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    error_write(error, "%.80s: %s %s%.60s; it must be %s", file, path, value ? "is " : "is missing",
                shown ? shown : "", wanted);
    free(shown);
    return STATUS_CORRUPT;
}

/* A field of the request that ends at a NUL. */
static bool is_word(const json_t *value)
{
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
}

static enum status join_parts(json_t *message, const json_t *parts, const char *file,
                              const char *path, struct error *error)
{
    char part_path[PATH_BYTES];
    char *text = NULL;
    size_t n = 0;
    enum status status = STATUS_OK;
    assert(json_is_object(message) && json_is_array(parts));
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *words = json_object_get(part, "text");
        snprintf(part_path, sizeof part_path, "%s.content[%zu]", path, i);
        if (!json_is_string(words)) {
            status = refuse(file, part_path, part, "a part with a text", error);
            break;
        }
        char *longer = realloc(text, n + json_string_length(words) + 1);
        if (!longer) {
            status = STATUS_NO_MEMORY;
            break;
        }
        text = longer;
        memcpy(text + n, json_string_value(words), json_string_length(words));
        n += json_string_length(words);
    }
    if (status == STATUS_OK &&
        json_object_set_new(message, "content", json_stringn(text ? text : "", n)) != 0)
        status = STATUS_NO_MEMORY;
    free(text);
    return status;
}

static enum status check_call(const json_t *call, const char *file, const char *path, size_t index,
                              struct error *error)
{
    char member[PATH_BYTES];
    const json_t *function = json_object_get(call, "function");
    const json_t *arguments = json_object_get(function, "arguments");
    const json_t *id = json_object_get(call, "id");
    snprintf(member, sizeof member, "%s.tool_calls[%zu].id", path, index);
    if (id && !is_word(id))
        return refuse(file, member, id, "a text without U+0000", error);
    snprintf(member, sizeof member, "%s.tool_calls[%zu].function", path, index);
    if (!is_word(json_object_get(function, "name")))
        return refuse(file, member, function, "an object with a name", error);
    if (arguments && !is_word(arguments))
        return refuse(file, member, arguments, "given with arguments as a text", error);
    return STATUS_OK;
}

static enum status check_message(json_t *message, size_t index, const char *file,
                                 struct error *error)
{
    static const char *const TEXTS[] = {"name", "tool_call_id"};
    char path[48], member[PATH_BYTES];
    snprintf(path, sizeof path, "messages[%zu]", index);
    if (!json_is_object(message))
        return refuse(file, path, message, "an object", error);
    const json_t *role = json_object_get(message, "role");
    snprintf(member, sizeof member, "%s.role", path);
    if (!is_word(role) || json_string_length(role) == 0)
        return refuse(file, member, role, "a text", error);
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        const json_t *text = json_object_get(message, TEXTS[i]);
        snprintf(member, sizeof member, "%s.%s", path, TEXTS[i]);
        if (text && !is_word(text))
            return refuse(file, member, text, "a text without U+0000", error);
    }
    const json_t *calls = json_object_get(message, "tool_calls");
    snprintf(member, sizeof member, "%s.tool_calls", path);
    if (calls && !json_is_array(calls))
        return refuse(file, member, calls, "a list", error);
    for (size_t i = 0; i < json_array_size(calls); i++)
        TRY(check_call(json_array_get(calls, i), file, path, i, error));
    const json_t *content = json_object_get(message, "content");
    snprintf(member, sizeof member, "%s.content", path);
    if (json_is_array(content))
        return join_parts(message, content, file, path, error);
    if (content && !json_is_string(content) && !json_is_null(content))
        return refuse(file, member, content, "a text", error);
    return STATUS_OK;
}

enum status messages_parse(const char *text, size_t bytes, const char *file, json_t **messages_out,
                           struct error *error)
{
    json_t *root = NULL;
    TRY(json_text_parse(text, bytes, file, JSON_ALLOW_NUL, &root, error));
    json_t *messages = json_is_array(root) ? root : json_object_get(root, "messages");
    enum status status = STATUS_OK;
    if (!json_is_array(messages))
        status = refuse(file, "messages", messages, "a list of messages", error);
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(messages); i++)
        status = check_message(json_array_get(messages, i), i, file, error);
    if (status == STATUS_OK)
        *messages_out = json_incref(messages);
    json_decref(root);
    return status;
}
