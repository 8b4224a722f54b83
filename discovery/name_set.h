/*
 * name_set - the addresses of a name, from repeated lookups.
 *
 *     found     these are the addresses
 *     nothing   the name has no address: accepted only after empty_after_ns of such answers
 *     failed    the lookup failed: the last addresses stay, without a time limit
 *
 * Thread: one at a time (plain data; all zeros at first, except empty_after_ns).
 */
#pragma once

#include "discovery/address_set.h"

enum name_answer { NAME_FOUND, NAME_NOTHING, NAME_FAILED };

struct name_set {
    uint64_t empty_after_ns;
    bool has_nothing_since; /* no address was found since nothing_since_ns */
    uint64_t nothing_since_ns;
    struct address_set set;
};

/* found: for NAME_FOUND, one address or more. True: the set has changed. */
bool name_set_take(struct name_set *name, enum name_answer answer, const struct address_set *found,
                   uint64_t now_ns);
