/* main - finds and runs the command. */
#include "cli/command.h"
#include "cli/output.h"
#include "gguf/gguf_files.h"
#include "kvtransfer/drivers/ucx/ucx_process.h"
#include "process/process.h"
#include "rpc/tls/tls_files.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_commands(bool is_role, FILE *out)
{
    const struct command *command;
    for (uint32_t i = 0; (command = command_at(i)); i++)
        if (command->is_role == is_role && !command->is_hidden)
            fprintf(out, "  %-12s %s\n", command->name, command->summary);
}

static void print_usage(FILE *out)
{
    fputs("usage: kvferry COMMAND [arguments]\n\nCommands\n", out);
    print_commands(false, out);
    fputs("\nRoles of a cluster, one process each\n", out);
    print_commands(true, out);
    fputs("\nExamples\n"
          "  kvferry serve models/llama\n"
          "  kvferry generate \"In the beginning\"\n"
          "\n`kvferry help COMMAND` explains a command.\n",
          out);
}

static int refuse_unknown(const char *name)
{
    char hint[128];
    command_hint(name, hint, sizeof hint);
    fprintf(stderr, "kvferry: no command \"%.80s\"%s (`kvferry help` lists them)\n", name, hint);
    return CONFIG_EXIT_MISUSED;
}

static int print_help(const char *name)
{
    if (!name || strcmp(name, "help") == 0) {
        print_usage(stdout);
        return output_end("kvferry", EXIT_SUCCESS);
    }
    const struct command *command = command_find(name);
    if (!command)
        return refuse_unknown(name);
    static char help[] = "--help";
    static char *argv[] = {help, NULL};
    struct config_input input = command_input(command, 1, argv, environ);
    return output_end(command->full_name, command->run(&input));
}

/* If a standard descriptor is closed, the next opened file or socket would get its number, and
 * output would be written to it. */
static void keep_standard_descriptors(void)
{
    static const int MODES[] = {O_RDONLY, O_RDONLY, O_RDWR}; /* a write to the second still fails */
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", MODES[fd]); /* NOLINT: it must survive exec */
}

int main(int argc, char **argv)
{
    gguf_files_init();
    keep_standard_descriptors();
    output_begin();
    ucx_process_init();
    tls_process_init();
    process_signals_init();
    if (argc < 2) {
        print_usage(stderr);
        return CONFIG_EXIT_MISUSED;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return print_help(NULL);
    if (strcmp(name, "help") == 0)
        return print_help(argv[2]);
    const struct command *command = command_find(strcmp(name, "--version") == 0 ? "version" : name);
    if (!command)
        return refuse_unknown(name);
    assert(command->run && command->full_name);
    struct config_input input = command_input(command, argc - 2, argv + 2, environ);
    return output_end(command->full_name, command->run(&input));
}
