/* tenant_file - any text is refused with the file's name and a line, or gives rows that keep what the header
 * promises. */
#include "router/admission/tenant_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

static void check_row(const struct tenant_row *row)
{
    struct error error;
    check(tenant_name_check(row->tenant, &error) == STATUS_OK);
    check(!row->group[0] || tenant_name_check(row->group, &error) == STATUS_OK);
    check(row->methods != 0 && row->methods < TENANT_METHOD_BIT(TENANT_N_METHODS));
    check(row->requests_at_once <= 65536 && row->tokens_a_minute <= 50000000 &&
          row->requests_a_second_milli <= 100000000);
    check(row->line > 0);
}

static void check_pair(const struct tenant_row *a, const struct tenant_row *b)
{
    check(!sha256_equal(&a->hash, &b->hash));
    check(a->line <= b->line); /* of JSON they may stand in one */
    if (strcmp(a->tenant, b->tenant) == 0)
        check(a->requests_a_second_milli == b->requests_a_second_milli &&
              a->tokens_a_minute == b->tokens_a_minute &&
              a->requests_at_once == b->requests_at_once && strcmp(a->group, b->group) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    struct tenant_row *rows;
    uint32_t n;
    struct error error = {0};
    char *text = malloc(n_bytes ? n_bytes : 1); /* so that the sanitizer sees its end */
    if (!text)
        return 0;
    memcpy(text, bytes, n_bytes);
    enum status status = tenant_file_parse(text, n_bytes, "fuzz", &rows, &n, &error);
    free(text);
    if (status != STATUS_OK) {
        check(status == STATUS_CORRUPT && strncmp(error.text, "fuzz:", 5) == 0);
        return 0;
    }
    check(n > 0 && n <= TENANT_ROWS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        check_row(&rows[i]);
        for (uint32_t j = 0; j < i; j++)
            check_pair(&rows[j], &rows[i]);
    }
    free(rows);
    return 0;
}
