/*
 * wake - a descriptor that one thread makes readable for another, which waits for it in poll or epoll. It is closed by close.
 *
 * Thread: any.
 */
#pragma once

#include <stdbool.h>

/* Not readable yet. -1: there is none, errno says why. */
int wake_open(void);

/* Readable until it is taken, however often it is sent before. Never waits. */
void wake_send(int wake);

/* Whether it was sent since it was last taken. Never waits. */
bool wake_take(int wake);
