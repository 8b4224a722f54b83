/*
 * serve_key - the cluster key of one run of `kvferry serve`: it is drawn, passed to the children by a
 * descriptor, and stored in the run folder for other commands of this user.
 *
 * Thread: main.
 */
#pragma once

#include "process/run_folder.h"

struct serve_key {
    int descriptor;      /* the children read it; -1: they have a key file */
    struct run_key left; /* in the run folder */
};

/* path "": draws a key; else checks that file, and the children read it themselves. Warns if the run folder
 * cannot be made: then `kvferry ps` needs --cluster-key. */
MUST_CHECK enum status serve_key_open(struct serve_key *key, const char *path, struct error *error);
/* Stores the ports where this key is used, when they are known: other commands try this key first
 * there. */
void serve_key_tell_ports(const struct serve_key *key, const uint16_t *ports, uint32_t n);
void serve_key_close(struct serve_key *key);
