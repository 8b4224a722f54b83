/*
 * worker_list - where a router's workers are, as its command line says it.
 *
 *     10.0.0.7:50052, [fd00::7]:50052, unix:/run/w    an address, for as long as the router lives
 *     context.prod.svc.cluster.local:50052            a name: every address that it has, now or later
 *     k8s:///prod/context:control                     every endpoint of a Kubernetes Service (k8s_target.h)
 *
 * Separated by commas, of all kinds. An empty host is 127.0.0.1.
 *
 * Bounds: PROCESS_PEERS_MAX addresses, WORKER_LIST_WATCHED_MAX names and services, in both lists together.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "process/process_state.h"
#include "router/discovery/k8s/k8s_target.h"
#include "router/worker_report.h"

#define WORKER_LIST_WATCHED_MAX 32u /* a thread each */

enum worker_entry_kind { ENTRY_ADDRESS, ENTRY_NAME, ENTRY_SERVICE };

struct worker_entry {
    enum worker_entry_kind kind;
    enum worker_role role;
    char text[ADDRESS_TEXT_MAX]; /* of an address: in the form that address_format gives it */
    struct address address;      /* of a name: its port is that of every address */
    struct k8s_target service;
};

struct worker_list {
    uint32_t n, n_watched; /* n_watched: of them names and services */
    struct worker_entry entries[PROCESS_PEERS_MAX + WORKER_LIST_WATCHED_MAX];
};

/* Adds what row of the configuration says. INVALID_ARGUMENT: error names the row and the entry that is none, is
 * there twice or one too many. */
MUST_CHECK enum status worker_list_read(struct worker_list *list, enum worker_role role,
                                        const char *row, const char *text, struct error *error);
