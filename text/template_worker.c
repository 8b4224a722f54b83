#include "text/template_worker.h"

#include "base/clock.h"
#include "text/jinja.h"
#include "text/render_frame.h"
#include "text/template_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES ((rlim_t)64 << 20) /* the kernel keeps twice that free below the stack */
#define VALUES_DEEP 200
#define FORMAT_MAX  128

struct worker {
    int fd;
    bool is_filtered;
    const struct template_limits *limits;
    struct jinja *jinja;
    char sentence[RENDER_SENTENCE_MAX];
};

static void on_no_memory(void)
{
    _exit(WORKER_EXIT_NO_MEMORY);
}

static size_t write_time(int64_t now_unix_s, const char *format, size_t n_bytes, char *out,
                         size_t out_bytes_max)
{
    char text[FORMAT_MAX];
    time_t now = (time_t)now_unix_s;
    struct tm fields;
    if (n_bytes == 0 || n_bytes >= sizeof text || !localtime_r(&now, &fields))
        return 0;
    memcpy(text, format, n_bytes);
    text[n_bytes] = '\0';
    return strftime(out, out_bytes_max, text, &fields); /* NOLINT: the format is the template's */
}

/* Bytes of address space, sanitizers' shadows included. */
static uint64_t address_space(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%llu", &pages) != 1) /* NOLINT(cert-err34-c): the kernel's number */
        pages = 0;
    if (file)
        fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void set_limits(const struct template_limits *limits)
{
    uint64_t begun = address_space();
    struct rlimit memory = {begun + limits->memory_bytes, begun + limits->memory_bytes};
    struct rlimit stack = {STACK_BYTES, STACK_BYTES}, none = {0, 0},
                  files = {3, 3}; /* the three that are open */
    setrlimit(RLIMIT_STACK, &stack);
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_NOFILE, &files);
    if (begun > 0)
        setrlimit(RLIMIT_AS, &memory);
}

/* Of this process, all of it, until it is set to 0 again. */
static void limit_cpu(uint64_t cpu_ms)
{
    struct itimerval timer = {.it_value = {.tv_sec = (time_t)(cpu_ms / 1000),
                                           .tv_usec = (suseconds_t)(cpu_ms % 1000 * 1000)}};
    setitimer(ITIMER_PROF, &timer, NULL);
}

static enum jinja_result create(struct worker *worker, const struct render_frame *frame,
                                const char *body, const struct jinja_error *error)
{
    const struct jinja_limits limits = {
        .fuel = frame->a, .depth = VALUES_DEEP, .out_bytes_max = (size_t)frame->b};
    const struct jinja_text tokens = {body, frame->body_bytes};
    if (worker->jinja)
        return JINJA_PANIC;
    return jinja_create(&limits, &tokens, write_time, error, &worker->jinja);
}

static enum jinja_result add(struct worker *worker, const struct render_frame *frame,
                             const char *body, const struct jinja_error *error)
{
    const struct jinja_text name = {body, (size_t)frame->a};
    const struct jinja_text source = {body + frame->a, frame->body_bytes - (size_t)frame->a};
    return jinja_add(worker->jinja, &name, &source, error);
}

static enum jinja_result do_work(struct worker *worker, const struct render_frame *frame,
                                 const char *body, struct jinja_text *prompt)
{
    const struct jinja_error error = {worker->sentence, sizeof worker->sentence};
    const struct jinja_input input = {.json = {body, frame->body_bytes},
                                      .now_unix_s = (int64_t)frame->a,
                                      .mark = (uint32_t)frame->b};
    worker->sentence[0] = '\0';
    if (frame->kind == RENDER_TOKENS)
        return create(worker, frame, body, &error);
    if (!worker->jinja || frame->kind == RENDER_ANSWER)
        _exit(WORKER_EXIT_BAD_FRAME);
    if (frame->kind == RENDER_TEMPLATE)
        return add(worker, frame, body, &error);
    return jinja_render(worker->jinja, &input, &error, prompt);
}

static bool serve_one(struct worker *worker)
{
    struct render_frame frame;
    struct jinja_text prompt = {"", 0};
    char *body = NULL;
    enum status status = render_frame_receive(worker->fd, worker->limits->request_bytes_max,
                                              DEADLINE_NONE, &frame, &body);
    if (status == STATUS_PEER_LOST)
        return false;
    if (status != STATUS_OK)
        _exit(status == STATUS_NO_MEMORY ? WORKER_EXIT_NO_MEMORY : WORKER_EXIT_BAD_FRAME);
    limit_cpu(worker->limits->cpu_ms);
    enum jinja_result result = do_work(worker, &frame, body, &prompt);
    limit_cpu(0);
    free(body);
    if (result != JINJA_OK)
        prompt = (struct jinja_text){worker->sentence, strlen(worker->sentence)};
    const struct render_frame answer = {.kind = RENDER_ANSWER,
                                        .body_bytes = (uint32_t)prompt.n_bytes,
                                        .a = (uint64_t)result,
                                        .b = worker->is_filtered};
    return render_frame_send(worker->fd, &answer, prompt.bytes, DEADLINE_NONE) == STATUS_OK;
}

int template_worker_run(int socket_end, const struct template_limits *limits)
{
    struct worker worker = {.fd = socket_end, .limits = limits};
    prctl(PR_SET_NAME, "template-worker");
    prctl(PR_SET_DUMPABLE, 0);
    set_limits(limits);
    signal(SIGPROF, SIG_DFL);
    jinja_prepare(on_no_memory);
    worker.is_filtered = template_filter_begin();
    while (serve_one(&worker))
        ;
    return EXIT_SUCCESS;
}
