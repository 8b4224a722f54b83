/*
 * slice_set - the EndpointSlices of one Service, by name, and the union of their addresses.
 *
 *     slice "kv-x7k2p"  10.1.2.3:50052 (pod a)  10.1.2.4:50052 (pod b)
 *     slice "kv-9wq4z"  10.1.2.4:50052 (pod b)                          while it moves
 *     slice "kv-v6kk2"  [fd00::3]:50052 (pod a)                         the other family
 *     together          10.1.2.3:50052  10.1.2.4:50052
 *
 * An address in several slices counts once, as the API requires. A pod with an IPv4 and an IPv6
 * address (a dual-stack Service has slices of both) also counts once, with its IPv4 address: it is
 * one worker. Endpoints without a pod are distinguished by address only.
 *
 * Bounds: SLICE_SET_SLICES_MAX slices, SLICE_SET_ENDPOINTS_MAX endpoints in all; a further slice is
 * refused. Of more than SLICE_SET_ADDRESSES_MAX addresses the first in order count.
 *
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define SLICE_SET_SLICES_MAX    256u
#define SLICE_SET_ENDPOINTS_MAX 2048u
#define SLICE_SET_ADDRESSES_MAX 512u
#define SLICE_NAME_MAX          253u /* bytes: a subdomain of RFC 1123 */
#define SLICE_POD_MAX           63u  /* bytes of a pod's UID, which has 36 */
#define SLICE_ADDRESS_TEXT      56u  /* "[...]:65535" and a NUL */

struct slice_endpoint {
    uint8_t ip[16]; /* IPv4: the first four bytes */
    bool is_v6;
    uint16_t port;
    char pod[SLICE_POD_MAX + 1]; /* UID; "": none */
};

/* Sorted as text, without duplicates. */
struct slice_addresses {
    uint32_t n;
    bool is_cut; /* there were more */
    const char *list[SLICE_SET_ADDRESSES_MAX];
    char text[SLICE_SET_ADDRESSES_MAX][SLICE_ADDRESS_TEXT];
};

struct slice_set;

MUST_CHECK enum status slice_set_create(struct slice_set **set_out);
void slice_set_destroy(struct slice_set *set); /* NULL is fine */

/* Copies the slice; it replaces one with the same name. lacks_port: it has endpoints, but not the
 * requested port. UNSUPPORTED: a bound is exceeded, and the set is unchanged; NO_MEMORY. */
MUST_CHECK enum status slice_set_put(struct slice_set *set, const char *name,
                                     const struct slice_endpoint *endpoints, uint32_t n,
                                     bool lacks_port, struct error *error);
void slice_set_remove(struct slice_set *set, const char *name); /* fine if it is missing */

uint32_t slice_set_n(const struct slice_set *set);
uint32_t slice_set_n_lacking_port(const struct slice_set *set);
void slice_set_addresses(const struct slice_set *set, struct slice_addresses *addresses_out);
