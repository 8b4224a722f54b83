#include "schedule/pace.h"

#include <assert.h>

void pace_init(struct pace *pace, uint64_t target_ns, uint32_t least, uint32_t most)
{
    assert(least > 0 && least <= most);
    *pace = (struct pace){.target_ns = target_ns, .least = least, .most = most};
}

/* The time of one more token in a step. */
static double marginal_ns(const struct pace *pace)
{
    assert(pace->tokens > 0);
    return pace->ns / (pace->tokens + pace->fixed * pace->steps);
}

static double expected_ns(const struct pace *pace, double n_tokens)
{
    return marginal_ns(pace) * (n_tokens + pace->fixed);
}

/* Limits the time of a step to a plausible one. The target is added because short steps vary more. */
static double believed_ns(const struct pace *pace, double n_tokens, double step_ns)
{
    if (pace->tokens <= 0)
        return step_ns;
    double most_ns = PACE_OUTLIER * (expected_ns(pace, n_tokens) + (double)pace->target_ns);
    return step_ns < most_ns ? step_ns : most_ns;
}

/* fixed / rise: the fixed part of the line through both steps, in tokens. */
static struct pace_pair make_pair(double few, double few_ns, double many, double many_ns)
{
    /* Divided by their times, so that slow pairs do not dominate; a larger difference in tokens has
     * more weight. */
    double both_ns = few_ns + many_ns > 0 ? few_ns + many_ns : 1;
    double weight = (many - few) / both_ns;
    return (struct pace_pair){.fixed = (few_ns * many - many_ns * few) * weight,
                              .rise = (many_ns - few_ns) * weight,
                              .many = many};
}

/* 0 .. 2: grows with fixed / rise; over 1 the line does not rise. */
static double order_of(const struct pace_pair *pair)
{
    if (pair->fixed <= 0)
        return 0;
    return 1 - pair->rise / (pair->fixed + (pair->rise < 0 ? -pair->rise : pair->rise));
}

/* The fixed part from all pairs, without the lowest and the highest quarter. */
static double fixed_of(const struct pace_pair *pairs, uint32_t n)
{
    struct pace_pair sorted[PACE_PAIRS];
    double fixed = 0, rise = 0, many = 0;
    assert(n > 0 && n <= PACE_PAIRS);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (; at > 0 && order_of(&pairs[i]) < order_of(&sorted[at - 1]); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = pairs[i];
        many = pairs[i].many > many ? pairs[i].many : many;
    }
    for (uint32_t i = n / 4; i < n - n / 4; i++) {
        fixed += sorted[i].fixed;
        rise += sorted[i].rise;
    }
    if (fixed <= 0)
        return 0;
    return fixed > 2 * many * rise ? 2 * many : fixed / rise; /* also if it does not rise */
}

static void note_pair(struct pace *pace, double n_tokens, double ns)
{
    double last = pace->last_tokens, last_ns = pace->last_ns;
    bool is_more = n_tokens > last;
    pace->last_tokens = n_tokens;
    pace->last_ns = ns;
    if (last <= 0 || (is_more ? n_tokens / last : last / n_tokens) < PACE_UNLIKE)
        return;
    pace->pairs[pace->n_pairs++ % PACE_PAIRS] = is_more ? make_pair(last, last_ns, n_tokens, ns)
                                                        : make_pair(n_tokens, ns, last, last_ns);
    uint32_t n_known = pace->n_pairs < PACE_PAIRS ? pace->n_pairs : PACE_PAIRS;
    pace->fixed += (fixed_of(pace->pairs, n_known) - pace->fixed) * PACE_TAKE;
}

static void note_least(struct pace *pace, double ns)
{
    if (pace->least_ns <= 0 || ns * PACE_OUTLIER < pace->least_ns)
        pace->least_ns = ns;
    else
        pace->least_ns += PACE_TAKE * (ns - pace->least_ns);
}

/* If tokens cost as much as before, the fixed part has become smaller. Else all costs became smaller, and the fixed
 * part in tokens stays the same. */
static void forget(struct pace *pace, double n_tokens, double ns)
{
    double token_ns = marginal_ns(pace);
    pace->tokens = pace->steps = pace->ns = pace->last_tokens = 0;
    if (ns < PACE_ALIKE * n_tokens * token_ns)
        return;
    double fixed = ns / token_ns - n_tokens;
    pace->fixed = fixed > 0 ? fixed : 0;
    pace->n_pairs = 0;
}

void pace_took(struct pace *pace, uint32_t n_tokens, uint64_t step_ns)
{
    if (n_tokens == 0)
        return;
    double ns = believed_ns(pace, n_tokens, (double)step_ns);
    if (pace->tokens > 0 && ns * PACE_OUTLIER < expected_ns(pace, n_tokens))
        forget(pace, n_tokens, ns);
    note_pair(pace, n_tokens, ns);
    pace->tokens = PACE_KEEP * pace->tokens + n_tokens;
    pace->steps = PACE_KEEP * pace->steps + 1;
    pace->ns = PACE_KEEP * pace->ns + ns;
    if (n_tokens == pace->least)
        note_least(pace, ns);
    pace->tried *= PACE_TRIED_KEEP; /* kept at the end of a prompt */
    if (n_tokens > pace->tried)
        pace->tried = n_tokens;
    pace->n_took++;
}

static uint32_t between(const struct pace *pace, double n_tokens)
{
    if (n_tokens >= pace->most)
        return pace->most;
    return n_tokens > pace->least ? (uint32_t)n_tokens : pace->least;
}

/* As many tokens as the fixed part is worth, within bounds for a wrong estimate. */
static uint32_t worth(const struct pace *pace, double token_ns)
{
    double tokens_max = 2 * pace->least_ns / token_ns - pace->fixed;
    if (tokens_max > 2 * pace->tried)
        tokens_max = 2 * pace->tried;
    return between(pace, pace->fixed < tokens_max ? pace->fixed : tokens_max);
}

uint32_t pace_tokens(const struct pace *pace)
{
    if (pace->target_ns == 0)
        return pace->most;
    if (pace->tokens <= 0)
        return pace->least;
    double token_ns = marginal_ns(pace);
    if (token_ns <= 0) /* the clock has not advanced */
        return pace->most;
    double fits = (double)pace->target_ns / token_ns - pace->fixed;
    bool is_dear = fits < pace->least || fits < pace->fixed;
    uint32_t tokens = between(pace, fits), dear_tokens = is_dear ? worth(pace, token_ns) : 0;
    if (dear_tokens > tokens)
        tokens = dear_tokens;
    bool is_few = tokens < PACE_FEW * pace->least;
    if (!(is_dear || is_few) || pace->n_took % PACE_PROBE != PACE_PROBE - 1)
        return tokens;
    return between(pace, tokens >= 2 * pace->least ? pace->least : 2.0 * tokens);
}

uint64_t pace_token_ns(const struct pace *pace)
{
    return pace->tokens > 0 ? (uint64_t)(pace->ns / pace->tokens) : 0;
}
