/*
 * worker_list - parses the lists of workers on a router's command line.
 *
 *     10.0.0.7:50052, [fd00::7]:50052, unix:/run/w    an address, which never changes
 *     context.prod.svc.cluster.local:50052            a name: all its addresses, now or later
 *     k8s:///prod/context:control                     every endpoint of a Kubernetes Service (k8s_target.h)
 *
 * Entries of all kinds are separated by commas. An empty host means 127.0.0.1.
 *
 * Bounds: PROCESS_PEERS_MAX addresses, WORKER_LIST_WATCHED_MAX names and services, in both lists together.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "discovery/k8s/k8s_target.h"
#include "process/process_state.h"
#include "router/placement/worker_report.h"

#define WORKER_LIST_WATCHED_MAX 32u /* one thread for each */

enum worker_entry_kind { ENTRY_ADDRESS, ENTRY_NAME, ENTRY_SERVICE };

struct worker_entry {
    enum worker_entry_kind kind;
    enum worker_role role;
    char text[ADDRESS_TEXT_MAX]; /* of an address: as from address_format */
    struct address address;      /* of a name: its port is that of every address */
    struct k8s_target service;
};

struct worker_list {
    uint32_t n, n_watched; /* n_watched: of these, names and services */
    struct worker_entry entries[PROCESS_PEERS_MAX + WORKER_LIST_WATCHED_MAX];
};

/* Adds the entries of a configuration row. INVALID_ARGUMENT: error names the row and the entry that is invalid,
 * duplicate or one too many. */
MUST_CHECK enum status worker_list_read(struct worker_list *list, enum worker_role role,
                                        const char *row, const char *text, struct error *error);
