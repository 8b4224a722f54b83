/*
 * cluster_key - the current keys with which the processes of a cluster authenticate to each other. A
 * changed key file is read again.
 *
 * If the file cannot be read, or has no valid key, the last good keys stay and the log says so.
 *
 * Thread: cluster_key_get: any; the others: the owner's.
 */
#pragma once

#include "base/status.h"
#include "rpc/auth/key_file.h"

#include <stdbool.h>

struct cluster_key;

/* As key_file_read. */
MUST_CHECK enum status cluster_key_open(const char *path, struct error *error,
                                        struct cluster_key **key_out);
/* Keys that do not come from a file. NO_MEMORY. */
MUST_CHECK enum status cluster_key_create(const struct key_set *keys, struct cluster_key **key_out);
/* Wipes the keys. NULL is fine. */
void cluster_key_destroy(struct cluster_key *key);

/* Copies the keys; the caller wipes the copy. */
void cluster_key_get(struct cluster_key *key, struct key_set *keys_out);

/* Reads the file again if it was replaced or written since the last look. True: the keys have changed. */
bool cluster_key_look(struct cluster_key *key);
