#include "router/worker_list.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define SERVICE_PREFIX "k8s://"

static bool is_literal(const struct address *address)
{
    char host[sizeof address->host];
    unsigned char bytes[16];
    if (address->is_unix)
        return true;
    snprintf(host, sizeof host, "%s", address->host);
    host[strcspn(host, "%")] = '\0'; /* of fe80::1%eth0 */
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* A name of Kubernetes: lower-case letters, digits and inner hyphens. */
static bool take_label(const char *from, size_t n, char label_out[WORKER_LIST_LABEL_MAX])
{
    if (n == 0 || n >= WORKER_LIST_LABEL_MAX || from[0] == '-' || from[n - 1] == '-')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-", from[i]))
            return false;
    memcpy(label_out, from, n);
    label_out[n] = '\0';
    return true;
}

static bool is_number(const char *text)
{
    return text[strspn(text, "0123456789")] == '\0';
}

static bool take_port(const char *text, char port_out[WORKER_LIST_LABEL_MAX])
{
    struct address parsed;
    char address[WORKER_LIST_LABEL_MAX + 2];
    if (!take_label(text, strlen(text), port_out))
        return false;
    snprintf(address, sizeof address, ":%s", port_out);
    return !is_number(port_out) ||
           (address_parse(address, &parsed, NULL) == STATUS_OK && parsed.port > 0);
}

/* k8s:///NAMESPACE/SERVICE[:PORT] */
static enum status parse_service(const char *text, struct worker_entry *entry, struct error *error)
{
    const char *space = text + strlen(SERVICE_PREFIX);
    const char *slash = *space == '/' ? strchr(space + 1, '/') : NULL;
    if (!slash)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "\"%s\" is not k8s:///NAMESPACE/SERVICE or k8s:///NAMESPACE/SERVICE:PORT",
                         text);
    const char *service = slash + 1;
    size_t n = strcspn(service, ":");
    if (!take_label(space + 1, (size_t)(slash - space) - 1, entry->space))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "\"%s\": \"%.*s\" is no name of a namespace", text,
                         (int)(slash - space) - 1, space + 1);
    if (!take_label(service, n, entry->service))
        return error_set(error, STATUS_INVALID_ARGUMENT, "\"%s\": \"%.*s\" is no name of a service",
                         text, (int)n, service);
    if (service[n] == ':' && !take_port(service + n + 1, entry->port))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "\"%s\": \"%s\" is no port (a name, or 1 .. 65535)", text,
                         service + n + 1);
    entry->kind = ENTRY_SERVICE;
    return STATUS_OK;
}

static enum status parse(const char *text, struct worker_entry *entry, struct error *error)
{
    snprintf(entry->text, sizeof entry->text, "%s", text);
    if (strncmp(text, SERVICE_PREFIX, strlen(SERVICE_PREFIX)) == 0)
        return parse_service(text, entry, error);
    TRY(address_parse(text, &entry->address, error));
    entry->kind = is_literal(&entry->address) ? ENTRY_ADDRESS : ENTRY_NAME;
    if (entry->kind == ENTRY_ADDRESS)
        address_format(&entry->address, entry->text);
    return STATUS_OK;
}

static bool is_there(const struct worker_list *list, const struct worker_entry *entry)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (list->entries[i].role == entry->role && strcmp(list->entries[i].text, entry->text) == 0)
            return true;
    return false;
}

static enum status add(struct worker_list *list, const struct worker_entry *entry,
                       struct error *error)
{
    bool is_watched = entry->kind != ENTRY_ADDRESS;
    if (is_there(list, entry))
        return error_set(error, STATUS_INVALID_ARGUMENT, "worker \"%s\" is named twice",
                         entry->text);
    if (is_watched && list->n_watched == WORKER_LIST_WATCHED_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "more than %u names and services",
                         WORKER_LIST_WATCHED_MAX);
    if (!is_watched && list->n - list->n_watched == PROCESS_PEERS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "more than %d workers", PROCESS_PEERS_MAX);
    list->n_watched += is_watched;
    list->entries[list->n++] = *entry;
    return STATUS_OK;
}

enum status worker_list_read(struct worker_list *list, enum worker_role role, const char *row,
                             const char *text, struct error *error)
{
    char one[ADDRESS_TEXT_MAX];
    while (address_list_next(&text, one)) {
        struct worker_entry entry = {.role = role};
        struct error wrong = {""};
        enum status status = parse(one, &entry, &wrong);
        if (status == STATUS_OK)
            status = add(list, &entry, &wrong);
        if (status != STATUS_OK)
            return error_set(error, status, "%s: %s", row, wrong.text);
    }
    return STATUS_OK;
}
