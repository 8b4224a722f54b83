/*
 * k8s_endpoints - the addresses of a Kubernetes Service, kept up to date by a watch of its EndpointSlices.
 *
 *     LIST, page by page -> the set -> WATCH from its version -> events change the set -> the server ends it
 *       ^                                 ^                                                      |
 *       |                                 +------------- from the last version ------------------+
 *       +--- 410: versions forgotten; an event that cannot be read ------------------------------+
 *
 * What counts is who exists, not who is ready (slice_json.h). A Service that does not exist has an
 * empty set. Any failure keeps the last set and is tried again, after backoff_min_ms and then longer and
 * longer up to backoff_max_ms, each time between half of that and all of it; the log says it after a
 * second, then ever more rarely (reminder.h), and when it is over. A watch in which nothing is heard for
 * silence_ms, no event and no bookmark, is begun again.
 *
 * Token and CA are read anew for each request. One connection a request, TLS by the service account's CA
 * only, no proxy.
 *
 * Bounds: a page of an answer and what waits of a watch, 2 MiB each, in steps as it arrives; slices, endpoints and
 * addresses as slice_set.h has them, 256 pages.
 *
 * Thread: one of its own, which calls on_change; start and stop from any one.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct k8s_endpoints;

/* 0: the default in brackets. */
struct k8s_endpoints_limits {
    uint32_t answer_ms;      /* [15 s] connect, and a page or the head of a watch */
    uint32_t silence_ms;     /* [150 s] a server sends a bookmark about every 60 to 75 s */
    uint32_t watch_s;        /* [300] what the server is asked for; up to twice that, by chance */
    uint32_t settle_ms;      /* [100] from an event to on_change, for events that belong together */
    uint32_t backoff_min_ms; /* [200] */
    uint32_t backoff_max_ms; /* [30 s] */
    uint32_t well_ms;        /* [1 s] a watch that lasted so long has worked */
};

struct k8s_endpoints_options {
    const char *name_space; /* "": the pod's own */
    const char *service;
    const char *port; /* of the Service's, by name, or a number; NULL: "control" */
    const char
        *server; /* host:port of the API server; NULL: of KUBERNETES_SERVICE_HOST and _PORT */
    const char *folder; /* of the service account; NULL: where the kubelet puts it */
    struct k8s_endpoints_limits limits;

    /* The whole set: when it is first known, be it empty, and whenever it changed. Sorted; each as
     * "10.1.2.3:50052" or "[fd00::1]:50052"; borrowed for the call. Must not block, nor stop. */
    void (*on_change)(void *arg, const char *const *addresses, uint32_t n);
    void *arg;
};

/* Copies the texts. INVALID_ARGUMENT: a name or a port; UNSUPPORTED: no server is named; as
 * service_account.h: a file of it, which the sentence names; NO_MEMORY, NO_THREAD, IO_FAILED. */
MUST_CHECK enum status k8s_endpoints_start(const struct k8s_endpoints_options *options,
                                           struct error *error,
                                           struct k8s_endpoints **endpoints_out);
/* After it no call of on_change. Waits for one under way, never for the server. NULL is fine. */
void k8s_endpoints_stop(struct k8s_endpoints *endpoints);
