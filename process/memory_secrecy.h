/*
 * memory_secrecy - keeps the memory of a process (prompts, generated text, keys) out of core files, and away
 * from other processes of the same user.
 *
 * Thread: main, before other threads start.
 */
#pragma once

#include <stdbool.h>

/* From now on no core file is written, and only privileged processes can attach a debugger or read this process's
 * memory or descriptors (PR_SET_DUMPABLE). An exec undoes it. is_shared: other processes of the user need its memory
 * through its descriptors (shm-read), so that stays allowed, and a core file would be empty. */
void memory_secrecy_begin(bool is_shared);
