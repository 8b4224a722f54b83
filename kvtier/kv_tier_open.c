/* A tier's memory, its thread, and their end. */
#include "base/clock.h"
#include "base/log/log.h"
#include "base/secret.h"
#include "kvtier/kv_tier_state.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&tier->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    if (!make_arrays(tier)) {
        (void)kv_tier_destroy(tier);
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

bool kv_tier_has_work(const struct kv_tier *tier)
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
        while (!kv_tier_has_work(tier) && !tier->is_stopping)
            pthread_cond_wait(&tier->changed, &tier->mutex);
        const bool is_over = tier->is_stopping && !kv_tier_has_work(tier);
        if (is_over) {
            tier->has_ended = true;
            pthread_cond_signal(&tier->ended);
        }
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

static void free_bytes(const struct kv_tier *tier, uint8_t *bytes, uint32_t n)
{
    if (bytes && tier->options.wipes)
        secret_wipe(bytes, n * tier->options.block_bytes);
    free(bytes);
}

/* The thread has ended. False: it has not by then; with the lock. */
static bool wait_end(struct kv_tier *tier, uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                                   .tv_nsec = (long)(until_ns % NS_PER_S)};
    int failed = 0;
    while (!tier->has_ended && failed == 0)
        failed = pthread_cond_timedwait(&tier->ended, &tier->mutex, &until);
    return tier->has_ended;
}

/* False: the thread has not ended in its time. */
static bool stop_thread(struct kv_tier *tier)
{
    const uint64_t ms = tier->options.end_ms ? tier->options.end_ms : KV_TIER_END_MS;
    const uint64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&tier->mutex);
    tier->is_stopping = true;
    tier->wake = NULL;
    kv_tier_end_orders(tier);
    pthread_cond_signal(&tier->changed);
    bool has_ended = wait_end(tier, now_ns + ms * NS_PER_MS / 2);
    if (!has_ended) {
        tier->writes_no_more = true;
        has_ended = wait_end(tier, now_ns + ms * NS_PER_MS);
    }
    pthread_mutex_unlock(&tier->mutex);
    if (has_ended)
        pthread_join(tier->thread, NULL);
    return has_ended;
}

bool kv_tier_destroy(struct kv_tier *tier)
{
    if (!tier)
        return true;
    if (tier->has_thread && !stop_thread(tier)) {
        log_warn("the %s tier of KV blocks hangs, and is left alone", tier->options.ops->name);
        return false;
    }
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
    pthread_cond_destroy(&tier->ended);
    pthread_cond_destroy(&tier->changed);
    pthread_mutex_destroy(&tier->mutex);
    free(tier);
    return true;
}
