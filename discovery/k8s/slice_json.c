#include "discovery/k8s/slice_json.h"

#include "base/json_text.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SOURCE "the API server's answer"

struct slice_text {
    const char *name;
    uint32_t n;
    bool lacks_port;
    struct slice_endpoint endpoints[SLICE_JSON_ENDPOINTS_MAX];
};

/* ---- parts ---- */

static enum status corrupt(struct error *error, const char *key, const char *wanted)
{
    return error_set(error, STATUS_CORRUPT, SOURCE ": %s is no %s", key, wanted);
}

/* A list; null and a missing key are an empty one, as Go writes them. */
static enum status get_list(const json_t *object, const char *key, json_t **list_out,
                            struct error *error)
{
    json_t *list = json_object_get(object, key);
    if (list && !json_is_null(list) && !json_is_array(list))
        return corrupt(error, key, "list");
    *list_out = json_is_array(list) ? list : NULL;
    return STATUS_OK;
}

/* Copies the text of key, "" for a missing one. */
static enum status get_text(const json_t *object, const char *key, char *out, size_t out_bytes,
                            struct error *error)
{
    const json_t *value = json_object_get(object, key);
    if (value && !json_is_null(value) && !json_is_string(value))
        return corrupt(error, key, "text");
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    if (strlen(text) >= out_bytes)
        return error_set(error, STATUS_CORRUPT, SOURCE ": %s has more than %zu bytes", key,
                         out_bytes - 1);
    memcpy(out, text, strlen(text) + 1);
    return STATUS_OK;
}

static bool is_text(const json_t *object, const char *key, const char *wanted)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && strcmp(text, wanted) == 0;
}

static enum status get_version(const json_t *object, char version_out[SLICE_JSON_VERSION_MAX + 1],
                               struct error *error)
{
    const json_t *metadata = json_object_get(object, "metadata");
    TRY(get_text(metadata, "resourceVersion", version_out, SLICE_JSON_VERSION_MAX + 1, error));
    return *version_out ? STATUS_OK : corrupt(error, "resourceVersion", "text");
}

/* ---- a slice ---- */

static bool is_wanted(const json_t *row, const char *name)
{
    const char *protocol = json_string_value(json_object_get(row, "protocol"));
    const char *own = json_string_value(json_object_get(row, "name"));
    return (!protocol || strcmp(protocol, "TCP") == 0) && strcmp(own ? own : "", name) == 0;
}

/* 0: the slice has no such port. */
static enum status find_port(const json_t *object, struct slice_port port, uint16_t *number_out,
                             struct error *error)
{
    json_t *rows;
    size_t i;
    const json_t *row;
    TRY(get_list(object, "ports", &rows, error));
    *number_out = port.number;
    if (port.number)
        return STATUS_OK;
    json_array_foreach(rows, i, row)
    {
        const json_t *number = json_object_get(row, "port");
        if (!is_wanted(row, port.name) || !number || json_is_null(number))
            continue;
        double value = json_number_value(number); /* of anything else 0 */
        if (!(value >= 1 && value <= UINT16_MAX) || value != (double)(uint16_t)value)
            return corrupt(error, "port", "number from 1 to 65535");
        *number_out = (uint16_t)value;
        return STATUS_OK;
    }
    return STATUS_OK;
}

static enum status read_endpoint(const json_t *object, bool is_v6, uint16_t port,
                                 struct slice_endpoint *out, struct error *error)
{
    json_t *addresses;
    const json_t *target = json_object_get(object, "targetRef");
    TRY(get_list(object, "addresses", &addresses, error));
    const char *text = json_string_value(json_array_get(addresses, 0));
    *out = (struct slice_endpoint){.is_v6 = is_v6, .port = port};
    if (!text)
        return corrupt(error, "addresses", "list of texts");
    if (inet_pton(is_v6 ? AF_INET6 : AF_INET, text, out->ip) != 1)
        return error_set(error, STATUS_CORRUPT, SOURCE ": \"%.60s\" is not an address of %s", text,
                         is_v6 ? "IPv6" : "IPv4");
    if (is_text(target, "kind", "Pod"))
        return get_text(target, "uid", out->pod, sizeof out->pod, error);
    return STATUS_OK;
}

static enum status read_endpoints(const json_t *object, uint16_t port, struct slice_text *slice,
                                  struct error *error)
{
    json_t *rows;
    size_t i;
    const json_t *row;
    TRY(get_list(object, "endpoints", &rows, error));
    bool is_v6 = is_text(object, "addressType", "IPv6");
    if (is_text(object, "addressType", "FQDN"))
        return STATUS_OK;
    if (!is_v6 && !is_text(object, "addressType", "IPv4"))
        return corrupt(error, "addressType", "IPv4, IPv6 or FQDN");
    if (json_array_size(rows) > SLICE_JSON_ENDPOINTS_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "EndpointSlice %s has more than %u endpoints",
                         slice->name, SLICE_JSON_ENDPOINTS_MAX);
    slice->lacks_port = port == 0 && json_array_size(rows) > 0;
    json_array_foreach(rows, i, row)
    {
        if (port == 0)
            break;
        TRY(read_endpoint(row, is_v6, port, &slice->endpoints[slice->n++], error));
    }
    return STATUS_OK;
}

static enum status get_name(const json_t *object, const char **name_out, struct error *error)
{
    const json_t *metadata = json_object_get(object, "metadata");
    const char *name = json_string_value(json_object_get(metadata, "name"));
    if (!name || !*name || strlen(name) > SLICE_NAME_MAX)
        return corrupt(error, "metadata.name", "name of an EndpointSlice");
    *name_out = name;
    return STATUS_OK;
}

static enum status put_slice(const json_t *object, struct slice_port port, struct slice_set *set,
                             struct error *error)
{
    struct slice_text slice; /* 84 KiB */
    uint16_t number;
    slice.n = 0;
    slice.lacks_port = false;
    TRY(get_name(object, &slice.name, error));
    TRY(find_port(object, port, &number, error));
    TRY(read_endpoints(object, number, &slice, error));
    assert((number != 0 || slice.n == 0) && !(slice.lacks_port && slice.n > 0));
    return slice_set_put(set, slice.name, slice.endpoints, slice.n, slice.lacks_port, error);
}

/* ---- a page ---- */

static enum status read_page(const json_t *root, struct slice_port port, struct slice_set *set,
                             struct slice_page *page_out, struct error *error)
{
    json_t *items;
    size_t i;
    const json_t *item;
    if (!is_text(root, "kind", "EndpointSliceList"))
        return corrupt(error, "kind", "EndpointSliceList");
    TRY(get_version(root, page_out->version, error));
    TRY(get_text(json_object_get(root, "metadata"), "continue", page_out->more,
                 sizeof page_out->more, error));
    TRY(get_list(root, "items", &items, error));
    json_array_foreach(items, i, item) TRY(put_slice(item, port, set, error));
    return STATUS_OK;
}

enum status slice_json_page(const char *text, size_t bytes, struct slice_port port,
                            struct slice_set *set, struct slice_page *page_out, struct error *error)
{
    json_t *root;
    TRY(json_text_parse(text, bytes, SOURCE, 0, &root, error));
    enum status status = read_page(root, port, set, page_out, error);
    json_decref(root);
    assert((status != STATUS_OK || page_out->version[0]) && "a watch begins from it");
    return status;
}

/* ---- an event ---- */

static void read_reason(const json_t *status, char *out, size_t out_bytes)
{
    const char *message = json_string_value(json_object_get(status, "message"));
    const char *reason = json_string_value(json_object_get(status, "reason"));
    snprintf(out, out_bytes, "%s", message ? message : reason ? reason : "no reason given");
}

static void read_error(const json_t *object, struct slice_event *event)
{
    double code = json_number_value(json_object_get(object, "code"));
    event->kind = SLICE_EVENT_ERROR;
    event->code = code >= 1 && code <= 999 ? (uint32_t)code : 0;
    read_reason(object, event->reason, sizeof event->reason);
}

static enum status read_event(const json_t *root, struct slice_port port, struct slice_set *set,
                              struct slice_event *event, struct error *error)
{
    const json_t *object = json_object_get(root, "object");
    const char *name;
    if (!json_is_object(object))
        return corrupt(error, "object", "object");
    if (is_text(root, "type", "ERROR")) {
        read_error(object, event);
        return STATUS_OK;
    }
    TRY(get_version(object, event->version, error));
    if (is_text(root, "type", "BOOKMARK")) {
        event->kind = SLICE_EVENT_BOOKMARK;
    } else if (is_text(root, "type", "DELETED")) {
        TRY(get_name(object, &name, error));
        slice_set_remove(set, name);
    } else if (is_text(root, "type", "ADDED") || is_text(root, "type", "MODIFIED")) {
        TRY(put_slice(object, port, set, error));
    } else {
        return corrupt(error, "type", "event of a watch");
    }
    return STATUS_OK;
}

enum status slice_json_event(const char *text, size_t bytes, struct slice_port port,
                             struct slice_set *set, struct slice_event *event_out,
                             struct error *error)
{
    json_t *root;
    TRY(json_text_parse(text, bytes, SOURCE, 0, &root, error));
    struct slice_event event = {.kind = SLICE_EVENT_CHANGE};
    enum status status = read_event(root, port, set, &event, error);
    json_decref(root);
    assert((status != STATUS_OK || event.kind == SLICE_EVENT_ERROR || event.version[0]) &&
           "the next watch begins from it");
    if (status == STATUS_OK)
        *event_out = event;
    return status;
}

void slice_json_reason(const char *text, size_t bytes, char *reason_out, size_t reason_bytes)
{
    json_t *root;
    struct error unread;
    if (json_text_parse(text, bytes, SOURCE, 0, &root, &unread) != STATUS_OK) {
        snprintf(reason_out, reason_bytes, "%.*s", (int)(bytes < 200 ? bytes : 200),
                 text ? text : "");
        return;
    }
    read_reason(root, reason_out, reason_bytes);
    json_decref(root);
}
