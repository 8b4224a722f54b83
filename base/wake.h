/*
 * wake - a descriptor with which one thread wakes another that waits in poll or epoll. close closes it.
 *
 * Thread: any.
 */
#pragma once

#include <stdbool.h>

/* Not readable at first. -1: failed, see errno. */
int wake_open(void);

/* Makes it readable until wake_take, also if it is sent several times. Never waits. */
void wake_send(int wake);

/* Whether it was sent since the last wake_take. Never waits. */
bool wake_take(int wake);
