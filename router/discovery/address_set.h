/*
 * address_set - addresses of workers, each once, in the order in which they came.
 *
 * Bounds: PROCESS_PEERS_MAX; what is one too many is left out and counted.
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
/* Of fewer than ADDRESS_TEXT_MAX bytes. */
void address_set_add(struct address_set *set, const char *address);
void address_set_add_all(struct address_set *set, const struct address_set *more);
bool address_set_has(const struct address_set *set, const char *address);
/* The same members, in whatever order. */
bool address_set_equals(const struct address_set *a, const struct address_set *b);
