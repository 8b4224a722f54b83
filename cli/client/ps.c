/* ps - asks a router, and each worker that it knows, for its state, and prints one line for each, or
 * JSON. */
#include "base/utf8.h"
#include "cli/client/admin_client.h"
#include "cli/client/call_guard.h"
#include "cli/client/screen.h"
#include "cli/command.h"
#include "cli/interrupt.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PS_CONFIG(X)                                                                               \
    X(server, STRING, "127.0.0.1:50051", "",                                                       \
      "address of the router, or of the control port of any process")                              \
    X(json, BOOL, "no", "", "print JSON; ps.md explains the keys")                                 \
    X(watch, BOOL, "no", "",                                                                       \
      "print again and again: on a terminal in place, until q or Ctrl-C; else one after the "      \
      "other")                                                                                     \
    X(watch_ms, DURATION_MS(100, 3600000), "1s", "ms", "with watch: time between two looks")       \
    ADMIN_CLIENT_ROWS(X)

CONFIG_DECLARE(ps_config, PS_CONFIG);
#define PS_ALIASES(X) X("control", server)
CONFIG_DEFINE(ps_config, PS_CONFIG, PS_ALIASES)

/* ---- the processes ---- */

/* One process: its state, or the reason why there is none. */
struct entry {
    char address[ADDRESS_TEXT_MAX];
    Kvferry__Internal__V1__Role role;
    bool has_answered;
    struct process_state state;
    char error[256]; /* the reason, if it has no state */
    char unused
        [PEER_REASON_MAX]; /* why the router does not use it, or not with every worker; "": it uses it */
    bool is_used;          /* with some workers */
};

struct listing {
    uint32_t n;
    struct entry entries[1 + PROCESS_PEERS_MAX];
    struct process_peer peers[PROCESS_PEERS_MAX]; /* peers of the first entry */
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
    struct rpc_error error = {0};
    *entry_out = (struct entry){.role = peer->role, .is_used = peer->is_ready};
    snprintf(entry_out->address, sizeof entry_out->address, "%s", peer->address);
    snprintf(entry_out->unused, sizeof entry_out->unused, "%s", peer->reason);
    entry_out->has_answered = admin_client_ask(client, peer->address, limit_ms, &entry_out->state,
                                               &error) == STATUS_OK;
    if (!entry_out->has_answered)
        utf8_clean(error.message, strlen(error.message), entry_out->error, sizeof entry_out->error);
}

static enum status look(const struct admin_clients *clients, const char *address, uint64_t limit_ms,
                        struct listing *listing_out, struct rpc_error *error)
{
    struct entry *first = &listing_out->entries[0];
    *first = (struct entry){.has_answered = true, .is_used = true};
    first->state.peers = listing_out->peers;
    first->state.peers_max = PROCESS_PEERS_MAX;
    snprintf(first->address, sizeof first->address, "%s", address);
    TRY(admin_client_ask(clients->server, address, limit_ms, &first->state, error));
    const struct process_state *state = &first->state;
    first->role = state->role;
    assert(state->n_peers <= PROCESS_PEERS_MAX);
    listing_out->n = 1;
    for (uint32_t i = 0;
         state->role == KVFERRY__INTERNAL__V1__ROLE__ROLE_ROUTER && i < state->n_peers; i++)
        look_at_peer(clients->peers, &state->peers[i], limit_ms,
                     &listing_out->entries[listing_out->n++]);
    return STATUS_OK;
}

/* ---- for people ---- */

static void print_state(const struct entry *entry, FILE *out)
{
    assert(entry->has_answered);
    const struct process_state *state = &entry->state;
    const struct process_blocks *blocks = &state->blocks;
    char pool[64] = "-", prefill[48] = "-", kernels[96] = "-";
    if (blocks->all > 0)
        snprintf(pool, sizeof pool, "%u/%u/%u/%u", blocks->all, blocks->free, blocks->cached,
                 blocks->all - blocks->free - blocks->cached);
    if (state->prefills.n > 0)
        snprintf(prefill, sizeof prefill, "%" PRIu64 "/%" PRIu64, state->prefills.done_tokens,
                 state->prefills.tokens);
    if (state->kernels.threads > 0)
        snprintf(kernels, sizeof kernels, "%u %s/%s", state->kernels.threads,
                 state->kernels.products, state->kernels.attention);
    fprintf(out, "%-10s %-22s %-9s %8u %8.1f %7u %7u %13s  %-20s %10.1f %10.1f %8.1f  %s\n",
            role_name(entry->role), entry->address, word(entry), state->process_id,
            (double)state->uptime_ms / 1000, state->requests_running, state->requests_waiting,
            prefill, pool, (double)state->kv_bytes_received / (1 << 20),
            (double)state->kv_bytes_sent / (1 << 20), (double)state->resident_bytes / (1 << 20),
            kernels);
}

static void print_table(const struct listing *listing, FILE *out)
{
    fprintf(out, "%-10s %-22s %-9s %8s %8s %7s %7s %13s  %-20s %10s %10s %8s  %s\n", "ROLE",
            "ADDRESS", "STATE", "PID", "UP s", "RUNNING", "WAITING", "PREFILL",
            "BLOCKS/FREE/CACHE/USE", "KV IN MiB", "KV OUT MiB", "RSS MiB", "THREADS KERNELS");
    for (uint32_t i = 0; i < listing->n; i++) {
        const struct entry *entry = &listing->entries[i];
        if (entry->has_answered)
            print_state(entry, out);
        else
            fprintf(out, "%-10s %-22s no answer: %s\n", role_name(entry->role), entry->address,
                    entry->error);
        if (entry->unused[0])
            fprintf(out, "%-10s   the router does not use it%s: %s\n", "",
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

static json_t *prefill_json(const struct process_prefills *prefills)
{
    return json_pack("{s:I, s:I, s:I}", "prompts", (json_int_t)prefills->n, "tokens",
                     (json_int_t)prefills->tokens, "done_tokens",
                     (json_int_t)prefills->done_tokens);
}

static json_t *kernels_json(const struct process_kernels *kernels)
{
    return json_pack("{s:s, s:s, s:s, s:I}", "products", kernels->products, "attention",
                     kernels->attention, "chosen_by", kernels->chosen_by, "threads",
                     (json_int_t)kernels->threads);
}

/* NULL: no memory. */
static json_t *state_json(const struct process_state *state)
{
    char incarnation[20];
    snprintf(incarnation, sizeof incarnation, "%016" PRIx64, state->incarnation);
    json_t *blocks = state->blocks.all > 0 ? blocks_json(&state->blocks) : json_null();
    json_t *prefill = state->blocks.all > 0 ? prefill_json(&state->prefills) : json_null();
    json_t *kernels = state->kernels.threads > 0 ? kernels_json(&state->kernels) : json_null();
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:{s:I, s:I}, s:o, s:o, s:o, s:s, s:s, s:s, s:s, s:I, s:I, s:I}",
        "name", state->name, "incarnation", incarnation, "pid", (json_int_t)state->process_id,
        "uptime_ms", (json_int_t)state->uptime_ms, "requests", "running",
        (json_int_t)state->requests_running, "waiting", (json_int_t)state->requests_waiting,
        "prefill", prefill, "blocks", blocks, "kernels", kernels, "model", state->model.name,
        "transport", state->transport, "numerics",
        state->role == KVFERRY__INTERNAL__V1__ROLE__ROLE_ROUTER ? ""
                                                                : state->model.geometry.numerics,
        "allow_numerics", state->allow_numerics, "kv_bytes_received",
        (json_int_t)state->kv_bytes_received, "kv_bytes_sent", (json_int_t)state->kv_bytes_sent,
        "resident_bytes", (json_int_t)state->resident_bytes);
}

/* NULL: no memory. An address from a command line may have any bytes. */
static json_t *entry_json(const struct entry *entry)
{
    char state[16], address[ADDRESS_TEXT_MAX];
    utf8_clean(entry->address, strlen(entry->address), address, sizeof address);
    snprintf(state, sizeof state, "%s", word(entry));
    for (char *at = state; *at; at++)
        *at = *at == ' ' ? '_' : *at;
    json_t *process = json_pack("{s:s, s:s, s:s, s:b, s:s}", "role", role_name(entry->role),
                                "address", address, "state", state, "used", entry->is_used,
                                "unused_reason", entry->unused);
    json_t *more = entry->has_answered ? state_json(&entry->state)
                                       : json_pack("{s:s}", "error", entry->error);
    if (json_object_update(process, more) != 0) {
        json_decref(process);
        process = NULL;
    }
    json_decref(more);
    return process;
}

/* Prints all processes or, without memory, nothing. flags: of jansson; 0: one line. */
static enum status print_json(const struct listing *listing, size_t flags, FILE *out)
{
    assert(listing->n >= 1 && listing->entries[0].has_answered);
    json_t *processes = json_array();
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < listing->n && status == STATUS_OK; i++)
        if (json_array_append_new(processes, entry_json(&listing->entries[i])) != 0)
            status = STATUS_NO_MEMORY;
    json_t *all = json_pack("{s:o}", "processes", processes);
    char *text = status == STATUS_OK && all ? json_dumps(all, flags) : NULL;
    json_decref(all);
    if (!text)
        return STATUS_NO_MEMORY;
    fprintf(out, "%s\n", text);
    free(text);
    return STATUS_OK;
}

/* ---- again and again ---- */

struct search {
    const char *address;
    const struct ps_config *values;
    struct listing *listing;
};

static enum status print(const struct search *search, FILE *out)
{
    if (search->values->json)
        return print_json(search->listing, search->values->watch ? JSON_COMPACT : JSON_INDENT(2),
                          out);
    print_table(search->listing, out);
    return STATUS_OK;
}

/* What a look says, as a text; the caller frees it. NULL: no memory. */
static char *text_of_look(const struct search *search, enum status status,
                          const struct rpc_error *why, size_t *n_out)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, n_out);
    bool is_whole = true;
    if (!out)
        return NULL;
    if (status == STATUS_OK)
        is_whole = print(search, out) == STATUS_OK;
    else if (!search->values->json)
        fprintf(out, "%s: no answer: %s\n", search->address,
                why->message[0] ? why->message : status_text(status));
    if (!search->values->json)
        fputc('\n', out);
    if (fclose(out) == 0 && is_whole)
        return text;
    free(text);
    return NULL;
}

/* A process that stops answering may come back; one that never did is an error. */
static enum status watch(const struct search *search, const struct admin_clients *clients,
                         struct rpc_error *error)
{
    enum status status = STATUS_OK;
    bool goes_on = true;
    screen_open();
    while (goes_on) {
        struct rpc_error why = *error;
        size_t n = 0;
        char *text = text_of_look(search, status, &why, &n);
        goes_on = text && screen_show(text, n);
        free(text);
        call_guard_limit(0);
        goes_on = goes_on && screen_wait(search->values->watch_ms);
        *error = (struct rpc_error){0};
        if (goes_on)
            status = look(clients, search->address, search->values->deadline_ms, search->listing,
                          error);
    }
    screen_close();
    return STATUS_OK;
}

/* ---- main ---- */

static enum status search(void *arg, const struct admin_clients *clients, struct rpc_error *error)
{
    const struct search *search = arg;
    TRY(look(clients, search->address, search->values->deadline_ms, search->listing, error));
    return search->values->watch ? watch(search, clients, error) : STATUS_OK;
}

int ps_main(const struct config_input *input)
{
    struct ps_config values;
    struct config *config;
    int exit_status;
    if (command_configure(ps_config_table(), input, &values, &config, &exit_status))
        return exit_status;
    interrupt_ends();
    const struct admin_client_options options = ADMIN_CLIENT_OPTIONS(&values);
    char address[ADDRESS_TEXT_MAX];
    struct search task = {address, &values, calloc(1, sizeof *task.listing)};
    exit_status = task.listing ? admin_client_main(input->command, &options, address, search, &task)
                               : EXIT_FAILURE;
    if (exit_status == EXIT_SUCCESS && !values.watch && print(&task, stdout) != STATUS_OK)
        exit_status = EXIT_FAILURE;
    free(task.listing);
    config_destroy(config);
    return exit_status;
}
