/*
 * address_set - a set of worker addresses, in the order in which they were added.
 *
 * Bounds: PROCESS_PEERS_MAX; more are left out and counted.
 *
 * Thread: one at a time (plain data, zeroed at first; 40 KiB: too large for a stack).
 */
#pragma once

#include "process/process_state.h"

struct address_set {
    uint32_t n;
    uint32_t n_left_out;
    char addresses[PROCESS_PEERS_MAX][ADDRESS_TEXT_MAX];
};

void address_set_clear(struct address_set *set);
/* The text has fewer than ADDRESS_TEXT_MAX bytes. */
void address_set_add(struct address_set *set, const char *address);
void address_set_add_all(struct address_set *set, const struct address_set *more);
bool address_set_has(const struct address_set *set, const char *address);
/* Whether both have the same members, in any order. */
bool address_set_equals(const struct address_set *a, const struct address_set *b);
