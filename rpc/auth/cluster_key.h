/*
 * cluster_key - the keys that processes of one cluster prove themselves to each other with, as they are
 * now: of a file they are read again when it changes.
 *
 * A file that cannot be read, or is no key any more, changes nothing but the log: the last good keys
 * stay.
 *
 * Thread: cluster_key_get from any; the others from one, the owner's.
 */
#pragma once

#include "base/status.h"
#include "rpc/auth/key_file.h"

#include <stdbool.h>

struct cluster_key;

/* As key_file_read. */
MUST_CHECK enum status cluster_key_open(const char *path, struct error *error,
                                        struct cluster_key **key_out);
/* Keys of no file. NO_MEMORY. */
MUST_CHECK enum status cluster_key_create(const struct key_set *keys, struct cluster_key **key_out);
/* Wipes it. NULL is fine. */
void cluster_key_destroy(struct cluster_key *key);

/* A copy, which the caller wipes. */
void cluster_key_get(struct cluster_key *key, struct key_set *keys_out);

/* Reads the file again when it is another one than at the last look, or was written since. True: the
 * keys are others now. */
bool cluster_key_look(struct cluster_key *key);
