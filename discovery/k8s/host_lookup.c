#include "discovery/k8s/host_lookup.h"

#include "base/wake.h"
#include "discovery/k8s/fd_wait.h"

#include <assert.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of the lookup and of its thread; the last of both frees it. */
struct job {
    atomic_int holders;
    char host[256];
    char port[8];
    int done_fd;         /* readable: is_done */
    atomic_bool is_done; /* failed and found are set */
    int failed;
    struct addrinfo *found;
};

struct host_lookup {
    struct host_lookup_options options;
    struct job *job; /* NULL: none runs */
};

static const struct addrinfo ANY_FAMILY = {
    .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG};
static const struct addrinfo NUMBERS = {.ai_family = AF_UNSPEC,
                                        .ai_socktype = SOCK_STREAM,
                                        .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST};

static void job_release(struct job *job)
{
    if (!job)
        return;
    int before = atomic_fetch_sub(&job->holders, 1);
    assert(before >= 1 && before <= 2 && "the lookup, and its thread");
    if (before > 1)
        return;
    if (job->found)
        freeaddrinfo(job->found);
    if (job->done_fd >= 0)
        close(job->done_fd);
    free(job);
}

static void *run(void *arg)
{
    struct job *job = arg;
    job->failed = getaddrinfo(job->host, job->port, &ANY_FAMILY, &job->found);
    atomic_store(&job->is_done, true);
    wake_send(job->done_fd);
    job_release(job);
    return NULL;
}

static enum status start_thread(struct job *job)
{
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0)
        return STATUS_NO_MEMORY;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    atomic_store(&job->holders, 2);
    int failed = pthread_create(&thread, &attributes, run, job);
    (void)pthread_attr_destroy(&attributes);
    if (!failed)
        return STATUS_OK;
    atomic_store(&job->holders, 1);
    return STATUS_NO_THREAD;
}

static enum status job_start(const struct host_lookup_options *options, struct job **job_out)
{
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        return STATUS_NO_MEMORY;
    atomic_init(&job->holders, 1);
    snprintf(job->host, sizeof job->host, "%s", options->host);
    snprintf(job->port, sizeof job->port, "%u", options->port);
    job->done_fd = wake_open();
    enum status status = job->done_fd >= 0 ? start_thread(job) : STATUS_IO_FAILED;
    if (status != STATUS_OK) {
        job_release(job);
        return status;
    }
    *job_out = job;
    return STATUS_OK;
}

enum status host_lookup_create(const struct host_lookup_options *options,
                               struct host_lookup **lookup_out)
{
    struct host_lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return STATUS_NO_MEMORY;
    lookup->options = *options;
    *lookup_out = lookup;
    return STATUS_OK;
}

void host_lookup_destroy(struct host_lookup *lookup)
{
    if (!lookup)
        return;
    job_release(lookup->job);
    free(lookup);
}

/* Takes what the job has found, and lets it go. */
static enum status end_job(struct host_lookup *lookup, struct addrinfo **found_out,
                           struct error *error)
{
    struct job *job = lookup->job;
    enum status status = STATUS_OK;
    bool is_done = atomic_load(&job->is_done); /* also what orders the reads below behind it */
    assert(is_done);
    (void)is_done;
    assert((job->failed || job->found) && "a name that is found has an address");
    if (job->failed)
        status = error_set(error, STATUS_NOT_FOUND, "%.200s: %s", job->host,
                           gai_strerror(job->failed));
    else
        *found_out = job->found;
    if (!job->failed)
        job->found = NULL;
    lookup->job = NULL;
    job_release(job);
    return status;
}

enum status host_lookup_run(struct host_lookup *lookup, int stop_fd, uint64_t until_ns,
                            struct addrinfo **found_out, struct error *error)
{
    char port[8];
    snprintf(port, sizeof port, "%u", lookup->options.port);
    if (getaddrinfo(lookup->options.host, port, &NUMBERS, found_out) == 0)
        return STATUS_OK;
    if (!lookup->job) {
        enum status status = job_start(&lookup->options, &lookup->job);
        if (status != STATUS_OK)
            return error_set(error, status, "%.200s cannot be looked up: %s", lookup->options.host,
                             status_text(status));
    }
    assert(lookup->job);
    enum status status = fd_wait(lookup->job->done_fd, POLLIN, stop_fd, until_ns);
    if (status != STATUS_OK)
        return error_set(error, status, "%.200s cannot be resolved: %s", lookup->options.host,
                         status_text(status));
    return end_job(lookup, found_out, error);
}
