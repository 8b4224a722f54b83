/*
 * slice_json - what the API server says of EndpointSlices (discovery.k8s.io/v1), as JSON.
 *
 *     a page of a LIST    {"kind":"EndpointSliceList","metadata":{"resourceVersion":"8123","continue":"..."},
 *                          "items":[{"metadata":{"name":"kv-x7k2p"},"addressType":"IPv4",
 *                                    "endpoints":[{"addresses":["10.1.2.3"],"conditions":{...},
 *                                                  "targetRef":{"kind":"Pod","uid":"..."}}],
 *                                    "ports":[{"name":"control","protocol":"TCP","port":50052}]}]}
 *     a line of a WATCH   {"type":"ADDED","object":{...}}   also MODIFIED, DELETED, BOOKMARK, ERROR
 *     a refusal           {"kind":"Status","code":403,"reason":"Forbidden","message":"..."}
 *
 * Every endpoint counts, whatever its conditions: the router asks each worker itself whether it is
 * ready, five times a second, so that what it lacks is only who there is. A pod that is not ready yet
 * is thus known when it becomes so, and one that terminates stays until its pod is gone: its requests
 * end first, and it says itself that it drains.
 *
 * Of several addresses of an endpoint the first counts; the API gives the others no meaning. Slices of
 * addressType FQDN are passed over, for which it has none either.
 * A port by name is that of the slice (TCP; slices of one Service may differ); a number is taken as it is.
 *
 * Bounds: SLICE_JSON_ENDPOINTS_MAX endpoints of one slice (the API allows 1,000). jansson refuses JSON
 * nested deeper than 2,048; bytes are the caller's to bound.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"
#include "router/discovery/k8s/slice_set.h"

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
    char more[SLICE_JSON_CONTINUE_MAX + 1]; /* continue; "": that was the last page */
};

enum slice_event_kind {
    SLICE_EVENT_CHANGE,   /* the set is brought up to date */
    SLICE_EVENT_BOOKMARK, /* a version, and nothing else */
    SLICE_EVENT_ERROR     /* the server ends the watch: code and reason say why */
};

struct slice_event {
    enum slice_event_kind kind;
    char version[SLICE_JSON_VERSION_MAX + 1]; /* but of an error */
    uint32_t code;                            /* of an error: 410, its versions are forgotten */
    char reason[200];
};

/* Adds the page's slices. CORRUPT: no JSON, or none of this shape; UNSUPPORTED, NO_MEMORY as
 * slice_set_put. Of a failure the set keeps what came before it. */
MUST_CHECK enum status slice_json_page(const char *text, size_t bytes, struct slice_port port,
                                       struct slice_set *set, struct slice_page *page_out,
                                       struct error *error);
/* As slice_json_page. */
MUST_CHECK enum status slice_json_event(const char *text, size_t bytes, struct slice_port port,
                                        struct slice_set *set, struct slice_event *event_out,
                                        struct error *error);
/* The message of a Status, or the text's own beginning. */
void slice_json_reason(const char *text, size_t bytes, char *reason_out, size_t reason_bytes);
