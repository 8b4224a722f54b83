#include "kvcache/cache_groups.h"

#include <assert.h>
#include <stddef.h>

/* ---- dividing ---- */

/* Layers with the same window and heads. */
struct kind {
    uint32_t window, n_layers;
    struct cache_heads heads; /* zeros: all layers are alike */
    uint32_t width;           /* places that a layer takes */
};

struct kinds {
    uint32_t n;
    struct kind all[CACHE_GROUPS_MAX];
};

static bool is_equal(struct cache_heads a, struct cache_heads b)
{
    return a.n == b.n && a.dim == b.dim;
}

static uint32_t window_of(const struct cache_layers *layers, uint32_t layer)
{
    return layers->windows[layer] < layers->context_tokens ? layers->windows[layer] : 0;
}

static struct cache_heads heads_of(const struct cache_layers *layers, uint32_t layer)
{
    return layers->heads ? layers->heads[layer] : (struct cache_heads){0};
}

/* NULL: there is none. */
static struct kind *find_kind(struct kinds *kinds, uint32_t window, struct cache_heads heads)
{
    for (uint32_t i = 0; i < kinds->n; i++)
        if (kinds->all[i].window == window && is_equal(kinds->all[i].heads, heads))
            return &kinds->all[i];
    return NULL;
}

static struct kind *add_kind(struct kinds *kinds, uint32_t window, struct cache_heads heads)
{
    struct kind *found = find_kind(kinds, window, heads);
    if (found || kinds->n == CACHE_GROUPS_MAX)
        return found;
    kinds->all[kinds->n] = (struct kind){.window = window, .heads = heads, .width = 1};
    return &kinds->all[kinds->n++];
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static uint64_t size_of(struct cache_heads heads)
{
    return (uint64_t)heads.n * heads.dim;
}

static void set_widths(struct kinds *kinds)
{
    uint64_t unit = 0;
    for (uint32_t i = 0; i < kinds->n; i++)
        unit = common_divisor(size_of(kinds->all[i].heads), unit);
    for (uint32_t i = 0; i < kinds->n && unit > 0; i++)
        kinds->all[i].width = (uint32_t)(size_of(kinds->all[i].heads) / unit);
}

/* Full kinds first; layers with more windows than there is room for are of these. */
static struct kinds find_kinds(const struct cache_layers *layers)
{
    struct kinds kinds = {0};
    for (uint32_t layer = 0; layer < layers->n; layer++)
        (void)add_kind(&kinds, 0, heads_of(layers, layer));
    assert(kinds.n <= 2);
    for (uint32_t layer = 0; layer < layers->n; layer++) {
        const struct cache_heads heads = heads_of(layers, layer);
        struct kind *kind = add_kind(&kinds, window_of(layers, layer), heads);
        kind = kind ? kind : find_kind(&kinds, 0, heads);
        kind->n_layers++;
    }
    set_widths(&kinds);
    return kinds;
}

static uint32_t n_groups_of(const struct kind *kind, uint32_t places)
{
    const uint32_t n_fit = places / kind->width;
    return (kind->n_layers + n_fit - 1) / n_fit;
}

/* A place that no full layer uses is there for all tokens. */
#define FULL_WEIGHT 16u

/* Groups of all kinds; padding_out: places that no layer uses, of all kinds; is_tight_out: at most an eighth of each. */
static uint32_t count_groups(const struct kinds *kinds, uint32_t places, uint32_t *padding_out,
                             bool *is_tight_out)
{
    const bool is_unequal = kinds->all[0].heads.n > 0;
    uint32_t n = 0, padding = 0;
    bool is_tight = true;
    for (uint32_t i = 0; i < kinds->n; i++) {
        const uint32_t of_kind = n_groups_of(&kinds->all[i], places);
        const uint32_t used = kinds->all[i].n_layers * kinds->all[i].width;
        const uint32_t unused = of_kind * places - used;
        n += of_kind;
        padding += is_unequal && kinds->all[i].window == 0 ? FULL_WEIGHT * unused : unused;
        is_tight = is_tight && (uint64_t)unused * 8 <= used;
    }
    *padding_out = padding;
    *is_tight_out = is_tight;
    return n;
}

/* Whether a block of so many places is full of layers of some kind. */
static bool fills(const struct kinds *kinds, uint32_t places)
{
    bool is_multiple = false;
    for (uint32_t i = 0; i < kinds->n; i++)
        is_multiple = is_multiple ||
                      (kinds->all[i].n_layers > 0 && places % kinds->all[i].width == 0);
    return is_multiple;
}

static uint32_t widest(const struct kinds *kinds)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < kinds->n; i++)
        most = kinds->all[i].width > most ? kinds->all[i].width : most;
    return most;
}

/* Tight groups before others; then the fewest; then those with the least padding. */
static uint32_t choose_places(const struct kinds *kinds)
{
    uint32_t n_used = 0, least_groups = UINT32_MAX, least_padding = UINT32_MAX;
    bool has_tight = false;
    for (uint32_t i = 0; i < kinds->n; i++)
        n_used += kinds->all[i].n_layers * kinds->all[i].width;
    uint32_t best = n_used;
    for (uint32_t places = n_used; places >= widest(kinds); places--) {
        uint32_t padding;
        bool is_tight;
        if (!fills(kinds, places))
            continue;
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

void cache_groups_divide(const struct cache_layers *layers, struct cache_groups *groups_out)
{
    const struct kinds kinds = find_kinds(layers);
    struct cache_groups groups = {0};
    assert(layers->n > 0);
    groups.places = choose_places(&kinds);
    for (uint32_t i = 0; i < kinds.n; i++) {
        const struct kind *kind = &kinds.all[i];
        assert(kind->width > 0);
        const uint32_t n_fit = groups.places / kind->width;
        for (uint32_t n_left = kind->n_layers, n; n_left > 0; n_left -= n) {
            n = n_left < n_fit ? n_left : n_fit;
            assert(groups.n < CACHE_GROUPS_MAX);
            groups.all[groups.n++] = (struct cache_group){
                .n_layers = n, .window = kind->window, .heads = kind->heads};
        }
    }
    *groups_out = groups;
}

/* The first group of layers with that window and those heads; a full one if none has the window: those layers are full. */
static uint32_t first_group(const struct cache_groups *groups, uint32_t window,
                            struct cache_heads heads)
{
    for (uint32_t group = 0; group < groups->n; group++)
        if (groups->all[group].window == window && is_equal(groups->all[group].heads, heads))
            return group;
    assert(window != 0);
    return first_group(groups, 0, heads);
}

struct cache_place cache_groups_place(const struct cache_groups *groups,
                                      const struct cache_layers *layers, uint32_t layer)
{
    uint32_t before = 0;
    if (groups->n == 0)
        return (struct cache_place){.index = layer};
    const uint32_t first = first_group(groups, window_of(layers, layer), heads_of(layers, layer));
    for (uint32_t i = 0; i < layer; i++)
        before += first_group(groups, window_of(layers, i), heads_of(layers, i)) == first;
    const uint32_t n_fit = groups->places / cache_group_width(groups, first);
    const uint32_t group = first + before / n_fit;
    assert(group < groups->n && groups->all[group].window == groups->all[first].window);
    return (struct cache_place){group, before % n_fit};
}

bool cache_groups_have_heads(const struct cache_groups *groups)
{
    return groups->n > 0 && groups->all[0].heads.n > 0;
}

uint64_t cache_groups_unit(const struct cache_groups *groups)
{
    uint64_t unit = 0;
    for (uint32_t group = 0; group < groups->n; group++)
        unit = common_divisor(size_of(groups->all[group].heads), unit);
    assert(unit > 0);
    return unit;
}

uint32_t cache_group_width(const struct cache_groups *groups, uint32_t group)
{
    if (!cache_groups_have_heads(groups))
        return 1;
    assert(group < groups->n);
    const uint32_t width = (uint32_t)(size_of(groups->all[group].heads) /
                                      cache_groups_unit(groups));
    assert(width > 0);
    return width;
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
