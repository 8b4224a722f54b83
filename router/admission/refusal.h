/*
 * refusal - the access line of a request that was refused.
 *
 * Thread: any.
 */
#pragma once

#include "base/log/log.h"
#include "base/status.h"

/* tenant "": it has none. sentence "": the line has the status's text. */
void refusal_tell(const struct log_about *about, enum status status, const char *tenant,
                  const char *sentence);
