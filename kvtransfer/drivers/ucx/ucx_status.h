/* ucx_status - translates UCX's codes into enum status. */
#pragma once

#include "base/status.h"

/* code is a ucs_status_t. */
enum status ucx_status(int code);
const char *ucx_code_text(int code);
/* The error of an object that UCX did not make. */
enum status ucx_status_refused(struct error *error, const char *what, int code);
