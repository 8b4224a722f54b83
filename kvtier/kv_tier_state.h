/*
 * kv_tier_state - what a tier holds, for kv_tier.c (work, stores, orders, removals) and kv_tier_open.c (its memory and its
 * thread).
 *
 * Thread: as kv_tier.h; the mutex guards what stands below it.
 */
#pragma once

#include "kvtier/kv_tier.h"
#include "kvtier/stored_index.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#define NONE UINT32_MAX

/* Slots in the order of their use. */
struct line {
    uint32_t first, n, max;
    uint32_t *slots; /* [max] a ring */
};

static inline bool line_init(struct line *line, uint32_t max)
{
    *line = (struct line){.max = max, .slots = calloc(max, sizeof *line->slots)};
    return line->slots != NULL;
}

static inline void line_push(struct line *line, uint32_t slot)
{
    assert(line->n < line->max);
    line->slots[(line->first + line->n++) % line->max] = slot;
}

static inline uint32_t line_pop(struct line *line)
{
    if (line->n == 0)
        return NONE;
    const uint32_t slot = line->slots[line->first];
    line->first = (line->first + 1) % line->max;
    line->n--;
    return slot;
}

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
    bool is_stopping, writes_no_more;
    bool has_ended;                 /* the thread; then ended is signalled */
    pthread_cond_t ended;           /* of the monotonic clock */
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

/* Both with the lock. Each order ends with a piece that says so; what was read of them is gone. */
void kv_tier_end_orders(struct kv_tier *tier);
bool kv_tier_has_work(const struct kv_tier *tier);
