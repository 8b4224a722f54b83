#include "gen_worker/draft.h"

#include <assert.h>

enum {
    MATCH_MIN = 2, /* tokens */
    MATCH_MAX = 8,
    LOOKUP_MAX = 1 << 16, /* tokens that are looked at */
    PASSES_DRAFTED = 64,  /* between two that are timed without drafts */
    PASSES_UNLUCKY =
        32, /* until one is guessed again; by a draft model the next time twice as many, up to */
    PASSES_UNLUCKY_MAX = 4096,
    PASSES_DEAR = 512, /* the same of a worker, where no guess of its draft model is worth it */
    PASSES_DEAR_MAX = 16384,
};

#define ROW_FIRST   0.15 /* before one was measured */
#define SHARE_FIRST 0.6
#define MARGIN      1.1

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* How many tokens before end are those before n_tokens, up to MATCH_MAX. */
static uint32_t count_same(const uint32_t *tokens, uint32_t n_tokens, uint32_t end)
{
    uint32_t n = 0;
    while (n < MATCH_MAX && n < end && tokens[end - 1 - n] == tokens[n_tokens - 1 - n])
        n++;
    return n;
}

uint32_t draft_find(const uint32_t *tokens, uint32_t n_tokens, uint32_t n_max, uint32_t *n_out)
{
    const uint32_t least = n_tokens > LOOKUP_MAX ? n_tokens - LOOKUP_MAX : 0;
    uint32_t best = 0, n_best = MATCH_MIN - 1;
    for (uint32_t end = n_tokens; n_max > 0 && end-- > least + 1 && n_best < MATCH_MAX;) {
        if (tokens[end - 1] != tokens[n_tokens - 1])
            continue;
        const uint32_t n = count_same(tokens, n_tokens, end);
        if (n > n_best) {
            n_best = n;
            best = end;
        }
    }
    *n_out = best > 0 ? smaller(n_max, n_tokens - best) : 0;
    return best;
}

static uint32_t twice(uint32_t wait, uint32_t least, uint32_t most)
{
    return wait == 0 ? least : smaller(2 * wait, most);
}

/* ---- time ---- */

static void follow(double *value, double now)
{
    *value += (now - *value) / 8;
}

/* A guess takes more than a pass, so that it is not worth it even if it is right. */
static bool is_dear(const struct draft_pace *pace, uint32_t n_sequences)
{
    return pace->is_model && pace->row * n_sequences * MARGIN >= 1;
}

void draft_pace_took(struct draft_pace *pace, uint32_t n_sequences, uint32_t n_rows,
                     uint64_t step_ns)
{
    const double now = (double)step_ns;
    pace->n_plain = n_rows == 0 ? pace->n_plain + 1 : 0;
    if (n_rows == 0) {
        if (pace->n_sequences == n_sequences)
            follow(&pace->pass_ns, now);
        else
            pace->pass_ns = now;
        pace->n_sequences = n_sequences;
        pace->n_drafted = 0;
        return;
    }
    pace->n_drafted++;
    if (pace->n_sequences != n_sequences || pace->pass_ns <= 0)
        return;
    const double more = now > pace->pass_ns ? now / pace->pass_ns - 1 : 0;
    if (pace->row > 0)
        follow(&pace->row, more / n_rows);
    else
        pace->row = more / n_rows;
    if (pace->row < 1e-3)
        pace->row = 1e-3;
    pace->wait = is_dear(pace, n_sequences) ? twice(pace->wait, PASSES_DEAR, PASSES_DEAR_MAX) : 0;
}

bool draft_pace_is_due(const struct draft_pace *pace, uint32_t n_sequences)
{
    return pace->n_sequences != n_sequences || pace->n_drafted >= PASSES_DRAFTED;
}

/* ---- luck ---- */

/* It may have changed. */
static bool should_try(struct draft_luck *luck, const struct draft_pace *pace, uint32_t n_sequences)
{
    if (is_dear(pace, n_sequences))
        return pace->n_plain >= pace->wait;
    if (luck->n_passes < luck->next_pass)
        return false;
    luck->wait = pace->is_model ? twice(luck->wait, PASSES_UNLUCKY, PASSES_UNLUCKY_MAX)
                                : PASSES_UNLUCKY;
    return true;
}

uint32_t draft_luck_length(struct draft_luck *luck, const struct draft_pace *pace,
                           uint32_t n_sequences)
{
    const double row = (pace->row > 0 ? pace->row : ROW_FIRST) * n_sequences * MARGIN;
    const double share = luck->has_share ? luck->share : SHARE_FIRST;
    double chance = share;
    uint32_t n = 0;
    luck->n_passes++;
    while (chance > row && n < DRAFT_LENGTH_MAX) {
        chance *= share;
        n++;
    }
    if (n == 0)
        return should_try(luck, pace, n_sequences);
    luck->wait = 0;
    return n;
}

void draft_luck_note(struct draft_luck *luck, uint32_t n_guessed, uint32_t n_right)
{
    assert(n_right <= n_guessed && n_guessed > 0);
    if (!luck->has_share)
        luck->share = SHARE_FIRST;
    luck->has_share = true;
    luck->next_pass = luck->n_passes + (luck->wait > 0 ? luck->wait : PASSES_UNLUCKY);
    for (uint32_t i = 0; i < n_right; i++)
        follow(&luck->share, 1);
    if (n_right < n_guessed) /* what is behind a wrong one says nothing */
        follow(&luck->share, 0);
}
