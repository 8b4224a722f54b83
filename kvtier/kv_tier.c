#include "kvtier/kv_tier.h"

#include "base/secret.h"
#include "kvtier/stored_index.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* Slots in the order of their use. */
struct line {
    uint32_t first, n, max;
    uint32_t *slots; /* [max] a ring */
};

enum store_state { STORE_EMPTY, STORE_FILLING, STORE_WAITING, STORE_VOID };

struct order {
    uint64_t number; /* 0: none */
    uint32_t n, n_read;
    bool is_over;            /* all is read that will be */
    struct stored_key *keys; /* [keys_max] */
};

struct piece {
    struct kv_tier_piece told; /* bytes: the slot's or NULL */
    uint32_t order;
};

/* Of an origin. */
struct removal {
    struct removal *next;
    uint64_t origin;
};

struct kv_tier {
    struct kv_tier_options options;
    pthread_t thread;
    bool has_thread;
    void (*wake)(void *arg);
    void *wake_arg;
    uint8_t *store_bytes, *piece_bytes; /* [stores_max], [pieces_max][block_bytes] */

    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t changed;
    bool is_stopping;
    struct stored_index *stores;    /* what waits to be written, by its slot */
    enum store_state *store_states; /* [stores_max] */
    struct line stores_waiting;
    struct order orders[KV_TIER_ORDERS_MAX];
    uint64_t n_orders;    /* ever */
    struct piece *pieces; /* [pieces_max + orders]: the last ones have no bytes */
    struct line pieces_free, ends_free, pieces_done;
    bool is_working; /* one read, write or removal goes on */
    uint64_t n_done; /* of them, ever */
    bool has_told;   /* a piece was added to pieces_done since the last wake */
    struct removal *removals, **removals_end;
    bool must_clear; /* before the removals; one of them found no memory, maybe */
    uint64_t epoch;  /* incremented by each removal */
    struct kv_tier_counts counts;
};

/* ---- lines ---- */

static bool line_init(struct line *line, uint32_t max)
{
    *line = (struct line){.max = max, .slots = calloc(max, sizeof *line->slots)};
    return line->slots != NULL;
}

static void line_push(struct line *line, uint32_t slot)
{
    assert(line->n < line->max);
    line->slots[(line->first + line->n++) % line->max] = slot;
}

static uint32_t line_pop(struct line *line)
{
    if (line->n == 0)
        return NONE;
    const uint32_t slot = line->slots[line->first];
    line->first = (line->first + 1) % line->max;
    line->n--;
    return slot;
}

/* ---- creation ---- */

static bool make_lines(struct kv_tier *tier)
{
    const uint32_t n_stores = tier->options.stores_max, n_pieces = tier->options.pieces_max;
    if (!line_init(&tier->stores_waiting, n_stores) || !line_init(&tier->pieces_free, n_pieces) ||
        !line_init(&tier->ends_free, KV_TIER_ORDERS_MAX) ||
        !line_init(&tier->pieces_done, n_pieces + KV_TIER_ORDERS_MAX))
        return false;
    for (uint32_t i = 0; i < n_pieces; i++)
        line_push(&tier->pieces_free, i);
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++)
        line_push(&tier->ends_free, n_pieces + i);
    return true;
}

static bool make_arrays(struct kv_tier *tier)
{
    const struct kv_tier_options *options = &tier->options;
    const size_t store_bytes = options->stores_max * options->block_bytes;
    const size_t piece_bytes = options->pieces_max * options->block_bytes;
    tier->store_bytes = malloc(store_bytes);
    tier->piece_bytes = malloc(piece_bytes);
    tier->store_states = calloc(options->stores_max, sizeof *tier->store_states);
    tier->pieces = calloc(options->pieces_max + KV_TIER_ORDERS_MAX, sizeof *tier->pieces);
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++) {
        tier->orders[i].keys = calloc(options->keys_max, sizeof *tier->orders[i].keys);
        if (!tier->orders[i].keys)
            return false;
    }
    if (!tier->store_bytes || !tier->piece_bytes || !tier->store_states || !tier->pieces ||
        stored_index_create(options->stores_max, &tier->stores) != STATUS_OK)
        return false;
    /* Now, so that who measures the process's memory sees it. */
    memset(tier->store_bytes, 0, store_bytes);
    memset(tier->piece_bytes, 0, piece_bytes);
    return make_lines(tier);
}

uint64_t kv_tier_bytes(const struct kv_tier_options *options)
{
    return ((uint64_t)options->stores_max + options->pieces_max) * options->block_bytes;
}

enum status kv_tier_create(const struct kv_tier_options *options, struct kv_tier **tier_out)
{
    assert(options->ops && options->block_bytes > 0 && options->stores_max > 0 &&
           options->pieces_max > 0 && options->keys_max > 0);
    struct kv_tier *tier = calloc(1, sizeof *tier);
    if (!tier)
        return STATUS_NO_MEMORY;
    tier->options = *options;
    tier->removals_end = &tier->removals;
    pthread_mutex_init(&tier->mutex, NULL);
    pthread_cond_init(&tier->changed, NULL);
    if (!make_arrays(tier)) {
        kv_tier_destroy(tier);
        return STATUS_NO_MEMORY;
    }
    *tier_out = tier;
    return STATUS_OK;
}

void kv_tier_on_piece(struct kv_tier *tier, void (*wake)(void *arg), void *arg)
{
    pthread_mutex_lock(&tier->mutex);
    tier->wake = wake;
    tier->wake_arg = arg;
    pthread_mutex_unlock(&tier->mutex);
}

/* ---- the thread ---- */

static bool has_work(const struct kv_tier *tier)
{
    if (tier->removals || tier->must_clear || tier->stores_waiting.n > 0)
        return true;
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++)
        if (tier->orders[i].number != 0 && !tier->orders[i].is_over && tier->pieces_free.n > 0)
            return true;
    return false;
}

static void *run(void *arg)
{
    struct kv_tier *tier = arg;
    for (;;) {
        while (kv_tier_work(tier))
            continue;
        pthread_mutex_lock(&tier->mutex);
        while (!has_work(tier) && !tier->is_stopping)
            pthread_cond_wait(&tier->changed, &tier->mutex);
        const bool is_over = tier->is_stopping && !has_work(tier);
        pthread_mutex_unlock(&tier->mutex);
        if (is_over)
            return NULL;
    }
}

enum status kv_tier_start(struct kv_tier *tier)
{
    sigset_t all, before;
    assert(!tier->has_thread);
    sigfillset(&all); /* SIGXFSZ, too: a write over a limit fails then */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    tier->has_thread = pthread_create(&tier->thread, NULL, run, tier) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!tier->has_thread)
        return STATUS_NO_THREAD;
    (void)pthread_setname_np(tier->thread, "kv-tier");
    return STATUS_OK;
}

static void end_orders(struct kv_tier *tier);

static void free_bytes(const struct kv_tier *tier, uint8_t *bytes, uint32_t n)
{
    if (bytes && tier->options.wipes)
        secret_wipe(bytes, n * tier->options.block_bytes);
    free(bytes);
}

void kv_tier_destroy(struct kv_tier *tier)
{
    if (!tier)
        return;
    pthread_mutex_lock(&tier->mutex);
    tier->is_stopping = true;
    tier->wake = NULL;
    end_orders(tier);
    pthread_cond_signal(&tier->changed);
    pthread_mutex_unlock(&tier->mutex);
    if (tier->has_thread)
        pthread_join(tier->thread, NULL);
    while (tier->removals) {
        struct removal *removal = tier->removals;
        tier->removals = removal->next;
        free(removal);
    }
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++)
        free(tier->orders[i].keys);
    free(tier->stores_waiting.slots);
    free(tier->pieces_free.slots);
    free(tier->ends_free.slots);
    free(tier->pieces_done.slots);
    stored_index_destroy(tier->stores);
    free(tier->store_states);
    free(tier->pieces);
    free_bytes(tier, tier->store_bytes, tier->options.stores_max);
    free_bytes(tier, tier->piece_bytes, tier->options.pieces_max);
    pthread_cond_destroy(&tier->changed);
    pthread_mutex_destroy(&tier->mutex);
    free(tier);
}

static uint8_t *store_slot_bytes(const struct kv_tier *tier, uint32_t slot)
{
    return tier->store_bytes + (size_t)slot * tier->options.block_bytes;
}

static uint8_t *piece_slot_bytes(const struct kv_tier *tier, uint32_t slot)
{
    assert(slot < tier->options.pieces_max);
    return tier->piece_bytes + (size_t)slot * tier->options.block_bytes;
}

/* Also of an end, which has no bytes. */
static void free_piece(struct kv_tier *tier, uint32_t slot)
{
    if (slot >= tier->options.pieces_max) {
        line_push(&tier->ends_free, slot);
        return;
    }
    if (tier->options.wipes)
        secret_wipe(piece_slot_bytes(tier, slot), tier->options.block_bytes);
    line_push(&tier->pieces_free, slot);
}

/* ---- work: each part has the lock when it is called and when it returns ---- */

static void remove_now(struct kv_tier *tier)
{
    const struct block_store_ops *ops = tier->options.ops;
    struct removal *removal = tier->must_clear ? NULL : tier->removals;
    if (removal) {
        tier->removals = removal->next;
        if (!tier->removals)
            tier->removals_end = &tier->removals;
    }
    tier->must_clear = false;
    pthread_mutex_unlock(&tier->mutex);
    if (removal)
        ops->drop(tier->options.store, removal->origin);
    else
        ops->clear(tier->options.store);
    free(removal);
    pthread_mutex_lock(&tier->mutex);
}

/* A slot for an end is always there: an order has one, and is free when that was taken. */
static void tell_end(struct kv_tier *tier, uint32_t at)
{
    struct order *order = &tier->orders[at];
    const uint32_t slot = line_pop(&tier->ends_free);
    assert(slot != NONE && !order->is_over);
    order->is_over = true;
    tier->pieces[slot] = (struct piece){
        .told = {.order = order->number, .at = order->n_read, .is_last = true}, .order = at};
    line_push(&tier->pieces_done, slot);
    tier->has_told = true;
}

/* The oldest order that is to be read. NONE: none. */
static uint32_t next_order(const struct kv_tier *tier)
{
    uint32_t next = NONE;
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++) {
        const struct order *order = &tier->orders[i];
        if (order->number != 0 && !order->is_over &&
            (next == NONE || order->number < tier->orders[next].number))
            next = i;
    }
    return next;
}

/* It has left the pool, and is not written yet. */
static uint32_t find_waiting(const struct kv_tier *tier, const struct stored_key *key)
{
    const uint32_t slot = stored_index_find(tier->stores, key);
    return slot != STORED_NONE && tier->store_states[slot] == STORE_WAITING ? slot : STORED_NONE;
}

static bool read_now(struct kv_tier *tier)
{
    const uint32_t at = next_order(tier);
    if (at == NONE || tier->pieces_free.n == 0)
        return false;
    struct order *order = &tier->orders[at];
    const uint32_t slot = line_pop(&tier->pieces_free);
    const struct stored_key key = order->keys[order->n_read];
    const uint64_t number = order->number, epoch = tier->epoch;
    uint8_t *bytes = piece_slot_bytes(tier, slot);
    uint64_t origin = 0;
    enum status status = STATUS_OK;
    const uint32_t waiting = find_waiting(tier, &key);
    if (waiting != STORED_NONE)
        origin = stored_index_at(tier->stores, waiting)->origin;
    pthread_mutex_unlock(&tier->mutex);
    if (waiting != STORED_NONE) /* this thread writes it later */
        memcpy(bytes, store_slot_bytes(tier, waiting), tier->options.block_bytes);
    else
        status = tier->options.ops->read(tier->options.store, &key, bytes, &origin);
    pthread_mutex_lock(&tier->mutex);
    if (order->number != number || epoch != tier->epoch) { /* cancelled meanwhile */
        free_piece(tier, slot);
        return true;
    }
    if (status != STATUS_OK) {
        free_piece(tier, slot);
        tier->counts.n_missed++;
        tell_end(tier, at);
        return true;
    }
    tier->pieces[slot] = (struct piece){
        .told = {.order = order->number, .at = order->n_read, .bytes = bytes, .origin = origin},
        .order = at};
    tier->counts.n_read++;
    order->n_read++;
    order->is_over = tier->pieces[slot].told.is_last = order->n_read == order->n;
    line_push(&tier->pieces_done, slot);
    tier->has_told = true;
    return true;
}

static void free_store(struct kv_tier *tier, uint32_t slot)
{
    if (tier->options.wipes)
        secret_wipe(store_slot_bytes(tier, slot), tier->options.block_bytes);
    tier->store_states[slot] = STORE_EMPTY;
    stored_index_remove(tier->stores, slot);
}

static bool write_now(struct kv_tier *tier)
{
    const uint32_t slot = line_pop(&tier->stores_waiting);
    if (slot == NONE)
        return false;
    if (tier->store_states[slot] == STORE_WAITING) {
        const struct stored_block block = *stored_index_at(tier->stores, slot);
        pthread_mutex_unlock(&tier->mutex);
        const enum status status = tier->options.ops->write(tier->options.store, &block,
                                                            store_slot_bytes(tier, slot));
        pthread_mutex_lock(&tier->mutex);
        tier->counts.n_stored += status == STATUS_OK;
    }
    free_store(tier, slot);
    return true;
}

bool kv_tier_work(struct kv_tier *tier)
{
    bool has_done = true;
    pthread_mutex_lock(&tier->mutex);
    tier->is_working = true;
    if (tier->removals || tier->must_clear)
        remove_now(tier);
    else
        has_done = read_now(tier) || write_now(tier);
    tier->is_working = false;
    tier->n_done += has_done;
    if (tier->has_told && tier->wake)
        tier->wake(tier->wake_arg); /* with the lock, so that on_piece(NULL) ends it */
    tier->has_told = false;
    pthread_mutex_unlock(&tier->mutex);
    return has_done;
}

uint64_t kv_tier_done(struct kv_tier *tier, bool *has_work_out)
{
    pthread_mutex_lock(&tier->mutex);
    const uint64_t n_done = tier->n_done;
    *has_work_out = tier->is_working || has_work(tier);
    pthread_mutex_unlock(&tier->mutex);
    return n_done;
}

/* ---- stores ---- */

uint8_t *kv_tier_store_begin(struct kv_tier *tier, const struct stored_block *block)
{
    const bool is_stored = tier->options.ops->has(tier->options.store, &block->key);
    uint32_t slot = STORED_NONE;
    pthread_mutex_lock(&tier->mutex);
    if (is_stored || stored_index_find(tier->stores, &block->key) != STORED_NONE) {
        tier->counts.n_skipped++;
    } else if (stored_index_is_full(tier->stores)) {
        tier->counts.n_dropped++;
    } else {
        slot = stored_index_add(tier->stores, block);
        tier->store_states[slot] = STORE_FILLING;
    }
    pthread_mutex_unlock(&tier->mutex);
    return slot == STORED_NONE ? NULL : store_slot_bytes(tier, slot);
}

void kv_tier_store_end(struct kv_tier *tier, uint8_t *bytes, bool is_good)
{
    const size_t slot = (size_t)(bytes - tier->store_bytes) / tier->options.block_bytes;
    assert(slot < tier->options.stores_max);
    pthread_mutex_lock(&tier->mutex);
    assert(tier->store_states[slot] == STORE_FILLING);
    if (is_good) {
        tier->store_states[slot] = STORE_WAITING;
        line_push(&tier->stores_waiting, (uint32_t)slot);
        pthread_cond_signal(&tier->changed);
    } else {
        free_store(tier, (uint32_t)slot);
    }
    pthread_mutex_unlock(&tier->mutex);
}

/* ---- orders ---- */

bool kv_tier_has(struct kv_tier *tier, const struct stored_key *key)
{
    pthread_mutex_lock(&tier->mutex);
    const bool is_waiting = find_waiting(tier, key) != STORED_NONE;
    pthread_mutex_unlock(&tier->mutex);
    return is_waiting || tier->options.ops->has(tier->options.store, key);
}

uint64_t kv_tier_order(struct kv_tier *tier, const struct stored_key *keys, uint32_t n)
{
    uint64_t number = 0;
    assert(n > 0 && n <= tier->options.keys_max);
    pthread_mutex_lock(&tier->mutex);
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX && number == 0; i++) {
        struct order *order = &tier->orders[i];
        if (order->number != 0)
            continue;
        struct stored_key *own = order->keys;
        memcpy(own, keys, n * sizeof *own);
        number = ++tier->n_orders;
        *order = (struct order){.number = number, .n = n, .keys = own};
        pthread_cond_signal(&tier->changed);
    }
    pthread_mutex_unlock(&tier->mutex);
    return number;
}

static void free_order(struct order *order)
{
    *order = (struct order){.keys = order->keys};
}

/* Its pieces go back. Those that the engine has are given back by it. */
static void withdraw(struct kv_tier *tier, uint32_t at)
{
    const uint32_t n = tier->pieces_done.n;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t slot = line_pop(&tier->pieces_done);
        if (tier->pieces[slot].order != at)
            line_push(&tier->pieces_done, slot);
        else
            free_piece(tier, slot);
    }
}

void kv_tier_cancel(struct kv_tier *tier, uint64_t number)
{
    pthread_mutex_lock(&tier->mutex);
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++)
        if (number != 0 && tier->orders[i].number == number) {
            withdraw(tier, i);
            free_order(&tier->orders[i]);
            pthread_cond_signal(&tier->changed); /* its pieces are free: others may be read */
        }
    pthread_mutex_unlock(&tier->mutex);
}

bool kv_tier_take(struct kv_tier *tier, struct kv_tier_piece *piece_out)
{
    pthread_mutex_lock(&tier->mutex);
    const uint32_t slot = line_pop(&tier->pieces_done);
    if (slot != NONE)
        *piece_out = tier->pieces[slot].told;
    if (slot != NONE && piece_out->is_last)
        free_order(&tier->orders[tier->pieces[slot].order]);
    if (slot != NONE && slot >= tier->options.pieces_max)
        free_piece(tier, slot);
    pthread_mutex_unlock(&tier->mutex);
    return slot != NONE;
}

void kv_tier_give(struct kv_tier *tier, const struct kv_tier_piece *piece)
{
    if (!piece->bytes)
        return;
    const size_t slot = (size_t)(piece->bytes - tier->piece_bytes) / tier->options.block_bytes;
    assert(slot < tier->options.pieces_max);
    if (tier->options.wipes)
        secret_wipe(piece_slot_bytes(tier, (uint32_t)slot), tier->options.block_bytes);
    pthread_mutex_lock(&tier->mutex);
    line_push(&tier->pieces_free, (uint32_t)slot);
    pthread_cond_signal(&tier->changed);
    pthread_mutex_unlock(&tier->mutex);
}

/* ---- removals ---- */

/* Each ends with a piece that says so; what was read of them is gone. */
static void end_orders(struct kv_tier *tier)
{
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++) {
        if (tier->orders[i].number == 0)
            continue;
        withdraw(tier, i);
        tier->orders[i].is_over = false;
        tell_end(tier, i);
    }
}

/* What waits to be written is not written: of that origin, or all (0). One that is being written is removed afterwards. */
static void void_stores(struct kv_tier *tier, uint64_t origin)
{
    for (uint32_t i = 0; i < tier->options.stores_max; i++)
        if (tier->store_states[i] == STORE_WAITING &&
            (origin == 0 || stored_index_at(tier->stores, i)->origin == origin))
            tier->store_states[i] = STORE_VOID;
}

/* removal: NULL: of all. */
static void post(struct kv_tier *tier, struct removal *removal)
{
    pthread_mutex_lock(&tier->mutex);
    tier->epoch++;
    end_orders(tier);
    void_stores(tier, removal ? removal->origin : 0);
    if (removal) {
        *tier->removals_end = removal;
        tier->removals_end = &removal->next;
    } else {
        tier->must_clear = true;
    }
    pthread_cond_signal(&tier->changed);
    pthread_mutex_unlock(&tier->mutex);
}

void kv_tier_drop(struct kv_tier *tier, uint64_t origin)
{
    assert(origin != 0);
    struct removal *removal = calloc(1, sizeof *removal);
    if (removal)
        removal->origin = origin;
    post(tier, removal);
}

void kv_tier_clear(struct kv_tier *tier)
{
    post(tier, NULL);
}

void kv_tier_count(struct kv_tier *tier, struct kv_tier_counts *counts_out)
{
    struct store_counts store;
    tier->options.ops->count(tier->options.store, &store);
    pthread_mutex_lock(&tier->mutex);
    *counts_out = tier->counts;
    pthread_mutex_unlock(&tier->mutex);
    counts_out->store = store;
}
