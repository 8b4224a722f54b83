/*
 * name_set - which addresses a name has, by the answers to asking for them again and again.
 *
 *     found     these are the addresses
 *     nothing   the name, or every address of it, is not there: believed when it is said for empty_after_ns
 *     failed    nobody can tell: the last addresses stay, for however long
 *
 * Thread: one at a time (plain data; zeroed at first but for empty_after_ns).
 */
#pragma once

#include "router/discovery/address_set.h"

enum name_answer { NAME_FOUND, NAME_NOTHING, NAME_FAILED };

struct name_set {
    uint64_t empty_after_ns;
    bool has_nothing_since; /* nothing was found since nothing_since_ns */
    uint64_t nothing_since_ns;
    struct address_set set;
};

/* found: of NAME_FOUND, with one address or more. True: the set is another now. */
bool name_set_take(struct name_set *name, enum name_answer answer, const struct address_set *found,
                   uint64_t now_ns);
