#include "router/router.h"

#include "base/clock.h"
#include "base/cpu_room.h"
#include "base/log/log.h"
#include "base/memory_room.h"
#include "base/random.h"
#include "discovery/reminder.h"
#include "process/admin_service.h"
#include "process/ports/address.h"
#include "router/admission/admission.h"
#include "router/doors.h"
#include "router/kv_event_client.h"
#include "router/router_config.h"
#include "router/router_watch.h"
#include "router/workers/worker_sources.h"
#include "text/template_renderer.h"
#include "text/text_metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Between two looks at the workers until it can serve and, for so long, has seen each of them ready. */
#define EAGER_POLL_MS  20 /* and a millisecond for each worker: a question costs about 0.1 ms */
#define EAGER_LIMIT_NS (30 * NS_PER_S)
#define MIB            (1 << 20)
#define LOOK_MS        100 /* at what waits, when poll_ms is longer */

enum { DOORS_MAX = 8 };
enum door_step { DOOR_DRAIN, DOOR_CLOSE, DOOR_DESTROY };

struct router {
    struct router_config config;
    const char *folder;
    char model_name[PROCESS_NAME_MAX];
    char tokenizer_digest[TOKENIZER_DIGEST_TEXT];
    struct process process;
    struct router_metrics metrics;
    struct tenant_metrics tenant_metrics;
    struct admission admission;
    struct generation_defaults defaults;
    struct tokenizer *tokenizer;
    struct text_thread *text_thread;
    struct template_renderer *renderer; /* NULL: no chat template */
    struct text_metrics no_renderer;
    struct early_requests *early;
    struct rpc_client *rpc;
    struct watch *watch; /* NULL: no page */
    struct router_watch watched;
    struct dispatch *dispatch;
    struct worker_clients *workers;
    struct worker_sources *sources;
    struct kv_event_client *events; /* NULL: gateways are told none */
    struct intake intake;
    struct served_model model;
    const struct door_table *table;
    void *doors[DOORS_MAX]; /* [table->n] NULL: not created */
    struct admin_service admin;
    bool is_ready; /* as of the last look, like what follows */
    bool is_eager;
    struct reminder lacks, is_local;
};

static void fill_state(void *arg, struct process_state *state_out)
{
    struct router *router = arg;
    if (process_refuses(&router->process) == STATUS_LOADING)
        return;
    struct dispatch_view view;
    dispatch_look(router->dispatch, &view);
    state_out->is_ready = view.lacks == STATUS_OK;
    state_out->requests_running = view.live - view.waiting;
    state_out->requests_waiting = view.waiting + early_requests_count(router->early);
    if (served_model_card(&router->model, &state_out->model) != STATUS_OK)
        snprintf(state_out->model.name, sizeof state_out->model.name, "%s", router->model_name);
    state_out->n_peers = worker_clients_peers(router->workers, state_out->peers,
                                              state_out->peers_max);
}

/* ---- start ---- */

/* A model without a template serves all but chat; an operator's file must be right. */
static enum status start_renderer(struct router *router, struct error *error)
{
    const struct router_config *config = &router->config;
    const struct template_renderer_options options = {
        .folder = router->folder, TEXT_LIMITS(config), .metrics = router->process.metrics};
    struct error why = {0};
    enum status status = template_renderer_create(&options, &why, &router->renderer);
    router->model.has_chat_template = status == STATUS_OK;
    if (status == STATUS_OK) {
        log_info("chat template %s",
                 config->chat_template[0] ? config->chat_template : "of the model");
        return STATUS_OK;
    }
    if (config->chat_template[0])
        return error_set(error, status, "%s", why.text[0] ? why.text : status_text(status));
    text_metrics_init(&router->no_renderer,
                      router->process.metrics); /* a role has one set of metrics */
    log_write(status == STATUS_NO_CHAT_TEMPLATE ? LOG_INFO : LOG_WARN, NULL, "no chat: %s",
              why.text[0] ? why.text : status_text(status));
    return STATUS_OK;
}

static enum status load_texts(struct router *router, struct error *error)
{
    const struct router_config *config = &router->config;
    TRY(generation_defaults_read(router->folder, &router->defaults, error));
    TRY(tokenizer_load(router->folder, error, &router->tokenizer));
    uint8_t digest[TOKENIZER_DIGEST_BYTES];
    tokenizer_digest(router->tokenizer, digest);
    tokenizer_digest_format(digest, router->tokenizer_digest);
    log_info("tokenizer ids %u digest %s", tokenizer_n_ids(router->tokenizer),
             router->tokenizer_digest);
    TRY(start_renderer(router, error));
    return text_thread_start(config->text_queue_max, config->text_queue_bytes_max,
                             &router->text_thread);
}

static enum status create_early(struct router *router)
{
    const struct router_config *config = &router->config;
    struct early_requests_options early = {
        .requests_max = config->wait_max < config->requests_max ? config->wait_max
                                                                : config->requests_max,
        .bytes_max = config->text_queue_bytes_max,
        .wait_limit_ns = config->wait_limit_ms * NS_PER_MS,
    };
    return early_requests_create(&early, &router->early);
}

static enum status create_dispatch(struct router *router, struct error *error)
{
    const struct router_config *config = &router->config;
    struct dispatch_options options = {
        .core = {.workers_max = PROCESS_PEERS_MAX,
                 .requests_max = config->requests_max,
                 .attempts_max = config->attempts_max,
                 .prefixes_max = config->prefixes_max,
                 .prompt_tokens_max = config->prompt_tokens_max,
                 .block_tokens = config->kv_block_tokens,
                 .local_prefill = config->local_prefill,
                 .wait_max = config->wait_max,
                 .wait_limit_ns = config->wait_limit_ms * NS_PER_MS},
        .metrics = &router->metrics,
        .watch = router->watch,
        .ended_max = config->page_ended_max,
    };
    TRY(random_secret(&options.core.prefix_key, sizeof options.core.prefix_key, error));
    TRY(dispatch_create(&options, error, &router->dispatch));

    struct rpc_client_options rpc;
    rpc_client_options_init(&rpc);
    rpc.message_bytes_max = (uint32_t)config->message_bytes_max;
    rpc.header_bytes_max = (uint32_t)config->header_bytes_max;
    rpc.keepalive_time_ms = (uint32_t)config->keepalive_ms;
    rpc.keepalive_timeout_ms = (uint32_t)config->keepalive_timeout_ms;
    rpc.key = router->process.auth.key;
    rpc.tls = router->process.tls.client;
    /* One queue for both: a second thread in gRPC would take the poller's place at each call, and give it back. */
    TRY(rpc_client_create(router->process.runtime, &rpc, &router->rpc));
    struct worker_clients_options workers = {
        .rpc = router->rpc,
        .dispatch = router->dispatch,
        .series = &router->metrics.series,
        .tokenizer_digest = router->tokenizer_digest,
        .poll_limit_ns = config->poll_limit_ms * NS_PER_MS,
    };
    TRY(worker_clients_create(&workers, &router->workers));
    if (config->engine_address[0] && config->kv_event_blocks_max > 0)
        TRY(kv_event_client_create(
            &(struct kv_event_client_options){.rpc = router->rpc,
                                              .series = &router->metrics.series,
                                              .blocks_max = config->kv_event_blocks_max,
                                              .block_tokens = config->kv_block_tokens},
            error, &router->events));
    struct worker_sources_options sources = {
        .clients = router->workers,
        .generation_workers = config->generation_workers,
        .context_workers = config->context_workers,
        .resolve_ns = config->resolve_ms * NS_PER_MS,
    };
    return worker_sources_start(&sources, error, &router->sources);
}

static void connect_intake(struct router *router)
{
    struct intake *intake = &router->intake;
    assert(process_refuses(&router->process) == STATUS_LOADING && "handlers do not look yet");
    intake->defaults = &router->defaults;
    intake->tokenizer = router->tokenizer;
    intake->text_thread = router->text_thread;
    intake->renderer = router->renderer;
    intake->dispatch = router->dispatch;
    intake->workers = router->workers;
    intake->events = router->events;
    router->model.workers = router->workers;
}

static void connect_watch(struct router *router)
{
    router->watched = (struct router_watch){
        .process = &router->process,
        .model_name = router->model_name,
        .dispatch = router->dispatch,
        .workers = router->workers,
        .early = router->early,
    };
    if (router->watch)
        watch_connect(router->watch, router_watch_fill, &router->watched);
}

static void fill_process_options(const void *values, struct process_options *options_out)
{
    const struct router_config *config = values;
    *options_out = (struct process_options){
        .role = KVFERRY__INTERNAL__V1__ROLE__ROLE_ROUTER,
        .grpc_address = config->grpc_address,
        .http_address = config->http_address,
        .engine_address = config->engine_address,
        .peers_max = PROCESS_PEERS_MAX,
        PROCESS_OPTIONS(config),
    };
}

static enum status check(const void *values, const char *folder, struct error *error)
{
    const struct router_config *config = values;
    struct generation_defaults defaults;
    struct tokenizer *tokenizer;
    TRY(worker_sources_check(config->generation_workers, config->context_workers, error));
    TRY(admission_check(config->tokens_file, config->salt_key_file, error));
    TRY(generation_defaults_read(folder, &defaults, error));
    TRY(tokenizer_load(folder, error, &tokenizer));
    tokenizer_destroy(tokenizer);
    return STATUS_OK;
}

#define THREADS 4 /* main, the log's, the text's, and one for calls taken and made */

static void print_plan(const struct router_config *config, const struct tokenizer *tokenizer,
                       const char *folder, FILE *out)
{
    struct cpu_room cpus;
    struct memory_room room;
    char text[CPU_ROOM_TEXT_MAX];
    cpu_room_read("", &cpus);
    cpu_room_format(&cpus, text);
    fprintf(out, "\nrole        router\nmodel       %s, a tokenizer of %u ids\n", folder,
            tokenizer_n_ids(tokenizer));
    fprintf(out, "workers     generation %s, context %s; asked every %" PRIu64 " ms\n",
            config->generation_workers[0] ? config->generation_workers : "none given",
            config->context_workers[0] ? config->context_workers : "none given", config->poll_ms);
    fprintf(out, "requests    %u at one time, of which %u may wait for a worker, %" PRIu64 " ms\n",
            config->requests_max, config->wait_max, config->wait_limit_ms);
    fprintf(out, "threads     %d that mostly wait, and those of gRPC; %s\n", THREADS, text);
    if (memory_room_read("", &room) != STATUS_OK)
        return;
    fprintf(out, "memory      %.1f MiB available", (double)room.available_bytes / MIB);
    if (room.limit_bytes > 0)
        fprintf(out, " under the cgroup's limit of %.1f MiB", (double)room.limit_bytes / MIB);
    fputc('\n', out);
}

static enum status plan(const void *values, const char *folder, FILE *out, struct error *error)
{
    const struct router_config *config = values;
    struct tokenizer *tokenizer;
    TRY(check(values, folder, error));
    TRY(tokenizer_load(folder, error, &tokenizer));
    print_plan(config, tokenizer, folder, out);
    tokenizer_destroy(tokenizer);
    return STATUS_OK;
}

const struct role router_role = {
    .table = router_config_table,
    .fill_options = fill_process_options,
    .check = check,
    .plan = plan,
};

static bool is_local(const char *grpc_address)
{
    struct address address;
    return address_parse_listen(grpc_address, &address, NULL) == STATUS_OK &&
           address_is_loopback(&address);
}

static enum status open_tenants(struct router *router, struct error *error)
{
    const struct router_config *config = &router->config;
    TRY(admission_open(&router->admission, config->tokens_file, config->salt_key_file, error));
    router->admission.cluster_name = config->cluster_name;
    struct tenants *tenants = router->admission.tenants;
    if (!tenants) {
        tenant_metrics_create(&router->tenant_metrics, router->process.metrics, NULL, 0);
        return STATUS_OK;
    }
    tenants_add_metrics(tenants, &router->tenant_metrics, router->process.metrics);
    log_info("tokens file %s rows %u: public calls need a token", config->tokens_file,
             tenants_n_rows(tenants));
    if (!is_local(config->grpc_address))
        log_warn("bearer tokens cross the network unencrypted, unless a proxy before this port "
                 "ends TLS");
    return STATUS_OK;
}

/* What gateways use has no tokens: port_needs says where it may be. */
static enum status open_engine_port(struct router *router, struct error *error)
{
    struct rpc_service services[PROCESS_SERVICES_MAX];
    size_t n_services = 0;
    if (!router->config.engine_address[0])
        return STATUS_OK;
    for (size_t i = 0; i < router->table->n; i++) {
        const struct door *door = router->table->doors[i];
        if (door->engine_services)
            n_services += door->engine_services(router->doors[i], services + n_services);
        assert(n_services < PROCESS_SERVICES_MAX);
    }
    if (router->admission.tenants)
        log_warn("engine_address %s: requests to this port need no token and belong to no tenant",
                 router->config.engine_address);
    return process_listen(&router->process, PORT_ENGINE, services, n_services, error);
}

/* The public gRPC port, with the services of all doors, the port of gateways, and then the doors' own ports. */
static enum status open_doors(struct router *router, struct error *error)
{
    const struct door_place place = {
        .folder = router->folder,
        .process = &router->process,
        .intake = &router->intake,
        .model = &router->model,
        .admission = &router->admission,
        .config = &router->config,
    };
    struct rpc_service services[PROCESS_SERVICES_MAX];
    size_t n_services = 0;
    assert(router->table->n <= DOORS_MAX);
    services[n_services++] = admin_service_state_row(&router->admin);
    for (size_t i = 0; i < router->table->n; i++) {
        const struct door *door = router->table->doors[i];
        TRY(door->create(&place, error, &router->doors[i]));
        if (door->services)
            n_services += door->services(router->doors[i], services + n_services);
        assert(n_services < PROCESS_SERVICES_MAX);
    }
    TRY(process_listen(&router->process, PORT_GRPC, services, n_services, error));
    TRY(open_engine_port(router, error));
    for (size_t i = 0; i < router->table->n; i++)
        if (router->table->doors[i]->listen)
            TRY(router->table->doors[i]->listen(router->doors[i], error));
    return STATUS_OK;
}

static void each_door(struct router *router, enum door_step step)
{
    for (size_t i = 0; i < router->table->n; i++) {
        const struct door *door = router->table->doors[i];
        void (*const steps[])(void *) = {
            [DOOR_DRAIN] = door->drain, [DOOR_CLOSE] = door->close, [DOOR_DESTROY] = door->destroy};
        if (router->doors[i] && steps[step])
            steps[step](router->doors[i]);
    }
}

static enum status listen(struct router *router, struct error *error)
{
    struct process_options options;
    fill_process_options(&router->config, &options);
    options.doorkeeper = &router->admission.doorkeeper;
    TRY(router_watch_open(&router->config, &router->watch));
    if (router->watch) {
        options.pages = watch_pages(router->watch, &options.n_pages);
        options.feed = watch_feed(router->watch);
    }
    TRY(process_open(&router->process, &options, error));
    router_metrics_create(&router->metrics, router->process.metrics);
    TRY(open_tenants(router, error));
    TRY(create_early(router));
    router->intake = (struct intake){
        .process = &router->process,
        .early = router->early,
        .metrics = &router->metrics,
        .model_name = router->model_name,
        .text_inline_bytes = router->config.text_inline_bytes,
        .text_bytes_max = router->config.message_bytes_max,
        .chat = {CHAT_LIMITS(&router->config)},
        .chat_tokens_max = (uint32_t)router->config.chat_tokens_max,
        .constraints = {CONSTRAINT_LIMITS(&router->config)},
        .priority_max = (int32_t)router->config.priority_max,
    };
    router->model = (struct served_model){
        .process = &router->process,
        .name = router->model_name,
        .tokenizer_digest = router->tokenizer_digest,
    };
    router->admin = (struct admin_service){
        .process = &router->process, .fill_state = fill_state, .arg = router};
    struct rpc_service inner[] = {admin_service_row(&router->admin)};
    TRY(process_listen(&router->process, PORT_CONTROL, inner, sizeof inner / sizeof *inner, error));
    TRY(open_doors(router, error));
    return process_ports_write(&router->process, error);
}

static enum status start(struct router *router, struct error *error)
{
    model_card_name(router->config.served_model_name, router->folder, router->model_name);
    /* Ports first: health answers while the tokenizer loads, and requests wait for it. Handlers look at nothing else before
     * process_serving. */
    TRY(listen(router, error));
    TRY(load_texts(router, error));
    TRY(create_dispatch(router, error));
    dispatch_step(router->dispatch, clock_now_ns()); /* waits are counted from the last step */
    connect_intake(router);
    connect_watch(router);
    gauge_set(router->metrics.series.requests_max, router->config.requests_max);
    process_serving(&router->process);
    return STATUS_OK;
}

/* ---- run and stop ---- */

/* Parents wait for the ports file to say so; a failure is theirs to notice. */
static void say_ready(struct router *router)
{
    struct error error = {0};
    if (process_ports_write(&router->process, &error) != STATUS_OK)
        log_error("%s", error.text);
}

/* The parent hears when requests can be placed, and of each worker that was not seen until then. */
static void tell_health(struct router *router, bool is_ready)
{
    char unseen[PORTS_UNSEEN_MAX];
    struct process *process = &router->process;
    worker_clients_unseen(router->workers, unseen, sizeof unseen);
    bool is_news = is_ready && (!router->is_ready || strcmp(unseen, process->unseen) != 0);
    process_set_health(process, is_ready, true);
    snprintf(process->unseen, sizeof process->unseen, "%s", unseen);
    if (is_news)
        say_ready(router);
    router->is_ready = is_ready;
    router->is_eager = !is_ready ||
                       (unseen[0] && clock_now_ns() - process->started_ns < EAGER_LIMIT_NS);
}

/* In the drain the streams go on until the ports close. */
static void look_at_events(struct router *router, uint64_t now_ns)
{
    struct process_peer peers[PROCESS_PEERS_MAX];
    if (router->events)
        kv_event_client_look(router->events, peers,
                             worker_clients_peers(router->workers, peers, PROCESS_PEERS_MAX),
                             now_ns);
}

static void look(struct router *router)
{
    struct dispatch_view view;
    uint64_t now_ns = clock_now_ns();
    /* Before the step: what waits is to hear of the drain, not of a worker that is lacking. */
    if (process_is_draining(&router->process)) {
        dispatch_drain(router->dispatch);
        intake_drain(&router->intake);
    }
    if (router->admission.tenants)
        (void)tenants_look(router->admission.tenants, now_ns);
    dispatch_step(router->dispatch, now_ns);
    intake_look(&router->intake, now_ns);
    look_at_events(router, now_ns);
    dispatch_look(router->dispatch, &view);
    bool is_local = view.lacks == STATUS_OK && view.pairs == 0 && router->config.context_workers[0];
    if (reminder_is_due(&router->is_local, is_local, now_ns))
        log_warn("no context worker is ready: generation workers compute the prompts");
    if (reminder_is_due(&router->lacks, view.lacks != STATUS_OK, now_ns))
        log_warn("not serving: %s", status_text(view.lacks));
    tell_health(router, view.lacks == STATUS_OK);
    dispatch_count(router->dispatch, early_requests_count(router->early));
}

static void run(struct router *router)
{
    assert(router->sources && process_refuses(&router->process) != STATUS_LOADING);
    uint64_t polled_ns = 0;
    uint64_t eager_ms = EAGER_POLL_MS;
    router->is_eager = true;
    for (;;) {
        uint64_t now_ns = clock_now_ns();
        worker_sources_look(router->sources, now_ns);
        uint64_t poll_ms = router->config.poll_ms;
        if (router->is_eager && eager_ms < poll_ms)
            poll_ms = eager_ms;
        if (now_ns - polled_ns >= poll_ms * NS_PER_MS) {
            eager_ms = EAGER_POLL_MS + worker_clients_poll(router->workers, now_ns);
            polled_ns = now_ns;
        }
        if (!process_goes_on(&router->process, poll_ms < LOOK_MS ? poll_ms : LOOK_MS))
            return;
        look(router);
    }
}

static uint32_t n_live(void *arg)
{
    struct router *router = arg;
    struct dispatch_view view;
    dispatch_look(router->dispatch, &view);
    return view.live + early_requests_count(router->early);
}

/* First nothing new begins, then what runs ends, then what it ran on. Calls to workers end with the rpc client: until then
 * they come back to the workers' clients and to dispatch. */
static void stop(struct router *router)
{
    assert((router->sources || process_refuses(&router->process) == STATUS_LOADING) &&
           "without sources it never served: no handler got beyond LOADING");
    if (router->sources) {
        process_begin_drain(&router->process); /* so that no request begins to wait any more */
        dispatch_drain(router->dispatch);
        intake_drain(&router->intake);
        each_door(router, DOOR_DRAIN);
        process_drain(&router->process, n_live, router);
    }
    if (router->early) /* of a router that never served, too */
        intake_drain(&router->intake);
    /* A drain gives up on calls that do not end, and one of them may be in a handler that is about to push: the text
     * thread stays until no handler can run. Closing waits for its jobs, which hold their calls. */
    process_close_ports(&router->process);
    each_door(router, DOOR_CLOSE);
    if (router->watch)
        watch_connect(router->watch, NULL, NULL);
    text_thread_stop(router->text_thread);
    template_renderer_destroy(router->renderer);
    worker_sources_stop(router->sources);
    worker_clients_close(router->workers);
    kv_event_client_close(router->events);
    rpc_client_destroy(router->rpc);
    worker_clients_destroy(router->workers);
    dispatch_destroy(router->dispatch);
    each_door(router, DOOR_DESTROY);
    kv_event_client_destroy(router->events);
    early_requests_destroy(router->early);
    tokenizer_destroy(router->tokenizer);
    process_close(&router->process);
    watch_destroy(router->watch);
    admission_close(&router->admission);
}

int router_main(const struct config_input *input, const struct door_table *doors)
{
    struct router *router = calloc(1, sizeof *router);
    struct config *config = NULL;
    struct error error = {0};
    int exit_status = EXIT_FAILURE;
    if (!router || role_begin(&router_role, input, &router->config, &config, &exit_status)) {
        free(router);
        return exit_status;
    }
    router->table = doors;
    router->folder = config_positional(config, 0);
    enum status status = start(router, &error);
    if (status == STATUS_OK)
        run(router);
    else
        process_cannot_start(status, &error);
    stop(router);
    config_destroy(config);
    free(router);
    return status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
