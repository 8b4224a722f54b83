/*
 * The gRPC side of a simulated context worker. It also judges: an event goes only to who meant this
 * life of the worker, and a commit is granted only for a sealed transfer whose stream is open.
 */
#include "tests/sim/messages.h"
#include "tests/sim/worker_node.h"

#include <string.h>

struct ctx_call {
    struct ctx_call *next;
    struct worker_node *worker;
    struct wire_call *call;
    bool is_known; /* the engine has it as a stream and has not finished it */
    bool is_sealed;
    struct transfer_id id; /* that it is about */
    uint64_t incarnation;  /* that the caller means */
};

static void on_prefill(struct ctx_call *call, const struct sim_message *message)
{
    struct error error = {""};
    call->id = message->prefill.transfer_id;
    call->incarnation = message->prefill.callee_incarnation;
    call->next = call->worker->streams;
    call->worker->streams = call;
    enum status status = ctx_engine_prefill(call->worker->ctx, call, &message->prefill, &error);
    call->is_known = status == STATUS_OK;
    if (status != STATUS_OK)
        sim_send_end(call->call, &call->worker->cluster->wire, status, error.text);
}

static bool is_held(const struct worker_node *worker, const struct transfer_id *id)
{
    for (const struct ctx_call *call = worker->streams; call; call = call->next)
        if (call->is_known && call->is_sealed && memcmp(&call->id, id, sizeof *id) == 0)
            return true;
    return false;
}

static void on_commit(struct ctx_call *call, const struct sim_message *message)
{
    struct worker_node *worker = call->worker;
    struct error error = {""};
    const struct held_commit commit = {.id = message->commit.id,
                                       .kv_bytes = message->commit.kv_bytes,
                                       .incarnation = message->commit.callee_incarnation};
    enum status status = ctx_engine_commit(worker->ctx, &commit, &error);
    if (status == STATUS_OK &&
        (commit.incarnation != worker->incarnation || !is_held(worker, &commit.id)))
        cluster_fail(worker->cluster, "node %u granted a commit of what nobody holds",
                     worker->node);
    worker->cluster->totals->committed_in_steps += status == STATUS_OK && worker->is_in_step;
    sim_send_end(call->call, &worker->cluster->wire, status, error.text);
    worker->cluster->wire.nodes[worker->node].is_due = true;
}

static void on_describe(struct ctx_call *call)
{
    struct transport *transport = call->worker->transport;
    struct sim_message *reply = sim_message_new(&call->worker->cluster->wire, SIM_DESCRIBED);
    transport->ops->address(transport, &reply->described);
    wire_send(call->call, WIRE_SERVER, &reply->base);
}

static void on_message(void *arg, const struct wire_message *base)
{
    const struct sim_message *message = (const struct sim_message *)base;
    switch ((enum sim_message_kind)base->kind) {
    case SIM_DESCRIBE:
        on_describe(arg);
        break;
    case SIM_PREFILL:
        on_prefill(arg, message);
        break;
    case SIM_COMMIT:
        on_commit(arg, message);
        break;
    default:
        break;
    }
}

static void on_broken(void *arg)
{
    struct ctx_call *call = arg;
    if (call->is_known)
        ctx_engine_stream_ended(call->worker->ctx, call);
}

void ctx_node_accept(struct worker_node *worker, struct wire_call *wire_call)
{
    static const struct wire_listener LISTENER = {.message = on_message, .broken = on_broken};
    struct ctx_call *call = wire_alloc(&worker->cluster->wire, sizeof *call);
    call->worker = worker;
    call->call = wire_call;
    wire_listen(wire_call, WIRE_SERVER, &LISTENER, call);
}

/* ---- what the engine says ---- */

static uint64_t now_ns(void *arg)
{
    struct worker_node *worker = arg;
    worker_node_pass_layers(worker);
    return worker->cluster->timeline.now_ns;
}

static void on_event(void *arg, void *stream, const struct prefill_event *event)
{
    struct worker_node *worker = arg;
    struct wire *wire = &worker->cluster->wire;
    struct ctx_call *call = stream;
    if (!call->is_known)
        cluster_fail(worker->cluster, "an event on a stream that was finished");
    if (call->incarnation != worker->incarnation)
        cluster_fail(worker->cluster, "node %u answers for another life", worker->node);
    call->is_sealed |= event->kind == EVENT_SEALED;
    if (event->kind == EVENT_BACKLOG && worker->layers_seen > worker->layers_before)
        worker->cluster->totals->told_in_steps++;
    struct sim_message *message = sim_message_new(wire, SIM_CTX_EVENT);
    message->event = *event;
    if (event->kind == EVENT_READY) {
        size_t bytes = event->ready.n_blocks * sizeof(uint32_t);
        message->event.ready.block_ids = sim_copy(wire, event->ready.block_ids, bytes);
        if (event->ready.digests)
            message->event.ready.digests = sim_copy(wire, event->ready.digests, bytes);
    } else if (event->kind == EVENT_FIRST_TOKEN && event->first_token.ranked) {
        message->event.first_token.ranked = sim_copy(wire, event->first_token.ranked,
                                                     sizeof *event->first_token.ranked);
    } else if (event->kind == EVENT_SCORES) {
        sim_copy_scores(wire, &event->scores, &message->event.scores);
    }
    wire_send(call->call, WIRE_SERVER, &message->base);
}

static void on_finish(void *arg, void *stream, enum status status, const char *sentence)
{
    struct worker_node *worker = arg;
    struct ctx_call *call = stream;
    if (!call->is_known)
        cluster_fail(worker->cluster, "a stream was finished twice");
    call->is_known = false;
    sim_send_end(call->call, &worker->cluster->wire, status, sentence);
}

static void on_abort_reply(void *arg, void *handle, enum ctx_abort_found found)
{
    (void)handle;
    (void)found;
    cluster_fail(((struct worker_node *)arg)->cluster, "nobody asked for an abort");
}

static void on_flush_reply(void *arg, void *handle, uint32_t n_evicted)
{
    (void)handle;
    (void)n_evicted;
    cluster_fail(((struct worker_node *)arg)->cluster, "nobody asked for a flush");
}

const struct ctx_engine_ops CTX_NODE_OPS = {
    .now_ns = now_ns,
    .event = on_event,
    .finish = on_finish,
    .abort_reply = on_abort_reply,
    .flush_reply = on_flush_reply,
};
