/*
 * address_book - what a relay knows of the addresses that its connections come from: how many
 * connections and streams there are of each, and what it has left of its budgets.
 *
 * An IPv6 address counts with its /64. An entry lives while a connection has it, and afterwards until
 * room is needed (the one left longest goes), so that who reconnects finds its debts again.
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
    bool is_exempt; /* no limit of an address holds for it */
    uint32_t n_connections;
    uint32_t n_unproven; /* of them; the relay's to count */
    uint32_t n_streams;
    uint32_t n_half_open;
    struct request_room room;
    struct turn_count unanswered;
    struct budget connections;
    struct budget resets;

    struct address_entry *next_same_hash;
    struct address_entry *next_quiet; /* of those without a connection, oldest first */
    struct address_entry *previous_quiet;
};

struct address_book;

/* exempt is borrowed. NO_MEMORY. */
MUST_CHECK enum status address_book_create(const struct network_list *exempt,
                                           struct address_book **book_out);
/* No entry may have a connection (asserted). NULL is fine. */
void address_book_destroy(struct address_book *book);

/* address NULL: a Unix socket's peer, which is exempt. One connection more. NULL: no memory. */
struct address_entry *address_book_enter(struct address_book *book,
                                         const struct network_address *address);
/* One connection less; the entry is no longer used by it. */
void address_book_leave(struct address_book *book, struct address_entry *entry);

uint32_t address_book_n_quiet(const struct address_book *book);
