/* main - finds the sub-command. */
#include "cli/command.h"
#include "cli/output.h"
#include "ctx_worker/ctx_worker.h"
#include "gen_worker/gen_worker.h"
#include "kvtransfer/ucx_transport.h"
#include "process/process.h"
#include "router/router.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct command {
    const char *name;
    const char *full_name;
    const char *usage;
    const char *help;
    int (*run)(const struct config_input *input);
};

static const struct command COMMANDS[] = {
    {"serve", "kvferry serve", "MODEL", "router and workers of one machine, together", serve_main},
    {"generate", "kvferry generate", "[TEXT]", "sends a prompt, prints text as it comes",
     generate_main},
    {"ps", "kvferry ps", NULL, "state of a router and its workers", ps_main},
    {"check-model", "kvferry check-model", "MODEL", "reads a model's folder, says what is wrong",
     check_model_main},
    {"version", "kvferry version", NULL, "what was built and what it found", version_main},
    {"router", "kvferry router", "MODEL", "role: takes requests, places them", router_main},
    {"ctx-worker", "kvferry ctx-worker", "MODEL", "role: computes prompts", ctx_worker_main},
    {"gen-worker", "kvferry gen-worker", "MODEL", "role: generates tokens", gen_worker_main},
};

#define N_COMMANDS (sizeof COMMANDS / sizeof *COMMANDS)

static int print_usage(FILE *out)
{
    fputs("usage: kvferry COMMAND [arguments]; kvferry COMMAND --help\n\n", out);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-12s %s\n", COMMANDS[i].name, COMMANDS[i].help);
    return out == stdout ? output_end("kvferry", EXIT_SUCCESS) : EXIT_FAILURE;
}

/* One that is closed would be the next file or socket that is opened, and written to. */
static void keep_standard_descriptors(void)
{
    static const int MODES[] = {O_RDONLY, O_RDONLY, O_RDWR}; /* a write to the second still fails */
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", MODES[fd]); /* NOLINT: it is to outlive exec */
}

int main(int argc, char **argv)
{
    keep_standard_descriptors();
    ucx_process_init();
    process_signals_init();
    if (argc < 2)
        return print_usage(stderr);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        return print_usage(stdout);
    const char *name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(COMMANDS[i].name, name) != 0)
            continue;
        struct config_input input = {
            .command = COMMANDS[i].full_name,
            .usage = COMMANDS[i].usage,
            .argc = argc - 2,
            .argv = argv + 2,
            .environment = environ,
        };
        return output_end(input.command, COMMANDS[i].run(&input));
    }
    fprintf(stderr, "kvferry: no command \"%s\"\n", argv[1]);
    return print_usage(stderr);
}
