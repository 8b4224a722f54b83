/*
 * prompt_places - how much of a prompt each worker probably has in its cache, from earlier prompts with the
 * same prefix.
 *
 * Bounds: prefixes_max remembered blocks (prefix_map.h), prompts of prompt_tokens_max.
 *
 * Thread: the router core's.
 */
#pragma once

#include "router/placement/route_request.h"
#include "router/placement/router_core_options.h"
#include "router/placement/worker_table.h"

struct prompt_places {
    struct prefix_map *map;
    struct prefix_key key;
    uint32_t block_tokens, prompt_tokens_max;
    struct prefix_hash *hashes; /* [prompt_tokens_max / block_tokens] scratch, of one call */
};

MUST_CHECK enum status prompt_places_init(struct prompt_places *places,
                                          const struct router_core_options *options);
void prompt_places_finish(struct prompt_places *places); /* a zeroed one is fine */

/* Sets every worker's hit_tokens. */
void prompt_places_find(struct prompt_places *places, const struct route_request *request,
                        struct worker_table *workers);
/* Notes that the prompt is cached there now; workers that have left are skipped. */
void prompt_places_remember(struct prompt_places *places, const struct route_request *request,
                            const struct worker_table *workers, const struct pair *pair);
void prompt_places_forget(struct prompt_places *places, uint32_t worker);
