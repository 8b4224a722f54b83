/*
 * template_worker - renders chat templates: the loop of a process that does nothing else (template_keeper starts it).
 *
 * A template is code from a model's folder and is given what strangers write. So the process has limits of memory and of CPU
 * time a rendering, reads and writes its socket alone (template_filter), and ends at anything that it does not expect.
 *
 *     reads TOKENS, TEMPLATE..., then RENDER...; answers each with ANSWER (render_frame.h)
 */
#pragma once

#include "text/template_limits.h"

/* How it ends when a limit is met. CPU time: by SIGPROF. */
#define WORKER_EXIT_NO_MEMORY 3
#define WORKER_EXIT_BAD_FRAME 4
#define WORKER_EXIT_ABSENT    5 /* this build has no Rust library */

/* Returns when the other end is closed, with the exit status. */
int template_worker_run(int socket_end, const struct template_limits *limits);
