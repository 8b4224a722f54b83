/*
 * template_keeper - the process that starts those that render chat templates (template_worker), and ends them.
 *
 *     router --SEQPACKET--> keeper --fork--> worker        the router gets the other end of the worker's socket
 *
 * It is the program itself, started again with a hidden command before the router has threads and a system call filter. So the
 * router can get a new worker later, when it may start no program any more. The keeper reads no template and no request. It
 * ends when the router does, and takes all workers with it.
 *
 * Messages are one struct each; both ends are the same program.
 * Thread: the process has one.
 */
#pragma once

#include "base/config/config.h"
#include "text/template_limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KEEPER_COMMAND     "template-keeper"
#define KEEPER_WORKERS_MAX 64

enum keeper_task { KEEPER_START = 1, KEEPER_END };

struct keeper_question {
    uint32_t task;
    int32_t pid; /* of END */
    struct template_limits limits;
};

/* START: pid, and the descriptor beside the message. END: how the worker ended, as waitpid has it. */
struct keeper_answer {
    int32_t error; /* 0, or errno */
    int32_t pid;
    int32_t wait_status;
};

/* The hidden command: standard input is the socket. Returns the exit status. */
int template_keeper_main(const struct config_input *input);
