#include "kvtransfer/drivers/ucx/ucx_process.h"

#include "base/log/log.h"

#include <signal.h>
#include <stdio.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

static ucs_log_func_rc_t log_line(const char *file, unsigned line, const char *function,
                                  ucs_log_level_t level,
                                  const ucs_log_component_config_t *component, const char *message,
                                  va_list arguments)
{
    char text[256];
    (void)file;
    (void)line;
    (void)component;
    if (level == UCS_LOG_LEVEL_FATAL)
        return UCS_LOG_FUNC_RC_CONTINUE; /* the process ends: in UCX's own words */
    /* UCX's errors are about lost peers; the owner of the peer reports those. A warning is about something else, such as
     * an option without effect. */
    enum log_level ours = level == UCS_LOG_LEVEL_WARN ? LOG_WARN : LOG_DEBUG;
    if (level > UCS_LOG_LEVEL_DIAG || !log_is_on(ours))
        return UCS_LOG_FUNC_RC_STOP;
    vsnprintf(text, sizeof text, message, arguments);
    log_write(ours, NULL, "ucx %s: %s", function, text);
    return UCS_LOG_FUNC_RC_STOP;
}

void ucx_process_init(void)
{
    static const int TAKEN[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGHUP};
    for (size_t i = 0; i < sizeof TAKEN / sizeof *TAKEN; i++)
        signal(TAKEN[i], SIG_DFL);
    ucs_log_push_handler(log_line);
}

const char *ucx_version(void)
{
    return ucp_get_version_string();
}
