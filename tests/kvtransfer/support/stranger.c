#include "tests/kvtransfer/support/stranger.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SOCKETS_MAX = 256 };

static uint32_t list_sockets(pid_t pid, unsigned long inodes[SOCKETS_MAX])
{
    char path[64];
    uint32_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        struct stat status;
        if (fstatat(dirfd(directory), entry->d_name, &status, 0) == 0 && S_ISSOCK(status.st_mode) &&
            n < SOCKETS_MAX)
            inodes[n++] = status.st_ino;
    }
    if (directory)
        closedir(directory);
    return n;
}

uint32_t stranger_find_ports(pid_t pid, uint16_t *ports_out, uint32_t max)
{
    enum { LISTENING = 10 };
    unsigned long inodes[SOCKETS_MAX], inode;
    uint32_t n_inodes = list_sockets(pid, inodes), n = 0;
    char line[512];
    unsigned port, state;
    FILE *file = fopen("/proc/self/net/tcp", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, " %*u: %*8x:%x %*s %x %*s %*s %*s %*u %*u %lu", &port, &state, &inode) !=
                3 ||
            state != LISTENING)
            continue;
        for (uint32_t i = 0; i < n_inodes && n < max; i++)
            if (inodes[i] == inode)
                ports_out[n++] = (uint16_t)port;
    }
    if (file)
        fclose(file);
    return n;
}

int stranger_connect(const char *from, uint16_t port)
{
    struct sockaddr_in own = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && inet_pton(AF_INET, from, &own.sin_addr) == 1 &&
        bind(fd, (struct sockaddr *)&own, sizeof own) == 0 &&
        connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

bool stranger_is_closed(int fd, const void *bytes, size_t n_bytes)
{
    char byte;
    struct pollfd poll_fd = {fd, POLLIN, 0};
    if (n_bytes > 0 && send(fd, bytes, n_bytes, MSG_NOSIGNAL) < 0)
        return 1;
    return poll(&poll_fd, 1, 1000) == 1 && recv(fd, &byte, 1, 0) <= 0;
}
