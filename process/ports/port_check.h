/*
 * port_check - checks, before anything is loaded, that a process can listen on its configured
 * addresses.
 *
 * Each address is bound and released again. Another process may still take it before the real bind,
 * which then fails with its own error. Port 0 and Unix sockets are not tried.
 *
 * Two rows conflict if they have the same port number and their hosts have an address in common.
 * "0.0.0.0" and "::" have every address: gRPC listens on both for either.
 *
 * Thread: any; blocks only to look up names.
 */
#pragma once

#include "base/status.h"
#include "process/ports/port_needs.h"

#include <stdbool.h>
#include <stddef.h>

struct port_row {
    const char *key;     /* "grpc_address" */
    const char *address; /* NULL or "": no such port ("" is an error if it is needed) */
    bool is_needed;
    enum port_use use;
};

enum { N_PORT_ROWS = 6 };

/* Initialises a struct port_row[N_PORT_ROWS] from the rows of a role, or of a command that starts
 * roles, whose struct is at options. */
#define PORT_ROWS(options)                                                                         \
    {                                                                                              \
        {"grpc_address", (options)->grpc_address, true, PORT_USE_PUBLIC},                          \
            {"http_address", (options)->http_address, false, PORT_USE_PUBLIC},                     \
            {"engine_address", (options)->engine_address, false, PORT_USE_ENGINE},                 \
            {"control_address", (options)->control_address, true, PORT_USE_CONTROL},               \
            {"health_address", (options)->health_address, false, PORT_USE_HEALTH},                 \
            {"metrics_address", (options)->metrics_address, false, PORT_USE_METRICS},              \
    }

/* Checks the rows, and what their ports need (port_needs.h). INVALID_ARGUMENT: the sentence has key and address. */
MUST_CHECK enum status port_check(const struct port_row *rows, size_t n,
                                  const struct port_given *given, struct error *error);
/* Checks that they can be bound now, for rows that passed port_check. IO_FAILED, INVALID_ARGUMENT: the
 * sentence has key, address and reason. */
MUST_CHECK enum status port_check_free(const struct port_row *rows, size_t n, struct error *error);
