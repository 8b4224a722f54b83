#include "kvcache/crossing.h"

#include <assert.h>

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

struct crossing crossing_of(const struct geometry *geometry, uint32_t n_prompt,
                            uint32_t held_tokens, uint32_t window)
{
    const struct cache_groups *groups = &geometry->groups;
    const struct sink_window sinks = sink_window_of(&geometry->sinks, window);
    struct crossing crossing = {.n_groups = cache_groups_count(groups),
                                .n_state = groups->n_state,
                                .held = held_tokens / geometry->block_tokens,
                                .end = geometry_spans(geometry, n_prompt)};
    assert(held_tokens % geometry->block_tokens == 0 && held_tokens < n_prompt);
    crossing.base = cache_group_window(groups, 0) == 0 ? crossing.held : 0;
    for (uint32_t group = 0; group < crossing.n_groups; group++)
        crossing.first[group] = larger(
            crossing.held, cache_group_first_span(groups, group, geometry->block_tokens, n_prompt));
    crossing.drop_first = sink_window_kept(&sinks, geometry->block_tokens);
    crossing.n_dropped = sink_window_dropped(&sinks, geometry->block_tokens, n_prompt);
    assert((crossing.n_dropped == 0 || held_tokens == 0) && "what is held is not dropped");
    return crossing;
}

/* With sinks there is one group. */
static uint32_t dropped_before(const struct crossing *crossing, uint32_t span)
{
    const uint32_t n = span > crossing->drop_first ? span - crossing->drop_first : 0;
    return n < crossing->n_dropped ? n : crossing->n_dropped;
}

static bool crosses(const struct crossing *crossing, uint32_t group, uint32_t span)
{
    const bool is_dropped = span >= crossing->drop_first &&
                            span - crossing->drop_first < crossing->n_dropped;
    return span >= crossing->first[group] && !is_dropped;
}

uint32_t crossing_count(const struct crossing *crossing, uint32_t n_spans)
{
    const uint32_t end = n_spans < crossing->end ? n_spans : crossing->end;
    uint32_t n = 0;
    for (uint32_t group = 0; group < crossing->n_groups; group++)
        n += end > crossing->first[group] ? end - crossing->first[group] : 0;
    return n - dropped_before(crossing, end) + (end == crossing->end ? crossing->n_state : 0);
}

uint32_t crossing_spans(const struct crossing *crossing, uint32_t n_blocks)
{
    uint32_t least = crossing->held, most = crossing->end; /* least is complete */
    if (n_blocks == 0)
        return crossing->held;
    while (least < most) {
        const uint32_t middle = least + (most - least + 1) / 2;
        if (crossing_count(crossing, middle) <= n_blocks)
            least = middle;
        else
            most = middle - 1;
    }
    return least;
}

struct crossing_place crossing_at(const struct crossing *crossing, uint32_t i)
{
    struct crossing_place place = {.span = crossing_spans(crossing, i)};
    uint32_t n_before = crossing_count(crossing, place.span);
    /* crossing_spans of 0 is what is held; spans without a block of any group may follow. */
    while (crossing_count(crossing, place.span + 1) <= i)
        n_before = crossing_count(crossing, ++place.span);
    uint32_t left = i - n_before;
    for (; place.group < crossing->n_groups; place.group++)
        if (crosses(crossing, place.group, place.span) && left-- == 0)
            return place;
    assert(left < crossing->n_state);
    place.group += left;
    return place;
}

uint32_t crossing_list(const struct crossing *crossing, uint32_t first, uint32_t end,
                       const block_id *table, uint32_t stride, uint32_t n_gone, block_id *ids_out)
{
    uint32_t n = 0;
    assert(first <= end && end <= crossing->end);
    for (uint32_t span = first; span < end; span++)
        for (uint32_t group = 0; group < crossing->n_groups; group++)
            if (crosses(crossing, group, span)) {
                const uint32_t at = span < crossing->drop_first ? span : span - n_gone;
                ids_out[n] = table[(size_t)group * stride + at];
                assert(ids_out[n] != BLOCK_NONE && "it is held until it has crossed");
                n++;
            }
    for (uint32_t i = 0; i < crossing->n_state && end == crossing->end && first < end; i++) {
        ids_out[n] = table[(size_t)crossing->n_groups * stride + i];
        assert(ids_out[n] != BLOCK_NONE && "it is held until it has crossed");
        n++;
    }
    return n;
}
