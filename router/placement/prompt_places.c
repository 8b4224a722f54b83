#include "router/placement/prompt_places.h"

#include <assert.h>
#include <stdlib.h>

enum status prompt_places_init(struct prompt_places *places,
                               const struct router_core_options *options)
{
    *places = (struct prompt_places){
        .key = options->prefix_key,
        .block_tokens = options->block_tokens,
        .prompt_tokens_max = options->prompt_tokens_max,
    };
    places->hashes = calloc(options->prompt_tokens_max / options->block_tokens + 1,
                            sizeof *places->hashes);
    return places->hashes ? prefix_map_create(options->prefixes_max, &places->map)
                          : STATUS_NO_MEMORY;
}

void prompt_places_finish(struct prompt_places *places)
{
    prefix_map_destroy(places->map);
    free(places->hashes);
    *places = (struct prompt_places){0};
}

static uint32_t hash(struct prompt_places *places, const struct route_request *request)
{
    assert(request->n_tokens <= places->prompt_tokens_max && "hashes has room");
    prefix_hash_blocks(&places->key, request->salt, request->salt_bytes, request->token_ids,
                       request->n_tokens, places->block_tokens, places->hashes);
    return request->n_tokens / places->block_tokens;
}

static void count_hit(struct worker_table *workers, uint32_t worker, uint32_t n_tokens)
{
    if (worker != NOBODY && workers->workers[worker].hit_tokens < n_tokens)
        workers->workers[worker].hit_tokens = n_tokens;
}

void prompt_places_find(struct prompt_places *places, const struct route_request *request,
                        struct worker_table *workers)
{
    for (uint32_t i = 0; i < workers->n_slots; i++)
        workers->workers[i].hit_tokens = 0;
    uint32_t n = hash(places, request);
    struct prefix_place place;
    for (uint32_t i = 0; i < n; i++) {
        if (!prefix_map_find(places->map, &places->hashes[i], &place))
            continue;
        count_hit(workers, place.generation_worker, (i + 1) * places->block_tokens);
        count_hit(workers, place.context_worker, (i + 1) * places->block_tokens);
    }
}

static uint32_t known_or_nobody(const struct worker_table *workers, uint32_t worker)
{
    return worker != NOBODY && workers->workers[worker].is_known ? worker : NOBODY;
}

void prompt_places_remember(struct prompt_places *places, const struct route_request *request,
                            const struct worker_table *workers, const struct pair *pair)
{
    const struct prefix_place place = {known_or_nobody(workers, pair->generation_worker),
                                       known_or_nobody(workers, pair->context_worker)};
    if (place.generation_worker == NOBODY && place.context_worker == NOBODY)
        return;
    uint32_t n = hash(places, request); /* again: the scratch is any request's */
    for (uint32_t i = 0; i < n; i++)
        prefix_map_put(places->map, &places->hashes[i], &place);
}

void prompt_places_forget(struct prompt_places *places, uint32_t worker)
{
    prefix_map_forget(places->map, worker);
}
