/*
 * child - a process of this same program that a command starts and stops.
 *
 * It gets a process group of its own, so that Ctrl-C reaches the parent alone, and ends with the
 * parent (--parent-pid). It tells its addresses in a ports file.
 *
 * No gRPC or UCX call may come before child_start.
 *
 * Thread: main.
 */
#pragma once

#include "base/config/config.h"
#include "process/ports/ports_file.h"

#include <stdbool.h>
#include <sys/types.h>

#define CHILD_ARGUMENTS_MAX                                                                        \
    (CONFIG_ROWS_MAX + 16) /* all rows of a table, and what it is started with */
#define CHILD_NAME_MAX 32
#define CHILD_PATH_MAX 512

struct child {
    char name[CHILD_NAME_MAX]; /* for messages */
    pid_t pid;                 /* 0: not running */
    int exit_status;
    char ports_path[CHILD_PATH_MAX];
    struct ports ports; /* of the last look */
};

struct child_arguments {
    char *list[CHILD_ARGUMENTS_MAX + 1];
    uint32_t n;
};

/* Copies. NO_MEMORY, also for more than CHILD_ARGUMENTS_MAX. */
MUST_CHECK enum status child_arguments_add(struct child_arguments *arguments, const char *flag,
                                           const char *value); /* value may be NULL */
/* --name HOST-NAME: several share the host, whose name alone would not tell them apart. */
MUST_CHECK enum status child_arguments_add_name(struct child_arguments *arguments,
                                                const char *name);
/* An argument that is a path, of any name: one that begins with "-" becomes "./-...". NO_MEMORY. */
MUST_CHECK enum status child_arguments_add_path(struct child_arguments *arguments,
                                                const char *path);
void child_arguments_finish(struct child_arguments *arguments);

/* Adds --ports-file and --parent-pid. folder: where the ports file goes; one that is there is removed. key: a descriptor that the child
 * inherits, as --cluster-key-fd; -1: none. */
MUST_CHECK enum status child_start(struct child *child, const char *name, const char *folder,
                                   int key, struct child_arguments *arguments, struct error *error);
/* Reaps it if it has ended; then pid is 0. */
bool child_is_running(struct child *child);
/* Whether its ports file is there; wants_ready: and says that it is ready. */
bool child_has_ports(struct child *child, bool wants_ready);
void child_signal(const struct child *child, int signal_number);
/* Waits for its end, 0; SIGKILL after limit_ms. A signal to this process comes first: its number, and the
 * child may still run. */
int child_wait(struct child *child, uint64_t limit_ms);

/* Before children are started on it, each of which would say so. IO_FAILED: it is none that can be read. */
MUST_CHECK enum status child_model_check(const char *path, struct error *error);
/* A new folder for ports files: where TMPDIR says; else in /tmp or, where that is read-only, in /dev/shm. */
MUST_CHECK enum status child_folder_make(char path_out[CHILD_PATH_MAX], struct error *error);
/* With the files of children that were killed. "" is fine. */
void child_folder_remove(const char *path);
