/*
 * k8s_endpoints - follows the addresses of a Kubernetes Service by a watch of its EndpointSlices.
 *
 *     LIST, page by page -> the set -> WATCH from its version -> events change the set -> the server ends it
 *       ^                                 ^                                                      |
 *       |                                 +------------- from the last version ------------------+
 *       +--- 410: versions forgotten; an event that cannot be read ------------------------------+
 *
 * All existing endpoints count, ready or not (slice_json.h). A missing Service has an empty set. After a failure
 * the last set stays, and a retry follows after backoff_min_ms, then after longer times up to backoff_max_ms, each
 * randomly between half of that and all of it. The log reports a failure after a second, then less and less often
 * (reminder.h), and its end. A watch without an event or bookmark for silence_ms is started again.
 *
 * Token and CA are read for each request. Each request has its own connection, with TLS by the service account's
 * CA only, and no proxy.
 *
 * Bounds: 2 MiB for a page of an answer and for the unread part of a watch, allocated as bytes arrive; 256 pages;
 * slices, endpoints and addresses as in slice_set.h.
 *
 * Thread: its own thread, which calls on_change; start and stop: any thread.
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

    /* Gets the whole set when it is first known, even if empty, and whenever it changes. Sorted;
     * addresses like "10.1.2.3:50052" or "[fd00::1]:50052"; borrowed during the call. Must not
     * block, and must not call stop. */
    void (*on_change)(void *arg, const char *const *addresses, uint32_t n);
    void *arg;
};

/* Copies the texts. INVALID_ARGUMENT: a bad name or port; UNSUPPORTED: no server is named; errors
 * of service_account.h, with the file in the sentence; NO_MEMORY, NO_THREAD, IO_FAILED. */
MUST_CHECK enum status k8s_endpoints_start(const struct k8s_endpoints_options *options,
                                           struct error *error,
                                           struct k8s_endpoints **endpoints_out);
/* After it returns, on_change does not run any more. Waits for a running on_change, but never for
 * the server. NULL is fine. */
void k8s_endpoints_stop(struct k8s_endpoints *endpoints);
