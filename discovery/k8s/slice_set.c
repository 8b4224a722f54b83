#include "discovery/k8s/slice_set.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct slice {
    char name[SLICE_NAME_MAX + 1];
    struct slice_endpoint *endpoints; /* owned */
    uint32_t n;
    bool lacks_port;
};

struct slice_set {
    struct slice slices[SLICE_SET_SLICES_MAX]; /* in no order */
    uint32_t n;
    uint32_t n_endpoints; /* of all */
};

enum status slice_set_create(struct slice_set **set_out)
{
    *set_out = calloc(1, sizeof **set_out);
    return *set_out ? STATUS_OK : STATUS_NO_MEMORY;
}

void slice_set_destroy(struct slice_set *set)
{
    if (!set)
        return;
    for (uint32_t i = 0; i < set->n; i++)
        free(set->slices[i].endpoints);
    free(set);
}

/* ---- slices ---- */

static struct slice *find(struct slice_set *set, const char *name)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (strcmp(set->slices[i].name, name) == 0)
            return &set->slices[i];
    return NULL;
}

static enum status check_bounds(const struct slice_set *set, const struct slice *old, uint32_t n,
                                struct error *error)
{
    uint32_t others = set->n_endpoints - (old ? old->n : 0);
    if (!old && set->n == SLICE_SET_SLICES_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "the service has more than %u EndpointSlices",
                         SLICE_SET_SLICES_MAX);
    if (n > SLICE_SET_ENDPOINTS_MAX - others)
        return error_set(error, STATUS_UNSUPPORTED, "the service has more than %u endpoints",
                         SLICE_SET_ENDPOINTS_MAX);
    return STATUS_OK;
}

enum status slice_set_put(struct slice_set *set, const char *name,
                          const struct slice_endpoint *endpoints, uint32_t n, bool lacks_port,
                          struct error *error)
{
    assert(strlen(name) <= SLICE_NAME_MAX);
    struct slice *slice = find(set, name);
    TRY(check_bounds(set, slice, n, error));
    struct slice_endpoint *copy = NULL;
    if (n > 0) {
        copy = malloc(n * sizeof *copy);
        if (!copy)
            return error_set(error, STATUS_NO_MEMORY, "no memory for %u endpoints", n);
        memcpy(copy, endpoints, n * sizeof *copy);
    }
    if (!slice) {
        slice = &set->slices[set->n++];
        *slice = (struct slice){0};
        memcpy(slice->name, name, strlen(name) + 1);
    }
    assert(set->n <= SLICE_SET_SLICES_MAX && set->n_endpoints >= slice->n);
    set->n_endpoints += n - slice->n;
    assert(set->n_endpoints <= SLICE_SET_ENDPOINTS_MAX &&
           "slice_set_addresses has room for so many");
    free(slice->endpoints);
    slice->endpoints = copy;
    slice->n = n;
    slice->lacks_port = lacks_port;
    return STATUS_OK;
}

void slice_set_remove(struct slice_set *set, const char *name)
{
    struct slice *slice = find(set, name);
    if (!slice)
        return;
    assert(set->n_endpoints >= slice->n);
    set->n_endpoints -= slice->n;
    free(slice->endpoints);
    *slice = set->slices[--set->n];
}

uint32_t slice_set_n(const struct slice_set *set)
{
    return set->n;
}

uint32_t slice_set_n_lacking_port(const struct slice_set *set)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < set->n; i++)
        n += set->slices[i].lacks_port;
    return n;
}

/* ---- addresses ---- */

/* IPv4 first, then by pod: so that the IPv4 endpoint of a pod is found. */
static int compare_pods(const void *left, const void *right)
{
    const struct slice_endpoint *a = *(const struct slice_endpoint *const *)left;
    const struct slice_endpoint *b = *(const struct slice_endpoint *const *)right;
    return a->is_v6 != b->is_v6 ? a->is_v6 - b->is_v6 : strcmp(a->pod, b->pod);
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(left, right);
}

static void format(const struct slice_endpoint *endpoint, char text_out[SLICE_ADDRESS_TEXT])
{
    char ip[INET6_ADDRSTRLEN];
    const char *is_made = inet_ntop(endpoint->is_v6 ? AF_INET6 : AF_INET, endpoint->ip, ip,
                                    sizeof ip);
    assert(is_made);
    (void)is_made;
    snprintf(text_out, SLICE_ADDRESS_TEXT, endpoint->is_v6 ? "[%s]:%u" : "%s:%u", ip,
             endpoint->port);
}

/* all: n sorted by compare_pods, the first n_v4 of IPv4. */
static bool has_v4_twin(const struct slice_endpoint **all, uint32_t n_v4,
                        const struct slice_endpoint *endpoint)
{
    struct slice_endpoint twin = *endpoint;
    const struct slice_endpoint *key = &twin;
    twin.is_v6 = false;
    return endpoint->is_v6 && *endpoint->pod && bsearch(&key, all, n_v4, sizeof *all, compare_pods);
}

static uint32_t gather(const struct slice_set *set, const struct slice_endpoint **all)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < set->n; i++)
        for (uint32_t j = 0; j < set->slices[i].n; j++)
            all[n++] = &set->slices[i].endpoints[j];
    assert(n == set->n_endpoints && "counted as they came and went");
    return n;
}

static void take_sorted(char (*texts)[SLICE_ADDRESS_TEXT], uint32_t n, struct slice_addresses *out)
{
    qsort(texts, n, sizeof *texts, compare_texts);
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && strcmp(texts[i], texts[i - 1]) == 0)
            continue;
        if (out->n == SLICE_SET_ADDRESSES_MAX) {
            out->is_cut = true;
            return;
        }
        memcpy(out->text[out->n], texts[i], sizeof *texts);
        out->list[out->n] = out->text[out->n];
        out->n++;
    }
}

void slice_set_addresses(const struct slice_set *set, struct slice_addresses *addresses_out)
{
    const struct slice_endpoint *all[SLICE_SET_ENDPOINTS_MAX];
    char texts[SLICE_SET_ENDPOINTS_MAX][SLICE_ADDRESS_TEXT]; /* 112 KiB */
    uint32_t n_texts = 0, n_v4 = 0;
    uint32_t n = gather(set, all);
    addresses_out->n = 0;
    addresses_out->is_cut = false;
    if (n > 1)
        qsort(all, n, sizeof *all, compare_pods);
    while (n_v4 < n && !all[n_v4]->is_v6)
        n_v4++;
    for (uint32_t i = 0; i < n; i++)
        if (!has_v4_twin(all, n_v4, all[i]))
            format(all[i], texts[n_texts++]);
    take_sorted(texts, n_texts, addresses_out);
    assert(addresses_out->n <= n_texts && n_texts <= set->n_endpoints);
}
