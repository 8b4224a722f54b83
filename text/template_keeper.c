#include "text/template_keeper.h"

#include "text/template_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t workers[KEEPER_WORKERS_MAX]; /* 0: free */

static pid_t *find(pid_t pid)
{
    for (size_t i = 0; i < KEEPER_WORKERS_MAX; i++)
        if (workers[i] == pid)
            return &workers[i];
    return NULL;
}

/* In the new process. */
static _Noreturn void become_worker(int socket_end, const struct template_limits *limits,
                                    pid_t keeper)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper)
        _exit(EXIT_FAILURE); /* it died before that */
    if (dup2(socket_end, STDIN_FILENO) < 0)
        _exit(EXIT_FAILURE);
    if (close_range(STDERR_FILENO + 1, ~0u, 0) < 0)
        _exit(EXIT_FAILURE);
    _exit(template_worker_run(STDIN_FILENO, limits));
}

static int start_worker(const struct template_limits *limits, struct keeper_answer *answer)
{
    int ends[2];
    pid_t *room = find(0), keeper = getpid();
    if (!room || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        answer->error = room ? errno : EAGAIN;
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0)
        become_worker(ends[1], limits, keeper);
    answer->error = pid < 0 ? errno : 0;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return -1;
    }
    *room = pid;
    answer->pid = pid;
    return ends[0];
}

static void end_worker(pid_t pid, struct keeper_answer *answer)
{
    pid_t *worker = pid > 0 ? find(pid) : NULL;
    int status = 0;
    if (!worker) {
        answer->error = ESRCH;
        return;
    }
    /* One that has ended by itself is asked for nothing: it keeps how it ended. */
    kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    *worker = 0;
    answer->wait_status = status;
}

/* descriptor: goes along; -1: none. */
static bool send_answer(int socket_end, struct keeper_answer *answer, int descriptor)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr head;
    } control;
    struct iovec part = {answer, sizeof *answer};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (descriptor >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    }
    ssize_t n;
    while ((n = sendmsg(socket_end, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    return n == (ssize_t)sizeof *answer;
}

static bool serve_one(int socket_end)
{
    struct keeper_question question;
    struct keeper_answer answer = {0};
    int descriptor = -1;
    ssize_t n;
    while ((n = recv(socket_end, &question, sizeof question, 0)) < 0 && errno == EINTR)
        ;
    if (n != (ssize_t)sizeof question)
        return false; /* the router is gone */
    if (question.task == KEEPER_START)
        descriptor = start_worker(&question.limits, &answer);
    else
        end_worker(question.pid, &answer);
    bool is_sent = send_answer(socket_end, &answer, descriptor);
    if (descriptor >= 0)
        close(descriptor);
    return is_sent;
}

/* A terminal's signals, and those of a service manager, are the router's: it finishes its requests first. */
static void ignore_signals(void)
{
    static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE};
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++)
        signal(SIGNALS[i], SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
}

int template_keeper_main(const struct config_input *input)
{
    int type = 0;
    socklen_t length = sizeof type;
    if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &length) < 0 ||
        type != SOCK_SEQPACKET) {
        fprintf(stderr, "%s: is started by a router alone\n", input->command);
        return CONFIG_EXIT_MISUSED;
    }
    ignore_signals();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, KEEPER_COMMAND);
    prctl(PR_SET_DUMPABLE, 0);
    tzset(); /* workers may read no file */
    while (serve_one(STDIN_FILENO))
        ;
    for (size_t i = 0; i < KEEPER_WORKERS_MAX; i++)
        if (workers[i] > 0)
            kill(workers[i], SIGKILL);
    return EXIT_SUCCESS;
}
