/* ucx_status - the one place where UCX's codes become ours. */
#pragma once

#include "base/status.h"

/* code is a ucs_status_t. */
enum status ucx_status(int code);
const char *ucx_code_text(int code);
/* UCX has not made what was asked for. */
enum status ucx_status_refused(struct error *error, const char *what, int code);
