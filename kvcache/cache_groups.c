#include "kvcache/cache_groups.h"

#include <assert.h>
#include <string.h>

/* ---- dividing ---- */

/* Layers with the same window. */
struct kind {
    uint32_t window, n_layers;
};

struct kinds {
    uint32_t n;
    struct kind all[CACHE_GROUPS_MAX];
};

static uint32_t window_of(const uint32_t *windows, uint32_t context_tokens, uint32_t layer)
{
    return windows[layer] < context_tokens ? windows[layer] : 0;
}

/* The kind of a window is added if it is new. Full layers are kind 0. */
static struct kind *kind_of(struct kinds *kinds, uint32_t window)
{
    for (uint32_t i = 0; i < kinds->n; i++)
        if (kinds->all[i].window == window)
            return &kinds->all[i];
    if (kinds->n == CACHE_GROUPS_MAX)
        return &kinds->all[0];
    kinds->all[kinds->n] = (struct kind){.window = window};
    return &kinds->all[kinds->n++];
}

static struct kinds find_kinds(const uint32_t *windows, uint32_t n_layers, uint32_t context_tokens)
{
    struct kinds kinds = {.n = 1};
    for (uint32_t layer = 0; layer < n_layers; layer++)
        kind_of(&kinds, window_of(windows, context_tokens, layer))->n_layers++;
    return kinds;
}

static uint32_t n_groups_of(const struct kind *kind, uint32_t places)
{
    return (kind->n_layers + places - 1) / places;
}

/* Groups of all kinds; padding_out: places that no layer uses, of all kinds; is_tight_out: at most an eighth of each. */
static uint32_t count_groups(const struct kinds *kinds, uint32_t places, uint32_t *padding_out,
                             bool *is_tight_out)
{
    uint32_t n = 0, padding = 0;
    bool is_tight = true;
    for (uint32_t i = 0; i < kinds->n; i++) {
        const uint32_t of_kind = n_groups_of(&kinds->all[i], places);
        const uint32_t unused = of_kind * places - kinds->all[i].n_layers;
        n += of_kind;
        padding += unused;
        is_tight = is_tight && unused * 8 <= kinds->all[i].n_layers;
    }
    *padding_out = padding;
    *is_tight_out = is_tight;
    return n;
}

/* Tight groups before others; then the fewest; then those with the least padding. */
static uint32_t choose_places(const struct kinds *kinds, uint32_t n_layers)
{
    uint32_t best = n_layers, least_groups = UINT32_MAX, least_padding = UINT32_MAX;
    bool has_tight = false;
    for (uint32_t places = n_layers; places > 0; places--) {
        uint32_t padding;
        bool is_tight;
        const uint32_t n = count_groups(kinds, places, &padding, &is_tight);
        if (n > CACHE_GROUPS_MAX)
            break;
        if (has_tight && !is_tight)
            continue;
        const bool is_fewer = n < least_groups || (n == least_groups && padding < least_padding);
        const bool is_less = padding < least_padding;
        if (is_tight != has_tight || (is_tight ? is_fewer : is_less)) {
            best = places;
            least_groups = n;
            least_padding = padding;
            has_tight = is_tight;
        }
    }
    return best;
}

void cache_groups_divide(const uint32_t *windows, uint32_t n_layers, uint32_t context_tokens,
                         struct cache_groups *groups_out)
{
    const struct kinds kinds = find_kinds(windows, n_layers, context_tokens);
    struct cache_groups groups = {0};
    assert(n_layers > 0);
    groups.places = choose_places(&kinds, n_layers);
    for (uint32_t i = 0; i < kinds.n; i++)
        for (uint32_t n_left = kinds.all[i].n_layers, n; n_left > 0; n_left -= n) {
            n = n_left < groups.places ? n_left : groups.places;
            assert(groups.n < CACHE_GROUPS_MAX);
            groups.all[groups.n++] = (struct cache_group){n, kinds.all[i].window};
        }
    *groups_out = groups;
}

/* The first group of layers with that window; the first of all if none has it: those layers are full. */
static uint32_t first_group(const struct cache_groups *groups, uint32_t window)
{
    for (uint32_t group = 0; group < groups->n; group++)
        if (groups->all[group].window == window)
            return group;
    return 0;
}

struct cache_place cache_groups_place(const struct cache_groups *groups, const uint32_t *windows,
                                      uint32_t context_tokens, uint32_t layer)
{
    uint32_t before = 0;
    if (groups->n == 0)
        return (struct cache_place){.index = layer};
    const uint32_t first = first_group(groups, window_of(windows, context_tokens, layer));
    for (uint32_t i = 0; i < layer; i++)
        before += first_group(groups, window_of(windows, context_tokens, i)) == first;
    const uint32_t group = first + before / groups->places;
    assert(group < groups->n && groups->all[group].window == groups->all[first].window);
    return (struct cache_place){group, before % groups->places};
}

/* ---- for a sequence ---- */

uint32_t cache_groups_count(const struct cache_groups *groups)
{
    return groups->n > 0 ? groups->n : 1;
}

uint32_t cache_group_window(const struct cache_groups *groups, uint32_t group)
{
    assert(group < cache_groups_count(groups));
    return groups->n > 0 ? groups->all[group].window : 0;
}

bool cache_groups_has_window(const struct cache_groups *groups)
{
    return groups->n > 0 && groups->all[groups->n - 1].window > 0;
}

uint32_t cache_groups_rows(const struct cache_groups *groups)
{
    return cache_groups_count(groups) + groups->n_state;
}

bool cache_groups_is_plain(const struct cache_groups *groups)
{
    return cache_groups_rows(groups) == 1 && !cache_groups_has_window(groups);
}

uint32_t cache_group_first_span(const struct cache_groups *groups, uint32_t group,
                                uint32_t block_tokens, uint32_t position)
{
    const uint32_t window = cache_group_window(groups, group);
    position -= position % block_tokens;
    return window == 0 || position < window ? 0 : (position - (window - 1)) / block_tokens;
}

uint32_t cache_group_spans_max(const struct cache_groups *groups, uint32_t group,
                               uint32_t block_tokens)
{
    const uint32_t window = cache_group_window(groups, group);
    return window == 0 ? UINT32_MAX : (window - 1 + block_tokens - 1) / block_tokens + 1;
}

uint64_t cache_groups_blocks(const struct cache_groups *groups, uint32_t block_tokens,
                             uint32_t n_tokens)
{
    const uint32_t n_spans = cache_spans(block_tokens, n_tokens);
    uint64_t n = n_tokens > 0 ? groups->n_state : 0;
    for (uint32_t group = 0; group < cache_groups_count(groups); group++) {
        const uint32_t most = cache_group_spans_max(groups, group, block_tokens);
        n += n_spans < most ? n_spans : most;
    }
    return n;
}

/* A sequence has room for the span in which its next token lies, so of n tokens (n - 1) / block_tokens begin another one. */
uint64_t cache_groups_step_blocks(const struct cache_groups *groups, uint32_t block_tokens,
                                  const struct cache_step *step)
{
    const uint32_t n_spans = cache_spans(block_tokens, step->context_tokens);
    const uint64_t n_begun = step->n_tokens > 0 ? (step->n_tokens - 1) / block_tokens : 0;
    uint64_t n = 0;
    for (uint32_t group = 0; group < cache_groups_count(groups); group++) {
        const uint32_t most = cache_group_spans_max(groups, group, block_tokens);
        const uint32_t of_one = n_spans > most ? n_spans - most : 0;
        const uint64_t of_all = (uint64_t)of_one * step->n_sequences;
        n += n_begun < of_all ? n_begun : of_all;
    }
    return n;
}
