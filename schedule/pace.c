#include "schedule/pace.h"

#include <assert.h>

void pace_init(struct pace *pace, uint64_t target_ns, uint32_t least, uint32_t most)
{
    assert(least > 0 && least <= most);
    *pace = (struct pace){.target_ns = target_ns, .least = least, .most = most};
}

/* What a step of so many tokens is believed at most. The target comes on top: short steps vary more. */
static double believed_ns(const struct pace *pace, uint32_t n_tokens, double step_ns)
{
    if (pace->tokens <= 0)
        return step_ns;
    double most_ns = PACE_OUTLIER * (pace->ns / pace->tokens * n_tokens + (double)pace->target_ns);
    return step_ns < most_ns ? step_ns : most_ns;
}

void pace_took(struct pace *pace, uint32_t n_tokens, uint64_t step_ns)
{
    if (n_tokens == 0)
        return;
    double ns = believed_ns(pace, n_tokens, (double)step_ns);
    pace->tokens = PACE_KEEP * pace->tokens + n_tokens;
    pace->ns = PACE_KEEP * pace->ns + ns;
}

uint32_t pace_tokens(const struct pace *pace)
{
    if (pace->target_ns == 0)
        return pace->most;
    if (pace->tokens <= 0)
        return pace->least;
    double fits = (double)pace->target_ns * pace->tokens;
    if (fits >= pace->ns * pace->most) /* also where no time has passed */
        return pace->most;
    uint32_t tokens = (uint32_t)(fits / pace->ns);
    return tokens > pace->least ? tokens : pace->least;
}

uint64_t pace_token_ns(const struct pace *pace)
{
    return pace->tokens > 0 ? (uint64_t)(pace->ns / pace->tokens) : 0;
}
