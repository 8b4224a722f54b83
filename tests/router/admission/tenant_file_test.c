/* tenant_file: every key in YAML and JSON; whatever is wrong is refused with file, line, key and value. */
#include "router/admission/tenant_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HASH_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static char path[] = "/tmp/tenants.XXXXXX";
static struct tenant_row *rows;
static uint32_t n_rows;
static struct error error;

static enum status read_text(const char *text)
{
    memcpy(path + strlen(path) - 6, "XXXXXX", 6);
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    memset(&error, 0, sizeof error);
    enum status status = tenant_file_read(path, &rows, &n_rows, &error);
    unlink(path);
    return status;
}

static void expect_whole(const struct tenant_row *row)
{
    cr_assert_str_eq(row->tenant, "acme");
    cr_assert_str_eq(row->group, "family");
    cr_assert_eq(row->hash.bytes[0], 0xaa);
    cr_assert_eq(row->methods,
                 TENANT_METHOD_BIT(TENANT_GENERATE) | TENANT_METHOD_BIT(TENANT_REFLECTION));
    cr_assert_eq(row->requests_a_second_milli, 2500);
    cr_assert_eq(row->tokens_a_minute, 60000);
    cr_assert_eq(row->requests_at_once, 8);
    cr_assert_eq(row->weight, 3);
    cr_assert_eq(row->priority, -5);
    cr_assert_eq(tenant_row_priority_max(row), 10);
}

Test(tenant_file, has_every_key_in_yaml_and_json)
{
    cr_assert_eq(read_text("# people\ntokens:\n  - tenant: acme\n    sha256: " HASH_A "\n"
                           "    methods: [Generate, reflection]\n    requests_per_second: 2.5\n"
                           "    tokens_per_minute: 60000\n    requests_at_once: 8\n"
                           "    shares_prefix_cache: family\n"
                           "    weight: 3\n    priority: -5\n    priority_max: 10\n"
                           "  - {tenant: b.c-d_9, sha256: " HASH_B "}\n"),
                 STATUS_OK, "%s", error.text);
    cr_assert_eq(n_rows, 2);
    expect_whole(&rows[0]);
    cr_assert_str_eq(rows[1].tenant, "b.c-d_9");
    cr_assert_eq(rows[1].methods, TENANT_PUBLIC_METHODS);
    cr_assert_eq(
        rows[1].requests_a_second_milli + rows[1].tokens_a_minute + rows[1].requests_at_once, 0);
    cr_assert_eq(rows[1].weight, 0);
    cr_assert_eq(tenant_row_priority_max(&rows[1]), 0);
    free(rows);
    cr_assert_eq(read_text("{\"tokens\": [{\"tenant\": \"acme\", \"sha256\": \"" HASH_A
                           "\", \"methods\": "
                           "[\"Generate\", \"reflection\"], \"requests_per_second\": 2.5, "
                           "\"tokens_per_minute\": 60000, \"requests_at_once\": 8, "
                           "\"shares_prefix_cache\": \"family\", \"weight\": 3, \"priority\": -5, "
                           "\"priority_max\": 10}]}"),
                 STATUS_OK, "%s", error.text);
    cr_assert_eq(n_rows, 1);
    expect_whole(&rows[0]);
    free(rows);
}

#define ROW(more) "tokens:\n- tenant: acme\n  sha256: " HASH_A "\n" more

static void expect_corrupt(const char *text, const char *sentence)
{
    cr_expect_eq(read_text(text), STATUS_CORRUPT, "%s", text);
    cr_expect(strstr(error.text, sentence), "%s: %s", sentence, error.text);
    cr_expect(!strstr(error.text, "secret"), "what may be a token is not repeated");
}

Test(tenant_file, says_line_key_and_value_of_what_is_wrong)
{
    static const struct {
        const char *text, *sentence;
    } CASES[] = {
        {"", "no row"},
        {"tokens: []\n", "no row"},
        {"token:\n- tenant: a\n", ":1: found \"token\" in place of"},
        {"- tenant: a\n", ":1: a list, where none can be"},
        {ROW("tokens: []\n"), ":4: found \"tokens\" in place of"},
        {ROW("  tokens_per_minut: 5\n"),
         ":4: unknown key \"tokens_per_minut\"; did you mean tokens_per_minute?"},
        {ROW("  tokens_per_minute: many\n"),
         ":4: tokens_per_minute is \"many\"; it must be a number from 1 to 50000000"},
        {ROW("  tokens_per_minute: 0\n"), "tokens_per_minute is \"0\""},
        {ROW("  tokens_per_minute: 99999999999999999999\n"), "tokens_per_minute is"},
        {ROW("  requests_per_second: -1\n"),
         "requests_per_second is \"-1\"; it must be a number from 0.001 to 100000"},
        {ROW("  requests_per_second: 0.0001\n"), "requests_per_second is"},
        {ROW("  requests_per_second: 1.\n"), "requests_per_second is"},
        {ROW("  requests_per_second: 1e3\n"), "requests_per_second is"},
        {ROW("  requests_at_once: [1]\n"), ":4: a list, where none can be"},
        {ROW("  requests_at_once: 1\n  requests_at_once: 1\n"),
         ":5: requests_at_once is given twice"},
        {ROW("  methods: Generate\n"), ":4: methods must be a list"},
        {ROW("  methods: [Generate, Genrate]\n"),
         ":4: methods has \"Genrate\", which is not a method; did you mean Generate?"},
        {ROW("  methods: [Generate, Generate]\n"), ":4: methods has \"Generate\" twice"},
        {ROW("  methods: {a: b}\n"), ":4: keys and values, where none can be"},
        {ROW("  shares_prefix_cache: a b\n"), ":4: shares_prefix_cache: \"a b\" is not a name"},
        {ROW("- tenant: acme\n  sha256: " HASH_A "\n"),
         ":4: tenant acme: the row at line 2 has the same sha256"},
        {ROW("- tenant: acme\n  sha256: " HASH_B "\n  requests_at_once: 2\n"),
         ":4: tenant acme: the row at line 2 gives the same tenant other quotas"},
        {"tokens:\n- sha256: " HASH_A "\n", ":2: a row without tenant"},
        {"tokens:\n- tenant: acme\n", ":2: a row without sha256"},
        {"tokens:\n- tenant: acme\n  sha256: kvf_secret\n",
         ":3: sha256 has 10 characters and is not a hash"},
        {"tokens:\n- tenant: \"a\\nb\"\n", ":2: tenant: \"a?b\" is not a name"},
        {"tokens:\n- &a tenant\n- *a\n", ":2: expected `tokens:` and a list of rows"},
        {ROW("  methods: [Generate\n"), "did not find expected"},
        {ROW("---\ntokens: []\n"), ":5: keys and values, where none can be"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        expect_corrupt(CASES[i].text, CASES[i].sentence);
}

Test(tenant_file, says_the_same_of_weights_and_priorities)
{
    static const struct {
        const char *text, *sentence;
    } CASES[] = {
        {ROW("  weight: 0\n"), ":4: weight is \"0\"; it must be a number from 1 to 1000"},
        {ROW("  weight: 1001\n"), ":4: weight is \"1001\""},
        {ROW("  priority: 101\n"), ":4: priority is \"101\"; it must be a number from -100 to 100"},
        {ROW("  priority: --1\n"), ":4: priority is \"--1\""},
        {ROW("  priority: '-'\n"), ":4: priority is \"-\""},
        {ROW("  priority_max: -101\n"), ":4: priority_max is \"-101\""},
        {ROW("  priority_max: 99999999999\n"), ":4: priority_max is"},
        {ROW("  priority: 1\n  priority_max: 0\n"), ":2: priority is 1, over priority_max, 0"},
        {ROW("- tenant: acme\n  sha256: " HASH_B "\n  weight: 2\n"),
         ":4: tenant acme: the row at line 2 gives the same tenant another weight"},
        {ROW("- tenant: acme\n  sha256: " HASH_B "\n  priority_max: 2\n"),
         ":4: tenant acme: the row at line 2 gives the same tenant another weight"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        expect_corrupt(CASES[i].text, CASES[i].sentence);
}

Test(tenant_file, a_file_that_is_none_is_refused)
{
    cr_assert_eq(tenant_file_read("/nowhere/tokens", &rows, &n_rows, &error), STATUS_NOT_FOUND);
    cr_assert_eq(tenant_file_read("/tmp", &rows, &n_rows, &error), STATUS_CORRUPT);
}

Test(tenant_file, every_public_method_has_a_bit)
{
    cr_assert_eq(tenant_method_of_path("/kvferry.v1.GenerationService/Complete"), TENANT_COMPLETE);
    cr_assert_eq(
        tenant_method_of_path("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
        TENANT_REFLECTION);
    cr_assert_eq(tenant_method_of_path("/kvferry.internal.v1.AdminService/GetState"),
                 TENANT_N_METHODS);
    cr_assert_eq(TENANT_PUBLIC_METHODS & TENANT_METHOD_BIT(TENANT_REFLECTION), 0);
}
