#include "kvtier/host_blocks.h"

#include "base/secret.h"
#include "kvtier/stored_index.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct host_blocks {
    struct host_blocks_options options;
    size_t n_bytes;
    uint8_t *bytes; /* [slots][block_bytes] */
    pthread_mutex_t mutex;
    struct stored_index *index;
    uint64_t n_read, n_removed;
};

enum status host_blocks_check(const struct host_blocks_options *options, struct error *error)
{
    const uint64_t n = options->bytes_max / options->block_bytes;
    char part[PART_TEXT_BYTES];
    if (n == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_host_memory is %" PRIu64 " bytes%s, and a KV block takes %zu",
                         options->bytes_max, block_store_part_text(options->n_sharers, part),
                         options->block_bytes);
    if (n > STORED_ENTRIES_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_host_memory is %" PRIu64 " bytes%s, %" PRIu64
                         " KV blocks of %zu; at most %u are taken",
                         options->bytes_max, block_store_part_text(options->n_sharers, part), n,
                         options->block_bytes, STORED_ENTRIES_MAX);
    return STATUS_OK;
}

enum status host_blocks_create(const struct host_blocks_options *options, struct error *error,
                               struct host_blocks **blocks_out)
{
    TRY(host_blocks_check(options, error));
    const uint64_t n = options->bytes_max / options->block_bytes;
    struct host_blocks *blocks = calloc(1, sizeof *blocks);
    if (!blocks)
        return STATUS_NO_MEMORY;
    blocks->options = *options;
    pthread_mutex_init(&blocks->mutex, NULL);
    blocks->n_bytes = n * options->block_bytes;
    blocks->bytes = malloc(blocks->n_bytes);
    if (!blocks->bytes || stored_index_create((uint32_t)n, &blocks->index) != STATUS_OK) {
        host_blocks_destroy(blocks);
        return error_set(error, STATUS_NO_MEMORY, "kv_host_memory of %" PRIu64 " bytes: %s",
                         options->bytes_max, status_text(STATUS_NO_MEMORY));
    }
    memset(blocks->bytes, 0, blocks->n_bytes);
    *blocks_out = blocks;
    return STATUS_OK;
}

void host_blocks_destroy(struct host_blocks *blocks)
{
    if (!blocks)
        return;
    stored_index_destroy(blocks->index);
    if (blocks->bytes && blocks->options.wipes)
        secret_wipe(blocks->bytes, blocks->n_bytes);
    free(blocks->bytes);
    pthread_mutex_destroy(&blocks->mutex);
    free(blocks);
}

static uint8_t *bytes_of(const struct host_blocks *blocks, uint32_t slot)
{
    return blocks->bytes + (size_t)slot * blocks->options.block_bytes;
}

static void remove_slot(struct host_blocks *blocks, uint32_t slot)
{
    pthread_mutex_lock(&blocks->mutex);
    stored_index_remove(blocks->index, slot);
    pthread_mutex_unlock(&blocks->mutex);
    if (blocks->options.wipes)
        secret_wipe(bytes_of(blocks, slot), blocks->options.block_bytes);
}

/* What was used longest ago goes to the next store, or is lost. */
static void push_out(struct host_blocks *blocks)
{
    const struct host_blocks_options *options = &blocks->options;
    const uint32_t slot = stored_index_oldest(blocks->index);
    enum status status = STATUS_NOT_FOUND;
    if (options->next)
        status = options->next->write(options->next_store, stored_index_at(blocks->index, slot),
                                      bytes_of(blocks, slot));
    blocks->n_removed += status != STATUS_OK && !options->next; /* the next one counts its own */
    remove_slot(blocks, slot);
}

static bool has(void *store, const struct stored_key *key)
{
    struct host_blocks *blocks = store;
    pthread_mutex_lock(&blocks->mutex);
    const bool is_there = stored_index_find(blocks->index, key) != STORED_NONE;
    pthread_mutex_unlock(&blocks->mutex);
    return is_there ||
           (blocks->options.next && blocks->options.next->has(blocks->options.next_store, key));
}

static enum status write_block(void *store, const struct stored_block *block, const uint8_t *bytes)
{
    struct host_blocks *blocks = store;
    const uint32_t known = stored_index_find(blocks->index, &block->key);
    if (known != STORED_NONE)
        remove_slot(blocks, known);
    else if (stored_index_is_full(blocks->index))
        push_out(blocks);
    pthread_mutex_lock(&blocks->mutex);
    const uint32_t slot = stored_index_add(blocks->index, block);
    pthread_mutex_unlock(&blocks->mutex);
    memcpy(bytes_of(blocks, slot), bytes, blocks->options.block_bytes);
    return STATUS_OK;
}

static enum status read_block(void *store, const struct stored_key *key, uint8_t *bytes_out,
                              uint64_t *origin_out)
{
    struct host_blocks *blocks = store;
    const struct host_blocks_options *options = &blocks->options;
    const uint32_t slot = stored_index_find(blocks->index, key);
    if (slot == STORED_NONE)
        return options->next ? options->next->read(options->next_store, key, bytes_out, origin_out)
                             : STATUS_NOT_FOUND;
    memcpy(bytes_out, bytes_of(blocks, slot), options->block_bytes);
    *origin_out = stored_index_at(blocks->index, slot)->origin;
    pthread_mutex_lock(&blocks->mutex);
    stored_index_use(blocks->index, slot);
    blocks->n_read++;
    pthread_mutex_unlock(&blocks->mutex);
    return STATUS_OK;
}

static void drop(void *store, uint64_t origin)
{
    struct host_blocks *blocks = store;
    uint32_t slot = stored_index_oldest(blocks->index);
    while (slot != STORED_NONE) {
        const uint32_t next = stored_index_next(blocks->index, slot);
        if (stored_index_at(blocks->index, slot)->origin == origin)
            remove_slot(blocks, slot);
        slot = next;
    }
    if (blocks->options.next)
        blocks->options.next->drop(blocks->options.next_store, origin);
}

static void clear(void *store)
{
    struct host_blocks *blocks = store;
    while (stored_index_count(blocks->index) > 0)
        remove_slot(blocks, stored_index_oldest(blocks->index));
    if (blocks->options.next)
        blocks->options.next->clear(blocks->options.next_store);
}

void host_blocks_count(struct host_blocks *blocks, struct store_counts *counts_out)
{
    pthread_mutex_lock(&blocks->mutex);
    *counts_out = (struct store_counts){.n_blocks = stored_index_count(blocks->index),
                                        .n_read = blocks->n_read,
                                        .n_removed = blocks->n_removed};
    pthread_mutex_unlock(&blocks->mutex);
    counts_out->bytes = counts_out->n_blocks * blocks->options.block_bytes;
}

static void count(void *store, struct store_counts *counts_out)
{
    struct host_blocks *blocks = store;
    host_blocks_count(blocks, counts_out);
    if (!blocks->options.next)
        return;
    struct store_counts next;
    blocks->options.next->count(blocks->options.next_store, &next);
    for (int i = 0; i < STORE_FAULTS; i++)
        counts_out->faults[i] += next.faults[i];
}

const struct block_store_ops HOST_BLOCKS_OPS = {.name = "host",
                                                .has = has,
                                                .write = write_block,
                                                .read = read_block,
                                                .drop = drop,
                                                .clear = clear,
                                                .count = count};
