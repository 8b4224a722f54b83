/*
 * child - a child process with this program that a command starts and stops.
 *
 * It is in its own process group, so that Ctrl-C only reaches the parent, and it ends when the
 * parent ends (--parent-pid). It writes its addresses to a ports file.
 *
 * Do not call gRPC or UCX before child_start.
 *
 * Thread: main.
 */
#pragma once

#include "base/config/config.h"
#include "process/ports/ports_file.h"

#include <stdbool.h>
#include <sys/types.h>

#define CHILD_ARGUMENTS_MAX                                                                        \
    (CONFIG_ROWS_MAX + CONFIG_LIST_MAX + 16) /* all rows of a table, and those for the start */
#define CHILD_NAME_MAX 32
#define CHILD_PATH_MAX 512

struct child {
    char name[CHILD_NAME_MAX]; /* for messages */
    pid_t pid;                 /* 0: not running */
    int exit_status;
    char ports_path[CHILD_PATH_MAX];
    struct ports ports; /* as last read */
};

struct child_arguments {
    char *list[CHILD_ARGUMENTS_MAX + 1];
    uint32_t n;
};

/* Copies the argument. NO_MEMORY, also for more than CHILD_ARGUMENTS_MAX. */
MUST_CHECK enum status child_arguments_add(struct child_arguments *arguments, const char *flag,
                                           const char *value); /* value may be NULL */
/* Adds --name HOST-NAME: several children are on the host, so its name alone is not enough. */
MUST_CHECK enum status child_arguments_add_name(struct child_arguments *arguments,
                                                const char *name);
/* Adds a path as an argument: one that begins with "-" becomes "./-...". NO_MEMORY. */
MUST_CHECK enum status child_arguments_add_path(struct child_arguments *arguments,
                                                const char *path);
void child_arguments_finish(struct child_arguments *arguments);

/* Adds --ports-file and --parent-pid. folder: for the ports file; an old one is removed. key: a descriptor that the
 * child inherits, as --cluster-key-fd; -1: none. */
MUST_CHECK enum status child_start(struct child *child, const char *name, const char *folder,
                                   int key, struct child_arguments *arguments, struct error *error);
/* Reaps the child if it has ended; then pid is 0. */
bool child_is_running(struct child *child);
/* Whether its ports file exists and, with wants_ready, says that it is ready. */
bool child_has_ports(struct child *child, bool wants_ready);
void child_signal(const struct child *child, int signal_number);
/* Waits until the child has ended, and returns 0; SIGKILL after limit_ms. If this process gets a signal
 * first, returns its number, and the child may still run. */
int child_wait(struct child *child, uint64_t limit_ms);

/* Checks the configuration file before children start with it, so that not each of them reports the error.
 * IO_FAILED: it cannot be read. */
MUST_CHECK enum status child_model_check(const char *path, struct error *error);
/* Makes a new folder for ports files: in TMPDIR, else in /tmp or, if that is read-only, in /dev/shm. */
MUST_CHECK enum status child_folder_make(char path_out[CHILD_PATH_MAX], struct error *error);
/* Removes the folder with the files of killed children. "" is fine. */
void child_folder_remove(const char *path);
