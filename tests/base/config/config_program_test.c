/* config: what a command knows of the whole program (variables, groups of rows), and lists of texts. */
#include "base/config/config.h"
#include "tests/base/support/config_sample.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- variables of the whole program ---- */

#define OTHER_CONFIG(X)                                                                            \
    X(other_row, STRING, "", "", "of another command")                                             \
    X(other_address, STRING, "", "", "where another command listens")
CONFIG_DECLARE(other_config, OTHER_CONFIG);
CONFIG_DEFINE(other_config, OTHER_CONFIG, CONFIG_NO_ALIASES)

static const struct config_program *program(void)
{
    static const char *const variables[] = {"KVFERRY_CPU", NULL};
    static const struct config_group groups[] = {
        {"Firsts", "seed nothing ratio"}, {"Empty", "nothing"}, {NULL, NULL}};
    static const struct config_table *tables[3];
    static const struct config_program found = {tables, variables, groups};
    tables[0] = sample_config_table();
    tables[1] = other_config_table();
    return &found;
}

Test(config_program, variables_of_the_program_and_of_kubernetes_are_no_mistake)
{
    struct loaded loaded;
    load_ok(&(struct given){.program = program(),
                            .environment = {"KVFERRY_OTHER_ROW=x", "KVFERRY_CPU=x",
                                            "KVFERRY_PARENT=2", "KVFERRY_STRICT_ENVIRONMENT=yes",
                                            "SEDE=1", "KVFERRYSEDE=1"}},
            &loaded);
    cr_expect_null(config_warning(loaded.config, 0));
    config_destroy(loaded.config);
}

/* What a pod gets for Services called kvferry, kvferry-a-b and kvferry-port. */
Test(config_program, links_of_kubernetes_are_no_mistake)
{
    static const char *const SETS[][12] = {
        {"KVFERRY_SERVICE_HOST=10.0.0.1", "KVFERRY_SERVICE_PORT=8080",
         "KVFERRY_SERVICE_PORT_GRPC=8080", "KVFERRY_PORT=tcp://10.0.0.1:8080",
         "KVFERRY_PORT_8080_TCP=tcp://10.0.0.1:8080", "KVFERRY_PORT_8080_TCP_PROTO=tcp",
         "KVFERRY_PORT_8080_TCP_PORT=8080", "KVFERRY_PORT_8080_TCP_ADDR=10.0.0.1"},
        {"KVFERRY_A_B_PORT_8080_TCP_ADDR=x", "KVFERRY_A_B_PORT_8080_TCP_PORT=x",
         "KVFERRY_A_B_PORT=x", "KVFERRY_A_B_SERVICE_PORT_HTTP_METRICS=x",
         "KVFERRY_A_B_SERVICE_PORT=x", "KVFERRY_A_B_SERVICE_HOST=x"},
        {"KVFERRY_PORT_PORT=x", "KVFERRY_PORT_SERVICE_HOST=x", "KVFERRY_PORT_SERVICE_PORT=x",
         "KVFERRY_PORT_PORT_80_UDP_ADDR=x"},
    };
    for (size_t i = 0; i < sizeof SETS / sizeof *SETS; i++) {
        struct given given = {.program = program()};
        struct loaded loaded;
        memcpy(given.environment, SETS[i], sizeof SETS[i]);
        load_ok(&given, &loaded);
        cr_expect_null(config_warning(loaded.config, 0), "%s", config_warning(loaded.config, 0));
        config_destroy(loaded.config);
    }
}

/* One of a set alone, one of another set, and what no set has. */
Test(config_program, what_only_looks_like_a_link_is_warned_of)
{
    static const struct {
        const char *variables[4], *sentence;
    } CASES[] = {
        {{"KVFERRY_METRICS_PORT=9400"}, "no command knows the variable KVFERRY_METRICS_PORT"},
        {{"KVFERRY_OTHER_PORT=x"},
         "no command knows the variable KVFERRY_OTHER_PORT; did you "
         "mean KVFERRY_OTHER_ADDRESS?"},
        {{"KVFERRY_SERVICE_HOST=x"}, "no command knows the variable KVFERRY_SERVICE_HOST"},
        {{"KVFERRY_SEED_PORT=x", "KVFERRY_SERVICE_HOST=x", "KVFERRY_PORT=x"},
         "no command knows the variable KVFERRY_SEED_PORT"},
        {{"KVFERRY_PORT_RANGE=x", "KVFERRY_SERVICE_HOST=x", "KVFERRY_PORT=x"},
         "no command knows the variable KVFERRY_PORT_RANGE"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct given given = {.program = program()};
        struct loaded loaded;
        memcpy(given.environment, CASES[i].variables, sizeof CASES[i].variables);
        load_ok(&given, &loaded);
        cr_assert_not_null(config_warning(loaded.config, 0), "%s", CASES[i].sentence);
        cr_expect_str_eq(config_warning(loaded.config, 0), CASES[i].sentence);
        cr_expect_null(config_warning(loaded.config, 1));
        config_destroy(loaded.config);
    }
}

Test(config_program, a_variable_that_nobody_knows_is_warned_of_or_stops)
{
    static const struct {
        const char *variable, *sentence;
    } CASES[] = {
        {"KVFERRY_SEEDS=1", "no command knows the variable KVFERRY_SEEDS; did you mean "
                            "KVFERRY_SEED?"},
        {"KVFERRY_BLOCK_SIZE=1", "no command knows the variable KVFERRY_BLOCK_SIZE; did you mean "
                                 "KVFERRY_BLOCK_TOKENS?"},
        {"KVFERRY_OTHER_RAW=1", "no command knows the variable KVFERRY_OTHER_RAW; did you mean "
                                "KVFERRY_OTHER_ROW?"},
        {"KVFERRY_CPUS=1", "no command knows the variable KVFERRY_CPUS; did you mean KVFERRY_CPU?"},
        {"KVFERRY_ZEBRA=1", "no command knows the variable KVFERRY_ZEBRA"},
    };
    for (unsigned i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct given given = {.program = program(), .environment = {CASES[i].variable}};
        struct loaded loaded;
        load_ok(&given, &loaded);
        cr_assert_not_null(config_warning(loaded.config, 0));
        cr_expect_str_eq(config_warning(loaded.config, 0), CASES[i].sentence);
        cr_expect_null(config_warning(loaded.config, 1));
        config_destroy(loaded.config);

        given.arguments[0] = "--strict-environment";
        cr_expect_eq(load(&given, &loaded), STATUS_INVALID_ARGUMENT);
        cr_expect_str_eq(loaded.error.text, CASES[i].sentence);
        given.arguments[0] = NULL;
        given.environment[1] = "KVFERRY_STRICT_ENVIRONMENT=1";
        cr_expect_eq(load(&given, &loaded), STATUS_INVALID_ARGUMENT);
    }
}

Test(config_program, the_flag_of_strictness_comes_before_its_variable)
{
    struct loaded loaded;
    load_ok(&(struct given){.program = program(),
                            .arguments = {"--strict-environment=no"},
                            .environment = {"KVFERRY_STRICT_ENVIRONMENT=1", "KVFERRY_ZEBRA=1"}},
            &loaded);
    cr_expect_not_null(config_warning(loaded.config, 0));
    config_destroy(loaded.config);
    cr_expect_eq(
        load(&(struct given){.program = program(),
                             .arguments = {"--strict-environment=yes"},
                             .environment = {"KVFERRY_STRICT_ENVIRONMENT=0", "KVFERRY_ZEBRA=1"}},
             &loaded),
        STATUS_INVALID_ARGUMENT);
}

Test(config_program, what_was_read_is_taken_from_the_environment)
{
    static const char *const GONE[] = {"KVFERRY_SEED", "KVFERRY_CONFIG", "KVFERRY_ZEBRA",
                                       "KVFERRY_STRICT_ENVIRONMENT"};
    static const char *const KEPT[] = {"KVFERRY_OTHER_ROW", "KVFERRY_CPU", "KVFERRY_SERVICE_HOST",
                                       "KVFERRY_PORT"};
    struct loaded loaded;
    load_ok(&(struct given){.program = program(), .environment = {"KVFERRY_SEED=9"}}, &loaded);
    for (unsigned i = 0; i < 4; i++) {
        setenv(GONE[i], "1", 1);
        setenv(KEPT[i], "1", 1);
    }
    config_forget_environment(loaded.config);
    for (unsigned i = 0; i < 4; i++) {
        cr_expect_null(getenv(GONE[i]), "%s", GONE[i]);
        cr_expect_not_null(getenv(KEPT[i]), "%s", KEPT[i]);
    }
    cr_expect_eq(loaded.values.seed, 9);
    config_destroy(loaded.config);
}

Test(config_program, rows_are_shown_in_their_groups)
{
    struct loaded loaded;
    char *text = NULL;
    size_t bytes;
    load_ok(&(struct given){.arguments = {"-h"}, .program = program()}, &loaded);
    FILE *out = open_memstream(&text, &bytes);
    cr_assert(config_answer(loaded.config, out));
    fclose(out);
    config_destroy(loaded.config);
    const char *firsts = strstr(text, "\nFirsts\n  --seed VALUE\n");
    const char *ratio = strstr(text, "\n  --ratio VALUE\n"), *others = strstr(text, "\nFlags\n");
    cr_assert(firsts && ratio && others, "%s", text);
    cr_expect(firsts < ratio && ratio < others && others < strstr(text, "  --colour "));
    cr_expect_null(strstr(ratio + 1, "--seed"), "shown once");
    cr_expect_null(strstr(text, "Empty"));
    free(text);
}

/* ---- lists ---- */

static void expect_texts(const struct given *given, const char *first, const char *second,
                         const char *source)
{
    struct loaded loaded;
    load_ok(given, &loaded);
    const struct config_list *texts = &loaded.values.texts;
    cr_assert_eq(texts->n, (first != NULL) + (second != NULL));
    cr_expect(!first || strcmp(texts->texts[0], first) == 0);
    cr_expect(!second || strcmp(texts->texts[1], second) == 0);
    cr_expect_eq(strncmp(config_source(loaded.config, "texts"), source, strlen(source)), 0, "%s",
                 config_source(loaded.config, "texts"));
    config_destroy(loaded.config);
}

Test(config_program, a_list_is_whole_from_one_source)
{
    expect_texts(&(struct given){.yaml = NULL}, NULL, NULL, "default");
    expect_texts(&(struct given){.arguments = {"--texts", "a,b", "--texts= c"}}, "a,b", " c",
                 "flag --texts");
    expect_texts(&(struct given){.environment = {"KVFERRY_TEXTS=a, b"}}, "a, b", NULL,
                 "environment KVFERRY_TEXTS");
    expect_texts(&(struct given){.environment = {"KVFERRY_TEXTS="}, .yaml = "texts: x\n"}, NULL,
                 NULL, "environment KVFERRY_TEXTS");
    expect_texts(&(struct given){.yaml = "texts: [a, \"b\\n\"]\n"}, "a", "b\n", P_tmpdir);
    expect_texts(&(struct given){.yaml = "seed: 1\ntexts:\n- a\n- b\nratio: 1\n"}, "a", "b",
                 P_tmpdir);
    expect_texts(&(struct given){.yaml = "texts: []\n"}, NULL, NULL, P_tmpdir);
    expect_texts(&(struct given){.yaml = "texts: one\n"}, "one", NULL, P_tmpdir);
    expect_texts(&(struct given){.arguments = {"--texts=z"},
                                 .environment = {"KVFERRY_TEXTS=y"},
                                 .yaml = "texts: [a, b]\n"},
                 "z", NULL, "flag --texts");
}

Test(config_program, a_list_is_bounded)
{
    char text[16 + 4 * (CONFIG_LIST_MAX + 1)] = "texts:\n";
    struct loaded loaded;
    size_t length = strlen(text);
    for (int i = 0; i < CONFIG_LIST_MAX; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "- a\n");
    load_ok(&(struct given){.yaml = text}, &loaded);
    cr_expect_eq(loaded.values.texts.n, CONFIG_LIST_MAX);
    config_destroy(loaded.config);
    snprintf(text + length, sizeof text - length, "- a\n");
    cr_expect_eq(load(&(struct given){.yaml = text}, &loaded), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(loaded.error.text, "texts: more than 64 texts"), "%s", loaded.error.text);
}
