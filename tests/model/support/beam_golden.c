#include "tests/model/support/beam_golden.h"

#include "tests/model/support/golden.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

struct beam_params beam_golden_params(const json_t *entry)
{
    const json_t *early = json_object_get(entry, "early_stopping");
    return (struct beam_params){
        .n_beams = (uint32_t)json_integer_value(json_object_get(entry, "n_beams")),
        .length_penalty = (float)json_number_value(json_object_get(entry, "length_penalty")),
        .early_stopping = json_is_string(early) ? EARLY_STOPPING_NEVER
                          : json_is_true(early) ? EARLY_STOPPING_TRUE
                                                : EARLY_STOPPING_FALSE};
}

void beam_golden_compare(const struct beam_search *search, const json_t *entry, double absolute,
                         double relative, const char *where, size_t at)
{
    const json_t *replies = json_object_get(entry, "replies");
    cr_assert_eq(beam_search_n_results(search), json_array_size(replies), "%s, case %zu", where,
                 at);
    for (uint32_t i = 0; i < beam_search_n_results(search); i++) {
        const json_t *reply = json_array_get(replies, i);
        const double score = json_number_value(json_array_get(reply, 0));
        const struct beam_result result = beam_search_result(search, i);
        uint32_t n;
        uint32_t *wanted = golden_ids(json_array_get(reply, 1), &n);
        uint32_t *tokens = calloc(result.n_tokens, sizeof *tokens);
        cr_assert_not_null(tokens);
        beam_search_tokens(search, i, tokens);
        cr_assert_eq(result.n_tokens, n, "%s, case %zu, reply %u: %u tokens, wanted %u", where, at,
                     i, result.n_tokens, n);
        cr_assert_arr_eq(tokens, wanted, n * sizeof *wanted, "%s, case %zu, reply %u", where, at,
                         i);
        cr_assert_float_eq(result.score, score, absolute + relative * fabs(score),
                           "%s, case %zu, reply %u: %g, wanted %g", where, at, i,
                           (double)result.score, score);
        free(tokens);
        free(wanted);
    }
}
