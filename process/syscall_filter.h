/*
 * syscall_filter - after the start a process needs few system calls; any other, as somebody makes who has found a way
 * to run code in it, ends it with a line that has the call's number.
 *
 * Not there, among others: starting programs and processes (threads are), debugging and the memory of other processes,
 * mounts, modules, keys, users, io_uring, bpf.
 *
 * Thread: main; holds for all threads.
 */
#pragma once

/* From now on, and for ever. Warns when the kernel has no such filters. */
void syscall_filter_begin(void);
