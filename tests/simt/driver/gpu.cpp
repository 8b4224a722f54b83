/*
 * One GPU of several processes: how much of its memory each has, in the file DOUBLE_GPU. Who has died has nothing.
 */
#include "double.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PROCESSES = 64 };

struct Share {
    volatile pid_t pid; /* 0: nobody's */
    volatile size_t bytes;
};

static int fd = -1;
static Share *shares, *mine;

static void open_file()
{
    const char *path = getenv("DOUBLE_GPU");
    if (!path || shares)
        return;
    size_t bytes = PROCESSES * sizeof(Share);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *p = fd < 0 || ftruncate(fd, static_cast<off_t>(bytes))
                  ? MAP_FAILED
                  : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        unsupported("DOUBLE_GPU %s: no file of shares", path);
    shares = static_cast<Share *>(p);
}

OneGpu::OneGpu()
{
    open_file();
    if (shares)
        flock(fd, LOCK_EX);
}

OneGpu::~OneGpu()
{
    if (shares)
        flock(fd, LOCK_UN);
}

static bool is_alive(pid_t pid)
{
    return kill(pid, 0) == 0 || errno != ESRCH;
}

size_t others_have()
{
    size_t bytes = 0;
    open_file();
    for (Share *s = shares; s && s < shares + PROCESSES; s++)
        if (s->pid && s != mine && is_alive(s->pid))
            bytes += s->bytes;
    return bytes;
}

/* With the lock. */
void tell_others(size_t used)
{
    for (Share *s = shares; s && !mine && s < shares + PROCESSES; s++)
        if (!s->pid || !is_alive(s->pid)) {
            s->bytes = 0;
            s->pid = getpid();
            mine = s;
        }
    if (shares && !mine)
        unsupported("DOUBLE_GPU: over %d processes", PROCESSES);
    if (mine)
        mine->bytes = used;
}
