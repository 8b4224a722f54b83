#include "text/constraint/constraint_store.h"

#include "base/clock.h"
#include "base/cond.h"
#include "text/jinja.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 20 /* between two looks whether a waiting call is over */

enum place_state { PLACE_FREE, PLACE_COMPILING, PLACE_COPYING, PLACE_READY };

struct place {
    enum place_state state;
    uint64_t id;
    uint64_t used; /* a count, not a time */
    int kind;
    char *bytes;
    size_t n_bytes;
    LlgMatcher *matcher;
};

struct constraint_store {
    pthread_mutex_t lock; /* of all */
    pthread_cond_t compiled;
    uint64_t next_id;
    uint64_t n_uses;
    uint32_t n_places;
    struct place places[];
};

enum status constraint_store_create(uint32_t n_places, struct constraint_store **store_out)
{
    assert(n_places > 0);
    struct constraint_store *store = calloc(1, sizeof *store + n_places * sizeof *store->places);
    if (!store)
        return STATUS_NO_MEMORY;
    pthread_mutex_init(&store->lock, NULL);
    cond_init(&store->compiled);
    store->n_places = n_places;
    store->next_id = 1;
    *store_out = store;
    return STATUS_OK;
}

static void clear(struct place *place)
{
    llg_free_matcher(place->matcher);
    free(place->bytes);
    *place = (struct place){.state = PLACE_FREE};
}

void constraint_store_destroy(struct constraint_store *store)
{
    if (!store)
        return;
    for (uint32_t i = 0; i < store->n_places; i++) {
        assert(store->places[i].state == PLACE_FREE || store->places[i].state == PLACE_READY);
        clear(&store->places[i]);
    }
    pthread_cond_destroy(&store->compiled);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static struct place *find_key(struct constraint_store *store, const struct store_key *key)
{
    for (uint32_t i = 0; i < store->n_places; i++) {
        struct place *place = &store->places[i];
        if (place->state != PLACE_FREE && place->kind == key->kind &&
            place->n_bytes == key->n_bytes &&
            (key->n_bytes == 0 || memcmp(place->bytes, key->bytes, key->n_bytes) == 0))
            return place;
    }
    return NULL;
}

static struct place *find_id(struct constraint_store *store, uint64_t id)
{
    for (uint32_t i = 0; i < store->n_places; i++)
        if (store->places[i].state != PLACE_FREE && store->places[i].id == id)
            return &store->places[i];
    return NULL;
}

static void copy(const LlgMatcher *matcher, struct store_copy *copy_out)
{
    const size_t before = jinja_memory_of_thread();
    copy_out->matcher = llg_clone_matcher(matcher);
    copy_out->n_bytes = jinja_memory_of_thread() - before;
}

/* The place stays what it is meanwhile. The lock is held before and after. */
static void copy_place(struct constraint_store *store, struct place *place,
                       struct store_copy *copy_out)
{
    place->state = PLACE_COPYING;
    pthread_mutex_unlock(&store->lock);
    copy(place->matcher, copy_out);
    pthread_mutex_lock(&store->lock);
    place->state = PLACE_READY;
    pthread_cond_broadcast(&store->compiled);
}

/* A free place, or else the one that was not used for longest. NULL: all are being compiled into. */
static struct place *find_room(struct constraint_store *store)
{
    struct place *room = NULL;
    for (uint32_t i = 0; i < store->n_places; i++) {
        struct place *place = &store->places[i];
        if (place->state == PLACE_FREE)
            return place;
        if (place->state == PLACE_READY && (!room || place->used < room->used))
            room = place;
    }
    return room;
}

static enum status reserve(struct constraint_store *store, const struct store_key *key,
                           enum store_answer *answer_out, uint64_t *id_out)
{
    struct place *place = find_room(store);
    *id_out = 0;
    if (!place) {
        *answer_out = STORE_FULL;
        return STATUS_OK;
    }
    char *bytes = malloc(key->n_bytes + 1);
    if (!bytes)
        return STATUS_NO_MEMORY;
    if (key->n_bytes)
        memcpy(bytes, key->bytes, key->n_bytes);
    clear(place);
    *place = (struct place){.state = PLACE_COMPILING,
                            .id = store->next_id++,
                            .kind = key->kind,
                            .bytes = bytes,
                            .n_bytes = key->n_bytes};
    *answer_out = STORE_RESERVED;
    *id_out = place->id;
    return STATUS_OK;
}

/* Until no other call compiles or copies it. place_out NULL: it is not there. */
static enum status wait_for(struct constraint_store *store, const struct store_key *key,
                            const struct store_wait *wait, struct place **place_out)
{
    struct place *place;
    while ((place = find_key(store, key)) && place->state != PLACE_READY) {
        const uint64_t now_ns = clock_now_ns();
        if (now_ns >= wait->until_ns)
            return STATUS_TIMED_OUT;
        if (wait->is_over && wait->is_over(wait->arg))
            return STATUS_CANCELLED;
        cond_wait_until(&store->compiled, &store->lock,
                        clock_earlier(wait->until_ns, now_ns + LOOK_MS * NS_PER_MS));
    }
    *place_out = place;
    return STATUS_OK;
}

enum status constraint_store_find(struct constraint_store *store, const struct store_key *key,
                                  const struct store_wait *wait, enum store_answer *answer_out,
                                  uint64_t *id_out, struct store_copy *copy_out)
{
    struct place *place = NULL;
    pthread_mutex_lock(&store->lock);
    enum status status = wait_for(store, key, wait, &place);
    if (status == STATUS_OK && place) {
        place->used = ++store->n_uses;
        *id_out = place->id;
        *answer_out = STORE_FOUND;
        copy_place(store, place, copy_out);
    } else if (status == STATUS_OK) {
        status = reserve(store, key, answer_out, id_out);
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

void constraint_store_put(struct constraint_store *store, uint64_t id, LlgMatcher *take_matcher,
                          struct store_copy *copy_out)
{
    copy(take_matcher, copy_out);
    pthread_mutex_lock(&store->lock);
    struct place *place = find_id(store, id);
    assert(place && place->state == PLACE_COMPILING);
    place->state = PLACE_READY;
    place->matcher = take_matcher;
    place->used = ++store->n_uses;
    pthread_cond_broadcast(&store->compiled);
    pthread_mutex_unlock(&store->lock);
}

void constraint_store_give_up(struct constraint_store *store, uint64_t id)
{
    pthread_mutex_lock(&store->lock);
    struct place *place = find_id(store, id);
    assert(place && place->state == PLACE_COMPILING);
    clear(place);
    pthread_cond_broadcast(&store->compiled);
    pthread_mutex_unlock(&store->lock);
}

void constraint_store_clear(struct constraint_store *store)
{
    pthread_mutex_lock(&store->lock);
    for (uint32_t i = 0; i < store->n_places; i++)
        if (store->places[i].state == PLACE_READY)
            clear(&store->places[i]);
    pthread_mutex_unlock(&store->lock);
}
