/* digests SET [EACH]: what a set computes, a line and a digest for each operator, then for every EACHth case of the short
 * table of attention. Two machines that print the same lines compute the same bits. It needs no test framework, so that
 * it is built for a machine by a C compiler alone. Ends with 1 if the set does not run here, 2 for wrong arguments. */
#include "tests/kernels/cases/run.h"
#include "tests/kernels/digests/digest.h"
#include "tests/kernels/digests/operators.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t digest_result(const struct case_data *data, const struct case_result *result)
{
    const struct attention_case *c = data->test_case;
    uint64_t digest = DIGEST_BEGIN;
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        for (uint32_t r = 0; r < data->n_rows; r++) {
            const size_t row = (size_t)layer * data->n_rows + r;
            if (!result->is_computed[r])
                continue;
            digest = digest_floats(digest, result->output + row * data->q_width, data->q_width);
            digest = digest_floats(digest, result->lse + row * c->n_heads, c->n_heads);
        }
    for (uint32_t i = 0; i < result->n_caches; i++)
        digest = digest_bytes(digest, result->caches[i].data, result->cache_bytes[i]);
    return digest;
}

/* False: the case could not be run. */
static bool print_case(const struct attention_backend *backend, uint32_t number)
{
    const struct attention_case c = case_make(number);
    struct case_data data;
    struct case_result result;
    struct error error = {""};
    if (case_exclusion(&c))
        return true;
    if (!case_data_init(&c, &data, &error)) {
        fprintf(stderr, "digests: case %u: %s\n", number, error.text);
        return false;
    }
    case_run(&data, &(struct case_options){.backend = backend, .only = CASE_ALL}, &result);
    const bool is_run = result.problem[0] == '\0';
    if (is_run)
        printf("attention case %u %016" PRIx64 "\n", number, digest_result(&data, &result));
    else
        fprintf(stderr, "digests: case %u: %s\n", number, result.problem);
    case_result_finish(&result);
    case_data_finish(&data);
    return is_run;
}

int main(int argc, char **argv)
{
    const struct kernels *kernels;
    struct error error = {""};
    char *end = "";
    const unsigned long each = argc > 2 ? strtoul(argv[2], &end, 10) : 1;
    if (argc < 2 || argc > 3 || *end != '\0' || each == 0 || each > UINT32_MAX) {
        fprintf(stderr, "usage: digests SET [EACH]; EACH is a number from 1 on\n");
        return 2;
    }
    if (kernels_select(argv[1], &kernels, &error) != STATUS_OK) {
        fprintf(stderr, "digests: %s\n", error.text);
        return 1;
    }
    operators_print(kernels);
    bool is_whole = true;
    for (uint32_t number = 0, n = 0; number < case_count(); number++)
        if (case_is_in_short_table(number) && n++ % each == 0)
            is_whole &= print_case(kernels->attention, number);
    return is_whole ? 0 : 1;
}
