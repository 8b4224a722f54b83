/* http_bench ADDRESS SECONDS CONCURRENCY TOKENS - streamed completions over HTTP, so many at a time, each of TOKENS tokens and of
 * a prompt that no cache holds: what `rpc_bench --generate` measures over gRPC, with the same figures as JSON.
 *
 * One thread, one connection for each caller, kept from request to request. */
#include "base/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CALLS_MAX   (1u << 20)
#define CALLERS_MAX 256
#define PROMPT                                                                                     \
    "In the beginning God created the heaven and the earth. And the earth was without form, and "  \
    "void; and darkness was upon the face of the deep."

struct caller {
    int fd;
    uint64_t began_ns, first_ns;
    bool is_running;
    size_t n_kept;
    char kept[64]; /* the end of what was read */
};

struct bench {
    struct sockaddr_in address;
    uint64_t until_ns;
    uint32_t n_tokens, n_callers;
    struct caller callers[CALLERS_MAX];
    float *times_us, *first_us; /* [CALLS_MAX] */
    uint32_t n;
};

static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "http_bench: %s\n", what);
        exit(1);
    }
}

static void begin(const struct bench *bench, struct caller *caller)
{
    char body[1024], request[2048];
    int n_body = snprintf(
        body, sizeof body,
        "{\"prompt\": \"%016llx " PROMPT "\", \"max_tokens\": %u, \"temperature\": "
        "0, \"ignore_eos\": true, \"stream\": true}",
        (unsigned long long)(clock_now_ns() * 0x9e3779b97f4a7c15u + (uintptr_t)caller),
        bench->n_tokens);
    int n = snprintf(request, sizeof request,
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                     "application/json\r\nContent-Length: %d\r\n\r\n%s",
                     n_body, body);
    caller->first_ns = 0;
    caller->n_kept = 0;
    caller->is_running = true;
    caller->began_ns = clock_now_ns();
    must(send(caller->fd, request, (size_t)n, MSG_NOSIGNAL) == n, "send");
}

static void end(struct bench *bench, struct caller *caller, uint64_t now_ns)
{
    must(caller->first_ns > 0 && bench->n < CALLS_MAX, "a reply without an event");
    bench->first_us[bench->n] = (float)(caller->first_ns - caller->began_ns) / 1000;
    bench->times_us[bench->n++] = (float)(now_ns - caller->began_ns) / 1000;
    caller->is_running = false;
    if (now_ns < bench->until_ns)
        begin(bench, caller);
}

static bool ends_with(const char *bytes, size_t n, const char *end)
{
    size_t n_end = strlen(end);
    return n >= n_end && memcmp(bytes + n - n_end, end, n_end) == 0;
}

static void read_some(struct bench *bench, struct caller *caller)
{
    static char bytes[sizeof caller->kept + 65536];
    memcpy(bytes, caller->kept, caller->n_kept);
    ssize_t got = recv(caller->fd, bytes + caller->n_kept, sizeof bytes - caller->n_kept - 1, 0);
    uint64_t now_ns = clock_now_ns();
    must(got > 0, "the connection ended");
    size_t n = caller->n_kept + (size_t)got;
    bytes[n] = '\0';
    must(!strstr(bytes, "\"error\""), bytes);
    if (caller->first_ns == 0 && strstr(bytes, "data: "))
        caller->first_ns = now_ns;
    if (ends_with(bytes, n, "data: [DONE]\n\n\r\n0\r\n\r\n")) {
        end(bench, caller, now_ns);
        return;
    }
    caller->n_kept = n < sizeof caller->kept ? n : sizeof caller->kept;
    memcpy(caller->kept, bytes + n - caller->n_kept, caller->n_kept);
}

static void run(struct bench *bench)
{
    struct pollfd fds[CALLERS_MAX];
    uint32_t n_running = bench->n_callers;
    for (uint32_t i = 0; i < bench->n_callers; i++)
        begin(bench, &bench->callers[i]);
    while (n_running > 0) {
        n_running = 0;
        for (uint32_t i = 0; i < bench->n_callers; i++) {
            bool is_running = bench->callers[i].is_running;
            fds[i] = (struct pollfd){.fd = is_running ? bench->callers[i].fd : -1,
                                     .events = POLLIN};
            n_running += is_running;
        }
        must(n_running == 0 || poll(fds, bench->n_callers, 60000) > 0, "silence");
        for (uint32_t i = 0; i < bench->n_callers; i++)
            if (bench->callers[i].is_running && fds[i].revents)
                read_some(bench, &bench->callers[i]);
    }
}

static void open_callers(struct bench *bench)
{
    const int on = 1;
    for (uint32_t i = 0; i < bench->n_callers; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        must(fd >= 0 &&
                 connect(fd, (const struct sockaddr *)&bench->address, sizeof bench->address) ==
                     0 &&
                 setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0,
             "connect");
        bench->callers[i].fd = fd;
    }
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void print(struct bench *bench, double took_s)
{
    qsort(bench->times_us, bench->n, sizeof *bench->times_us, compare);
    qsort(bench->first_us, bench->n, sizeof *bench->first_us, compare);
    uint32_t half = bench->n / 2, most = (uint32_t)((uint64_t)bench->n * 99 / 100);
    printf("{\"calls_per_s\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"first_p50_us\": %.1f, "
           "\"first_p99_us\": %.1f, \"calls\": %u, \"failed\": 0}\n",
           bench->n / took_s, (double)bench->times_us[half], (double)bench->times_us[most],
           (double)bench->first_us[half], (double)bench->first_us[most], bench->n);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    char host[64];
    unsigned port = 0;
    must(argc == 5 && sscanf(argv[1], "%63[0-9.]:%u", host, &port) == 2,
         "usage: http_bench ADDRESS SECONDS CONCURRENCY TOKENS");
    bench.address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    must(inet_pton(AF_INET, host, &bench.address.sin_addr) == 1, "no address");
    bench.n_callers = (uint32_t)strtoul(argv[3], NULL, 10);
    bench.n_tokens = (uint32_t)strtoul(argv[4], NULL, 10);
    must(bench.n_callers > 0 && bench.n_callers <= CALLERS_MAX && bench.n_tokens > 0,
         "CONCURRENCY 1 .. 256, TOKENS from 1");
    bench.times_us = malloc(CALLS_MAX * sizeof *bench.times_us);
    bench.first_us = malloc(CALLS_MAX * sizeof *bench.first_us);
    must(bench.times_us && bench.first_us, "memory");
    open_callers(&bench);
    uint64_t begin_ns = clock_now_ns();
    bench.until_ns = begin_ns + (uint64_t)(strtod(argv[2], NULL) * (double)NS_PER_S);
    run(&bench);
    print(&bench, (double)(clock_now_ns() - begin_ns) / (double)NS_PER_S);
    for (uint32_t i = 0; i < bench.n_callers; i++)
        close(bench.callers[i].fd);
    free(bench.times_us);
    free(bench.first_us);
    return bench.n == 0;
}
