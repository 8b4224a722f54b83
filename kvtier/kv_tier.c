/* What a tier does: it reads, writes and removes. */
#include "kvtier/kv_tier.h"

#include "base/secret.h"
#include "kvtier/kv_tier_state.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
    if (tier->store_states[slot] == STORE_WAITING && !tier->writes_no_more) {
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
    *has_work_out = tier->is_working || kv_tier_has_work(tier);
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

void kv_tier_end_orders(struct kv_tier *tier)
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
    kv_tier_end_orders(tier);
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
