/* What --device auto comes to on the driver double: a GPU that this build can compute on, else the CPU; and what was asked for is
 * judged by what it came to. cuda:N stays what was asked for. */

#include "support/child.h"
#include "support/command.h"
#include "support/ports.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define GEN                                                                                        \
    "gen-worker", KVFERRY_DEMO_MODEL, WORKER_PORTS, "--max-context-tokens", "128", "--log-format", \
        "human"
#define CTX                                                                                        \
    "ctx-worker", KVFERRY_DEMO_MODEL, WORKER_PORTS, "--max-context-tokens", "128", "--log-format", \
        "human"

static void find_double(void)
{
    command_folder_make();
    cr_assert_eq(setenv("LD_LIBRARY_PATH", DOUBLE_FOLDER, 1), 0);
}

TestSuite(double_auto, .init = find_double, .fini = command_folder_remove);

static void expect_sentence(const char *part)
{
    cr_expect_eq(last_command.exit_status, EXIT_FAILURE, "%d", last_command.exit_status);
    cr_expect(strstr(last_command.err, part), "\"%s\" is not in:\n%s", part, last_command.err);
}

/* It is ready, on the CPU, and says why. */
static void expect_cpu(const char *binary, const char *why)
{
    struct child child;
    child_start_binary(&child, binary, command_folder, "auto",
                       (const char *const[]){GEN, "--device", "auto", NULL});
    cr_expect(child_log_wait(&child, why), "nobody says '%s'", why);
    child_stop(&child);
    command_binary = binary;
    RUN(GEN, "--device", "auto", "--dry-run");
    cr_expect_eq(last_command.exit_status, EXIT_SUCCESS, "%s", last_command.err);
    cr_expect_null(strstr(last_command.out, "cuda:0"), "%s", last_command.out);
    RUN(CTX, "--device", "auto", "--kv-transport", "cuda-ipc");
    expect_sentence("kv_transport cuda-ipc maps memory of a GPU, but device cpu has none");
}

/* The program that is shipped, as a rule without them; with them, these are none of the double's. */
Test(double_auto, a_gpu_without_kernels_for_it_is_none)
{
    expect_cpu(KVFERRY_BINARY, "cuda:0: ");
    RUN(GEN, "--device", "cuda:0");
    expect_sentence("cuda:0: ");
    RUN(GEN, "--device", "cuda:0", "--dry-run");
    expect_sentence("cuda:0: ");
}

Test(double_auto, a_driver_that_does_not_start_has_none)
{
    cr_assert_eq(setenv("DOUBLE_FAIL", "cuInit:1:999", 1), 0);
    expect_cpu(DOUBLE_BINARY, "cuInit failed: CUDA_ERROR_UNKNOWN (999)");
    RUN(GEN, "--device", "cuda:0");
    expect_sentence("cuInit failed: CUDA_ERROR_UNKNOWN (999)");
}

Test(double_auto, a_gpu_that_was_chosen_is_judged_as_one_that_was_named)
{
    command_binary = DOUBLE_BINARY;
    RUN(CTX, "--device", "auto", "--kv-transport", "shm-read");
    expect_sentence(
        "kv_transport shm-read shares the host's memory, but device cuda:0 has its own");
    RUN(GEN, "--device", "auto", "--cpu-kernels", "scalar");
    expect_sentence("cpu_kernels is \"scalar\": device cuda:0 computes with its own kernels");
    RUN(GEN, "--device", "auto", "--dry-run");
    cr_expect_eq(last_command.exit_status, EXIT_SUCCESS, "%s", last_command.err);
    cr_expect(strstr(last_command.out, "device      cuda:0"), "%s", last_command.out);
}
