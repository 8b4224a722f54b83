/* sink_window: what a reply sees is never dropped, what is held is bounded, and the blocks that stay keep their order. */
#include "base/random.h"
#include "kvcache/block_table.h"
#include "kvcache/crossing.h"

#include <criterion/criterion.h>
#include <string.h>

enum { TOKENS = 900 };

static struct geometry draw(struct random *random)
{
    const uint32_t window = 2 + (uint32_t)random_below(random, 300);
    return (struct geometry){.n_layers = 1,
                             .block_tokens = 8u << random_below(random, 5),
                             .sinks = {window, 1 + (uint32_t)random_below(random, window - 1)}};
}

static bool is_seen(const struct sink_window *sinks, uint32_t token, uint32_t query)
{
    return token <= query && (token < sinks->sinks || query - token < sinks->window - sinks->sinks);
}

Test(sink_window, without_a_window_nothing_is_dropped)
{
    const struct sink_window none = {0, 0};
    cr_assert_eq(sink_window_dropped(&none, 16, 1u << 30), 0);
    cr_assert_eq(sink_window_spans_max(&none, 16), UINT32_MAX);
}

Test(sink_window, what_is_seen_stays_and_the_rest_is_bounded)
{
    struct random random;
    random_init(&random, 3);
    for (int i = 0; i < 300; i++) {
        const struct geometry geometry = draw(&random);
        const struct sink_window *sinks = &geometry.sinks;
        const uint32_t block_tokens = geometry.block_tokens;
        const uint32_t kept = sink_window_kept(sinks, block_tokens),
                       most = sink_window_spans_max(sinks, block_tokens);
        uint32_t before = 0, longest = 0;
        cr_assert_geq(kept * block_tokens, sinks->sinks);
        for (uint32_t query = 0; query < TOKENS; query++) {
            const uint32_t n = sink_window_dropped(sinks, block_tokens, query);
            cr_assert(n >= before && n * block_tokens % SINK_STEP == 0);
            before = n;
            for (uint32_t span = kept; span < kept + n; span++)
                for (uint32_t slot = 0; slot < block_tokens; slot++)
                    cr_assert_not(is_seen(sinks, span * block_tokens + slot, query));
            const uint32_t held = cache_spans(block_tokens, query + 1) - n;
            longest = n > 0 && held > longest ? held : longest;
        }
        cr_assert_leq(longest, most, "window %u, sinks %u, blocks of %u", sinks->window,
                      sinks->sinks, block_tokens);
        cr_assert(longest == 0 || longest + 1 >= most, "%u of %u spans", longest, most);
    }
}

Test(sink_window, a_table_keeps_the_blocks_that_are_seen_in_their_order)
{
    struct random random;
    random_init(&random, 4);
    for (int i = 0; i < 100; i++) {
        const struct geometry geometry = draw(&random);
        const uint32_t block_tokens = geometry.block_tokens;
        const uint32_t n_prompt = 1 + (uint32_t)random_below(&random, TOKENS / 2);
        struct block_pool *pool;
        struct block_table table;
        block_id of_span[TOKENS / 8 + 64];
        cr_assert_eq(block_pool_create(400, 64, &pool), STATUS_OK);
        cr_assert_eq(block_table_init(&table, pool, NULL, &geometry, 200), STATUS_OK);
        for (uint32_t query = n_prompt - 1; query < TOKENS; query++) {
            const struct block_need need = {query, query + 1, query + 1, query >= n_prompt};
            cr_assert_eq(block_table_prepare(&table, &need), STATUS_OK);
            const uint32_t kept = sink_window_kept(&geometry.sinks, block_tokens);
            const struct block_row row = block_table_row(&table, 0);
            cr_assert(row.first == 0 && row.n == table.n_blocks);
            for (uint32_t at = 0;
                 at < cache_spans(block_tokens, block_table_places(&table, query + 1)); at++) {
                const uint32_t span = at < kept ? at : at + table.n_dropped;
                const bool is_new = span == query / block_tokens &&
                                    (query % block_tokens == 0 || query == n_prompt - 1);
                if (query == n_prompt - 1 || is_new)
                    of_span[span] = row.ids[at];
                cr_assert_eq(row.ids[at], of_span[span], "span %u", span);
            }
        }
        cr_assert_eq(block_pool_count(pool, BLOCK_ACTIVE), table.n_blocks);
        block_table_finish(&table);
        block_pool_destroy(pool);
    }
}

/* Both workers make the same list: the sender from all spans of the prompt, the receiver from a table without the dropped ones. */
Test(sink_window, what_crosses_is_what_the_receiver_has)
{
    struct random random;
    random_init(&random, 5);
    for (int i = 0; i < 300; i++) {
        const struct geometry geometry = draw(&random);
        const uint32_t n_prompt = 1 + (uint32_t)random_below(&random, TOKENS);
        const struct crossing crossing = crossing_of(&geometry, n_prompt, 0, 0);
        const uint32_t n_dropped = sink_window_dropped(&geometry.sinks, geometry.block_tokens,
                                                       n_prompt);
        const uint32_t n_spans = geometry_spans(&geometry, n_prompt), n = n_spans - n_dropped;
        block_id whole[TOKENS / 8 + 1], compact[TOKENS / 8 + 1], sent[TOKENS / 8 + 1],
            received[TOKENS / 8 + 1];
        const uint32_t kept = sink_window_kept(&geometry.sinks, geometry.block_tokens);
        for (uint32_t span = 0; span < n_spans; span++)
            whole[span] = span;
        for (uint32_t at = 0; at < n; at++)
            compact[at] = at < kept ? at : at + n_dropped;
        cr_assert_eq(crossing_count(&crossing, UINT32_MAX), n);
        cr_assert_eq(crossing_list(&crossing, 0, crossing.end, whole, n_spans, 0, sent), n);
        cr_assert_eq(crossing_list(&crossing, 0, crossing.end, compact, n, n_dropped, received), n);
        cr_assert_arr_eq(sent, received, n * sizeof *sent);
        for (uint32_t k = 0; k < n; k++) {
            cr_assert_eq(crossing_at(&crossing, k).span, sent[k]);
            cr_assert_leq(crossing_count(&crossing, crossing_spans(&crossing, k)), k);
        }
    }
}
