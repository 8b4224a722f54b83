/*
 * spawn - starts the binary as a child that does not outlive the test: a failed test ends its
 * process at once, and would leave workers behind that hold ports and memory.
 *
 * Thread: the test's main one; the children are killed when it ends.
 */
#pragma once

#include <sys/types.h>

/* argv[0] is the path. input, output, errors: descriptors that the child has as 0, 1 and 2. */
pid_t spawn_bound(char *const argv[], int input, int output, int errors);
