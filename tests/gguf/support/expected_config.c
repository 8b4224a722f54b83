#include "tests/gguf/support/expected_config.h"

#include <criterion/criterion.h>
#include <stdlib.h>

void expect_config(const json_t *config, const char *text)
{
    json_error_t at;
    json_t *expected = json_loads(text, 0, &at);
    cr_assert(expected, "%s", at.text);
    char *got = json_dumps(config, JSON_SORT_KEYS | JSON_INDENT(1));
    cr_expect(json_equal(config, expected), "%s", got);
    free(got);
    json_decref(expected);
}
