/* process - see process.h: start, state, drain and end of a process. Its ports are in process_ports.c. */
#include "process/process.h"

#include "base/build_info.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/utf8.h"
#include "process/descriptor_limit.h"
#include "process/last_words.h"
#include "process/memory_secrecy.h"
#include "process/ports/advertised_host.h"
#include "process/ports/port_check.h"
#include "process/process_ports.h"
#include "process/syscall_filter.h"
#include "rpc/relay/network.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define DRAIN_LOOK_MS       10   /* between two looks at the number of live requests */
#define DRAIN_LAST_WORDS_MS 2000 /* for replies that are still being sent after the last request */
#define SEND_AWAY_MS        1000 /* clients are sent away when this much of the drain delay is left */
#define LAST_LINE_MS        1000 /* for the log, when exit handlers do not run */
#define FAILED_START_S      10   /* for freeing everything after a failed start */

void process_end_loading(const struct process *process)
{
    assert(!process->has_loaded && "who has served drains");
    log_info("asked to stop while the model loads");
    (void)log_flush(LAST_LINE_MS);
    if (process->options.ports_file[0])
        ports_file_remove(process->options.ports_file);
    _Exit(EXIT_SUCCESS);
}

static struct port_given given_to(const struct process_options *options)
{
    return (struct port_given){
        .has_key = options->cluster_key[0] || options->cluster_key_fd != 0,
        .has_tls = options->tls.certificate[0],
        .has_clear_health = options->tls.has_clear_health,
        .has_peer_tls = options->tls.peer_certificate[0],
        .is_insecure = options->insecure,
    };
}

static struct process_tls_options tls_options(const struct process_options *options)
{
    static const uint32_t ROLES[] = {
        [KVFERRY__INTERNAL__V1__ROLE__ROLE_ROUTER] = TLS_ROLE_BIT(ROUTER),
        [KVFERRY__INTERNAL__V1__ROLE__ROLE_CONTEXT_WORKER] = TLS_ROLE_BIT(CONTEXT),
        [KVFERRY__INTERNAL__V1__ROLE__ROLE_GENERATION_WORKER] = TLS_ROLE_BIT(GENERATION),
    };
    struct process_tls_options tls = options->tls;
    assert((size_t)options->role < sizeof ROLES / sizeof *ROLES);
    tls.role = ROLES[options->role];
    return tls;
}

/* Called before anything is loaded. */
static enum status check_ports_free(const struct process_options *options, struct error *error)
{
    const struct port_row rows[N_PORT_ROWS] = PORT_ROWS(options);
    const struct port_given given = given_to(options);
    for (size_t i = 0; i < N_PORT_ROWS; i++) {
        struct address address;
        if (rows[i].address && rows[i].address[0] && !port_has_tls(rows[i].use, &given) &&
            address_parse_listen(rows[i].address, &address, NULL) == STATUS_OK &&
            !address_is_loopback(&address))
            log_warn("address %s is open to the network without TLS", rows[i].address);
    }
    return port_check_free(rows, N_PORT_ROWS, error);
}

static enum status draw_incarnation(uint64_t *incarnation_out, struct error *error)
{
    uint64_t incarnation = 0;
    while (incarnation == 0)
        TRY(random_secret(&incarnation, sizeof incarnation, error));
    *incarnation_out = incarnation;
    return STATUS_OK;
}

/* ---- start ---- */

void process_follow_parent(uint32_t parent_pid)
{
    if (parent_pid == 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != (pid_t)parent_pid)
        kill(getpid(), SIGTERM);
}

static enum status raise_limits(const struct process_options *options, struct error *error)
{
    struct descriptor_needs needs = {
        .n_ports = 1u + (options->grpc_address != NULL) + (options->health_address[0] != '\0') +
                   (options->http_address && options->http_address[0]) +
                   (options->engine_address && options->engine_address[0]),
        .connections_max = options->relay.connections_max,
        .peers_max = options->peers_max,
        .feed_readers_max = options->feed ? options->feed->readers_max : 0,
        .data_connections_max = options->data_connections_max,
    };
    assert(needs.n_ports <= PROCESS_PORTS + 1);
    return descriptor_limit_raise(&needs, error);
}

/* Checks the advertised address of every port before a port is opened. */
static enum status check_advertised(const struct process_options *options, struct error *error)
{
    const struct port_row rows[N_PORT_ROWS] = PORT_ROWS(options);
    TRY(advertised_host_check(options->advertise_address, error));
    for (size_t i = 0; i < N_PORT_ROWS; i++) {
        struct address address;
        if (rows[i].address && rows[i].address[0] &&
            address_parse_listen(rows[i].address, &address, NULL) == STATUS_OK)
            TRY(advertised_host_apply(options->advertise_address, &address, error));
    }
    return STATUS_OK;
}

enum status process_check(const struct process_options *options, struct error *error)
{
    const struct port_row rows[N_PORT_ROWS] = PORT_ROWS(options);
    struct network_list exempt;
    struct error why = {""};
    if (network_list_read(options->relay.exempt, &exempt, &why) != STATUS_OK)
        return error_set(error, STATUS_INVALID_ARGUMENT, "relay_exempt: %s", why.text);
    TRY(raise_limits(options, error));
    const struct port_given given = given_to(options);
    const struct process_tls_options tls = tls_options(options);
    TRY(port_check(rows, N_PORT_ROWS, &given, error));
    TRY(check_advertised(options, error));
    TRY(process_auth_check(options->cluster_key, error));
    TRY(process_tls_check(&tls, error));
    TRY(process_trace_check(&options->trace, error));
    return options->ports_file[0] ? ports_file_check(options->ports_file, error) : STATUS_OK;
}

enum status process_add_runtime(struct process *process, const char *thread_name,
                                struct error *error, struct rpc_runtime **runtime_out)
{
    assert(process->self_check && "a runtime that nobody watches may stand still unseen");
    last_words_limit(PROCESS_GRPC_START_S);
    TRY(rpc_runtime_create(thread_name, error, runtime_out));
    last_words_limit(0);
    self_check_add_runtime(process->self_check, *runtime_out);
    return STATUS_OK;
}

static enum status open_auth(struct process *process, struct error *error)
{
    const struct process_auth_options options = {
        .path = process->options.cluster_key,
        .descriptor = process->options.cluster_key_fd,
        .life = process->incarnation,
        .nonces_max = process->options.auth_nonces_max,
    };
    const struct process_tls_options tls = tls_options(&process->options);
    assert(process->incarnation != 0 && "proofs are for this life");
    TRY(process_auth_init(&process->auth, &options, process->metrics, error));
    return process_tls_init(&process->tls, &tls, process->metrics, error);
}

static enum status open_parts(struct process *process, struct error *error)
{
    /* Checks come first: a wrong row is reported before a port or a thread exists. Metrics come before their users.
     * Health comes last: it is the first port that other processes see. */
    TRY(process_check(&process->options, error));
    TRY(check_ports_free(&process->options, error));
    TRY(draw_incarnation(&process->incarnation, error));
    TRY(process_ports_open_metrics(process, error));
    TRY(open_auth(process, error));
    TRY(process_trace_init(&process->trace, &process->options.trace, process->metrics, error));
    TRY(self_check_create(process->options.watchdog_ms * NS_PER_MS, &process->self_check));
    TRY(process_add_runtime(process, "rpc-server", error, &process->runtime));
    TRY(rpc_health_create(&process->health));
    rpc_health_set(process->health, "startup", false);
    process_set_health(process, false, true);
    if (process->options.health_address[0])
        TRY(process_listen(process, PORT_HEALTH, NULL, 0, error));
    return STATUS_OK;
}

enum status process_open(struct process *process, const struct process_options *options,
                         struct error *error)
{
    *process = (struct process){.options = *options, .started_ns = clock_now_ns()};
    atomic_init(&process->is_live, true);
    last_words_starting(true);
    log_init(role_name(options->role), options->log_level, options->log_format);
    log_set_access(options->access_log);
    if (!options->core_dumps)
        memory_secrecy_begin(options->is_memory_shared);
    TRY(log_start(error));
    log_info("version %s compiler %s pid %ld", build_version(), build_compiler(), (long)getpid());
    utf8_clean(options->name, strlen(options->name), process->name, sizeof process->name);
    if (process->name[0])
        log_set_name(process->name);
    process_follow_parent(options->parent_pid);
    enum status status = open_parts(process, error);
    if (status != STATUS_OK) {
        last_words_limit(FAILED_START_S);
        process_close(process);
        last_words_limit(0);
    }
    assert(!process->runtime == (status != STATUS_OK) && "a start that failed leaves nothing open");
    return status;
}

void process_serving(struct process *process)
{
    assert(!process->has_loaded && process->servers[PORT_CONTROL] && "it listens, then it serves");
    assert(!atomic_load(&process->is_ready) && "nobody was sent here before it serves");
    if (process->options.seccomp == SECCOMP_ON)
        syscall_filter_begin();
    atomic_store(&process->serving, true); /* everything that handlers read is set */
    process->has_loaded = true;
    last_words_starting(false);
    rpc_health_set(process->health, "startup", true);
    process_ports_log(process);
    log_info("ready in %.2f s", (double)(clock_now_ns() - process->started_ns) / (double)NS_PER_S);
}

void process_cannot_start(enum status status, const struct error *error)
{
    const char *hint = status == STATUS_NO_MEMORY
                           ? " (or of threads: is there a limit, ulimit -v or -u?)"
                           : "";
    assert(status != STATUS_OK);
    last_words_starting(false);
    if (error->text[0])
        log_error("cannot start: %s", error->text);
    else
        log_error("cannot start: %s%s", status_text(status), hint);
    last_words_limit(FAILED_START_S);
}

/* Sets the values for the HTTP pages first: a stuck thread may hold the lock of the health service. */
void process_set_health(struct process *process, bool is_ready, bool is_live)
{
    uint64_t now_ns = clock_now_ns();
    process_auth_look(&process->auth, now_ns);
    process_tls_look(&process->tls);
    process_trace_look(&process->trace, now_ns);
    is_live = self_check_is_live(process->self_check, now_ns) && is_live;
    is_ready = is_ready && is_live && process->has_loaded && !process_is_leaving(process);
    assert((is_live || !is_ready) && "what is dead takes no requests");
    bool was_ready = atomic_exchange(&process->is_ready, is_ready);
    bool was_live = atomic_exchange(&process->is_live, is_live);
    gauge_set(process->ready, is_ready);
    if (is_ready != was_ready || !process->has_loaded) {
        rpc_health_set(process->health, "", is_ready);
        rpc_health_set(process->health, "readiness", is_ready);
        for (uint32_t i = 0; i < process->n_service_names; i++)
            rpc_health_set(process->health, process->service_names[i], is_ready);
    }
    if (is_live != was_live || !process->has_loaded)
        rpc_health_set(process->health, "liveness", is_live);
}

enum status process_refuses(const struct process *process)
{
    if (!atomic_load(&process->serving))
        return STATUS_LOADING;
    return process_is_draining(process) ? STATUS_DRAINING : STATUS_OK;
}

void process_ask_drain(struct process *process)
{
    uint64_t not_asked = 0;
    uint64_t from_ns = clock_now_ns() + process->options.drain_delay_ms * NS_PER_MS;
    assert(from_ns != 0 && "that is: not asked for");
    if (atomic_compare_exchange_strong(&process->refuses_from_ns, &not_asked, from_ns) &&
        process->options.drain_delay_ms > 0)
        log_info("not ready, still serves for %" PRIu64 " ms", process->options.drain_delay_ms);
}

/* The rest of the drain delay, rounded up. */
static uint64_t delay_left_ms(const struct process *process)
{
    uint64_t from_ns = atomic_load(&process->refuses_from_ns);
    uint64_t now_ns = clock_now_ns();
    uint64_t left_ms = from_ns > now_ns ? (from_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
    assert(left_ms <= process->options.drain_delay_ms && "it only ever runs down");
    return left_ms;
}

bool process_is_draining(const struct process *process)
{
    uint64_t from_ns = atomic_load(&process->refuses_from_ns);
    return from_ns != 0 && clock_now_ns() >= from_ns;
}

void process_begin_drain(struct process *process)
{
    atomic_store(&process->refuses_from_ns, clock_now_ns());
    assert(process_is_draining(process) && "who asks for a drain now finds one");
}

/* Shortly before this process refuses calls, tells its clients to connect again: they find another process. If the
 * process was not told to stop, its port stays open. */
static void send_clients_away(struct process *process)
{
    struct rpc_server *server = process->servers[PORT_GRPC];
    bool is_time = process_is_leaving(process) && process->options.drain_delay_ms > 0 &&
                   delay_left_ms(process) <= SEND_AWAY_MS;
    if (!is_time || process->has_sent_away || !server)
        return;
    if (process->is_told_to_stop)
        rpc_server_close_port(server);
    rpc_server_send_away(server);
    process->has_sent_away = true;
}

bool process_goes_on(struct process *process, uint64_t timeout_ms)
{
    if (process_wait(timeout_ms) == PROCESS_STOP) {
        process->is_told_twice = process->is_told_to_stop;
        process->is_told_to_stop = true;
        process_ask_drain(process);
    }
    assert(!process->is_told_to_stop || process_is_leaving(process));
    send_clients_away(process);
    assert(!process->has_sent_away || process_is_leaving(process));
    return !process->is_told_twice && !(process->is_told_to_stop && process_is_draining(process));
}

/* Waits a moment for the live requests. False: a signal to stop ends the wait. */
static bool wait_for_live(struct process *process)
{
    if (!process->is_told_twice)
        process->is_told_twice = process_wait(DRAIN_LOOK_MS) == PROCESS_STOP;
    return !process->is_told_twice;
}

void process_drain(struct process *process, uint32_t (*n_live)(void *arg), void *arg)
{
    uint64_t begin_ns = clock_now_ns();
    uint64_t limit_ns = begin_ns + process->options.drain_limit_ms * NS_PER_MS;
    process_begin_drain(process);
    process_set_health(process, false, process->is_live);
    log_info("drain requests %" PRIu32 " limit_ms %" PRIu64, n_live(arg),
             process->options.drain_limit_ms);
    assert(process_refuses(process) != STATUS_OK && "else what is live could grow");
    uint32_t live = n_live(arg);
    while (live > 0 && clock_now_ns() < limit_ns && wait_for_live(process)) {
        process_trace_look(&process->trace, clock_now_ns());
        live = n_live(arg);
    }

    /* Not earlier: until here, calls that end an open request had to be served. */
    for (int port = 0; port < PROCESS_PORTS; port++)
        if (process->servers[port])
            rpc_server_drain(process->servers[port], live ? 0 : DRAIN_LAST_WORDS_MS * NS_PER_MS);
    log_info("drained cancelled %" PRIu32 " ms %.1f", live,
             (double)(clock_now_ns() - begin_ns) / (double)NS_PER_MS);
}

/* Closes servers before the objects that they use: health, the queue, keys and certificates, metrics. */
void process_close(struct process *process)
{
    process_close_ports(process);
    process_trace_finish(&process->trace);
    self_check_destroy(process->self_check);
    if (process->health)
        rpc_health_destroy(process->health);
    if (process->runtime)
        rpc_runtime_destroy(process->runtime);
    process_auth_finish(&process->auth);
    process_tls_finish(&process->tls);
    http_server_close(process->http);
    if (process->metrics)
        metrics_destroy(process->metrics);
    if (process->options.ports_file && process->options.ports_file[0] && process->has_loaded)
        ports_file_remove(process->options.ports_file);
    *process = (struct process){0};
}

void process_fill_state(const struct process *process, struct process_state *state_out)
{
    snprintf(state_out->name, sizeof state_out->name, "%s", process->name);
    state_out->role = process->options.role;
    state_out->incarnation = process->incarnation;
    /* The delay is read first: a drain may begin between the two reads. */
    state_out->drain_delay_left_ms = delay_left_ms(process);
    state_out->is_draining = process_is_leaving(process);
    assert(state_out->incarnation != 0 && "whoever is asked is alive");
    assert(state_out->is_draining || state_out->drain_delay_left_ms == 0);
    state_out->resident_bytes = process_resident_bytes();
    state_out->process_id = (uint32_t)getpid();
    state_out->uptime_ms = (clock_now_ns() - process->started_ns) / NS_PER_MS;
}
