/* engine_fields: an error says the names of the client's protocol, in its field and at the start of its sentence. */
#include "api/engine/engine_fields.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const struct engine_field FIELDS[] = {
    {"prompt", "tokenized.input_ids"},
    {"list[#].bias", "map[#].value"},
    {"sampling.n", "count"},
    {"sampling", "params"},
    {0},
};

static void expect(const char *field, const char *wanted)
{
    struct rpc_error error = {0};
    char sentence[200];
    rpc_error_set(&error, STATUS_INVALID_ARGUMENT, field, "5", "%s is 5", field);
    engine_fields_rename(FIELDS, &error);
    cr_expect_str_eq(error.field, wanted);
    snprintf(sentence, sizeof sentence, "%s is 5", wanted);
    cr_expect_str_eq(error.message, sentence);
    cr_expect_str_eq(error.value, "5");
}

Test(engine_fields, the_first_row_that_fits_renames)
{
    expect("prompt", "tokenized.input_ids");
    expect("sampling.n", "count");
    expect("sampling.n[2].x", "count[2].x");
    expect("sampling.top_p", "params.top_p");
    expect("list[17].bias", "map[17].value");
}

Test(engine_fields, other_names_stay)
{
    expect("sampling_params.n", "sampling_params.n");
    expect("prompts", "prompts");
    expect("list[17].biases", "list[17].biases");
    expect("list[17]", "list[17]");
    expect("x", "x");
}

Test(engine_fields, only_the_start_of_a_sentence_is_a_name)
{
    struct rpc_error error = {0};
    rpc_error_set(&error, STATUS_QUEUE_FULL, NULL, NULL, "the prompt waits");
    engine_fields_rename(FIELDS, &error);
    cr_expect_str_eq(error.message, "the prompt waits");
    cr_expect_str_eq(error.field, "");
    rpc_error_set(&error, STATUS_INVALID_ARGUMENT, "sampling.n", NULL, "sampling.n: of \"%0300d\"",
                  0);
    engine_fields_rename(FIELDS, &error);
    cr_expect_eq(strncmp(error.message, "count: of", 9), 0);
}
