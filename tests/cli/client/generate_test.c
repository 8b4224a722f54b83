/* generate: values that do not go together, or are out of range, are refused before a server is called, with exit status 2. */
#include "cli/client/generate_config.h"
#include "cli/command.h"
#include "tests/cli/support/captured.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

struct row {
    char flags[2][96], sentence[120];
};

#define TEN "aaaaaaaaaa"

static struct row rows[] = {
    {{"--beams=4", "--choices=5"},
     "choices is 5; a search of 4 beams (--beams) has no more replies"},
    {{"--beams=2", "--n=16"}, "choices is 16; a search of 2 beams (--beams) has no more replies"},
    {{"--beams=17", ""}, "--beams: 17 is not between 0 and 16"},
    {{"--beams=-1", ""}, "--beams: \"-1\" is not a whole number"},
    {{"--beams=2.5", ""}, "--beams: \"2.5\" is not a whole number"},
    {{"--beams=4", "--length-penalty=10.5"}, "--length-penalty: 10.5 is not between -10 and 10"},
    {{"--beams=4", "--length-penalty=nan"}, "--length-penalty: "},
    {{"--beams=4", "--length-penalty=long"}, "--length-penalty: \"long\" is not a number"},
    {{"--beams=4", "--early-stopping=1"}, "--early-stopping: \"1\" is not one of "},
    {{"--beams=4", "--early-stopping=always"}, "--early-stopping: \"always\" is not one of "},
    {{"--adapter=law=folder", ""}, "adapter is \"law=folder\", expected NAME without model"},
    {{"--adapter=a b", ""}, "adapter is \"a b\", expected a name of 1 to 64 printable ASCII"},
    {{"--adapter=" TEN TEN TEN TEN TEN TEN "abcde", ""},
     "adapter is \"" TEN TEN TEN TEN TEN TEN "abcde\", expected a name"},
    {{"--model=m", "--adapter=law"}, "adapter is \"law\", expected NAME=FOLDER with model"},
    {{"--model=m", "--adapter=law="}, "adapter is \"law=\", expected NAME=FOLDER with model"},
    {{"--model=m", "--adapter==folder"}, "adapter is \"\", expected a name of 1 to 64"},
    {{"--priority=1.5", ""}, "priority is 1.5; it must be a whole number"},
};

ParameterizedTestParameters(generate, what_does_not_fit_is_misuse)
{
    return cr_make_param_array(struct row, rows, sizeof rows / sizeof *rows);
}

ParameterizedTest(struct row *row, generate, what_does_not_fit_is_misuse)
{
    static char *environment[] = {NULL};
    char text[] = "In the beginning", told[1024] = "";
    char *argv[] = {row->flags[0], row->flags[1][0] ? row->flags[1] : text, text, NULL};
    const struct config_input input = {.command = "kvferry generate",
                                       .usage = "[TEXT]",
                                       .argc = row->flags[1][0] ? 3 : 2,
                                       .argv = argv,
                                       .environment = environment};
    struct captured captured;
    captured_begin(&captured, stderr);
    const int exit_status = generate_main(&input);
    captured_end(&captured, told, sizeof told);
    cr_expect_eq(exit_status, CONFIG_EXIT_MISUSED);
    cr_expect(strstr(told, row->sentence), "%s: %s", row->flags[0], told);
}
