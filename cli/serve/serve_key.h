/*
 * serve_key - the cluster key of one run of `kvferry serve`: drawn, handed to the children by a descriptor,
 * and left in the run folder for other commands of this user.
 *
 * Thread: main.
 */
#pragma once

#include "process/run_folder.h"

struct serve_key {
    int descriptor;      /* of what the children read; -1: they have a file */
    struct run_key left; /* in the run folder */
};

/* path "": draws one; else that file is checked, and is the children's own to read. A run folder that cannot
 * be made is warned of: then `kvferry ps` needs --cluster-key. */
MUST_CHECK enum status serve_key_open(struct serve_key *key, const char *path, struct error *error);
/* Where it is asked for, when that is known: other commands try this key first there. */
void serve_key_tell_ports(const struct serve_key *key, const uint16_t *ports, uint32_t n);
void serve_key_close(struct serve_key *key);
