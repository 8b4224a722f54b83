#include "base/wake.h"

#include <sys/eventfd.h>

int wake_open(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void wake_send(int wake)
{
    (void)eventfd_write(wake, 1); /* fails if it is full: it is readable all the same */
}

bool wake_take(int wake)
{
    eventfd_t sent;
    return eventfd_read(wake, &sent) == 0;
}
