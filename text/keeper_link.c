#include "text/keeper_link.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define OWN_PROGRAM "/proc/self/exe"
#define ANSWER_S    5 /* longest wait for a keeper, which has next to nothing to do */

struct keeper_link {
    pthread_mutex_t lock; /* one question at a time */
    int fd;
    bool is_lost; /* an answer did not come, or may still come */
};

/* It has its socket as standard input and nothing else of this process: no file, no mask of signals, no terminal's group. */
static int spawn(const char *program, int socket_end, pid_t *pid_out)
{
    static char name[] = "kvferry", command[] = KEEPER_COMMAND;
    char *argv[] = {name, command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return ENOMEM;
    }
    int result = posix_spawn_file_actions_adddup2(&actions, socket_end, STDIN_FILENO);
    if (result == 0)
        result = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY,
                                                  0);
    if (result == 0)
        result = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY,
                                                  0);
    if (result == 0)
        result = posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    if (result == 0)
        result = posix_spawn(pid_out, program, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return result;
}

enum status keeper_link_open(const char *program, struct error *error,
                             struct keeper_link **link_out)
{
    int ends[2];
    struct keeper_link *link = calloc(1, sizeof *link);
    if (!link)
        return STATUS_NO_MEMORY;
    link->fd = -1;
    pthread_mutex_init(&link->lock, NULL);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        enum status status = error_set(error, errno_status(errno),
                                       "no socket for chat templates: %s", strerror(errno));
        keeper_link_close(link);
        return status;
    }
    const struct timeval limit = {.tv_sec = ANSWER_S};
    pid_t pid; /* nobody waits for it: the system call filter would not let us */
    int result = spawn(program ? program : OWN_PROGRAM, ends[1], &pid);
    close(ends[1]);
    link->fd = ends[0];
    if (result == 0 && (setsockopt(link->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) < 0 ||
                        setsockopt(link->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) < 0))
        result = errno;
    if (result != 0) {
        keeper_link_close(link);
        return error_set(error, STATUS_IO_FAILED,
                         "the process for chat templates cannot be started: %s", strerror(result));
    }
    *link_out = link;
    return STATUS_OK;
}

void keeper_link_close(struct keeper_link *link)
{
    if (!link)
        return;
    char nothing;
    if (link->fd >= 0) {
        shutdown(link->fd, SHUT_WR); /* it ends then, and its end of the socket with it */
        (void)!recv(link->fd, &nothing, 1, 0);
        close(link->fd);
    }
    pthread_mutex_destroy(&link->lock);
    free(link);
}

static int descriptor_of(struct msghdr *message)
{
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    int descriptor = -1;
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
    return descriptor;
}

static enum status ask(struct keeper_link *link, const struct keeper_question *question,
                       struct keeper_answer *answer, int *descriptor_out)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr head;
    } control;
    struct iovec part = {answer, sizeof *answer};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t n = -1;

    pthread_mutex_lock(&link->lock);
    while (!link->is_lost && (n = send(link->fd, question, sizeof *question, MSG_NOSIGNAL)) < 0 &&
           errno == EINTR)
        ;
    bool is_sent = n == (ssize_t)sizeof *question;
    while (is_sent && (n = recvmsg(link->fd, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    link->is_lost |= !is_sent || n != (ssize_t)sizeof *answer;
    bool is_lost = link->is_lost;
    pthread_mutex_unlock(&link->lock);
    if (is_lost)
        return STATUS_PEER_LOST;
    *descriptor_out = descriptor_of(&message);
    return STATUS_OK;
}

enum status keeper_link_start(struct keeper_link *link, const struct template_limits *limits,
                              struct error *error, int *descriptor_out, pid_t *pid_out)
{
    const struct keeper_question question = {.task = KEEPER_START, .limits = *limits};
    struct keeper_answer answer;
    int descriptor = -1;
    enum status status = ask(link, &question, &answer, &descriptor);
    if (status != STATUS_OK)
        return error_set(error, status,
                         "the process that starts those for chat templates has ended");
    if (answer.error != 0 || descriptor < 0)
        return error_set(error, STATUS_IO_FAILED,
                         "a process for chat templates cannot be started: %s",
                         strerror(answer.error ? answer.error : EPROTO));
    *descriptor_out = descriptor;
    *pid_out = answer.pid;
    return STATUS_OK;
}

enum status keeper_link_end(struct keeper_link *link, pid_t pid, int *wait_status_out)
{
    const struct keeper_question question = {.task = KEEPER_END, .pid = pid};
    struct keeper_answer answer;
    int none;
    TRY(ask(link, &question, &answer, &none));
    *wait_status_out = answer.wait_status;
    return STATUS_OK;
}
