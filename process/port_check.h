/*
 * port_check - whether a process will be able to listen where its configuration says, before it loads
 * anything.
 *
 * Each address is bound and let go again: who then listens for good may still be forestalled, and says
 * so itself. Port 0 and unix sockets are not tried.
 *
 * Thread: any; blocks for names only.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct port_row {
    const char *key;     /* "grpc_address" */
    const char *address; /* NULL, or "" unless it is needed: nowhere */
    bool is_needed;
};

/* What the rows say. is_insecure: addresses that are no loopback are taken.
 * INVALID_ARGUMENT: the sentence has key and address. */
MUST_CHECK enum status port_check(const struct port_row *rows, size_t n, bool is_insecure,
                                  struct error *error);
/* Whether they can be bound now, of rows that port_check took. IO_FAILED, INVALID_ARGUMENT: the sentence
 * has key, address and reason. */
MUST_CHECK enum status port_check_free(const struct port_row *rows, size_t n, struct error *error);
