/*
 * port_check - whether a process will be able to listen where its configuration says, before it loads
 * anything.
 *
 * Each address is bound and let go again: who then listens for good may still be forestalled, and says
 * so itself. Port 0 and unix sockets are not tried.
 *
 * Two rows have the same port when one port number stands in both and their hosts, looked up, have an
 * address in common. "0.0.0.0" and "::" have every address: gRPC listens on both for either.
 *
 * Thread: any; blocks for names only.
 */
#pragma once

#include "base/status.h"
#include "process/ports/port_needs.h"

#include <stdbool.h>
#include <stddef.h>

struct port_row {
    const char *key;     /* "grpc_address" */
    const char *address; /* NULL, or "" unless it is needed: nowhere */
    bool is_needed;
    enum port_use use;
};

enum { N_PORT_ROWS = 4 };

/* What initialises a struct port_row[N_PORT_ROWS]: the rows of a role, or of what starts roles, whose
 * struct is at options. */
#define PORT_ROWS(options)                                                                         \
    {                                                                                              \
        {"grpc_address", (options)->grpc_address, true, PORT_USE_PUBLIC},                          \
            {"control_address", (options)->control_address, true, PORT_USE_CONTROL},               \
            {"health_address", (options)->health_address, false, PORT_USE_HEALTH},                 \
            {"metrics_address", (options)->metrics_address, false, PORT_USE_METRICS},              \
    }

/* What the rows say, and what their ports need (port_needs.h).
 * INVALID_ARGUMENT: the sentence has key and address. */
MUST_CHECK enum status port_check(const struct port_row *rows, size_t n,
                                  const struct port_given *given, struct error *error);
/* Whether they can be bound now, of rows that port_check took. IO_FAILED, INVALID_ARGUMENT: the sentence
 * has key, address and reason. */
MUST_CHECK enum status port_check_free(const struct port_row *rows, size_t n, struct error *error);
