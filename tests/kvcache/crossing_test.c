/* crossing: each block that the first generated token sees and the receiver lacks crosses once, spans in order, then the state. */
#include "kvcache/crossing.h"

#include <criterion/criterion.h>

enum { SPANS = 40 };

static const struct geometry KINDS[] = {
    {.n_layers = 4, .block_tokens = 8},
    {.n_layers = 4, .block_tokens = 8, .groups = {.n = 1, .places = 4, .all = {{4, 0, {0}}}}},
    {.n_layers = 4, .block_tokens = 8, .groups = {.n = 1, .places = 4, .all = {{4, 30, {0}}}}},
    {.n_layers = 4,
     .block_tokens = 8,
     .groups = {.n = 2, .places = 2, .all = {{2, 0, {0}}, {2, 30, {0}}}}},
    {.n_layers = 5,
     .block_tokens = 8,
     .groups = {.n = 3, .places = 2, .all = {{1, 0, {0}}, {2, 9, {0}}, {2, 50, {0}}}}},
    {.n_layers = 6,
     .block_tokens = 8,
     .groups = {.n = 3, .places = 2, .all = {{2, 0, {0}}, {2, 0, {0}}, {2, 1, {0}}}}},
    {.n_layers = 2, .block_tokens = 8, .groups = {1, 2, {{2, 0, {0}}}, .n_state = 5}},
    {.n_layers = 4, .block_tokens = 8, .groups = {2, 2, {{2, 0, {0}}, {2, 30, {0}}}, .n_state = 1}},
    {.n_layers = 2, .block_tokens = 8, .groups = {0, .n_state = 2}},
};

static bool is_needed(const struct geometry *geometry, uint32_t group, uint32_t span,
                      uint32_t n_prompt, uint32_t held)
{
    return span >= held / 8 && span < (n_prompt + 7) / 8 &&
           span >= cache_group_first_span(&geometry->groups, group, 8, n_prompt);
}

static void check(const struct geometry *geometry, uint32_t n_prompt, uint32_t held)
{
    const struct crossing crossing = crossing_of(geometry, n_prompt, held, 0);
    const uint32_t n_groups = cache_groups_count(&geometry->groups);
    const uint32_t n_state = geometry->groups.n_state;
    block_id table[4 * SPANS], ids[4 * SPANS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < 4 * SPANS; i++)
        table[i] = 1000 + i;
    for (uint32_t span = held / 8; span < crossing.end; span++) {
        cr_assert_eq(crossing_count(&crossing, span), n);
        const uint32_t more = crossing_list(&crossing, span, span + 1, table, SPANS, 0, ids + n);
        uint32_t n_needed = 0;
        for (uint32_t group = 0; group < n_groups; group++)
            if (is_needed(geometry, group, span, n_prompt, held)) {
                const struct crossing_place place = crossing_at(&crossing, n + n_needed);
                cr_assert(place.group == group && place.span == span);
                cr_assert_eq(ids[n + n_needed++], 1000 + group * SPANS + span);
            }
        for (uint32_t i = 0; i < n_state && span + 1 == crossing.end; i++) {
            cr_assert_eq(crossing_at(&crossing, n + n_needed).group, n_groups + i);
            cr_assert_eq(crossing_spans(&crossing, n + n_needed), crossing.end - 1,
                         "the prompt is not complete without its state");
            cr_assert_eq(ids[n + n_needed++], 1000 + n_groups * SPANS + i);
        }
        cr_assert_eq(more, n_needed);
        n += more;
    }
    cr_assert_eq(crossing_count(&crossing, UINT32_MAX), n);
    cr_assert_leq(crossing.base + n, geometry_blocks(geometry, SPANS * 8), "an index has a place");
    cr_assert_gt(n, 0, "the last span always crosses");
}

Test(crossing, each_block_that_is_needed_crosses_once)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        for (uint32_t n_prompt = 1; n_prompt <= SPANS * 8; n_prompt++)
            for (uint32_t held = 0; held < n_prompt; held += 8)
                check(&KINDS[i], n_prompt, held);
}

Test(crossing, one_group_is_numbered_from_the_beginning_of_the_prompt)
{
    const struct crossing crossing = crossing_of(&KINDS[0], 100, 24, 0);
    cr_assert_eq(crossing.base, 3);
    cr_assert_eq(crossing_count(&crossing, 5), 2);
    cr_assert_eq(crossing_count(&crossing, UINT32_MAX), 10);
}

Test(crossing, a_window_bounds_what_crosses)
{
    const struct crossing crossing = crossing_of(&KINDS[2], 312, 0, 0);
    cr_assert_eq(crossing_count(&crossing, UINT32_MAX), 4, "30 tokens are within 4 spans of 8");
}
