/* `generate --expect-handover` fails unless KV has crossed, and with --handover-wait-ms asks again before it does. */

#include "support/child.h"
#include "support/command.h"
#include "support/server.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(expect_handover, .init = command_folder_make, .fini = command_folder_remove);

Test(expect_handover, fails_where_no_kv_has_crossed)
{
    RUN("generate", "--model", KVFERRY_DEMO_MODEL, "--max-tokens", "2", "--expect-handover",
        "In the beginning");
    cr_assert_eq(last_command.exit_status, EXIT_FAILURE);
    cr_assert_gt(strlen(last_command.out), 1, "the text all the same");
    EXPECT_IN(last_command.err, "no KV was transferred (--expect-handover): ");
}

enum { PROMPT_BYTES = 2048 };

/* Worth a hand-over. */
static void write_prompt(char prompt_out[PROMPT_BYTES])
{
    size_t n = 0;
    for (int verse = 1; verse <= 20; verse++)
        n += (size_t)snprintf(prompt_out + n, PROMPT_BYTES - n,
                              "%d And the children of Israel did according to all these words.\n",
                              verse);
}

/* What is cached needs no hand-over; what is asked again is under another salt. */
Test(expect_handover, asks_again_while_it_may)
{
    struct child server;
    char prompt[PROMPT_BYTES];
    write_prompt(prompt);
    server_start(&server, (const char *const[]){NULL});
#define ASK(wait)                                                                                  \
    RUN("generate", "--server", address_of(server.grpc), "--max-tokens", "2", "--verbose",         \
        "--expect-handover", "--cache-salt", "s", "--handover-wait-ms", wait, prompt)
    ASK("0");
    EXPECT_OK();
    ASK("0");
    cr_assert_eq(last_command.exit_status, EXIT_FAILURE, "found in the cache");
    ASK("60s");
    EXPECT_OK();
    EXPECT_IN(last_command.err, "bytes over");
#undef ASK
    child_stop(&server);
}

/* Of a service that was just made: its address is known, and nobody is there. */
Test(expect_handover, asks_again_where_nobody_answers_yet)
{
    static struct command asking;
    struct child server;
    server_start(&server, (const char *const[]){NULL});
    char address[32], prompt[PROMPT_BYTES];
    write_prompt(prompt);
    snprintf(address, sizeof address, "%s", address_of(server.grpc));
    child_stop(&server);
    command_start(&asking, NULL,
                  (const char *const[]){"generate", "--server", address, "--max-tokens", "2",
                                        "--expect-handover", "--handover-wait-ms", "60s", prompt,
                                        NULL});
    child_restart(&server);
    command_finish(&asking);
    cr_assert_eq(asking.exit_status, 0, "%s%s", asking.out, asking.err);
    child_stop(&server);
}
