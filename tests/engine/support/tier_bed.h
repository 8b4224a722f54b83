/*
 * tier_bed - a prefix cache on a device whose queues run late, with a tier in memory of the host. Nobody works for the tier but
 * tier_bed_work, and the test.
 */
#pragma once

#include "engine/prefix_tier.h"
#include "kvtier/host_blocks.h"

enum {
    BLOCK_TOKENS = 8,
    CONTEXT = 128,
    SPANS = CONTEXT / BLOCK_TOKENS,
    LIMIT_NS = 1000,
    RUN_BLOCKS = 5,
    SNAPSHOT_SPANS = 4 /* between snapshots of a recurrent state */
};

struct tier_bed {
    struct geometry geometry;
    struct device *device;
    struct device_memory memory;
    struct block_pool *pool;
    struct kv_manager *manager;
    struct host_blocks *host;
    struct kv_tier *tier;
    struct prefix_tier *prefix;
    struct prefix_hash hashes[8][SPANS]; /* of prompts */
    size_t block_bytes;
};

struct device *tier_bed_device(uint64_t seed);
void tier_bed_open(struct tier_bed *bed, struct device *device, const struct cache_groups *groups,
                   uint32_t n_blocks);
void tier_bed_close(struct tier_bed *bed);
/* Again, after the last one was destroyed. */
void tier_bed_make_tier(struct tier_bed *bed, uint32_t pieces_max);
void tier_bed_make_prefix(struct tier_bed *bed, uint64_t limit_ns);

/* Returns the spans that the cache had; their bytes are compared. Computes the others, span by span, as an engine does. */
uint32_t tier_bed_run(struct tier_bed *bed, uint32_t prompt, uint32_t n_spans, uint64_t origin);
/* All that the tier has to do. */
void tier_bed_work(const struct tier_bed *bed);
/* A round: whether a request that waits is held. */
bool tier_bed_holds(struct tier_bed *bed, struct engine_request *request, uint32_t prompt,
                    uint32_t n, uint64_t now_ns);
struct prefix_tier_figures tier_bed_figures(const struct tier_bed *bed);
/* Opens one of 20 blocks in which prompts 0 .. 3, of 12 spans, pushed each other out. seed: of the device. */
void tier_bed_push_out(struct tier_bed *bed, uint64_t seed);
/* Rounds until the request is not held, at most 50. */
void tier_bed_restore(struct tier_bed *bed, struct engine_request *request, uint32_t prompt,
                      uint32_t n, uint64_t now_ns);
