/* ruled_sampling - whatever a peer sends as the sampling of a request with rules is refused with a sentence, or is inside every bound:
 * it can be copied, sent on as it was, and drawn with.
 *
 *     input: a RuledSampling
 */
#include "kernels/cuda/sampling_parameters.h"
#include "model/sampling/draw.h"
#include "model/sampling/penalties.h"
#include "rpc/guard.h"
#include "sampling_params/sampling_codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 512, N_PROMPT = 2, N_TOKENS = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static const struct rpc_guard_limits LIMITS = {RPC_GUARD_DEPTH_MAX, 1u << 17,
                                               RPC_GUARD_UNKNOWN_MAX};

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* Every entry is of a token, once, and no number but infinity. */
static void check_penalties(const struct sampling_params *params)
{
    static const uint32_t TOKENS[N_TOKENS] = {1, 2, 3, 1, 1, 2, 3, 4};
    const struct draw draw = {
        .params = params, .tokens = TOKENS, .n_prompt = N_PROMPT, .n_tokens = N_TOKENS};
    bool is_seen[VOCABULARY] = {false};
    struct penalties penalties;
    require(penalties_init(&penalties, VOCABULARY) == STATUS_OK);
    penalties_set_ends(&penalties, (const uint32_t[]){3, 9}, 2);
    const uint32_t n = penalties_make(&penalties, &draw);
    for (uint32_t i = 0; i < n; i++) {
        const struct sampling_penalty *entry = &penalties.list[i];
        require(entry->id < VOCABULARY && !is_seen[entry->id] && !isnan(entry->subtract));
        is_seen[entry->id] = true;
    }
    penalties_finish(&penalties);
}

static bool is_same_text(const struct reply_constraint *a, const struct reply_constraint *b)
{
    bool is_same = a->kind == b->kind && a->n_texts == b->n_texts;
    for (uint32_t i = 0; is_same && i < a->n_texts; i++)
        is_same = strcmp(a->texts[i], b->texts[i]) == 0;
    return is_same;
}

/* Sent on, it is the same. */
static void check_again(const struct sampling_params *params)
{
    struct sampling_params own = *params, again;
    struct token_rules *copy = params->rules ? token_rules_copy(params->rules) : NULL;
    struct token_rules rules;
    struct sampling_message message;
    struct error error = {0};
    own.rules = copy;
    sampling_message_make(&own, &message);
    require(sampling_message_decode(message.sampling, message.ruled_sampling, VOCABULARY, &again,
                                    &rules, &error) == STATUS_OK);
    require(again.min_tokens == params->min_tokens && !again.rules == !params->rules);
    require(again.scores_prompt == params->scores_prompt &&
            again.n_prompt_logprobs == params->n_prompt_logprobs &&
            again.n_prompt_logprobs <= LOGPROBS_MAX);
    if (copy)
        require(rules.n_biases == params->rules->n_biases &&
                rules.n_allowed == params->rules->n_allowed &&
                rules.n_bad == params->rules->n_bad &&
                is_same_text(&rules.constraint, &params->rules->constraint) &&
                (rules.n_bad_ids == 0 || memcmp(rules.bad_ids, params->rules->bad_ids,
                                                rules.n_bad_ids * sizeof *rules.bad_ids) == 0));
    check_penalties(&own);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    const ProtobufCMessageDescriptor
        *descriptor = &kvferry__internal__v1__ruled_sampling__descriptor;
    struct rpc_arena arena;
    struct rpc_error refusal;
    ProtobufCMessage *message;
    rpc_arena_init(&arena);
    rpc_arena_reset(&arena, (256u << 10) + 8 * n_bytes);
    if (rpc_guard_unpack(descriptor, bytes, n_bytes, &LIMITS, &arena, &refusal, &message) ==
        STATUS_OK) {
        struct sampling_params params;
        struct token_rules rules;
        struct error error = {0};
        if (sampling_message_decode(NULL, (Kvferry__Internal__V1__RuledSampling *)message,
                                    VOCABULARY, &params, &rules, &error) == STATUS_OK)
            check_again(&params);
        else
            require(error.text[0] != '\0');
    }
    rpc_arena_finish(&arena);
    return 0;
}
