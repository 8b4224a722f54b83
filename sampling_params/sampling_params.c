#include "sampling_params/sampling_params.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

const struct sampling_params SAMPLING_GREEDY = {
    .temperature = 0,
    .top_p = 1,
    .typical_p = 1,
    .repetition_penalty = 1,
    .max_tokens = 256,
};

struct real_range {
    const char *field;
    size_t offset; /* of the float member in struct sampling_params */
    float low, high;
    bool is_low_out, is_high_out; /* the bound itself is refused */
    const char *wanted;
};

#define REAL(name) .field = #name, .offset = offsetof(struct sampling_params, name)

static const struct real_range REALS[] = {
    {REAL(temperature), .high = 100, .wanted = "0 .. 100"},
    {REAL(top_p), .high = 1, .is_low_out = true, .wanted = "over 0, at most 1"},
    {REAL(min_p), .high = 1, .wanted = "0 .. 1"},
    {REAL(typical_p), .high = 1, .is_low_out = true, .wanted = "over 0, at most 1"},
    {REAL(epsilon_cutoff), .high = 1, .is_high_out = true, .wanted = "0 or more, below 1"},
    {REAL(eta_cutoff), .high = 1, .is_high_out = true, .wanted = "0 or more, below 1"},
    {REAL(repetition_penalty), .high = 100, .is_low_out = true, .wanted = "over 0, at most 100"},
    {REAL(presence_penalty), .low = -2, .high = 2, .wanted = "-2 .. 2"},
    {REAL(frequency_penalty), .low = -2, .high = 2, .wanted = "-2 .. 2"},
};

/* NaN fails every comparison, so it is refused. */
static bool is_inside(float value, const struct real_range *range)
{
    return (range->is_low_out ? value > range->low : value >= range->low) &&
           (range->is_high_out ? value < range->high : value <= range->high);
}

static bool find_in_reals(const struct sampling_params *params, struct sampling_fault *fault_out)
{
    for (size_t i = 0; i < sizeof REALS / sizeof *REALS; i++) {
        float real = *(const float *)((const char *)params + REALS[i].offset);
        char value[32];
        if (is_inside(real, &REALS[i]))
            continue;
        snprintf(value, sizeof value, "%g", (double)real);
        return sampling_fault_set(fault_out, REALS[i].field, value, REALS[i].wanted);
    }
    return false;
}

static bool find_in_stop_ids(const struct sampling_params *params, uint32_t vocabulary,
                             struct sampling_fault *fault_out)
{
    if (params->n_stop_token_ids > STOP_TOKEN_IDS_MAX)
        return sampling_fault_set_count(fault_out, "stop_token_ids", params->n_stop_token_ids,
                                        "at most 16 ids");
    for (uint32_t i = 0; i < params->n_stop_token_ids; i++) {
        char field[32];
        char wanted[48];
        if (params->stop_token_ids[i] < vocabulary)
            continue;
        snprintf(field, sizeof field, "stop_token_ids[%" PRIu32 "]", i);
        snprintf(wanted, sizeof wanted, "below the vocabulary, %" PRIu32, vocabulary);
        return sampling_fault_set_count(fault_out, field, params->stop_token_ids[i], wanted);
    }
    return false;
}

bool sampling_has_rules(const struct sampling_params *params)
{
    return params->min_tokens > 0 || params->no_repeat_ngram_size > 0 || params->rules;
}

/* What a beam search goes without; what it has no use for. */
static bool find_in_beams(const struct sampling_params *params, struct sampling_fault *fault_out)
{
    const struct beam_params *beams = &params->beams;
    char value[32];
    if (beams->n_beams > BEAMS_MAX)
        return sampling_fault_set_count(fault_out, "beam_width", beams->n_beams, "0 .. 16");
    if (!beam_params_search(beams))
        return false;
    if (beams->n_best == 0 || beams->n_best > beams->n_beams)
        return sampling_fault_set_count(fault_out, "n", beams->n_best, "1 .. beam_width");
    snprintf(value, sizeof value, "%g", (double)beams->length_penalty);
    if (!(beams->length_penalty >= -10 && beams->length_penalty <= 10))
        return sampling_fault_set(fault_out, "length_penalty", value, "-10 .. 10");
    if (beams->early_stopping == EARLY_STOPPING_UNKNOWN)
        return sampling_fault_set(fault_out, "early_stopping", "unknown", "FALSE, TRUE or NEVER");
    snprintf(value, sizeof value, "%g", (double)params->temperature);
    if (params->temperature > 0)
        return sampling_fault_set(fault_out, "temperature", value, "0 with beam_width");
    if (params->n_logprobs > 0)
        return sampling_fault_set_count(fault_out, "logprobs", params->n_logprobs,
                                        "0 with beam_width");
    if (params->scores_prompt)
        return sampling_fault_set_count(fault_out, "prompt_logprobs", params->n_prompt_logprobs,
                                        "absent with beam_width");
    if (params->reply_window > 0)
        return sampling_fault_set_count(fault_out, "reply_window", params->reply_window,
                                        "absent with beam_width");
    if (params->rules && params->rules->constraint.kind != REPLY_FREE)
        return sampling_fault_set(fault_out, "constraint", "there", "absent with beam_width");
    return false;
}

static bool find_in_min_tokens(const struct sampling_params *params,
                               struct sampling_fault *fault_out)
{
    char wanted[48];
    if (params->min_tokens <= params->max_tokens)
        return false;
    snprintf(wanted, sizeof wanted, "at most max_tokens, %" PRIu32, params->max_tokens);
    return sampling_fault_set_count(fault_out, "min_tokens", params->min_tokens, wanted);
}

bool sampling_find_fault(const struct sampling_params *params, uint32_t vocabulary,
                         struct sampling_fault *fault_out)
{
    if (find_in_reals(params, fault_out))
        return true;
    if (params->max_tokens == 0)
        return sampling_fault_set(fault_out, "max_tokens", "0", "at least 1");
    if (params->no_repeat_ngram_size > NO_REPEAT_NGRAM_MAX)
        return sampling_fault_set_count(fault_out, "no_repeat_ngram_size",
                                        params->no_repeat_ngram_size, "0 .. 64");
    if (params->n_logprobs > LOGPROBS_MAX)
        return sampling_fault_set_count(fault_out, "logprobs", params->n_logprobs, "0 .. 20");
    if (params->n_prompt_logprobs > LOGPROBS_MAX)
        return sampling_fault_set_count(fault_out, "prompt_logprobs", params->n_prompt_logprobs,
                                        "0 .. 20");
    if (find_in_beams(params, fault_out) || find_in_min_tokens(params, fault_out) ||
        find_in_stop_ids(params, vocabulary, fault_out))
        return true;
    return params->rules && token_rules_find_fault(params->rules, vocabulary, fault_out);
}

enum status sampling_check(const struct sampling_params *params, uint32_t vocabulary,
                           struct error *error)
{
    struct sampling_fault fault;
    if (!sampling_find_fault(params, vocabulary, &fault))
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT, "sampling.%s is %s; it must be %s",
                     fault.field, fault.value, fault.wanted);
}
