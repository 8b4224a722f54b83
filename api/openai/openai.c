#include "api/openai/openai.h"

#include "api/http/http_config.h"
#include "api/http/http_port.h"
#include "api/openai/openai_admission.h"
#include "api/openai/openai_call.h"
#include "api/openai/openai_pages.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "process/ports/address.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LAST_WORDS_NS                                                                              \
    (2 * NS_PER_S) /* for replies that are still being sent after the last request */

enum { N_ROUTES = 5 };

struct openai {
    struct openai_place calls;
    struct process *process;
    const struct served_model *model;
    const struct router_config *config;
    struct http_route routes[N_ROUTES];
    struct http_doorkeeper doorkeeper;
    struct http_metrics metrics;
    struct http_port *port;
    struct openai_pages pages;
    bool is_draining;
    int64_t created; /* Unix time, in seconds */
};

/* ---- who may ---- */

static bool is_open_path(const char *path)
{
    return strcmp(path, "/health") == 0;
}

static bool enter(void *arg, struct http_exchange *exchange, void **pass_out)
{
    struct openai *openai = arg;
    struct rpc_error error = {0};
    struct openai_error told;
    struct tenant_pass *pass = NULL;
    struct request_origin from;
    if (!openai_pages_enter(&openai->pages, exchange))
        return false;
    if (is_open_path(http_exchange_path(exchange)))
        return true;
    openai_origin(exchange, NULL, &from);
    if (openai_admit(openai->calls.admission, exchange, &from, &pass, &error) == STATUS_OK) {
        *pass_out = pass;
        return true;
    }
    openai_error_of(&error, &told);
    openai_error_reply(exchange, &told, from.request_id);
    return false;
}

static void leave(void *arg, void *pass)
{
    (void)arg;
    tenant_pass_leave(pass);
}

static void destroy_pass(void *arg, void *pass)
{
    (void)arg;
    tenant_pass_destroy(pass, clock_now_ns());
}

/* ---- tokens ---- */

struct work {
    struct openai *openai;
    struct http_exchange *exchange;
    bool is_chat;
};

static void serve(struct openai *openai, struct http_exchange *exchange, bool is_chat)
{
    openai_call_serve(&openai->calls, exchange, is_chat, clock_now_ns(),
                      (int64_t)(clock_unix_ms() / 1000));
}

static void serve_later(void *arg)
{
    struct work work = *(struct work *)arg;
    free(arg);
    serve(work.openai, work.exchange, work.is_chat);
    http_exchange_release(work.exchange);
}

/* A large body is read where nobody's stream waits for it. */
static enum status push(struct openai *openai, struct http_exchange *exchange, bool is_chat,
                        size_t bytes, struct error *error)
{
    struct work *work = malloc(sizeof *work);
    if (!work)
        return STATUS_NO_MEMORY;
    *work = (struct work){openai, http_exchange_share(exchange), is_chat};
    enum status status = text_thread_push(openai->calls.intake->text_thread, serve_later, work,
                                          bytes, error);
    if (status != STATUS_OK) {
        http_exchange_release(exchange);
        free(work);
    }
    return status;
}

static void take(struct openai *openai, struct http_exchange *exchange, bool is_chat)
{
    size_t bytes;
    (void)http_exchange_body(exchange, &bytes);
    bool is_small = bytes <= openai->calls.intake->text_inline_bytes ||
                    process_refuses(openai->process) == STATUS_LOADING;
    enum status status = STATUS_OK;
    struct error why = {0};
    if (is_small)
        serve(openai, exchange, is_chat);
    else
        status = push(openai, exchange, is_chat, bytes, &why);
    if (status == STATUS_OK)
        return;
    struct rpc_error error = {0};
    struct openai_error told;
    rpc_error_set(&error, status, NULL, NULL, "%s", why.text[0] ? why.text : status_text(status));
    openai_error_of(&error, &told);
    status_counters_add(&openai->calls.intake->metrics->requests, status);
    openai_refuse(exchange, &told);
}

static void chat(void *arg, struct http_exchange *exchange)
{
    take(arg, exchange, true);
}

static void complete(void *arg, struct http_exchange *exchange)
{
    take(arg, exchange, false);
}

/* ---- the model ---- */

static void reply(struct http_exchange *exchange, json_t *body)
{
    static const struct http_field FIELDS[] = {{"Content-Type", "application/json"}};
    const struct http_answer_head head = {.code = 200, .fields = FIELDS, .n_fields = 1};
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text || http_exchange_reply(exchange, &head, text, strlen(text)) == STATUS_QUEUE_FULL)
        http_exchange_cut(exchange);
    free(text);
}

/* False: no worker has told yet, and the card has nothing. */
static bool find_card(const struct openai *openai, struct model_card *card_out)
{
    *card_out = (struct model_card){.n_adapters = 0};
    return process_refuses(openai->process) != STATUS_LOADING &&
           served_model_card(openai->model, card_out) == STATUS_OK;
}

/* The model, or an adapter of it (adapter not NULL). Its context is there when a worker has told it. */
static json_t *model_json(const struct openai *openai, const struct model_card *card,
                          const struct adapter_id *adapter)
{
    json_t *model = json_pack("{s:s, s:s, s:I, s:s}", "id",
                              adapter ? adapter->name : openai->model->name, "object", "model",
                              "created", (json_int_t)openai->created, "owned_by", "kvferry");
    if (model && card->context_tokens > 0)
        json_object_set_new(model, "max_model_len", json_integer(card->context_tokens));
    if (model && adapter)
        json_object_set_new(model, "parent", json_string(openai->model->name));
    return model;
}

static void list_models(void *arg, struct http_exchange *exchange)
{
    const struct openai *openai = arg;
    struct model_card card;
    json_t *list = json_array();
    (void)find_card(openai, &card);
    json_array_append_new(list, model_json(openai, &card, NULL));
    for (uint32_t i = 0; i < card.n_adapters; i++)
        json_array_append_new(list, model_json(openai, &card, &card.adapters[i]));
    reply(exchange, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

static void get_model(void *arg, struct http_exchange *exchange)
{
    struct openai *openai = arg;
    struct openai_error error;
    struct model_card card;
    const char *name = http_exchange_path_rest(exchange);
    (void)find_card(openai, &card);
    const bool is_model = strcmp(name, openai->model->name) == 0;
    const struct adapter_id *adapter = adapter_ids_find(card.adapters, card.n_adapters, name);
    if (is_model || adapter) {
        reply(exchange, model_json(openai, &card, is_model ? NULL : adapter));
        return;
    }
    openai_error_set(&error, 404, "model_not_found", "model",
                     "model \"%.80s\" is not served here; \"%.100s\" is", name,
                     openai->model->name);
    openai_refuse(exchange, &error);
}

/* 200 while requests can be placed, as the process's own health says it. */
static void health(void *arg, struct http_exchange *exchange)
{
    struct openai *openai = arg;
    bool is_ready = atomic_load(&openai->process->is_ready) && !process_is_leaving(openai->process);
    struct openai_error error;
    if (is_ready) {
        reply(exchange, json_pack("{s:s}", "status", "ok"));
        return;
    }
    openai_error_set(&error, 503, NULL, NULL, "not ready");
    error.may_retry = true;
    openai_refuse(exchange, &error);
}

/* ---- the door ---- */

static enum status create(const struct door_place *place, struct error *error, void **door_out)
{
    struct openai *openai = calloc(1, sizeof *openai);
    if (!openai)
        return error_set(error, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
    openai->calls = (struct openai_place){
        .intake = place->intake,
        .admission = place->admission,
        .model_name = place->model->name,
        .reply_bytes_max = place->config->reply_bytes_max,
        .default_deadline_ns = place->config->default_deadline_ms * NS_PER_MS,
    };
    openai->process = place->process;
    openai->model = place->model;
    openai->config = place->config;
    openai->created = (int64_t)(clock_unix_ms() / 1000);
    const struct http_route routes[N_ROUTES] = {
        {"/v1/chat/completions", HTTP_VERB_POST, chat, openai},
        {"/v1/completions", HTTP_VERB_POST, complete, openai},
        {"/v1/models", HTTP_VERB_GET, list_models, openai},
        {"/v1/models/", HTTP_VERB_GET, get_model, openai},
        {"/health", HTTP_VERB_GET, health, openai},
    };
    memcpy(openai->routes, routes, sizeof routes);
    openai->doorkeeper = (struct http_doorkeeper){
        .arg = openai, .enter = enter, .leave = leave, .destroy = destroy_pass};
    *door_out = openai;
    return STATUS_OK;
}

static enum status listen(void *arg, struct error *error)
{
    struct openai *openai = arg;
    struct address address;
    char text[ADDRESS_TEXT_MAX];
    if (!openai->config->http_address[0])
        return STATUS_OK;
    TRY(address_parse_listen(openai->config->http_address, &address, error));
    address_format(&address, text);
    const bool is_loopback = !address.is_unix && address_is_loopback(&address);
    openai->pages = (struct openai_pages){.hosts = openai->config->http_hosts,
                                          .is_loopback = is_loopback,
                                          .has_certificates = openai->config->tls_client_ca[0],
                                          .is_closed = is_loopback &&
                                                       !openai->config->tokens_file[0]};
    http_metrics_init(&openai->metrics, openai->process->metrics);
    const struct http_port_options options = {
        .address = text,
        .limits = HTTP_LIMITS(openai->config),
        .routes = openai->routes,
        .n_routes = N_ROUTES,
        .doorkeeper = &openai->doorkeeper,
        .error_form = &openai_error_form,
        .tls = openai->process->tls.grpc,
        .metrics = &openai->metrics,
    };
    TRY(http_port_open(&options, error, &openai->port));
    if (!address.is_unix)
        address.port = http_port_number(openai->port);
    return process_ports_add_http(openai->process, &address, error);
}

static void drain(void *arg)
{
    struct openai *openai = arg;
    if (openai->port)
        http_port_drain_start(openai->port);
    openai->is_draining = true;
}

static void close_port(void *arg)
{
    struct openai *openai = arg;
    if (openai->port && openai->is_draining)
        (void)http_port_drain(openai->port, LAST_WORDS_NS);
    http_port_close(openai->port);
    openai->port = NULL;
}

const struct door openai_door = {.name = "openai",
                                 .create = create,
                                 .listen = listen,
                                 .drain = drain,
                                 .close = close_port,
                                 .destroy = free};
