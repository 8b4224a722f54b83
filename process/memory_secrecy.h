/*
 * memory_secrecy - keeps a process's memory, which holds prompts, generated text and keys, out of core files and
 * away from other processes of the same user.
 *
 * Thread: main, before others start.
 */
#pragma once

#include <stdbool.h>

/* No core file is written, and no other process but a privileged one may attach a debugger or read this one's memory
 * or descriptors (PR_SET_DUMPABLE). For the rest of the process's life; an exec undoes it.
 * is_shared: other processes of the user must reach its memory by its descriptors (shm-read), so it stays open to
 * them; a core file would then be empty. */
void memory_secrecy_begin(bool is_shared);
