#include "engine/engine_core.h"

#include <assert.h>

/* ---- arriving ---- */

static bool is_known(const struct engine_core *core, const struct engine_request *request)
{
    return core->ops->is_running(core->engine, request) ||
           request_queue_has(core->queue, request->request_id) ||
           request_queue_has(core->pending, request->request_id);
}

/* It is pending, or ended. */
static void order(struct engine_core *core, struct engine_request *request)
{
    enum status status = STATUS_UNSUPPORTED;
    const char *sentence = request->needs_tokenizer
                               ? "sampling.stop: with beam_width, it needs the texts of tokens, "
                                 "which this worker does not know"
                               : "this worker compiles no constraints";
    if (core->desk) {
        status = constraint_desk_order(core->desk, &request->rules->constraint,
                                       request->standing.tenant, &request->order);
        sentence = status == STATUS_QUEUE_FULL ? "too many constraints wait to be compiled" : "";
    }
    if (status == STATUS_OK && request_queue_push(core->pending, request))
        return;
    assert(status != STATUS_OK && "pending has room for all streams");
    core->ops->end(core->engine, request, status, sentence);
}

/* It is queued, or ended. */
static void enlist(struct engine_core *core, struct engine_request *request, uint64_t now_ns)
{
    const char *sentence = "";
    enum status status = core->ops->enlist(core->engine, request, now_ns, &sentence);
    if (status != STATUS_OK) {
        core->ops->end(core->engine, request, status, sentence);
        return;
    }
    bool has_place = request_queue_push(core->queue, request);
    assert(has_place && "the schedule refuses before the queue is full");
    (void)has_place;
}

void engine_core_request(struct engine_core *core, struct engine_request *request, uint64_t now_ns)
{
    const struct engine_core_ops *ops = core->ops;
    const char *sentence = "";
    enum status status = STATUS_OK;
    request->arrived_ns = now_ns;
    if (core->is_draining) {
        status = STATUS_DRAINING;
    } else if (request->deadline_ns <= now_ns) {
        status = STATUS_TIMED_OUT;
        sentence = "the deadline had passed on arrival";
    } else if (is_known(core, request)) {
        status = STATUS_DUPLICATE_REQUEST;
    }
    if (status != STATUS_OK)
        ops->end(core->engine, request, status, sentence);
    else if (engine_request_needs_desk(request))
        order(core, request);
    else
        enlist(core, request, now_ns);
}

/* ---- pending ---- */

/* Of a request that has left pending. */
static void end_pending(struct engine_core *core, struct engine_request *request,
                        enum status status, const char *sentence)
{
    assert(status != STATUS_OK);
    if (request->order)
        constraint_desk_cancel(core->desk, request->order);
    request->order = NULL;
    core->ops->end(core->engine, request, status, sentence);
}

static struct engine_request *take_ordered(struct engine_core *core,
                                           const struct constraint_order *ordered)
{
    for (uint32_t i = 0; i < request_queue_count(core->pending); i++)
        if (request_queue_at(core->pending, i)->order == ordered)
            return request_queue_remove_at(core->pending, i);
    return NULL;
}

static void take_constraints(struct engine_core *core, uint64_t now_ns)
{
    struct constraint_done done;
    while (core->desk && constraint_desk_take(core->desk, &done)) {
        struct engine_request *request = take_ordered(core, done.order);
        assert(request && "an order is cancelled when its request ends");
        request->order = NULL;
        request->constraint = done.constraint;
        request->tokenizer = done.tokenizer;
        if (done.status == STATUS_OK)
            enlist(core, request, now_ns);
        else
            end_pending(core, request, done.status, done.error.text);
    }
}

static const char *why_late(const struct engine_core *core, const struct engine_request *request)
{
    return constraint_desk_has_begun(core->desk, request->order)
               ? "the constraint was not compiled in the time that is left behind others"
               : "too many constraints wait to be compiled";
}

static void end_late_pending(struct engine_core *core, uint64_t now_ns)
{
    struct engine_request *request;
    while ((request = request_queue_remove_expired(core->pending, now_ns))) {
        const bool is_late = request->deadline_ns <= now_ns;
        end_pending(core, request, is_late ? STATUS_TIMED_OUT : STATUS_QUEUE_FULL,
                    is_late ? "the deadline passed before the constraint was compiled"
                            : why_late(core, request));
    }
}

/* ---- ending ---- */

void engine_core_refuse(struct engine_core *core, struct engine_request *request,
                        enum status status, const char *sentence)
{
    assert(status != STATUS_OK);
    core->ops->delist(core->engine, request);
    core->ops->end(core->engine, request, status, sentence);
}

bool engine_core_abort(struct engine_core *core, const char *request_id, enum status status,
                       const char *sentence)
{
    struct engine_request *pending = request_queue_remove_request(core->pending, request_id);
    struct engine_request *queued = request_queue_remove_request(core->queue, request_id);
    assert(!(pending && queued) && "a request id is unique while its request lives");
    if (pending)
        end_pending(core, pending, status, sentence);
    else if (queued)
        engine_core_refuse(core, queued, status, sentence);
    return pending || queued;
}

void engine_core_stream_ended(struct engine_core *core, const void *stream)
{
    assert(stream && "NULL would end all");
    struct engine_request *pending = request_queue_remove_stream(core->pending, stream);
    struct engine_request *queued = request_queue_remove_stream(core->queue, stream);
    if (pending)
        end_pending(core, pending, STATUS_CANCELLED, "");
    else if (queued)
        engine_core_refuse(core, queued, STATUS_CANCELLED, "");
    else
        core->ops->end_running(core->engine, stream, STATUS_CANCELLED);
}

static void end_all(struct engine_core *core, enum status status)
{
    struct engine_request *queued;
    while ((queued = request_queue_pop(core->queue)))
        engine_core_refuse(core, queued, status, "");
    while ((queued = request_queue_pop(core->pending)))
        end_pending(core, queued, status, "");
    core->ops->end_running(core->engine, NULL, status);
}

/* Messages are taken before drain and stop, so a request that came before them is not refused. */
static void take_messages(struct engine_core *core, uint64_t now_ns)
{
    while (core->ops->take_message(core->engine, now_ns))
        continue;
    if (engine_inbox_wants_drain(core->inbox))
        core->is_draining = true;
    if (device_is_lost(core->device)) /* in each round: requests still arrive */
        end_all(core, STATUS_DEVICE_LOST);
    else if (engine_inbox_wants_stop(core->inbox))
        end_all(core, STATUS_DRAINING);
}

static void end_late(struct engine_core *core, uint64_t now_ns)
{
    for (uint32_t i = request_queue_count(core->queue); i-- > 0;)
        if (request_queue_at(core->queue, i)->deadline_ns <= now_ns)
            engine_core_refuse(core, request_queue_remove_at(core->queue, i), STATUS_TIMED_OUT,
                               "the deadline passed in the queue");
}

/* True: the queue has a new head, which may start. */
static bool end_waits(struct engine_core *core, enum status lacks, uint64_t now_ns)
{
    const char *sentence = lacks == STATUS_NO_BLOCKS ? "timeout in the queue: no free KV blocks"
                                                     : "timeout in the queue: no free slot";
    struct engine_request *request;
    bool has_ended = false;
    while ((request = request_queue_remove_expired(core->queue, now_ns))) {
        assert(lacks != STATUS_OK && "a waiting request lacks something");
        assert(request->deadline_ns > now_ns && "late requests have left before the admission");
        engine_core_refuse(core, request, lacks, sentence);
        has_ended = true;
    }
    return has_ended;
}

static uint64_t next_limit_ns(const struct engine_core *core)
{
    uint64_t queue_ns = request_queue_next_expiry_ns(core->queue);
    uint64_t pending_ns = request_queue_next_expiry_ns(core->pending);
    uint64_t running_ns = core->ops->next_limit_ns(core->engine);
    uint64_t waiting_ns = queue_ns < pending_ns ? queue_ns : pending_ns;
    return waiting_ns < running_ns ? waiting_ns : running_ns;
}

uint64_t engine_core_step(struct engine_core *core, uint64_t now_ns)
{
    const struct engine_core_ops *ops = core->ops;
    if (core->has_computed)
        ops->took(core->engine, now_ns - core->began_ns);
    core->began_ns = now_ns;
    ops->take_events(core->engine, now_ns);
    take_messages(core, now_ns);
    take_constraints(core, now_ns);
    end_late_pending(core, now_ns);
    ops->expire_running(core->engine, now_ns);
    end_late(core, now_ns);
    const struct engine_admission admission = ops->admit(core->engine, now_ns);
    bool has_ended = end_waits(core, admission.waits_for, now_ns);
    core->has_computed = ops->compute(core->engine);
    ops->publish(core->engine, now_ns);
    bool has_more = admission.has_changed || has_ended || core->has_computed ||
                    !engine_inbox_is_empty(core->inbox);
    return has_more ? now_ns : next_limit_ns(core);
}
