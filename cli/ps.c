/* ps - asks a router, and each worker it knows, for its state, and prints a line for each, or JSON. */
#include "base/clock.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/listener.h"
#include "process/process_state.h"
#include "rpc/client.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PS_CONFIG(X)                                                                               \
    X(server, STRING, "127.0.0.1:50051", "", "the router, or the control port of any process")     \
    X(json, BOOL, "no", "", "print JSON: docs/ps.md")                                              \
    X(deadline_ms, DURATION_MS(1, 600000), "2s", "ms", "longest wait for one process")

CONFIG_DECLARE(ps_config, PS_CONFIG);
#define PS_ALIASES(X) X("control", server)
CONFIG_DEFINE(ps_config, PS_CONFIG, PS_ALIASES)

struct answer {
    enum status status;
    struct error error;
    struct process_state *state;
};

static void on_state(void *arg, const ProtobufCMessage *message)
{
    struct answer *answer = arg;
    answer->status = process_state_decode((const Kvferry__Internal__V1__GetStateResponse *)message,
                                          answer->state, &answer->error);
}

static enum status ask(struct rpc_client *client, const char *address, uint64_t limit_ms,
                       struct process_state *state_out, struct rpc_error *error)
{
    struct rpc_channel *channel;
    TRY(rpc_channel_open(client, address, &channel));
    struct answer answer = {.state = state_out};
    Kvferry__Internal__V1__GetStateRequest message = KVFERRY__INTERNAL__V1__GET_STATE_REQUEST__INIT;
    struct rpc_request request = {
        .path = "/kvferry.internal.v1.AdminService/GetState",
        .message = &message.base,
        .response = &kvferry__internal__v1__get_state_response__descriptor,
        .deadline_ns = clock_now_ns() + limit_ms * NS_PER_MS,
        .on_message = on_state,
        .arg = &answer,
    };
    enum status status = rpc_channel_call_wait(channel, &request, error);
    rpc_channel_close(channel);
    if (status == STATUS_OK && answer.status != STATUS_OK) {
        status = answer.status;
        rpc_error_set(error, status, NULL, NULL, "%s", answer.error.text);
    }
    return status;
}

/* ---- what is known ---- */

/* One process: its state, or why it gave none. */
struct entry {
    char address[ADDRESS_TEXT_MAX];
    Kvferry__Internal__V1__Role role;
    bool has_answered;
    struct process_state state;
    char error[256]; /* why it has not */
    char unused
        [PEER_REASON_MAX]; /* why the router does not use it, or not with every worker; "": it does */
    bool is_used;          /* with some */
};

struct listing {
    uint32_t n;
    struct entry entries[1 + PROCESS_PEERS_MAX];
};

static const char *word(const struct entry *entry)
{
    if (!entry->has_answered)
        return "no answer";
    if (entry->state.is_draining)
        return "draining";
    return entry->state.is_ready ? "ready" : "not ready";
}

static void look_at_peer(struct rpc_client *client, const struct process_peer *peer,
                         uint64_t limit_ms, struct entry *entry_out)
{
    struct rpc_error error;
    *entry_out = (struct entry){.role = peer->role, .is_used = peer->is_ready};
    snprintf(entry_out->address, sizeof entry_out->address, "%s", peer->address);
    snprintf(entry_out->unused, sizeof entry_out->unused, "%s", peer->reason);
    entry_out->has_answered = ask(client, peer->address, limit_ms, &entry_out->state, &error) ==
                              STATUS_OK;
    if (!entry_out->has_answered)
        snprintf(entry_out->error, sizeof entry_out->error, "%.255s", error.message);
}

static enum status look(struct rpc_client *client, const char *address, uint64_t limit_ms,
                        struct listing *listing_out, struct rpc_error *error)
{
    struct entry *first = &listing_out->entries[0];
    *first = (struct entry){.has_answered = true, .is_used = true};
    snprintf(first->address, sizeof first->address, "%s", address);
    TRY(ask(client, address, limit_ms, &first->state, error));
    const struct process_state *state = &first->state;
    first->role = state->role;
    listing_out->n = 1;
    for (uint32_t i = 0;
         state->role == KVFERRY__INTERNAL__V1__ROLE__ROLE_ROUTER && i < state->n_peers; i++)
        look_at_peer(client, &state->peers[i], limit_ms, &listing_out->entries[listing_out->n++]);
    return STATUS_OK;
}

/* ---- for people ---- */

static void print_state(const struct entry *entry)
{
    const struct process_state *state = &entry->state;
    const struct process_blocks *blocks = &state->blocks;
    char pool[64] = "-";
    if (blocks->all > 0)
        snprintf(pool, sizeof pool, "%u/%u/%u/%u", blocks->all, blocks->free, blocks->cached,
                 blocks->all - blocks->free - blocks->cached);
    printf("%-10s %-22s %-9s %8u %8.1f %7u %7u  %-20s %10.1f %10.1f %8.1f\n",
           role_name(entry->role), entry->address, word(entry), state->process_id,
           (double)state->uptime_ms / 1000, state->requests_running, state->requests_waiting, pool,
           (double)state->kv_bytes_received / (1 << 20), (double)state->kv_bytes_sent / (1 << 20),
           (double)state->resident_bytes / (1 << 20));
}

static void print_table(const struct listing *listing)
{
    printf("%-10s %-22s %-9s %8s %8s %7s %7s  %-20s %10s %10s %8s\n", "ROLE", "ADDRESS", "STATE",
           "PID", "UP s", "RUNNING", "WAITING", "BLOCKS/FREE/CACHE/USE", "KV IN MiB", "KV OUT MiB",
           "RSS MiB");
    for (uint32_t i = 0; i < listing->n; i++) {
        const struct entry *entry = &listing->entries[i];
        if (entry->has_answered)
            print_state(entry);
        else
            printf("%-10s %-22s no answer: %s\n", role_name(entry->role), entry->address,
                   entry->error);
        if (entry->unused[0])
            printf("%-10s   the router does not use it%s: %s\n", "",
                   entry->is_used ? " with every generation worker" : "", entry->unused);
    }
}

/* ---- for programs ---- */

static json_t *blocks_json(const struct process_blocks *blocks)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "all", (json_int_t)blocks->all, "free",
                     (json_int_t)blocks->free, "active", (json_int_t)blocks->active, "cached",
                     (json_int_t)blocks->cached, "pinned", (json_int_t)blocks->pinned, "inbound",
                     (json_int_t)blocks->inbound, "quarantined", (json_int_t)blocks->quarantined);
}

static void add_state(const struct process_state *state, json_t *process)
{
    char incarnation[20];
    snprintf(incarnation, sizeof incarnation, "%016" PRIx64, state->incarnation);
    json_t *blocks = state->blocks.all > 0 ? blocks_json(&state->blocks) : json_null();
    json_t *more = json_pack(
        "{s:s, s:s, s:I, s:I, s:{s:I, s:I}, s:o, s:s, s:s, s:I, s:I, s:I}", "name", state->name,
        "incarnation", incarnation, "pid", (json_int_t)state->process_id, "uptime_ms",
        (json_int_t)state->uptime_ms, "requests", "running", (json_int_t)state->requests_running,
        "waiting", (json_int_t)state->requests_waiting, "blocks", blocks, "model",
        state->model.name, "transport", state->transport, "kv_bytes_received",
        (json_int_t)state->kv_bytes_received, "kv_bytes_sent", (json_int_t)state->kv_bytes_sent,
        "resident_bytes", (json_int_t)state->resident_bytes);
    (void)json_object_update(process, more);
    json_decref(more);
}

static json_t *entry_json(const struct entry *entry)
{
    char state[16];
    snprintf(state, sizeof state, "%s", word(entry));
    for (char *at = state; *at; at++)
        *at = *at == ' ' ? '_' : *at;
    json_t *process = json_pack("{s:s, s:s, s:s, s:b, s:s}", "role", role_name(entry->role),
                                "address", entry->address, "state", state, "used", entry->is_used,
                                "unused_reason", entry->unused);
    if (process && entry->has_answered)
        add_state(&entry->state, process);
    else if (process)
        (void)json_object_set_new(process, "error", json_string(entry->error));
    return process;
}

static void print_json(const struct listing *listing)
{
    json_t *processes = json_array();
    for (uint32_t i = 0; i < listing->n; i++)
        (void)json_array_append_new(processes, entry_json(&listing->entries[i]));
    json_t *all = json_pack("{s:o}", "processes", processes);
    if (all)
        (void)json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
}

/* ---- main ---- */

static void say_why_not(const char *command, const char *address, enum status status,
                        const struct rpc_error *found)
{
    struct error error = {""};
    if (status == STATUS_PEER_LOST)
        listener_explain(address, found->message, &error);
    else if (status == STATUS_UNIMPLEMENTED)
        error_write(&error,
                    "%s does not tell its state: a router's public port does so only on a "
                    "loopback; ask its control port",
                    address);
    else
        error_write(&error, "%s: %s", address,
                    found->message[0] ? found->message : status_text(status));
    fprintf(stderr, "%s: %s\n", command, error.text);
}

/* How long it takes is bounded by deadline_ms a process; it leaves nothing behind. */
static enum status run(const struct ps_config *values, const char *address, struct rpc_error *error)
{
    struct rpc_runtime *runtime = NULL;
    struct rpc_client *client = NULL;
    struct listing *listing = calloc(1, sizeof *listing);
    struct error start = {0};
    enum status status = listing ? rpc_runtime_create("rpc-client", &start, &runtime)
                                 : STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = rpc_client_create(runtime, NULL, &client);
    if (status == STATUS_OK)
        status = look(client, address, values->deadline_ms, listing, error);
    if (status == STATUS_OK)
        (values->json ? print_json : print_table)(listing);
    else if (start.text[0])
        rpc_error_set(error, status, NULL, NULL, "%s", start.text);
    rpc_client_destroy(client);
    rpc_runtime_destroy(runtime);
    free(listing);
    return status;
}

int ps_main(const struct config_input *input)
{
    struct ps_config values;
    struct config *config;
    int exit_status;
    if (command_configure(ps_config_table(), input, &values, &config, &exit_status))
        return exit_status;
    interrupt_ends();
    struct rpc_error error = {0};
    struct error misused = {""};
    char address[ADDRESS_TEXT_MAX];
    enum status status = listener_address(values.server, address, &misused);
    exit_status = status == STATUS_OK ? EXIT_FAILURE : CONFIG_EXIT_MISUSED;
    if (status != STATUS_OK)
        fprintf(stderr, "%s: %s\n", input->command, misused.text);
    else if ((status = run(&values, address, &error)) != STATUS_OK)
        say_why_not(input->command, address, status, &error);
    config_destroy(config);
    return status == STATUS_OK ? EXIT_SUCCESS : exit_status;
}
