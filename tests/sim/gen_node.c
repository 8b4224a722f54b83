/* The gRPC sides of a simulated generation worker: server of decode, client of context workers. */
#include "tests/sim/messages.h"
#include "tests/sim/router_node.h"
#include "tests/sim/worker_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- decode: server ---- */

struct gen_call {
    struct worker_node *worker;
    struct wire_call *call;
    struct client *client;
    uint32_t n_sent;
    bool is_known; /* as in ctx_node */
};

static void on_decode(void *arg, const struct wire_message *base)
{
    struct gen_call *call = arg;
    const struct sim_message *message = (const struct sim_message *)base;
    struct error error = {""};
    call->client = router_node_client_of(call->worker->cluster, message->decode.input.request_id);
    enum status status = gen_engine_generate(call->worker->gen, call, &message->decode, &error);
    call->is_known = status == STATUS_OK;
    if (status != STATUS_OK)
        sim_send_end(call->call, &call->worker->cluster->wire, status, error.text);
}

static void on_decode_broken(void *arg)
{
    struct gen_call *call = arg;
    if (call->is_known)
        gen_engine_stream_ended(call->worker->gen, call);
}

void gen_node_accept(struct worker_node *worker, struct wire_call *wire_call)
{
    static const struct wire_listener LISTENER = {.message = on_decode, .broken = on_decode_broken};
    struct gen_call *call = wire_alloc(&worker->cluster->wire, sizeof *call);
    call->worker = worker;
    call->call = wire_call;
    wire_listen(wire_call, WIRE_SERVER, &LISTENER, call);
}

static uint64_t now_ns(void *arg)
{
    return ((struct worker_node *)arg)->cluster->timeline.now_ns;
}

static enum status on_tokens(void *arg, void *stream, const struct gen_tokens *tokens)
{
    struct worker_node *worker = arg;
    struct gen_call *call = stream;
    if (!call->is_known)
        cluster_fail(worker->cluster, "a token on a stream that was finished");
    if (call->n_sent++ == call->client->plan->slow_after)
        return STATUS_SLOW_READER;
    struct sim_message *message = sim_message_new(&worker->cluster->wire, SIM_TOKENS);
    message->tokens.n = tokens->n_tokens;
    message->tokens.token_id = tokens->token_ids[0];
    message->tokens.has_logprobs = tokens->logprobs != NULL;
    wire_send(call->call, WIRE_SERVER, &message->base);
    return STATUS_OK;
}

static enum status on_scores(void *arg, void *stream, const struct prompt_scores *scores)
{
    struct worker_node *worker = arg;
    struct wire *wire = &worker->cluster->wire;
    struct gen_call *call = stream;
    if (!call->is_known)
        cluster_fail(worker->cluster, "scores on a stream that was finished");
    struct sim_message *message = sim_message_new(wire, SIM_SCORES);
    sim_copy_scores(wire, scores, &message->scores);
    wire_send(call->call, WIRE_SERVER, &message->base);
    return STATUS_OK;
}

static void on_finish(void *arg, void *stream, const struct gen_finish *finish)
{
    struct worker_node *worker = arg;
    struct wire *wire = &worker->cluster->wire;
    struct gen_call *call = stream;
    if (!call->is_known)
        cluster_fail(worker->cluster, "a stream was finished twice");
    call->is_known = false;
    struct sim_message *message = sim_message_new(wire, SIM_END);
    message->end.status = finish->status;
    message->end.finish = *finish;
    message->end.finish.search = NULL;
    if (finish->search && finish->status == STATUS_OK)
        message->end.replies = sim_copy_replies(wire, finish->search);
    message->end.finish.sentence = sim_copy(wire, finish->sentence, strlen(finish->sentence) + 1);
    message->end.finish.context_worker = sim_copy(wire, finish->context_worker,
                                                  strlen(finish->context_worker) + 1);
    wire_send(call->call, WIRE_SERVER, &message->base);
}

/* ---- prefill: client ---- */

struct gen_prefill_call {
    struct gen_prefill_call *next;
    struct worker_node *worker;
    struct wire_call *call;
    uint64_t prefill;
    uint32_t ctx_node;
    uint64_t incarnation; /* that it believes to talk to */
    struct ctx_prefill_request request;
    bool is_over; /* prefill_end was said */
};

static void end_prefill(struct gen_prefill_call *call, enum status status, const char *sentence)
{
    if (call->is_over)
        return;
    call->is_over = true;
    struct transport_address *described = &call->worker->described[call->ctx_node];
    bool is_forgotten = status == STATUS_STALE_PEER || status == STATUS_PEER_LOST;
    if (is_forgotten && described->incarnation == call->incarnation)
        described->incarnation = 0;
    gen_engine_prefill_end(call->worker->gen, call->prefill, status, sentence);
    struct gen_prefill_call **link = &call->worker->prefills;
    while (*link != call)
        link = &(*link)->next;
    *link = call->next;
}

/* Who answers is known: says so and asks for the prompt. */
static void go_on(struct gen_prefill_call *call, const struct transport_address *address)
{
    call->incarnation = address->incarnation;
    const struct gen_described described = {
        .address = *address, .geometry = worker_node_geometry(call->worker->cluster, true)};
    enum status status = gen_engine_described(call->worker->gen, call->prefill, &described);
    if (status != STATUS_OK) {
        wire_close(call->call, WIRE_CLIENT);
        end_prefill(call, status, "");
        return;
    }
    struct sim_message *message = sim_message_new(&call->worker->cluster->wire, SIM_PREFILL);
    message->prefill = call->request;
    message->prefill.callee_incarnation = address->incarnation;
    message->prefill.held_tokens -= message->prefill.held_tokens % described.geometry.block_tokens;
    wire_send(call->call, WIRE_CLIENT, &message->base);
}

static void on_described(struct gen_prefill_call *call, const struct transport_address *address)
{
    struct worker_node *worker = call->worker;
    uint64_t *last = &worker->last_incarnation[call->ctx_node];
    if (*last != 0 && *last != address->incarnation &&
        gen_engine_drop_peer(worker->gen, *last) != STATUS_OK)
        cluster_trace(worker->cluster, "drop_peer found no room");
    *last = address->incarnation;
    worker->described[call->ctx_node] = *address;
    go_on(call, address);
}

static void on_event(struct gen_prefill_call *call, const struct prefill_event *event)
{
    enum status status = gen_engine_prefill_event(call->worker->gen, call->prefill, event);
    if (status != STATUS_OK) {
        wire_close(call->call, WIRE_CLIENT);
        end_prefill(call, status, "an event found no room");
    }
}

static void on_prefill_message(void *arg, const struct wire_message *base)
{
    const struct sim_message *message = (const struct sim_message *)base;
    struct gen_prefill_call *call = arg;
    if (base->kind == SIM_DESCRIBED)
        on_described(call, &message->described);
    else if (base->kind == SIM_CTX_EVENT)
        on_event(call, &message->event);
    else
        end_prefill(call, message->end.status, message->end.sentence);
}

static void on_prefill_broken(void *arg)
{
    end_prefill(arg, STATUS_PEER_LOST, "the stream broke");
}

static void on_prefill_late(void *arg)
{
    end_prefill(arg, STATUS_TIMED_OUT, "");
}

/* The context worker's own: that of the same name and digest. */
static const struct request_adapter *find_adapter(const struct worker_node *worker,
                                                  const struct request_adapter *wanted)
{
    const struct cluster *cluster = worker->cluster;
    for (uint32_t i = 1; wanted && i <= ORACLE_ADAPTERS; i++) {
        const struct request_adapter *adapter = oracle_adapter(cluster->oracle,
                                                               cluster->plan->model, i);
        if (adapter_id_equal(&adapter->id, &wanted->id))
            return adapter;
    }
    assert(!wanted && "all workers have all");
    return NULL;
}

static void start_prefill(void *arg, uint64_t prefill, const char *context_worker,
                          const struct gen_prefill_request *request)
{
    static const struct wire_listener LISTENER = {
        .message = on_prefill_message, .broken = on_prefill_broken, .late = on_prefill_late};
    struct worker_node *worker = arg;
    struct wire *wire = &worker->cluster->wire;
    const struct engine_request_input *input = &request->input;
    struct gen_prefill_call *call = wire_alloc(wire, sizeof *call);
    call->worker = worker;
    call->prefill = prefill;
    call->ctx_node = worker_node_find(worker->cluster, context_worker);
    struct client *client = router_node_client_of(worker->cluster, input->request_id);
    worker->client_of_prefill[prefill % PREFILLS_KEPT] = client;
    call->next = worker->prefills;
    worker->prefills = call;
    call->request = (struct ctx_prefill_request){
        .input = {.request_id = sim_copy(wire, input->request_id, strlen(input->request_id) + 1),
                  .token_ids = sim_copy(wire, input->token_ids,
                                        input->n_tokens * sizeof *input->token_ids),
                  .n_tokens = input->n_tokens,
                  .sampling = sim_copy(wire, input->sampling, sizeof *input->sampling),
                  .adapter = find_adapter(worker, input->adapter),
                  .salt = sim_copy(wire, input->salt, input->salt_bytes),
                  .salt_bytes = input->salt_bytes,
                  .deadline_ns = input->deadline_ns,
                  .standing = input->standing},
        .transfer_id = request->transfer_id,
        .held_tokens = request->held_tokens,
        .caller = worker->incarnation,
        .caller_incarnation = worker->incarnation,
        .takes_backlog = true,
        .reader_step_ns = request->step_ns,
    };
    call->call = wire_open(wire, worker->node, call->ctx_node, input->deadline_ns);
    wire_listen(call->call, WIRE_CLIENT, &LISTENER, call);
    ctx_node_accept(&worker->cluster->workers[call->ctx_node], call->call);
    if (worker->described[call->ctx_node].incarnation != 0)
        go_on(call, &worker->described[call->ctx_node]);
    else
        wire_send(call->call, WIRE_CLIENT, &sim_message_new(wire, SIM_DESCRIBE)->base);
}

static void cancel_prefill(void *arg, uint64_t prefill)
{
    struct worker_node *worker = arg;
    for (struct gen_prefill_call *call = worker->prefills; call; call = call->next) {
        if (call->prefill != prefill)
            continue;
        wire_close(call->call, WIRE_CLIENT);
        end_prefill(call, STATUS_CANCELLED, "");
        return;
    }
}

/* ---- commit: client ---- */

struct commit_call {
    struct worker_node *worker;
    struct wire_call *call;
    uint64_t prefill;
    struct client *client;
};

static void on_commit_message(void *arg, const struct wire_message *base)
{
    const struct sim_message *message = (const struct sim_message *)base;
    struct commit_call *call = arg;
    if (message->end.status == STATUS_OK)
        call->client->n_commits++;
    gen_engine_commit_result(call->worker->gen, call->prefill, message->end.status,
                             message->end.sentence);
}

static void on_commit_broken(void *arg)
{
    struct commit_call *call = arg;
    gen_engine_commit_result(call->worker->gen, call->prefill, STATUS_PEER_LOST, "");
}

static void on_commit_late(void *arg)
{
    struct commit_call *call = arg;
    gen_engine_commit_result(call->worker->gen, call->prefill, STATUS_TIMED_OUT, "");
}

static void commit(void *arg, uint64_t prefill, const char *context_worker,
                   const struct transfer_id *id, uint64_t kv_bytes, uint64_t incarnation)
{
    static const struct wire_listener LISTENER = {
        .message = on_commit_message, .broken = on_commit_broken, .late = on_commit_late};
    struct worker_node *worker = arg;
    struct cluster *cluster = worker->cluster;
    uint32_t ctx_node = worker_node_find(cluster, context_worker);
    struct commit_call *call = wire_alloc(&cluster->wire, sizeof *call);
    call->worker = worker;
    call->prefill = prefill;
    call->client = worker->client_of_prefill[prefill % PREFILLS_KEPT];
    call->call = wire_open(&cluster->wire, worker->node, ctx_node,
                           cluster->timeline.now_ns + 2 * cluster->plan->commit_limit_ns);
    wire_listen(call->call, WIRE_CLIENT, &LISTENER, call);
    ctx_node_accept(&cluster->workers[ctx_node], call->call);
    struct sim_message *message = sim_message_new(&cluster->wire, SIM_COMMIT);
    message->commit.id = *id;
    message->commit.kv_bytes = kv_bytes;
    cluster->kv_bytes_committed += kv_bytes;
    message->commit.callee_incarnation = incarnation;
    wire_send(call->call, WIRE_CLIENT, &message->base);
}

static void draw_transfer_id(void *arg, struct transfer_id *id_out)
{
    struct worker_node *worker = arg;
    for (size_t i = 0; i < sizeof id_out->bytes; i++)
        id_out->bytes[i] = (uint8_t)random_below(&worker->cluster->random, 256);
}

static void on_flush_reply(void *arg, void *handle, uint32_t n_evicted)
{
    (void)handle;
    (void)n_evicted;
    cluster_fail(((struct worker_node *)arg)->cluster, "nobody asked for a flush");
}

const struct gen_engine_ops GEN_NODE_OPS = {
    .now_ns = now_ns,
    .draw_transfer_id = draw_transfer_id,
    .tokens = on_tokens,
    .scores = on_scores,
    .finish = on_finish,
    .start_prefill = start_prefill,
    .cancel_prefill = cancel_prefill,
    .commit = commit,
    .flush_reply = on_flush_reply,
};
