/* cache_groups: layers of one kind share tables, blocks of all groups have the same places, and a window needs a bounded number
 * of them. */
#include "kvcache/cache_groups.h"

#include <criterion/criterion.h>

enum { LAYERS_MAX = 64, CONTEXT = 32768 };

/* Every nth layer is full (0: none), the others have that window. */
static void fill(uint32_t *windows, uint32_t n_layers, uint32_t period, uint32_t window)
{
    for (uint32_t i = 0; i < n_layers; i++)
        windows[i] = period != 0 && (i + 1) % period == 0 ? 0 : window;
}

static void divide(const uint32_t *windows, uint32_t n_layers, struct cache_groups *groups_out)
{
    const struct cache_layers layers = {n_layers, windows, NULL, CONTEXT};
    cache_groups_divide(&layers, groups_out);
}

Test(cache_groups, models_are_divided_into_groups_of_equal_blocks)
{
    static const struct {
        const char *model;
        uint32_t n_layers, period, window, n_groups, n_full, places;
    } CASES[] = {
        {"without windows", 28, 1, 0, 1, 1, 28},
        {"Mistral 7B v0.1", 32, 0, 4096, 1, 0, 32},
        {"a window that the context never fills", 32, 0, CONTEXT, 1, 1, 32},
        {"Gemma 3 270M", 18, 6, 512, 6, 1, 3},
        {"Gemma 3 1B", 26, 6, 512, 7, 1, 4},
        {"Gemma 3 4B", 34, 6, 1024, 7, 1, 5},
        {"Gemma 3 12B", 48, 6, 1024, 6, 1, 8},
        {"Gemma 3 27B", 62, 6, 1024, 6, 1, 11},
        {"Gemma 2 9B", 42, 2, 4096, 2, 1, 21},
        {"gpt-oss 20B", 24, 2, 128, 2, 1, 12},
        {"OLMo 3 7B", 32, 4, 4096, 4, 1, 8},
        {"one full layer of 41", 41, 41, 64, 11, 1, 4},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        uint32_t windows[LAYERS_MAX], n_full = 0, n_layers = 0;
        struct cache_groups groups;
        fill(windows, CASES[i].n_layers, CASES[i].period, CASES[i].window);
        divide(windows, CASES[i].n_layers, &groups);
        for (uint32_t g = 0; g < groups.n; g++) {
            n_full += groups.all[g].window == 0;
            n_layers += groups.all[g].n_layers;
            cr_assert(groups.all[g].n_layers > 0 && groups.all[g].n_layers <= groups.places);
            cr_assert(g == 0 || groups.all[g].window != 0 || groups.all[g - 1].window == 0,
                      "full ones come first");
        }
        cr_assert_eq(n_layers, CASES[i].n_layers, "%s", CASES[i].model);
        cr_assert(groups.n == CASES[i].n_groups && n_full == CASES[i].n_full &&
                      groups.places == CASES[i].places,
                  "%s: %u groups, %u full, of %u places", CASES[i].model, groups.n, n_full,
                  groups.places);
    }
}

Test(cache_groups, each_layer_has_a_place_of_its_own_in_a_group_of_its_window)
{
    for (uint32_t n_layers = 1; n_layers <= LAYERS_MAX; n_layers++)
        for (uint32_t n_windows = 0; n_windows <= 20; n_windows += 4) {
            uint32_t windows[LAYERS_MAX];
            bool is_taken[CACHE_GROUPS_MAX][LAYERS_MAX] = {{false}};
            struct cache_groups groups;
            for (uint32_t i = 0; i < n_layers; i++)
                windows[i] = n_windows == 0 ? 0 : i * 7 % n_windows * 16;
            const struct cache_layers layers = {n_layers, windows, NULL, CONTEXT};
            cache_groups_divide(&layers, &groups);
            for (uint32_t i = 0; i < n_layers; i++) {
                const struct cache_place place = cache_groups_place(&groups, &layers, i);
                cr_assert(place.group < groups.n && place.index < groups.all[place.group].n_layers);
                const uint32_t window = groups.all[place.group].window;
                cr_assert(window == windows[i] || (window == 0 && n_windows > CACHE_GROUPS_MAX),
                          "%u layers, %u windows: layer %u", n_layers, n_windows, i);
                cr_assert_not(is_taken[place.group][place.index]);
                is_taken[place.group][place.index] = true;
            }
        }
}

/* Every nth layer is full and has other heads; the rest have a window. */
struct unequal {
    const char *model;
    uint32_t n_layers, period;
    struct cache_heads full, windowed;
    uint32_t n_groups, n_full, places;
};

static void describe(const struct unequal *c, uint32_t *windows, struct cache_heads *heads,
                     struct cache_layers *layers_out)
{
    fill(windows, c->n_layers, c->period, 512);
    for (uint32_t i = 0; i < c->n_layers; i++)
        heads[i] = windows[i] == 0 ? c->full : c->windowed;
    *layers_out = (struct cache_layers){c->n_layers, windows, heads, CONTEXT};
}

/* Elements of K: equal in all blocks; and each layer has room of its own in one. */
static void check_unequal(const struct cache_layers *layers, const struct cache_groups *groups)
{
    const uint64_t block = groups->places * cache_groups_unit(groups);
    uint32_t n_placed[CACHE_GROUPS_MAX] = {0};
    for (uint32_t i = 0; i < layers->n; i++) {
        const struct cache_place place = cache_groups_place(groups, layers, i);
        const struct cache_group *group = &groups->all[place.group];
        const uint64_t size = (uint64_t)layers->heads[i].n * layers->heads[i].dim;
        cr_assert(group->heads.n == layers->heads[i].n && group->heads.dim == layers->heads[i].dim);
        cr_assert_eq(group->window,
                     layers->windows[i] < layers->context_tokens ? layers->windows[i] : 0);
        cr_assert_eq(place.index, n_placed[place.group]++, "in order");
        cr_assert_leq((place.index + 1) * size, block);
        cr_assert_eq(cache_group_width(groups, place.group) * cache_groups_unit(groups), size);
    }
    for (uint32_t g = 0; g < groups->n; g++)
        cr_assert(n_placed[g] == groups->all[g].n_layers && n_placed[g] > 0);
}

Test(cache_groups, layers_whose_heads_differ_have_blocks_of_equal_bytes)
{
    static const struct unequal CASES[] = {
        {"Gemma 4 E2B, without the layers that share", 15, 5, {1, 512}, {1, 256}, 3, 1, 6},
        {"Gemma 4 E4B, without the layers that share", 24, 6, {2, 512}, {2, 256}, 7, 2, 4},
        {"Gemma 4 31B", 60, 6, {4, 512}, {16, 256}, 11, 1, 10},
        {"Gemma 4 26B", 30, 6, {2, 512}, {8, 256}, 14, 1, 5},
        {"sizes of which none is a multiple of the other", 8, 4, {1, 24}, {2, 16}, 7, 1, 6},
        {"equal sizes of other heads", 8, 4, {2, 128}, {4, 64}, 4, 1, 2},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        uint32_t windows[LAYERS_MAX], n_full = 0;
        struct cache_heads heads[LAYERS_MAX];
        struct cache_layers layers;
        struct cache_groups groups;
        describe(&CASES[i], windows, heads, &layers);
        cache_groups_divide(&layers, &groups);
        for (uint32_t g = 0; g < groups.n; g++)
            n_full += groups.all[g].window == 0;
        check_unequal(&layers, &groups);
        cr_expect(groups.n == CASES[i].n_groups && n_full == CASES[i].n_full &&
                      groups.places == CASES[i].places,
                  "%s: %u groups, %u full, of %u places", CASES[i].model, groups.n, n_full,
                  groups.places);
    }
}

Test(cache_groups, any_two_kinds_of_heads_are_divided)
{
    for (uint32_t n_layers = 2; n_layers <= LAYERS_MAX; n_layers += 3)
        for (uint32_t period = 2; period <= 9; period++)
            for (uint32_t dim = 8; dim <= 512; dim += 56) {
                const struct unequal c = {"",      n_layers, period, {1 + dim % 3, dim},
                                          {2, 64}, 0,        0,      0};
                uint32_t windows[LAYERS_MAX];
                struct cache_heads heads[LAYERS_MAX];
                struct cache_layers layers;
                struct cache_groups groups;
                describe(&c, windows, heads, &layers);
                cache_groups_divide(&layers, &groups);
                check_unequal(&layers, &groups);
                layers.context_tokens = 0; /* all are full */
                cache_groups_divide(&layers, &groups);
                cr_assert_not(cache_groups_has_window(&groups));
                check_unequal(&layers, &groups);
            }
}

Test(cache_groups, no_query_sees_more_spans_than_the_most)
{
    for (uint32_t window = 1; window <= 70; window++)
        for (uint32_t block_tokens = 8; block_tokens <= 32; block_tokens *= 2) {
            const struct cache_groups groups = {1, 1, {{1, window, {0}}}, 0};
            const uint32_t most = cache_group_spans_max(&groups, 0, block_tokens);
            uint32_t longest = 0;
            for (uint32_t position = 0; position < 300; position++) {
                const uint32_t first = cache_group_first_span(&groups, 0, block_tokens, position);
                const uint32_t whole = position - position % block_tokens;
                const uint32_t oldest = whole + 1 > window ? whole + 1 - window : 0;
                const uint32_t n = position / block_tokens + 1 - first;
                cr_assert_eq(first, oldest / block_tokens);
                longest = n > longest ? n : longest;
            }
            cr_assert_eq(longest, most, "window %u, blocks of %u", window, block_tokens);
        }
}

static uint64_t step_blocks(const struct cache_groups *groups, uint32_t n_tokens,
                            uint32_t n_sequences, uint32_t context_tokens)
{
    const struct cache_step step = {n_tokens, n_sequences, context_tokens};
    return cache_groups_step_blocks(groups, 16, &step);
}

Test(cache_groups, blocks_of_a_sequence_are_bounded_by_windows)
{
    uint32_t windows[18];
    struct cache_groups groups;
    const struct cache_groups one = {0};
    fill(windows, 18, 6, 512);
    divide(windows, 18, &groups);
    cr_assert_eq(cache_groups_blocks(&one, 16, 32768), 2048);
    cr_assert_eq(cache_groups_blocks(&groups, 16, 17), 6 * 2);
    cr_assert_eq(cache_groups_blocks(&groups, 16, 32768), 2048 + 5 * 33);
    cr_assert_eq(step_blocks(&one, 512, 1, 32768), 0);
    cr_assert_eq(step_blocks(&groups, 512, 1, 32768), 5 * 31);
    cr_assert_eq(step_blocks(&groups, 1, 1, 32768), 0, "the next token has room");
    cr_assert_eq(step_blocks(&groups, 17, 1, 32768), 5);
    cr_assert_eq(step_blocks(&groups, 512, 1, 640), 5 * 7, "a sequence has 40 spans");
    cr_assert_eq(step_blocks(&groups, 512, 2, 640), 5 * 14);
    cr_assert_eq(step_blocks(&groups, 512, 9, 640), 5 * 31);
    cr_assert_eq(step_blocks(&groups, 512, 9, 512), 0);
}
