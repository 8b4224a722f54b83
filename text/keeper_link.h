/*
 * keeper_link - the router's end of a template_keeper: starts it, and asks it for workers.
 *
 * A keeper is started before the process has a system call filter; after that no other can be. It dies with the thread that
 * started it, so that is one which lives as long as the process.
 *
 * Thread: any, after keeper_link_open; calls wait for each other.
 */
#pragma once

#include "base/status.h"
#include "text/template_keeper.h"

struct keeper_link;

/* program: path of this program, NULL: the one that runs. IO_FAILED, NO_MEMORY: error says why. */
MUST_CHECK enum status keeper_link_open(const char *program, struct error *error,
                                        struct keeper_link **link_out);
/* The keeper and its workers end. Nobody reaps it: it is a zombie until this process ends. NULL is fine. */
void keeper_link_close(struct keeper_link *link);

/* A new worker; the caller closes the descriptor, which does not outlive exec. PEER_LOST: the keeper is gone, or silent, now or before. IO_FAILED: it
 * could not start one, error says why. */
MUST_CHECK enum status keeper_link_start(struct keeper_link *link,
                                         const struct template_limits *limits, struct error *error,
                                         int *descriptor_out, pid_t *pid_out);

/* Ends a worker, if it has not ended yet, and says how it did, as waitpid. PEER_LOST. */
MUST_CHECK enum status keeper_link_end(struct keeper_link *link, pid_t pid, int *wait_status_out);
