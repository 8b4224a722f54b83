/*
 * slice_json - reads the API server's JSON of EndpointSlices (discovery.k8s.io/v1).
 *
 *     a page of a LIST    {"kind":"EndpointSliceList","metadata":{"resourceVersion":"8123","continue":"..."},
 *                          "items":[{"metadata":{"name":"kv-x7k2p"},"addressType":"IPv4",
 *                                    "endpoints":[{"addresses":["10.1.2.3"],"conditions":{...},
 *                                                  "targetRef":{"kind":"Pod","uid":"..."}}],
 *                                    "ports":[{"name":"control","protocol":"TCP","port":50052}]}]}
 *     a line of a WATCH   {"type":"ADDED","object":{...}}   also MODIFIED, DELETED, BOOKMARK, ERROR
 *     a refusal           {"kind":"Status","code":403,"reason":"Forbidden","message":"..."}
 *
 * Every endpoint counts, whatever its conditions: the router itself asks each worker five times a second
 * whether it is ready, so it only needs the list of workers. So a pod is already known when it becomes ready,
 * and a terminating one stays until its pod is gone: its requests end first, and it reports its drain itself.
 *
 * If an endpoint has several addresses, the first counts; the API defines no meaning for the others, nor for
 * slices of addressType FQDN, which are ignored. A port by name is the slice's TCP port of that name (slices
 * of one Service may differ); a number is used directly.
 *
 * Bounds: SLICE_JSON_ENDPOINTS_MAX endpoints of one slice (the API allows 1,000). jansson refuses JSON nested
 * deeper than 2,048; the caller bounds the number of bytes.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"
#include "discovery/k8s/slice_set.h"

#include <stddef.h>
#include <stdint.h>

#define SLICE_JSON_ENDPOINTS_MAX 1000u
#define SLICE_JSON_VERSION_MAX   127u  /* bytes of a resourceVersion */
#define SLICE_JSON_CONTINUE_MAX  2047u /* bytes of a continue */

struct slice_port {
    const char *name; /* borrowed; "": the port without a name */
    uint16_t number;  /* 0: by name */
};

struct slice_page {
    char version[SLICE_JSON_VERSION_MAX + 1];
    char more[SLICE_JSON_CONTINUE_MAX + 1]; /* continue; "": the last page */
};

enum slice_event_kind {
    SLICE_EVENT_CHANGE,   /* the set was updated */
    SLICE_EVENT_BOOKMARK, /* only a version */
    SLICE_EVENT_ERROR     /* the server ends the watch: code and reason say why */
};

struct slice_event {
    enum slice_event_kind kind;
    char version[SLICE_JSON_VERSION_MAX + 1]; /* not in an error */
    uint32_t code;                            /* of an error; 410: the version is too old */
    char reason[200];
};

/* Adds the page's slices. CORRUPT: not JSON, or of another shape; UNSUPPORTED, NO_MEMORY as
 * slice_set_put. After a failure the set keeps the slices before it. */
MUST_CHECK enum status slice_json_page(const char *text, size_t bytes, struct slice_port port,
                                       struct slice_set *set, struct slice_page *page_out,
                                       struct error *error);
/* As slice_json_page. */
MUST_CHECK enum status slice_json_event(const char *text, size_t bytes, struct slice_port port,
                                        struct slice_set *set, struct slice_event *event_out,
                                        struct error *error);
/* The message of a Status, else the beginning of the text. */
void slice_json_reason(const char *text, size_t bytes, char *reason_out, size_t reason_bytes);
