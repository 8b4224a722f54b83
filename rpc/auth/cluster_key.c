#include "rpc/auth/cluster_key.h"

#include "base/log/log.h"
#include "base/regular_file.h"
#include "base/secret.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct cluster_key {
    char *path; /* NULL: not from a file */
    struct stat seen;
    pthread_mutex_t mutex; /* guards the members below */
    struct key_set keys;
};

enum status cluster_key_create(const struct key_set *keys, struct cluster_key **key_out)
{
    assert(keys->n > 0 && keys->n <= CLUSTER_KEYS_MAX);
    struct cluster_key *key = calloc(1, sizeof *key);
    if (!key)
        return STATUS_NO_MEMORY;
    pthread_mutex_init(&key->mutex, NULL);
    key->keys = *keys;
    *key_out = key;
    return STATUS_OK;
}

enum status cluster_key_open(const char *path, struct error *error, struct cluster_key **key_out)
{
    struct key_set keys;
    struct stat seen = {0};
    (void)stat(path, &seen); /* first: the next look sees a write in between */
    TRY(key_file_read(path, &keys, error));
    if (seen.st_mode & (S_IRWXO | S_IWGRP))
        log_warn("cluster key %.200s: users outside its group can access it", path);
    enum status status = cluster_key_create(&keys, key_out);
    key_set_wipe(&keys);
    if (status != STATUS_OK)
        return status;
    (*key_out)->seen = seen;
    (*key_out)->path = strdup(path);
    if ((*key_out)->path)
        return STATUS_OK;
    cluster_key_destroy(*key_out);
    return STATUS_NO_MEMORY;
}

void cluster_key_destroy(struct cluster_key *key)
{
    if (!key)
        return;
    pthread_mutex_destroy(&key->mutex);
    free(key->path);
    secret_wipe(key, sizeof *key);
    free(key);
}

void cluster_key_get(struct cluster_key *key, struct key_set *keys_out)
{
    pthread_mutex_lock(&key->mutex);
    *keys_out = key->keys;
    pthread_mutex_unlock(&key->mutex);
}

bool cluster_key_look(struct cluster_key *key)
{
    struct stat now = {0};
    if (!key->path)
        return false;
    (void)stat(key->path, &now);
    if (regular_file_is_same(&now, &key->seen))
        return false;
    key->seen = now;

    struct key_set keys;
    struct error error = {0};
    if (key_file_read(key->path, &keys, &error) != STATUS_OK) {
        log_error("the cluster key stays as it was: %s", error.text);
        return false;
    }
    pthread_mutex_lock(&key->mutex);
    key->keys = keys;
    pthread_mutex_unlock(&key->mutex);
    log_info("cluster key read again: keys %u", keys.n);
    key_set_wipe(&keys);
    return true;
}
