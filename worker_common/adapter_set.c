#include "worker_common/adapter_set.h"

#include "base/log/log.h"
#include "model/adapter/adapter.h"
#include "process/adapter_codec.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct adapter_set {
    struct adapter_set_options options;
    pthread_mutex_t mutex;  /* the list */
    pthread_mutex_t adding; /* one at a time: what one has room for, another may not take */
    uint32_t n;
    struct adapter_id ids[ADAPTERS_MAX];
    struct adapter *adapters[ADAPTERS_MAX]; /* [n] held */
    uint32_t n_removed;
    struct adapter *removed[ADAPTERS_MAX]; /* [n_removed] held here, and perhaps by requests */
};

enum status adapter_set_create(const struct adapter_set_options *options,
                               struct adapter_set **set_out)
{
    struct adapter_set *set = calloc(1, sizeof *set);
    if (!set)
        return STATUS_NO_MEMORY;
    set->options = *options;
    pthread_mutex_init(&set->mutex, NULL);
    pthread_mutex_init(&set->adding, NULL);
    *set_out = set;
    return STATUS_OK;
}

void adapter_set_limit_rank(struct adapter_set *set, uint32_t rank_max)
{
    set->options.rank_max = rank_max;
}

void adapter_set_destroy(struct adapter_set *set)
{
    if (!set)
        return;
    for (uint32_t i = 0; i < set->n; i++)
        adapter_release(set->adapters[i]);
    for (uint32_t i = 0; i < set->n_removed; i++)
        adapter_release(set->removed[i]);
    pthread_mutex_destroy(&set->mutex);
    pthread_mutex_destroy(&set->adding);
    free(set);
}

/* Under the mutex. set->n: there is none. */
static uint32_t place_of(const struct adapter_set *set, const char *name)
{
    const struct adapter_id *id = adapter_ids_find(set->ids, set->n, name);
    return id ? (uint32_t)(id - set->ids) : set->n;
}

/* Under the mutex. */
static void free_removed(struct adapter_set *set)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < set->n_removed; i++)
        if (adapter_is_shared(set->removed[i]))
            set->removed[n++] = set->removed[i];
        else
            adapter_release(set->removed[i]);
    set->n_removed = n;
}

/* The same. */
static uint64_t bytes_of(struct adapter_set *set)
{
    uint64_t bytes = 0;
    free_removed(set);
    for (uint32_t i = 0; i < set->n; i++)
        bytes += adapter_bytes(set->adapters[i]);
    for (uint32_t i = 0; i < set->n_removed; i++)
        bytes += adapter_bytes(set->removed[i]);
    return bytes;
}

/* ---- adding and removing ---- */

static void tell(const char *event, const struct adapter_id *id, const struct adapter *adapter)
{
    char digest[ADAPTER_DIGEST_BYTES];
    adapter_digest_format(id->digest, digest);
    log_event(LOG_INFO, NULL, event, LOG_TEXT("adapter", id->name), LOG_TEXT("digest", digest),
              LOG_U64("rank", adapter_rank(adapter)),
              LOG_U64("matrices", adapter_matrices(adapter)),
              LOG_U64("bytes", adapter_bytes(adapter)));
}

/* Under the mutex. Becomes the owner on success, unless the same one is there. */
static enum status insert(struct adapter_set *set, const struct adapter_id *id,
                          struct adapter *adapter, struct error *error)
{
    char digests[2][ADAPTER_DIGEST_BYTES];
    const uint32_t place = place_of(set, id->name);
    if (place < set->n && adapter_id_equal(&set->ids[place], id)) {
        adapter_release(adapter);
        return STATUS_OK;
    }
    if (place < set->n) {
        adapter_digest_format(set->ids[place].digest, digests[0]);
        adapter_digest_format(id->digest, digests[1]);
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "adapter %s is there with the digest %s, the folder has %s: unload it "
                         "first",
                         id->name, digests[0], digests[1]);
    }
    assert(set->n < ADAPTERS_MAX && "check_place, and nobody else adds");
    set->ids[set->n] = *id;
    set->adapters[set->n++] = adapter;
    tell("adapter loaded", id, adapter);
    return STATUS_OK;
}

/* Before files are read. */
static enum status check_place(struct adapter_set *set, const char *name, struct error *error)
{
    pthread_mutex_lock(&set->mutex);
    const bool is_full = set->n == ADAPTERS_MAX && place_of(set, name) == set->n;
    pthread_mutex_unlock(&set->mutex);
    if (!is_full)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "adapter %s is one more than the %u that a worker has at most: unload one",
                     name, ADAPTERS_MAX);
}

/* What is left for the next one. UINT64_MAX: any. */
static enum status find_room(struct adapter_set *set, const char *name, struct error *error,
                             uint64_t *room_out)
{
    const uint64_t taken = adapter_set_bytes(set), most = set->options.bytes_max;
    if (most > 0 && taken >= most)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "adapter %s: adapter_memory is %" PRIu64 " bytes, and there is room for 0",
                         name, most);
    *room_out = most == 0 ? UINT64_MAX : most - taken;
    return STATUS_OK;
}

static enum status add(struct adapter_set *set, const char *name, const char *folder,
                       struct error *error, struct adapter_id *id_out)
{
    struct adapter *adapter;
    struct adapter_id id = {0};
    struct adapter_limits limits = {.rank_max = set->options.rank_max};
    TRY(adapter_name_check(name, "adapter", error));
    TRY(check_place(set, name, error));
    TRY(find_room(set, name, error, &limits.bytes_max));
    TRY(adapter_load(folder, set->options.model, &limits, error, &adapter));
    const struct hash128 digest = adapter_digest(adapter);
    snprintf(id.name, sizeof id.name, "%s", name);
    id.digest[0] = digest.lo;
    id.digest[1] = digest.hi;
    pthread_mutex_lock(&set->mutex);
    const enum status status = insert(set, &id, adapter, error);
    pthread_mutex_unlock(&set->mutex);
    if (status == STATUS_OK)
        *id_out = id;
    else
        adapter_release(adapter);
    return status;
}

enum status adapter_set_add(struct adapter_set *set, const char *name, const char *folder,
                            struct error *error, struct adapter_id *id_out)
{
    pthread_mutex_lock(&set->adding);
    const enum status status = add(set, name, folder, error, id_out);
    pthread_mutex_unlock(&set->adding);
    return status;
}

/* Under the mutex. */
static enum status take_out(struct adapter_set *set, const char *name, struct error *error)
{
    const uint32_t place = place_of(set, name);
    free_removed(set);
    if (place == set->n)
        return error_set(error, STATUS_NOT_FOUND, "adapter \"%.80s\" is not there", name);
    if (set->n_removed == ADAPTERS_MAX)
        return error_set(error, STATUS_QUEUE_FULL,
                         "adapter %.80s: requests still have %u that were removed before", name,
                         ADAPTERS_MAX);
    tell("adapter removed", &set->ids[place], set->adapters[place]);
    set->removed[set->n_removed++] = set->adapters[place];
    set->n--;
    memmove(&set->ids[place], &set->ids[place + 1], (set->n - place) * sizeof *set->ids);
    memmove(&set->adapters[place], &set->adapters[place + 1],
            (set->n - place) * sizeof(struct adapter *));
    free_removed(set);
    return STATUS_OK;
}

enum status adapter_set_remove(struct adapter_set *set, const char *name, struct error *error)
{
    if (!set)
        return error_set(error, STATUS_NOT_FOUND, "adapter \"%.80s\" is not there", name);
    pthread_mutex_lock(&set->mutex);
    const enum status status = take_out(set, name, error);
    pthread_mutex_unlock(&set->mutex);
    return status;
}

/* ---- reading ---- */

static enum status say_mismatch(const struct adapter_id *wanted, const struct adapter_id *ours,
                                struct error *error)
{
    char digests[2][ADAPTER_DIGEST_BYTES] = {"", "none of that name"};
    adapter_digest_format(wanted->digest, digests[0]);
    if (ours)
        adapter_digest_format(ours->digest, digests[1]);
    return error_set(error, STATUS_ADAPTER_MISMATCH,
                     "adapter %s is asked for with the digest %s, this worker has %s", wanted->name,
                     digests[0], digests[1]);
}

enum status adapter_set_find(struct adapter_set *set, const struct adapter_id *id,
                             struct error *error, struct request_adapter *adapter_out)
{
    if (!set)
        return say_mismatch(id, NULL, error);
    pthread_mutex_lock(&set->mutex);
    const uint32_t place = place_of(set, id->name);
    const struct adapter_id *ours = place < set->n ? &set->ids[place] : NULL;
    enum status status = STATUS_OK;
    if (ours && adapter_id_equal(ours, id))
        *adapter_out = (struct request_adapter){.id = *id,
                                                .adapter = adapter_share(set->adapters[place]),
                                                .share = adapter_share,
                                                .release = adapter_release};
    else
        status = say_mismatch(id, ours, error);
    pthread_mutex_unlock(&set->mutex);
    return status;
}

uint32_t adapter_set_list(struct adapter_set *set, struct adapter_id *ids_out)
{
    if (!set)
        return 0;
    pthread_mutex_lock(&set->mutex);
    const uint32_t n = set->n;
    memcpy(ids_out, set->ids, n * sizeof *ids_out);
    pthread_mutex_unlock(&set->mutex);
    return n;
}

uint32_t adapter_set_count(struct adapter_set *set)
{
    if (!set)
        return 0;
    pthread_mutex_lock(&set->mutex);
    const uint32_t n = set->n;
    pthread_mutex_unlock(&set->mutex);
    return n;
}

uint32_t adapter_set_rank(struct adapter_set *set)
{
    uint32_t rank = 0;
    if (!set)
        return 0;
    pthread_mutex_lock(&set->mutex);
    for (uint32_t i = 0; i < set->n; i++)
        if (adapter_rank(set->adapters[i]) > rank)
            rank = adapter_rank(set->adapters[i]);
    pthread_mutex_unlock(&set->mutex);
    return rank;
}

uint64_t adapter_set_bytes(struct adapter_set *set)
{
    if (!set)
        return 0;
    pthread_mutex_lock(&set->mutex);
    const uint64_t bytes = bytes_of(set);
    pthread_mutex_unlock(&set->mutex);
    return bytes;
}

/* ---- telling ---- */

void adapter_set_describe(struct adapter_set *set, struct identity_message *message)
{
    struct adapter_id ids[ADAPTERS_MAX] = {0};
    struct adapters_message *out = &message->adapters;
    const uint32_t n = adapter_set_list(set, ids);
    for (uint32_t i = 0; i < n; i++)
        memcpy(message->adapter_names[i], ids[i].name, sizeof ids[i].name);
    adapters_encode(ids, n, out);
    for (uint32_t i = 0; i < n; i++)
        out->adapters[i].message.name = message->adapter_names[i];
    message->message.adapters = out->list;
    message->message.n_adapters = n;
}

void adapter_set_compare(struct adapter_set *set,
                         const Kvferry__Internal__V1__WorkerIdentity *theirs)
{
    struct adapter_id ours[ADAPTERS_MAX] = {0}, other[ADAPTERS_MAX];
    struct error ignored = {{0}};
    if (!theirs ||
        adapters_decode(theirs->adapters, theirs->n_adapters, &ignored, other) != STATUS_OK)
        return;
    const uint32_t n = adapter_set_list(set, ours);
    for (uint32_t i = 0; i < theirs->n_adapters; i++) {
        char digests[2][ADAPTER_DIGEST_BYTES];
        const struct adapter_id *own = adapter_ids_find(ours, n, other[i].name);
        if (!own || adapter_id_equal(own, &other[i]))
            continue;
        adapter_digest_format(own->digest, digests[0]);
        adapter_digest_format(other[i].digest, digests[1]);
        log_event(LOG_WARN, &(struct log_about){.peer = theirs->name},
                  "the context worker has another adapter of this name",
                  LOG_TEXT("adapter", own->name), LOG_TEXT("digest", digests[0]),
                  LOG_TEXT("theirs", digests[1]));
    }
}
