#include "discovery/k8s/k8s_endpoints.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/random.h"
#include "base/secret.h"
#include "base/wake.h"
#include "discovery/k8s/api_exchange.h"
#include "discovery/k8s/fd_wait.h"
#include "discovery/k8s/service_account.h"
#include "discovery/k8s/slice_json.h"
#include "discovery/k8s/slice_set.h"
#include "discovery/reminder.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE_SLICES 16u  /* with 100 endpoints each, as the controller makes them, about 500 KB */
#define PAGES_MAX   256u /* as many as slices, at least */
#define GONE        410u

static const struct k8s_endpoints_limits DEFAULTS = {.answer_ms = 15000,
                                                     .silence_ms = 150000,
                                                     .watch_s = 300,
                                                     .settle_ms = 100,
                                                     .backoff_min_ms = 200,
                                                     .backoff_max_ms = 30000,
                                                     .well_ms = 1000};

struct k8s_endpoints {
    struct k8s_target target;
    struct slice_port port; /* its name is target's */
    struct address server;
    char *folder;
    struct k8s_endpoints_limits limits;
    void (*on_change)(void *arg, const char *const *addresses, uint32_t n);
    void *arg;
    int stop_fd; /* a wake; -1: none */
    pthread_t thread;
    bool has_thread;

    /* Of the thread. */
    struct host_lookup *lookup;
    struct slice_set *set;
    char version[SLICE_JSON_VERSION_MAX + 1]; /* to watch from; "": a LIST is due */
    bool is_known;                            /* told is what was handed to on_change last */
    struct slice_addresses *told, *next;
    uint64_t tell_ns; /* when the set is to be told; DEADLINE_NONE: it is as told */
    struct random random;
    uint32_t n_failures; /* in a row */
    uint32_t retry_after_s;
    struct reminder reminder;
    bool was_said;    /* the failure that goes on */
    bool lacked_port; /* a slice, when last told */
};

/* ---- the set, told ---- */

static bool is_told(const struct k8s_endpoints *endpoints)
{
    const struct slice_addresses *told = endpoints->told, *next = endpoints->next;
    if (!endpoints->is_known || told->n != next->n)
        return false;
    for (uint32_t i = 0; i < next->n; i++)
        if (strcmp(told->list[i], next->list[i]) != 0)
            return false;
    return true;
}

/* Says once what will not be used, when it begins. */
static void say_unused(struct k8s_endpoints *endpoints)
{
    const struct k8s_target *target = &endpoints->target;
    uint32_t n_lacking = slice_set_n_lacking_port(endpoints->set);
    if (n_lacking > 0 && !endpoints->lacked_port)
        log_warn("kubernetes: %u of %u EndpointSlices of %s/%s have no TCP port \"%s\": their "
                 "endpoints are not used",
                 n_lacking, slice_set_n(endpoints->set), target->name_space, target->service,
                 target->port);
    if (endpoints->next->is_cut && !endpoints->told->is_cut)
        log_warn("kubernetes: %s/%s has more than %u addresses: the first in order are used",
                 target->name_space, target->service, SLICE_SET_ADDRESSES_MAX);
    endpoints->lacked_port = n_lacking > 0;
}

static void tell(struct k8s_endpoints *endpoints)
{
    endpoints->tell_ns = DEADLINE_NONE;
    slice_set_addresses(endpoints->set, endpoints->next);
    say_unused(endpoints);
    if (is_told(endpoints)) {
        endpoints->told->is_cut = endpoints->next->is_cut;
        return;
    }
    struct slice_addresses *told = endpoints->next;
    endpoints->next = endpoints->told;
    endpoints->told = told;
    if (!endpoints->is_known)
        log_info("kubernetes: %s/%s has %u addresses", endpoints->target.name_space,
                 endpoints->target.service, told->n);
    endpoints->is_known = true;
    endpoints->on_change(endpoints->arg, told->list, told->n);
}

/* ---- how it goes ---- */

static void went_well(struct k8s_endpoints *endpoints, uint64_t now_ns)
{
    endpoints->n_failures = 0;
    (void)reminder_is_due(&endpoints->reminder, false, now_ns);
    if (endpoints->was_said)
        log_info("kubernetes: EndpointSlices of %s/%s are watched again",
                 endpoints->target.name_space, endpoints->target.service);
    endpoints->was_said = false;
}

static void say_failure(struct k8s_endpoints *endpoints, const struct error *error)
{
    if (!reminder_is_due(&endpoints->reminder, true, clock_now_ns()))
        return;
    endpoints->was_said = true;
    log_warn("kubernetes: EndpointSlices of %s/%s cannot be %s: %s; %s",
             endpoints->target.name_space, endpoints->target.service,
             endpoints->version[0] ? "watched" : "read", error->text,
             endpoints->is_known ? "the last known addresses stay" : "no address is known");
}

/* Between half of the interval and all of it, so that routers do not come back as one. */
static uint64_t backoff_ns(struct k8s_endpoints *endpoints)
{
    const struct k8s_endpoints_limits *limits = &endpoints->limits;
    uint64_t ms = limits->backoff_min_ms;
    assert(endpoints->n_failures > 0 && ms > 0);
    for (uint32_t i = 1; i < endpoints->n_failures && ms < limits->backoff_max_ms; i++)
        ms *= 2;
    if (ms < 1000ull * endpoints->retry_after_s)
        ms = 1000ull * endpoints->retry_after_s;
    if (ms > limits->backoff_max_ms)
        ms = limits->backoff_max_ms;
    return (ms + random_below(&endpoints->random, ms + 1)) * NS_PER_MS / 2;
}

/* Waits before the next try. CANCELLED: stop. */
static enum status after_failure(struct k8s_endpoints *endpoints, const struct error *error)
{
    endpoints->n_failures++;
    say_failure(endpoints, error);
    uint64_t until_ns = clock_now_ns() + backoff_ns(endpoints);
    endpoints->retry_after_s = 0;
    return fd_wait(-1, 0, endpoints->stop_fd, until_ns);
}

/* ---- whom it asks ---- */

/* OK for 200. */
static enum status judge_code(struct k8s_endpoints *endpoints, const struct api_exchange *exchange,
                              struct error *error)
{
    const struct api_answer *answer = &exchange->answer;
    char reason[180];
    unsigned code = answer->reply.code;
    assert(code >= 200 && "its head is there");
    if (code == 200)
        return STATUS_OK;
    if (code == GONE)
        endpoints->version[0] = '\0';
    endpoints->retry_after_s = answer->reply.retry_after_s;
    slice_json_reason(answer->text, answer->n, reason, sizeof reason);
    return error_set(error, code == 401 ? STATUS_UNAUTHENTICATED : STATUS_NOT_ALLOWED,
                     "the API server says %u: %s", code, reason);
}

static uint64_t after_ms(uint32_t ms)
{
    return clock_now_ns() + ms * NS_PER_MS;
}

static struct api_server server_of(const struct k8s_endpoints *endpoints)
{
    return (struct api_server){.folder = endpoints->folder,
                               .address = &endpoints->server,
                               .target = &endpoints->target,
                               .lookup = endpoints->lookup,
                               .stop_fd = endpoints->stop_fd};
}

/* ---- LIST ---- */

static enum status read_page(struct k8s_endpoints *endpoints, struct api_exchange *exchange,
                             struct slice_set *set, struct slice_page *page, struct error *error)
{
    uint64_t until_ns = after_ms(endpoints->limits.answer_ms);
    const struct api_server server = server_of(endpoints);
    struct api_request request = {.more = page->more, .limit = PAGE_SLICES};
    TRY(api_exchange_begin(&server, exchange, &request, until_ns, error));
    TRY(api_exchange_await(exchange, false, until_ns, error));
    TRY(judge_code(endpoints, exchange, error));
    return slice_json_page(exchange->answer.text, exchange->answer.n, endpoints->port, set, page,
                           error);
}

static enum status read_pages(struct k8s_endpoints *endpoints, struct slice_set *set,
                              struct slice_page *page, struct error *error)
{
    for (uint32_t i = 0; i < PAGES_MAX; i++) {
        struct api_exchange *exchange;
        TRY(api_exchange_create(&exchange, error));
        enum status status = read_page(endpoints, exchange, set, page, error);
        api_exchange_end(exchange);
        if (status != STATUS_OK || !page->more[0])
            return status;
    }
    return error_set(error, STATUS_UNSUPPORTED, "the list has more than %u pages", PAGES_MAX);
}

static enum status list(struct k8s_endpoints *endpoints, struct error *error)
{
    struct slice_page page = {.more = ""};
    struct slice_set *set;
    enum status status = slice_set_create(&set);
    if (status != STATUS_OK)
        return error_set(error, status, "%s", status_text(status));
    status = read_pages(endpoints, set, &page, error);
    if (status != STATUS_OK) {
        slice_set_destroy(set);
        return status;
    }
    assert(page.version[0] && !page.more[0] && "whole, and something to watch from");
    slice_set_destroy(endpoints->set);
    endpoints->set = set;
    memcpy(endpoints->version, page.version, sizeof endpoints->version);
    tell(endpoints);
    return STATUS_OK;
}

/* ---- WATCH ---- */

static enum status take_event(struct k8s_endpoints *endpoints, const char *line, size_t bytes,
                              struct error *error)
{
    struct slice_event event;
    enum status status = slice_json_event(line, bytes, endpoints->port, endpoints->set, &event,
                                          error);
    if (status != STATUS_OK || event.kind == SLICE_EVENT_ERROR)
        endpoints->version[0] = '\0'; /* what was missed is in a LIST */
    TRY(status);
    if (event.kind == SLICE_EVENT_ERROR)
        return error_set(error, STATUS_STALE_PEER, "the API server ends the watch: %u, %s",
                         event.code, event.reason);
    memcpy(endpoints->version, event.version, sizeof endpoints->version);
    if (event.kind == SLICE_EVENT_CHANGE && endpoints->tell_ns == DEADLINE_NONE)
        endpoints->tell_ns = after_ms(endpoints->limits.settle_ms);
    return STATUS_OK;
}

static enum status take_events(struct k8s_endpoints *endpoints, struct api_exchange *exchange,
                               uint64_t *silent_ns, struct error *error)
{
    const char *line;
    size_t bytes;
    while (api_answer_next_line(&exchange->answer, &line, &bytes)) {
        TRY(take_event(endpoints, line, bytes, error));
        *silent_ns = after_ms(endpoints->limits.silence_ms);
    }
    return STATUS_OK;
}

/* What is due by now: the set told, a watch found good. The next such time. */
static uint64_t do_due(struct k8s_endpoints *endpoints, uint64_t *well_ns)
{
    uint64_t now_ns = clock_now_ns();
    if (now_ns >= endpoints->tell_ns)
        tell(endpoints);
    if (now_ns >= *well_ns) {
        went_well(endpoints, now_ns);
        *well_ns = DEADLINE_NONE;
    }
    return clock_earlier(endpoints->tell_ns, *well_ns);
}

/* OK: it ended as it should, or was silent for too long. */
static enum status follow(struct k8s_endpoints *endpoints, struct api_exchange *exchange,
                          struct error *error)
{
    uint64_t well_ns = after_ms(endpoints->limits.well_ms);
    uint64_t silent_ns = after_ms(endpoints->limits.silence_ms);
    for (;;) {
        TRY(take_events(endpoints, exchange, &silent_ns, error));
        uint64_t due_ns = do_due(endpoints, &well_ns);
        if (clock_now_ns() >= silent_ns)
            return STATUS_OK;
        if (api_answer_is_done(&exchange->answer))
            break;
        enum status status = api_exchange_read(exchange, clock_earlier(due_ns, silent_ns), error);
        if (status != STATUS_TIMED_OUT)
            TRY(status);
    }
    if (well_ns == DEADLINE_NONE)
        return STATUS_OK;
    return error_set(error, STATUS_PEER_LOST, "the API server ends a watch as soon as it begins");
}

static enum status read_watch(struct k8s_endpoints *endpoints, struct api_exchange *exchange,
                              struct error *error)
{
    uint64_t until_ns = after_ms(endpoints->limits.answer_ms);
    uint32_t watch_s = endpoints->limits.watch_s;
    const struct api_server server = server_of(endpoints);
    struct api_request request = {
        .version = endpoints->version,
        .watch_s = watch_s + (uint32_t)random_below(&endpoints->random, watch_s + 1ull)};
    TRY(api_exchange_begin(&server, exchange, &request, until_ns, error));
    TRY(api_exchange_await(exchange, true, until_ns, error));
    TRY(judge_code(endpoints, exchange, error));
    return follow(endpoints, exchange, error);
}

static enum status watch(struct k8s_endpoints *endpoints, struct error *error)
{
    struct api_exchange *exchange;
    TRY(api_exchange_create(&exchange, error));
    enum status status = read_watch(endpoints, exchange, error);
    api_exchange_end(exchange);
    if (endpoints->tell_ns != DEADLINE_NONE && status != STATUS_CANCELLED)
        tell(endpoints);
    return status;
}

/* ---- the thread ---- */

static void *run(void *arg)
{
    struct k8s_endpoints *endpoints = arg;
    sigset_t pipe_only;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, NULL); /* https_stream.h */
    for (;;) {
        struct error error = {.text = ""};
        enum status status = endpoints->version[0] ? watch(endpoints, &error)
                                                   : list(endpoints, &error);
        if (status != STATUS_OK && status != STATUS_CANCELLED)
            status = after_failure(endpoints, &error);
        if (status == STATUS_CANCELLED)
            return NULL;
    }
}

/* ---- start and stop ---- */

static enum status set_target(struct k8s_endpoints *endpoints,
                              const struct k8s_endpoints_options *options, struct error *error)
{
    struct k8s_target *target = &endpoints->target;
    const char *port = options->port ? options->port : K8S_PORT_NAME;
    unsigned number;
    if (options->name_space[0])
        TRY(k8s_label_check("namespace", options->name_space, error));
    TRY(k8s_label_check("service", options->service, error));
    TRY(k8s_port_parse(port, &number, error));
    snprintf(target->name_space, sizeof target->name_space, "%s", options->name_space);
    snprintf(target->service, sizeof target->service, "%s", options->service);
    snprintf(target->port, sizeof target->port, "%s", port);
    endpoints->port = (struct slice_port){.name = target->port, .number = (uint16_t)number};
    if (!target->name_space[0])
        return service_account_namespace(endpoints->folder, target->name_space, error);
    return STATUS_OK;
}

static enum status set_server(struct k8s_endpoints *endpoints, const char *text,
                              struct error *error)
{
    char both[ADDRESS_TEXT_MAX];
    if (!text) { /* as the kubelet tells every container */
        const char *host = secure_getenv("KUBERNETES_SERVICE_HOST");
        const char *port = secure_getenv("KUBERNETES_SERVICE_PORT");
        if (!host || !port)
            return error_set(error, STATUS_UNSUPPORTED,
                             "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT do not name an "
                             "API server: does this run in a pod?");
        snprintf(both, sizeof both, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
        text = both;
    }
    TRY(address_parse(text, &endpoints->server, error));
    if (endpoints->server.is_unix || !endpoints->server.host[0] || endpoints->server.port == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "API server \"%.80s\" is not HOST:PORT",
                         text);
    return STATUS_OK;
}

/* Whether it is there at all; it is read again for each request. */
static enum status check_folder(const char *folder, struct error *error)
{
    char *text;
    size_t bytes;
    TRY(service_account_token(folder, &text, error));
    secret_wipe(text, strlen(text));
    free(text);
    TRY(service_account_ca(folder, &text, &bytes, error));
    free(text);
    return STATUS_OK;
}

static void set_limits(struct k8s_endpoints *endpoints, const struct k8s_endpoints_limits *wanted)
{
    struct k8s_endpoints_limits *limits = &endpoints->limits;
    *limits = *wanted;
#define DEFAULT(name) limits->name = limits->name ? limits->name : DEFAULTS.name
    DEFAULT(answer_ms);
    DEFAULT(silence_ms);
    DEFAULT(watch_s);
    DEFAULT(settle_ms);
    DEFAULT(backoff_min_ms);
    DEFAULT(backoff_max_ms);
    DEFAULT(well_ms);
#undef DEFAULT
}

static enum status create_parts(struct k8s_endpoints *endpoints, struct error *error)
{
    uint64_t seed;
    const struct host_lookup_options lookup = {.host = endpoints->server.host,
                                               .port = endpoints->server.port};
    TRY(random_secret(&seed, sizeof seed, error));
    random_init(&endpoints->random, seed);
    endpoints->told = calloc(1, sizeof *endpoints->told);
    endpoints->next = calloc(1, sizeof *endpoints->next);
    if (!endpoints->told || !endpoints->next)
        return STATUS_NO_MEMORY;
    TRY(slice_set_create(&endpoints->set));
    TRY(host_lookup_create(&lookup, &endpoints->lookup));
    endpoints->stop_fd = wake_open();
    if (endpoints->stop_fd < 0)
        return error_set(error, STATUS_IO_FAILED, "no eventfd: %m");
    return STATUS_OK;
}

static enum status prepare(struct k8s_endpoints *endpoints,
                           const struct k8s_endpoints_options *options, struct error *error)
{
    endpoints->folder = strdup(options->folder ? options->folder : SERVICE_ACCOUNT_FOLDER);
    if (!endpoints->folder)
        return STATUS_NO_MEMORY;
    TRY(check_folder(endpoints->folder, error));
    TRY(set_target(endpoints, options, error));
    TRY(set_server(endpoints, options->server, error));
    set_limits(endpoints, &options->limits);
    return create_parts(endpoints, error);
}

enum status k8s_endpoints_start(const struct k8s_endpoints_options *options, struct error *error,
                                struct k8s_endpoints **endpoints_out)
{
    assert(options->name_space && options->service && options->on_change);
    struct k8s_endpoints *endpoints = calloc(1, sizeof *endpoints);
    error_write(error, "%s", status_text(STATUS_NO_MEMORY)); /* unless there is more to say */
    if (!endpoints)
        return STATUS_NO_MEMORY;
    endpoints->stop_fd = -1;
    endpoints->tell_ns = DEADLINE_NONE;
    endpoints->on_change = options->on_change;
    endpoints->arg = options->arg;
    enum status status = prepare(endpoints, options, error);
    if (status != STATUS_OK)
        goto fail;
    int failed = pthread_create(&endpoints->thread, NULL, run, endpoints);
    if (failed) {
        status = error_set(error, STATUS_NO_THREAD, "no thread for EndpointSlices: %s",
                           strerror(failed));
        goto fail;
    }
    endpoints->has_thread = true;
    (void)pthread_setname_np(endpoints->thread, "k8s");
    *endpoints_out = endpoints;
    return STATUS_OK;

fail:
    k8s_endpoints_stop(endpoints);
    return status;
}

void k8s_endpoints_stop(struct k8s_endpoints *endpoints)
{
    if (!endpoints)
        return;
    assert(!endpoints->has_thread || endpoints->stop_fd >= 0);
    if (endpoints->has_thread) {
        wake_send(endpoints->stop_fd);
        pthread_join(endpoints->thread, NULL);
    }
    host_lookup_destroy(endpoints->lookup);
    slice_set_destroy(endpoints->set);
    free(endpoints->told);
    free(endpoints->next);
    if (endpoints->stop_fd >= 0)
        close(endpoints->stop_fd);
    free(endpoints->folder);
    free(endpoints);
}
