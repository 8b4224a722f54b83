/*
 * child - one real kvferry process under test: started with a ports file, watched, ended.
 *
 * Its log goes to a file that is printed when an assertion about the process fails. All functions
 * assert (Criterion) on anything unexpected.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ARGUMENTS_MAX 48

struct child {
    char name[32];
    char folder[128]; /* of its log and ports file */
    const char *binary;
    pid_t pid; /* 0: not running */
    uint16_t grpc, http, engine, control, health, metrics;
    uint64_t incarnation;
    char arguments[ARGUMENTS_MAX][192];
    uint32_t n_arguments;
};

/* arguments: the role first, a NULL last. Every address is on 127.0.0.1, port 0. */
void child_start(struct child *child, const char *folder, const char *name,
                 const char *const *arguments);
/* The same, of another program than the product's. */
void child_start_binary(struct child *child, const char *binary, const char *folder,
                        const char *name, const char *const *arguments);
/* The two halves of it: several start side by side. */
void child_begin_binary(struct child *child, const char *binary, const char *folder,
                        const char *name, const char *const *arguments);
void child_await_ready(struct child *child);
/* The same, of one that cannot be ready yet: returns when its ports are open. */
void child_start_unready(struct child *child, const char *folder, const char *name,
                         const char *const *arguments);
/* Again with the same ports: a restart at the same address. */
void child_restart(struct child *child);
void child_signal(struct child *child, int signal_number);
/* Waits at most limit_ms; returns the wait status, or asserts. */
int child_wait(struct child *child, uint32_t limit_ms);
/* SIGTERM, then asserts a clean exit. */
void child_stop(struct child *child);
/* SIGKILL and reap. Nothing when it does not run. */
void child_kill(struct child *child);
void child_print_log(const struct child *child);
/* Whether some line of it has part, and how many have. */
bool child_log_has(const struct child *child, const char *part);
uint32_t child_log_count(const struct child *child, const char *part);
/* While it runs, lines come a little late, by a thread of the log's. False: none has part within a minute. */
bool child_log_wait(const struct child *child, const char *part);

/* The sum of all series of that metric whose labels contain label_part ("" for any); -1: none. */
double child_metric(const struct child *child, const char *name, const char *label_part);
/* Of GET path on the metrics port. */
unsigned child_http_status(const struct child *child, const char *path);
uint32_t child_descriptors(const struct child *child);
uint64_t child_resident_bytes(const struct child *child);
