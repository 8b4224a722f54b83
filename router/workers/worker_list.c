#include "router/workers/worker_list.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>

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

static enum status parse(const char *text, struct worker_entry *entry, struct error *error)
{
    snprintf(entry->text, sizeof entry->text, "%s", text);
    if (k8s_target_is_meant(text)) {
        entry->kind = ENTRY_SERVICE;
        return k8s_target_parse(text, &entry->service, error);
    }
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
    assert(list->n < sizeof list->entries / sizeof *list->entries);
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
