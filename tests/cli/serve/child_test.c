/* child: arguments are copies in the form --flag=value, and bounded. */
#include "cli/serve/child.h"

#include <criterion/criterion.h>
#include <string.h>

Test(child, arguments_are_copies)
{
    struct child_arguments arguments = {0};
    char value[] = "127.0.0.1:0";
    cr_assert_eq(child_arguments_add(&arguments, "serve", NULL), STATUS_OK);
    cr_assert_eq(child_arguments_add(&arguments, "--grpc-address", value), STATUS_OK);
    cr_assert_eq(child_arguments_add(&arguments, "--name", ""), STATUS_OK);
    value[0] = '?';
    cr_assert_eq(child_arguments_add_path(&arguments, "-x/y"), STATUS_OK);
    cr_assert_eq(child_arguments_add_path(&arguments, "x/-y"), STATUS_OK);
    cr_assert_eq(arguments.n, 5);
    cr_assert_str_eq(arguments.list[0], "serve");
    cr_assert_str_eq(arguments.list[1], "--grpc-address=127.0.0.1:0");
    cr_assert_str_eq(arguments.list[2], "--name=", "an empty value stays a value");
    cr_assert_str_eq(arguments.list[3], "./-x/y", "no flag");
    cr_assert_str_eq(arguments.list[4], "x/-y");
    child_arguments_finish(&arguments);
    cr_assert_eq(arguments.n, 0);
}

Test(child, arguments_are_bounded)
{
    struct child_arguments arguments = {0};
    for (int i = 0; i < CHILD_ARGUMENTS_MAX; i++)
        cr_assert_eq(child_arguments_add(&arguments, "-x", NULL), STATUS_OK);
    cr_assert_eq(child_arguments_add(&arguments, "-x", NULL), STATUS_NO_MEMORY);
    cr_assert_eq(arguments.n, CHILD_ARGUMENTS_MAX);
    child_arguments_finish(&arguments);
}

Test(child, one_that_never_started_is_left_alone)
{
    struct child child = {0};
    cr_assert_not(child_is_running(&child));
    cr_assert_not(child_has_ports(&child, false));
    child_signal(&child, 15); /* not our own process group */
    cr_assert_eq(child_wait(&child, 0), 0);
}
