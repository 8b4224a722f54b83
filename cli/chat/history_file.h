/*
 * history_file - where the messages that a person typed are kept between chats.
 *
 * Bounds: a larger file than HISTORY_FILE_BYTES_MAX is not read.
 * Thread: main.
 */
#pragma once

#include "base/status.h"

#include <histedit.h>
#include <limits.h>

#define HISTORY_FILE_BYTES_MAX (16u << 20)

/* Makes its folder, if that is missing (mode 0700). NOT_FOUND: neither XDG_STATE_HOME nor HOME is an absolute path. IO_FAILED. */
MUST_CHECK enum status history_file_path(char path_out[PATH_MAX], struct error *error);
/* A missing file is an empty one. CORRUPT: it is no history. IO_FAILED, PROMPT_TOO_LONG: it is too large. */
MUST_CHECK enum status history_file_read(const char *path, History *lines, struct error *error);
/* Replaces the file at once, mode 0600. */
MUST_CHECK enum status history_file_write(const char *path, History *lines, struct error *error);
