#include "ctx_worker/held_transfers.h"

#include "base/log/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum status held_transfers_init(struct held_transfers *held, uint64_t incarnation, uint32_t n_max)
{
    assert(n_max > 0 && !held->places);
    struct held_transfer *places = calloc(n_max, sizeof *places);
    if (!places)
        return STATUS_NO_MEMORY;
    if (pthread_mutex_init(&held->lock, NULL) != 0) {
        free(places);
        return STATUS_NO_MEMORY;
    }
    held->incarnation = incarnation;
    held->n_max = n_max;
    held->places = places;
    return STATUS_OK;
}

void held_transfers_finish(struct held_transfers *held)
{
    if (!held->places)
        return;
    pthread_mutex_destroy(&held->lock);
    free(held->places);
    held->places = NULL;
}

/* The transfer with that number; number 0: a free entry. NULL: none. */
static struct held_transfer *find_number(struct held_transfers *held, uint64_t number)
{
    for (uint32_t i = 0; i < held->n_max; i++)
        if (held->places[i].number == number)
            return &held->places[i];
    return NULL;
}

uint64_t held_transfers_put(struct held_transfers *held, const struct transfer_id *id,
                            uint64_t kv_bytes)
{
    pthread_mutex_lock(&held->lock);
    struct held_transfer *place = find_number(held, 0);
    assert(place && "no more are sealed than there are slots");
    const uint64_t number = ++held->n_put;
    *place = (struct held_transfer){.number = number, .id = *id, .kv_bytes = kv_bytes};
    pthread_mutex_unlock(&held->lock);
    return number;
}

void held_transfers_end(struct held_transfers *held, uint64_t number)
{
    assert(number != 0);
    pthread_mutex_lock(&held->lock);
    struct held_transfer *place = find_number(held, number);
    if (place)
        place->has_ended = true;
    pthread_mutex_unlock(&held->lock);
}

void held_transfers_drop(struct held_transfers *held, uint64_t number)
{
    assert(number != 0);
    pthread_mutex_lock(&held->lock);
    struct held_transfer *place = find_number(held, number);
    if (place)
        place->number = 0;
    pthread_mutex_unlock(&held->lock);
}

static struct held_transfer *find_id(struct held_transfers *held, const struct transfer_id *id)
{
    for (uint32_t i = 0; i < held->n_max; i++)
        if (held->places[i].number != 0 && memcmp(&held->places[i].id, id, sizeof *id) == 0)
            return &held->places[i];
    return NULL;
}

/* Under the lock. */
static enum status grant(struct held_transfers *held, const struct held_commit *commit,
                         struct error *error, uint64_t *number_out)
{
    if (commit->incarnation != held->incarnation)
        return error_set(error, STATUS_STALE_PEER,
                         "callee_incarnation is %" PRIx64 ": another run of the worker",
                         commit->incarnation);
    struct held_transfer *place = find_id(held, &commit->id);
    if (!place)
        return error_set(error, STATUS_NOT_HELD, "no complete transfer of that id is held");
    if (place->has_ended)
        return error_set(error, STATUS_CANCELLED, "the transfer has ended");
    if (commit->kv_bytes != place->kv_bytes)
        return error_set(error, STATUS_NOT_HELD, "kv_bytes is %" PRIu64 ", %" PRIu64 " cross",
                         commit->kv_bytes, place->kv_bytes);
    *number_out = place->number;
    place->number = 0;
    return STATUS_OK;
}

enum status held_transfers_grant(struct held_transfers *held, const struct held_commit *commit,
                                 struct error *error, uint64_t *number_out)
{
    pthread_mutex_lock(&held->lock);
    enum status status = grant(held, commit, error, number_out);
    if (status == STATUS_OK)
        held->n_granted++;
    else
        held->n_refused++;
    pthread_mutex_unlock(&held->lock);
    if (status != STATUS_OK)
        log_event(LOG_WARN, NULL, "commit refused", LOG_TEXT("why", error->text));
    return status;
}

void held_transfers_count(struct held_transfers *held, uint64_t *granted_out, uint64_t *refused_out)
{
    pthread_mutex_lock(&held->lock);
    *granted_out = held->n_granted;
    *refused_out = held->n_refused;
    pthread_mutex_unlock(&held->lock);
}
