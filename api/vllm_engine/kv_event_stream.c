#include "api/vllm_engine/kv_event_stream.h"

#include "api/engine/engine_view.h"
#include "base/clock.h"
#include "proto/smg/grpc/common/common.pb-c.h"

#include <assert.h>
#include <stdlib.h>

#define PERIOD_NS      (20 * NS_PER_MS)
#define LOAD_PERIOD_NS NS_PER_S

/* marks of a stream */
enum {
    NEXT_BATCH, /* its place; 0: a snapshot comes first */
    CHUNK,      /* of a snapshot; CHUNKS: none is told */
    CHUNKS,
    BLOCKS,    /* of that snapshot */
    LOAD_AT,   /* when the next load is due */
    LOAD_FIRST /* a load may be the first message */
};

/* The batch that is made. */
struct batch {
    Smg__Grpc__Common__KvEventBatch message;
    Smg__Grpc__Common__KvSnapshotChunk snapshot;
    Smg__Grpc__Common__EngineLoad load;
    uint32_t n, n_blocks;
    Smg__Grpc__Common__KvCacheEvent events[KV_EVENT_BATCH_BLOCKS];
    Smg__Grpc__Common__KvCacheEvent *event_list[KV_EVENT_BATCH_BLOCKS];
    Smg__Grpc__Common__KvBlocksStored stored[KV_EVENT_BATCH_BLOCKS];
    Smg__Grpc__Common__KvBlocksRemoved removed[KV_EVENT_BATCH_BLOCKS];
    Smg__Grpc__Common__KvCacheCleared cleared;
    Smg__Grpc__Common__KvBlock blocks[KV_EVENT_BATCH_BLOCKS];
    Smg__Grpc__Common__KvBlock *block_list[KV_EVENT_BATCH_BLOCKS];
    int64_t hashes[KV_EVENT_BATCH_BLOCKS]; /* of removed ones */
    struct prefix_hash last;               /* stored in this batch */
    uint32_t *token_ids;                   /* [KV_EVENT_BATCH_BLOCKS][block_tokens] */
};

struct kv_event_stream {
    const struct engine_place *place;
    struct event_streams *streams; /* NULL: nobody has subscribed yet */
    const struct span_events *spans;
    /* What follows: of the streams' thread. */
    uint64_t base;                        /* number of a batch that came before all */
    uint64_t n;                           /* batches that are closed: base + 1 .. base + n */
    uint64_t ends[KV_EVENT_BATCHES_KEPT]; /* the last event of each, by its place */
    uint64_t sample;
    struct batch *batch;
};

enum status kv_event_stream_create(const struct engine_place *place,
                                   struct kv_event_stream **stream_out)
{
    struct kv_event_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return STATUS_NO_MEMORY;
    stream->place = place;
    stream->base = clock_unix_ms() * 1000;
    *stream_out = stream;
    return STATUS_OK;
}

void kv_event_stream_destroy(struct kv_event_stream *stream)
{
    if (!stream)
        return;
    event_streams_destroy(stream->streams);
    if (stream->batch)
        free(stream->batch->token_ids);
    free(stream->batch);
    free(stream);
}

/* ---- batches ---- */

/* The last event of that batch; of batch 0 that before all. */
static uint64_t end_of(const struct kv_event_stream *stream, uint64_t batch)
{
    return stream->ends[batch % KV_EVENT_BATCHES_KEPT];
}

static bool is_kept(const struct kv_event_stream *stream, uint64_t batch)
{
    return batch <= stream->n && stream->n - batch < KV_EVENT_BATCHES_KEPT;
}

/* All events so far are in batches. */
static void close_batches(struct kv_event_stream *stream)
{
    const uint64_t last = span_events_last(stream->spans);
    while (end_of(stream, stream->n) < last) {
        const uint64_t end = end_of(stream, stream->n);
        const uint64_t next = last - end > KV_EVENT_BATCH_BLOCKS ? end + KV_EVENT_BATCH_BLOCKS
                                                                 : last;
        stream->n++;
        stream->ends[stream->n % KV_EVENT_BATCHES_KEPT] = next;
    }
}

static void tick(void *arg, uint64_t now_ns)
{
    (void)now_ns;
    close_batches(arg);
}

/* The batch that has the event behind that one, or will have it. */
static uint64_t batch_behind(const struct kv_event_stream *stream, uint64_t event)
{
    uint64_t batch = stream->n + 1;
    while (is_kept(stream, batch - 1) && batch > 1 && end_of(stream, batch - 1) > event)
        batch--;
    return batch;
}

static void begin(struct batch *batch)
{
    smg__grpc__common__kv_event_batch__init(&batch->message);
    batch->message.events = batch->event_list;
    batch->message.timestamp = (double)clock_unix_ms() / 1000;
    batch->message
        .dp_rank_presence_case = SMG__GRPC__COMMON__KV_EVENT_BATCH__DP_RANK_PRESENCE_DP_RANK;
    batch->message.dp_rank = 0;
    batch->n = batch->n_blocks = 0;
    batch->last = (struct prefix_hash){0};
}

static Smg__Grpc__Common__KvCacheEvent *add_event(struct batch *batch, uint64_t number)
{
    Smg__Grpc__Common__KvCacheEvent *event = &batch->events[batch->n];
    assert(batch->n < KV_EVENT_BATCH_BLOCKS);
    smg__grpc__common__kv_cache_event__init(event);
    event->event_id = number;
    batch->event_list[batch->n++] = event;
    batch->message.n_events = batch->n;
    return event;
}

/* A gateway knows a block by a part of its hash. */
static int64_t name_of(struct prefix_hash hash)
{
    return (int64_t)hash.lo;
}

static void add_stored(struct batch *batch, const struct span_event *from)
{
    const bool follows = !prefix_hash_is_none(batch->last) &&
                         prefix_hash_equal(from->parent, batch->last);
    const uint32_t at = batch->n_blocks++;
    Smg__Grpc__Common__KvBlock *block = &batch->blocks[at];
    uint32_t *tokens = batch->token_ids + (size_t)at * from->n_tokens;
    smg__grpc__common__kv_block__init(block);
    block->block_hash = name_of(from->hash);
    block->block_size = (int32_t)from->n_tokens;
    block->n_token_ids = from->n_tokens;
    block->token_ids = tokens;
    for (uint32_t i = 0; i < from->n_tokens; i++)
        tokens[i] = from->token_ids[i];
    batch->block_list[at] = block;
    if (!follows) {
        Smg__Grpc__Common__KvCacheEvent *event = add_event(batch, from->number);
        Smg__Grpc__Common__KvBlocksStored *stored = &batch->stored[batch->n - 1];
        smg__grpc__common__kv_blocks_stored__init(stored);
        stored->blocks = &batch->block_list[at];
        if (!prefix_hash_is_none(from->parent)) {
            stored->parent_block_hash_presence_case =
                SMG__GRPC__COMMON__KV_BLOCKS_STORED__PARENT_BLOCK_HASH_PRESENCE_PARENT_BLOCK_HASH;
            stored->parent_block_hash = name_of(from->parent);
        }
        event->data_case = SMG__GRPC__COMMON__KV_CACHE_EVENT__DATA_STORED;
        event->stored = stored;
    }
    batch->stored[batch->n - 1].n_blocks++;
    batch->last = from->hash;
}

static void add_removed(struct batch *batch, const struct span_event *from)
{
    Smg__Grpc__Common__KvCacheEvent *event = add_event(batch, from->number);
    Smg__Grpc__Common__KvBlocksRemoved *removed = &batch->removed[batch->n - 1];
    smg__grpc__common__kv_blocks_removed__init(removed);
    batch->hashes[batch->n - 1] = name_of(from->hash);
    removed->block_hashes = &batch->hashes[batch->n - 1];
    removed->n_block_hashes = 1;
    event->data_case = SMG__GRPC__COMMON__KV_CACHE_EVENT__DATA_REMOVED;
    event->removed = removed;
    batch->last = (struct prefix_hash){0};
}

static void add_cleared(struct batch *batch, uint64_t number)
{
    Smg__Grpc__Common__KvCacheEvent *event = add_event(batch, number);
    smg__grpc__common__kv_cache_cleared__init(&batch->cleared);
    event->data_case = SMG__GRPC__COMMON__KV_CACHE_EVENT__DATA_CLEARED;
    event->cleared = &batch->cleared;
}

/* ---- snapshots ---- */

/* Its first event, CLEARED, was taken. */
static void begin_snapshot(struct kv_event_stream *stream, struct event_stream *of)
{
    const uint32_t n = span_reader_snapshot_left(of->reader);
    const uint32_t each = KV_EVENT_BATCH_BLOCKS - 1; /* and CLEARED */
    close_batches(stream);
    of->marks[NEXT_BATCH] = batch_behind(stream, span_reader_number(of->reader));
    of->marks[CHUNK] = 0;
    of->marks[CHUNKS] = n <= each ? 1 : (n + each - 1) / each;
    of->marks[BLOCKS] = n;
}

static const ProtobufCMessage *next_chunk(struct kv_event_stream *stream, struct event_stream *of)
{
    struct batch *batch = stream->batch;
    struct span_event event;
    const uint64_t index = of->marks[CHUNK]++, count = of->marks[CHUNKS];
    begin(batch);
    if (index == 0)
        add_cleared(batch, span_reader_number(of->reader));
    for (uint32_t i = 0; i < KV_EVENT_BATCH_BLOCKS - 1; i++)
        if (span_reader_snapshot_left(of->reader) > 0 && span_reader_next(of->reader, &event) &&
            event.kind == SPAN_STORED)
            add_stored(batch, &event);
    smg__grpc__common__kv_snapshot_chunk__init(&batch->snapshot);
    batch->snapshot.index = (uint32_t)index;
    batch->snapshot.count = (uint32_t)count;
    batch->snapshot.blocks = of->marks[BLOCKS];
    batch->message.snapshot = &batch->snapshot;
    batch->message.sequence_number = stream->base + of->marks[NEXT_BATCH] - (count - index);
    return &batch->message.base;
}

/* ---- what a stream gets next ---- */

static void restart(struct event_stream *of)
{
    span_reader_restart(of->reader);
    of->marks[NEXT_BATCH] = 0;
}

/* A gateway goes on behind the batch that it had last, if there is something to tell it at once: it waits for an answer. */
static void resume(const struct kv_event_stream *stream, struct event_stream *of)
{
    const uint64_t next = of->marks[NEXT_BATCH];
    const bool has_news = next <= stream->n || of->marks[LOAD_FIRST] != 0;
    if (next == 0 || !has_news || !is_kept(stream, next - 1) ||
        !span_reader_resume(of->reader, end_of(stream, next - 1)))
        restart(of);
}

/* NULL: there is none. */
static const ProtobufCMessage *next_batch(struct kv_event_stream *stream, struct event_stream *of)
{
    struct batch *batch = stream->batch;
    struct span_event event;
    if (of->marks[CHUNK] < of->marks[CHUNKS])
        return next_chunk(stream, of);
    if (of->is_first)
        resume(stream, of);
    if (of->marks[NEXT_BATCH] > stream->n)
        return NULL;
    if (!is_kept(stream, of->marks[NEXT_BATCH]))
        restart(of);
    const uint64_t number = of->marks[NEXT_BATCH];
    begin(batch);
    while ((number == 0 || span_reader_number(of->reader) < end_of(stream, number)) &&
           span_reader_next(of->reader, &event)) {
        if (event.kind == SPAN_CLEARED) {
            begin_snapshot(stream, of);
            return next_chunk(stream, of);
        }
        if (event.kind == SPAN_STORED)
            add_stored(batch, &event);
        if (event.kind == SPAN_REMOVED)
            add_removed(batch, &event);
    }
    of->marks[NEXT_BATCH]++;
    batch->message.sequence_number = stream->base + number;
    return &batch->message.base;
}

static const ProtobufCMessage *next_load(struct kv_event_stream *stream, struct event_stream *of,
                                         uint64_t now_ns)
{
    struct batch *batch = stream->batch;
    struct engine_view view;
    of->marks[LOAD_AT] = now_ns + LOAD_PERIOD_NS;
    engine_view_read(stream->place, &view);
    begin(batch);
    smg__grpc__common__engine_load__init(&batch->load);
    batch->load.running_requests = view.running;
    batch->load.waiting_requests = view.waiting;
    batch->load.max_running_requests = view.running_max;
    batch->load.token_usage = view.blocks > 0 ? (double)view.blocks_used / (double)view.blocks : 0;
    batch->load.sample = ++stream->sample;
    batch->load.load_only = true;
    batch->message.load = &batch->load;
    return &batch->message.base;
}

static const ProtobufCMessage *next(void *arg, struct event_stream *of, uint64_t now_ns)
{
    struct kv_event_stream *stream = arg;
    const ProtobufCMessage *message = next_batch(stream, of);
    of->has_more = of->marks[CHUNK] < of->marks[CHUNKS] || of->marks[NEXT_BATCH] <= stream->n;
    if (message || now_ns < of->marks[LOAD_AT])
        return message;
    return next_load(stream, of, now_ns);
}

/* ---- opening ---- */

static enum status start(struct kv_event_stream *stream)
{
    stream->spans = kv_event_client_spans(stream->place->intake->events);
    stream->ends[0] = span_events_last(stream->spans);
    if (!stream->batch)
        stream->batch = calloc(1, sizeof *stream->batch);
    if (stream->batch && !stream->batch->token_ids)
        stream->batch->token_ids = calloc((size_t)KV_EVENT_BATCH_BLOCKS *
                                              span_events_block_tokens(stream->spans),
                                          sizeof *stream->batch->token_ids);
    if (!stream->batch || !stream->batch->token_ids)
        return STATUS_NO_MEMORY;
    const struct router_series *series = &stream->place->intake->metrics->series;
    const struct event_streams_options options = {
        .thread_name = "kv-events",
        .events = stream->spans,
        .streams_max = KV_EVENT_GATEWAYS_MAX,
        .caller_max = KV_EVENT_CALLER_MAX,
        .period_ns = PERIOD_NS,
        .n_streams = series->kv_event_streams,
        .n_overruns = series->kv_event_overruns,
        .tick = tick,
        .next = next,
        .arg = stream,
    };
    return event_streams_create(&options, &stream->streams);
}

void kv_event_stream_open(struct kv_event_stream *stream, struct rpc_call *rpc, uint64_t after,
                          bool takes_load_first)
{
    const struct engine_place *place = stream->place;
    enum status status = process_refuses(place->process);
    const uint64_t marks[EVENT_STREAM_MARKS] = {
        [NEXT_BATCH] = after > stream->base ? after - stream->base + 1 : 0,
        [LOAD_FIRST] = takes_load_first,
    };
    if (status == STATUS_OK && !place->intake->events)
        status = STATUS_UNIMPLEMENTED;
    if (status == STATUS_OK && !stream->streams)
        status = start(stream);
    if (status == STATUS_OK)
        event_streams_open(stream->streams, rpc, false, 0, marks);
    else
        rpc_call_fail_status(rpc, status, "%s",
                             status == STATUS_UNIMPLEMENTED ? "kv_event_blocks_max is 0"
                                                            : status_text(status));
}
