/* sampling: each parameter has its range and is refused by name and value. */
#include "sampling_params/sampling_params.h"

#include <criterion/criterion.h>
#include <math.h>

#define BAD(member, number, field_said, value_said)                                                \
    do {                                                                                           \
        struct sampling_params params = SAMPLING_GREEDY;                                           \
        struct sampling_fault fault;                                                               \
        params.member = number;                                                                    \
        cr_assert(sampling_find_fault(&params, 100, &fault), "%s is %s", field_said, value_said);  \
        cr_assert_str_eq(fault.field, field_said);                                                 \
        cr_assert_str_eq(fault.value, value_said);                                                 \
    } while (0)

#define GOOD(member, number)                                                                       \
    do {                                                                                           \
        struct sampling_params params = SAMPLING_GREEDY;                                           \
        struct sampling_fault fault;                                                               \
        params.member = number;                                                                    \
        cr_assert_not(sampling_find_fault(&params, 100, &fault), "%s", fault.field);               \
    } while (0)

Test(sampling, refuses_parameters_by_name)
{
    BAD(temperature, NAN, "temperature", "nan");
    BAD(temperature, -0.1f, "temperature", "-0.1");
    BAD(temperature, INFINITY, "temperature", "inf");
    BAD(temperature, 100.5f, "temperature", "100.5");
    BAD(top_p, 0, "top_p", "0");
    BAD(top_p, 1.01f, "top_p", "1.01");
    BAD(top_p, NAN, "top_p", "nan");
    BAD(min_p, 1.001f, "min_p", "1.001");
    BAD(min_p, -1, "min_p", "-1");
    BAD(min_p, NAN, "min_p", "nan");
    BAD(typical_p, 0, "typical_p", "0");
    BAD(typical_p, 1.001f, "typical_p", "1.001");
    BAD(typical_p, NAN, "typical_p", "nan");
    BAD(epsilon_cutoff, 1, "epsilon_cutoff", "1");
    BAD(epsilon_cutoff, -0.5f, "epsilon_cutoff", "-0.5");
    BAD(epsilon_cutoff, NAN, "epsilon_cutoff", "nan");
    BAD(eta_cutoff, 1, "eta_cutoff", "1");
    BAD(eta_cutoff, -0.5f, "eta_cutoff", "-0.5");
    BAD(eta_cutoff, NAN, "eta_cutoff", "nan");
    BAD(no_repeat_ngram_size, 65, "no_repeat_ngram_size", "65");
    BAD(repetition_penalty, 0, "repetition_penalty", "0");
    BAD(repetition_penalty, 101, "repetition_penalty", "101");
    BAD(repetition_penalty, NAN, "repetition_penalty", "nan");
    BAD(presence_penalty, 2.1f, "presence_penalty", "2.1");
    BAD(presence_penalty, NAN, "presence_penalty", "nan");
    BAD(frequency_penalty, -2.1f, "frequency_penalty", "-2.1");
    BAD(frequency_penalty, NAN, "frequency_penalty", "nan");
    BAD(max_tokens, 0, "max_tokens", "0");
    BAD(n_logprobs, 21, "logprobs", "21");
    BAD(n_stop_token_ids, 17, "stop_token_ids", "17");
}

Test(sampling, takes_the_ends_of_each_range)
{
    GOOD(temperature, 0);
    GOOD(temperature, 100);
    GOOD(top_p, 1e-6f);
    GOOD(top_p, 1);
    GOOD(min_p, 0);
    GOOD(min_p, 1);
    GOOD(typical_p, 1e-6f);
    GOOD(typical_p, 1);
    GOOD(epsilon_cutoff, 0.99f);
    GOOD(eta_cutoff, 0.99f);
    GOOD(no_repeat_ngram_size, 64);
    GOOD(repetition_penalty, 100);
    GOOD(presence_penalty, -2);
    GOOD(frequency_penalty, 2);
    GOOD(n_logprobs, 20);
    GOOD(n_stop_token_ids, 16);
}

Test(sampling, a_stop_id_lies_in_the_vocabulary)
{
    struct sampling_params params = SAMPLING_GREEDY;
    struct sampling_fault fault;
    params.n_stop_token_ids = 2;
    params.stop_token_ids[1] = 100;
    cr_assert(sampling_find_fault(&params, 100, &fault));
    cr_assert_str_eq(fault.field, "stop_token_ids[1]");
    cr_assert_str_eq(fault.value, "100");
    cr_assert_str_eq(fault.wanted, "below the vocabulary, 100");
}

Test(sampling, the_sentence_has_field_value_and_range)
{
    struct sampling_params params = SAMPLING_GREEDY;
    struct error error = {0};
    cr_assert_eq(sampling_check(&params, 100, &error), STATUS_OK);
    params.top_p = 1.5f;
    cr_assert_eq(sampling_check(&params, 100, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "sampling.top_p is 1.5; it must be over 0, at most 1");
}
