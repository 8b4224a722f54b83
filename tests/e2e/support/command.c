#include "command.h"

#include "spawn.h"
#include "tests/base/support/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 40

char command_folder[96];
struct command last_command;
const char *command_binary;

void command_folder_make(void)
{
    folder_make(command_folder, sizeof command_folder, "cli");
    char inner[128];
    snprintf(inner, sizeof inner, "%s/tmp", command_folder);
    cr_assert_eq(mkdir(inner, 0700), 0);
    cr_assert_eq(setenv("TMPDIR", inner, 1), 0);
}

void command_folder_remove(void)
{
    folder_remove(command_folder);
}

const char *in_folder(const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", command_folder, name);
    return path;
}

const char *address_of(uint16_t port)
{
    static char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    return address;
}

void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

static int temporary(void)
{
    char path[160];
    snprintf(path, sizeof path, "%s/output-XXXXXX", command_folder);
    int fd = mkostemp(path, O_CLOEXEC);
    cr_assert_geq(fd, 0);
    unlink(path);
    return fd;
}

static size_t read_back(int fd, char text_out[COMMAND_TEXT_MAX])
{
    ssize_t n = pread(fd, text_out, COMMAND_TEXT_MAX - 1, 0);
    cr_assert_geq(n, 0);
    text_out[n] = '\0';
    return (size_t)n;
}

void command_start(struct command *command, const char *input, const char *const *words)
{
    char *argv[WORDS_MAX + 2] = {(char *)(command_binary ? command_binary : KVFERRY_BINARY)};
    for (uint32_t i = 0; words[i]; i++) {
        cr_assert_lt(i, WORDS_MAX);
        argv[i + 1] = (char *)words[i];
    }
    command->out_fd = temporary();
    command->err_fd = temporary();
    const int input_fd = open(input ? input : "/dev/null", O_RDONLY | O_CLOEXEC);
    cr_assert_geq(input_fd, 0, "cannot open %s", input ? input : "/dev/null");
    command->pid = spawn_bound(argv, input_fd, command->out_fd, command->err_fd);
    close(input_fd);
}

void command_finish(struct command *command)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    int status = 0;
    while (waitpid(command->pid, &status, WNOHANG) != command->pid) {
        cr_assert_lt(clock_now_ns(), until_ns, "the command does not end");
        (void)poll(NULL, 0, 2);
    }
    command->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    command->out_bytes = read_back(command->out_fd, command->out);
    read_back(command->err_fd, command->err);
    close(command->out_fd);
    close(command->err_fd);
}

void command_run(const char *input, const char *const *words)
{
    command_start(&last_command, input, words);
    command_finish(&last_command);
}

static void expect_sentence(int exit_status, const char *part)
{
    cr_assert_eq(last_command.exit_status, exit_status, "exit status %d: %s%s",
                 last_command.exit_status, last_command.out, last_command.err);
    EXPECT_IN(last_command.err, part);
    const char *end = strchr(last_command.err, '\n');
    cr_assert(end && end[1] == '\0', "not one line: %s", last_command.err);
    cr_assert_eq(strncmp(last_command.err, "kvferry", 7), 0, "does not say who speaks: %s",
                 last_command.err);
}

void expect_refused(const char *part)
{
    expect_sentence(EXIT_FAILURE, part);
}

void expect_misused(const char *part)
{
    expect_sentence(2, part);
}

void expect_no_temporaries(void)
{
    DIR *entries = opendir(getenv("TMPDIR"));
    cr_assert_not_null(entries);
    const struct dirent *entry;
    while ((entry = readdir(entries)))
        cr_assert_eq(entry->d_name[0], '.', "%s is left behind", entry->d_name);
    closedir(entries);
}
