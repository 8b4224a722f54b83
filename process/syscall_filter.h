/*
 * syscall_filter - a seccomp filter. After the start a process needs few system calls; any other, for example by an
 * attacker's code, ends it with a log line that has the number of the call.
 *
 * Forbidden are, among others: starting programs and processes (threads are allowed), debugging and the memory of
 * other processes, mounts, modules, keys, users, io_uring, bpf.
 *
 * Thread: main; it applies to all threads.
 */
#pragma once

/* Cannot be undone. Warns if the kernel has no such filters. */
void syscall_filter_begin(void);
