#include "discovery/k8s/k8s_target.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SCHEME "k8s:"
#define START  "k8s:///"

bool k8s_target_is_meant(const char *text)
{
    return strncmp(text, SCHEME, sizeof SCHEME - 1) == 0;
}

enum status k8s_label_check(const char *what, const char *label, struct error *error)
{
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    size_t bytes = strlen(label);
    if (bytes >= 1 && bytes <= K8S_LABEL_MAX && strspn(label, LETTERS) == bytes &&
        label[0] != '-' && label[bytes - 1] != '-')
        return STATUS_OK;
    return error_set(
        error, STATUS_INVALID_ARGUMENT,
        "%s \"%.80s\" is not a name in Kubernetes (1 to %u of a-z 0-9 -, no - at an end)", what,
        label, K8S_LABEL_MAX);
}

enum status k8s_port_parse(const char *port, unsigned *number_out, struct error *error)
{
    size_t digits = strspn(port, "0123456789");
    if (digits == 0 || port[digits] != '\0') {
        TRY(k8s_label_check("port", port, error));
        *number_out = 0;
        return STATUS_OK;
    }
    unsigned long number = digits <= 5 ? strtoul(port, NULL, 10) : 0;
    if (number == 0 || number > UINT16_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "port \"%.80s\" is not a number from 1 to %u", port, UINT16_MAX);
    *number_out = (unsigned)number;
    return STATUS_OK;
}

/* Copies [from, to), cut to what no check lets pass. */
static void take(char out[K8S_LABEL_MAX + 2], const char *from, const char *to)
{
    assert(from <= to);
    size_t bytes = (size_t)(to - from);
    if (bytes > K8S_LABEL_MAX + 1)
        bytes = K8S_LABEL_MAX + 1;
    memcpy(out, from, bytes);
    out[bytes] = '\0';
}

static enum status check(const char *name_space, const char *service, const char *port,
                         struct error *error)
{
    unsigned number;
    if (*name_space)
        TRY(k8s_label_check("namespace", name_space, error));
    TRY(k8s_label_check("service", service, error));
    return k8s_port_parse(port, &number, error);
}

enum status k8s_target_parse(const char *text, struct k8s_target *target_out, struct error *error)
{
    char name_space[K8S_LABEL_MAX + 2] = "", service[K8S_LABEL_MAX + 2];
    char port[K8S_LABEL_MAX + 2] = K8S_PORT_NAME;
    if (strncmp(text, START, sizeof START - 1) != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "\"%.120s\" is not %s", text,
                         "k8s:///NAMESPACE/SERVICE[:PORT]");
    const char *at = text + sizeof START - 1;
    const char *slash = strchr(at, '/');
    if (slash) {
        take(name_space, at, slash);
        at = slash + 1;
    }
    const char *colon = strchr(at, ':');
    const char *end = at + strlen(at);
    take(service, at, colon ? colon : end);
    if (colon)
        take(port, colon + 1, end);

    struct error why;
    enum status status = check(name_space, service, port, &why);
    if (status == STATUS_OK && slash && !*name_space)
        status = k8s_label_check("namespace", name_space, &why);
    if (status != STATUS_OK)
        return error_set(error, status, "\"%.120s\": %.180s", text, why.text);
    assert(strlen(service) <= K8S_LABEL_MAX && "one that was cut is no label");
    memcpy(target_out->name_space, name_space, sizeof target_out->name_space);
    memcpy(target_out->service, service, sizeof target_out->service);
    memcpy(target_out->port, port, sizeof target_out->port);
    return STATUS_OK;
}
