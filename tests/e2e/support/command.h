/*
 * command - one kvferry command run to its end, what it printed, and what it left behind.
 *
 * Everything is in a folder of the test's own, which is also the TMPDIR of what it starts. All
 * functions assert (Criterion) on anything unexpected.
 *
 * Global state: the folder, the binary and the last command; Criterion gives each test a process of its own.
 */
#pragma once

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#define COMMAND_TEXT_MAX 65536
#define COMMAND_LIMIT_NS (120 * NS_PER_S)

struct command {
    pid_t pid;
    int out_fd, err_fd;
    int exit_status;  /* -1: a signal ended it */
    size_t out_bytes; /* of out; NUL may be among them */
    char out[COMMAND_TEXT_MAX], err[COMMAND_TEXT_MAX];
};

extern struct command last_command;
extern char command_folder[96];
extern const char *command_binary; /* of another program than the product's; NULL: that */

/* Before and after each test. */
void command_folder_make(void);
void command_folder_remove(void);
/* Of a file in the folder; good until the next call. */
const char *in_folder(const char *name);
/* Of a port on the loopback; good until the next call. */
const char *address_of(uint16_t port);
/* Nothing is left in TMPDIR. */
void expect_no_temporaries(void);
void write_file(const char *path, const void *bytes, size_t n);

/* words: without the program's name, a NULL last. input NULL: nothing to read. */
void command_start(struct command *command, const char *input, const char *const *words);
void command_finish(struct command *command);
void command_run(const char *input, const char *const *words);

/* Exit status 1, or 2 for wrong arguments, and one line on standard error that has part. */
void expect_refused(const char *part);
void expect_misused(const char *part);

#define RUN(...) command_run(NULL, (const char *const[]){__VA_ARGS__, NULL})

#define EXPECT_OK()                                                                                \
    cr_assert_eq(last_command.exit_status, 0, "exit status %d: %s%s", last_command.exit_status,    \
                 last_command.out, last_command.err)

#define EXPECT_IN(text, part)                                                                      \
    cr_assert_not_null(strstr(text, part), "\"%s\" is not in:\n%s", part, text)
