/*
 * address_book - the state of each client address of a relay: the number of its connections and
 * streams, and the rest of its budgets.
 *
 * An IPv6 address counts as its /64. An entry lives while a connection uses it, and afterwards until
 * its memory is needed (the entry without connections for the longest time goes first). So a client
 * that reconnects still has its debts.
 *
 * Bound: ADDRESS_BOOK_QUIET_MAX entries without a connection.
 *
 * Thread: the relay's.
 */
#pragma once

#include "rpc/relay/budget.h"
#include "rpc/relay/network.h"
#include "rpc/relay/request_window.h"
#include "rpc/relay/turns.h"

#include <stdbool.h>
#include <stdint.h>

#define ADDRESS_BOOK_QUIET_MAX 4096

struct address_entry {
    struct network_address key;
    bool is_exempt; /* the limits of an address do not apply */
    uint32_t n_connections;
    uint32_t n_unproven; /* of these connections; the relay counts them */
    uint32_t n_streams;
    uint32_t n_half_open;
    struct request_room room;
    struct turn_count unanswered;
    struct budget connections;
    struct budget resets;

    struct address_entry *next_same_hash;
    struct address_entry *next_quiet; /* list of the entries without a connection, oldest first */
    struct address_entry *previous_quiet;
};

struct address_book;

/* exempt is borrowed. NO_MEMORY. */
MUST_CHECK enum status address_book_create(const struct network_list *exempt,
                                           struct address_book **book_out);
/* No entry may have a connection any more (asserted). NULL is fine. */
void address_book_destroy(struct address_book *book);

/* Adds a connection to the entry of address. address NULL: the peer of a Unix socket, which is
 * exempt. Returns NULL without memory. */
struct address_entry *address_book_enter(struct address_book *book,
                                         const struct network_address *address);
/* Removes a connection, which does not use the entry any more. */
void address_book_leave(struct address_book *book, struct address_entry *entry);

uint32_t address_book_n_quiet(const struct address_book *book);
