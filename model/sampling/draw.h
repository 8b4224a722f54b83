/*
 * draw - one row of logits that a token is drawn from: what for, and what came of it.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"
#include "sampling_params/ranked_row.h"
#include "sampling_params/sampling_params.h"

/* tokens: prompt then generated; the new token's position is n_tokens. */
struct draw {
    const struct sampling_params *params;
    const uint32_t *tokens;
    uint32_t n_prompt, n_tokens;
    const char *mask_fault; /* why the mask is empty; NULL: it is not */
    const uint32_t *
        mask; /* [(vocabulary + 31) / 32] bit i: token i may be drawn, as far as the constraint goes; NULL: there is none */
    struct token_logprobs
        *logprobs;             /* filled where params->n_logprobs is above 0; else it may be NULL */
    struct ranked_row *ranked; /* NULL, or no token is drawn: it gets the first n_ranked tokens */
    uint32_t n_ranked;         /* 1 .. RANKED_ROW_MAX */
    uint32_t token_id;
    /* LOGITS_NOT_FINITE: a NaN among them, or no finite largest. Then token_id is whose logit is at fault. INVALID_ARGUMENT: the
     * request's rules leave no token; CONSTRAINT_UNMET: its mask and its rules do not. */
    enum status status;
    float logit;
};
