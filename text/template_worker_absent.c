/* In place of template_worker.c in a build without the Rust library. The renderer says so before it gets here. */
#include "text/template_worker.h"

int template_worker_run(int socket_end, const struct template_limits *limits)
{
    (void)socket_end;
    (void)limits;
    return WORKER_EXIT_ABSENT;
}
