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
    EXPECT_IN(last_command.err, "no KV was handed over (--expect-handover): ");
}

/* What is cached needs no hand-over; what is asked again is under another salt. */
Test(expect_handover, asks_again_while_it_may)
{
    struct child server;
    char prompt[2048];
    size_t n = 0;
    for (int verse = 1; verse <= 20; verse++)
        n += (size_t)snprintf(prompt + n, sizeof prompt - n,
                              "%d And the children of Israel did according to all these words.\n",
                              verse);
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
