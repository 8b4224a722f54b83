/* Streams and events. */
#include "double.h"

static uint32_t n_streams;

Stream *stream_of(cuda_stream handle)
{
    if (reinterpret_cast<uintptr_t>(handle) <= 2)
        unsupported("a default stream");
    return is(handle, "stream") ? reinterpret_cast<Stream *>(handle) : nullptr;
}

static Event *event_of(cuda_event handle)
{
    return handle && is(handle, "event") ? reinterpret_cast<Event *>(handle) : nullptr;
}

OperationRef put(Stream *stream, Work work, std::vector<OperationRef> before)
{
    before.push_back(stream->last);
    return stream->last = enqueue(stream->lane, before, std::move(work));
}

cuda_code submit(cuda_stream handle, Work work)
{
    Stream *s = stream_of(handle);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!s->capture) {
        put(s, std::move(work));
        return CUDA_SUCCESS;
    }
    if (s->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    Graph *g = s->capture->graph;
    g->nodes.push_back({std::move(work), s->tail, s->capture_lane});
    s->tail = {static_cast<int>(g->nodes.size()) - 1};
    return CUDA_SUCCESS;
}

cuda_code cuStreamCreate(cuda_stream *out, unsigned flags)
{
    return api("cuStreamCreate", 0, [&] {
        if (flags != CUDA_STREAM_NON_BLOCKING)
            unsupported("cuStreamCreate with flags 0x%x", flags);
        uint32_t n = ++n_streams;
        auto s = new Stream{new_lane("stream " + std::to_string(n)), n, nullptr, nullptr, {}, 0};
        *out = reinterpret_cast<cuda_stream>(make("stream", s));
        return CUDA_SUCCESS;
    });
}

/* Returns at once; queued work still runs. */
cuda_code cuStreamDestroy_v2(cuda_stream handle)
{
    return api("cuStreamDestroy", 0, [&] {
        Stream *s = stream_of(handle);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        if (s->capture)
            return invalidate(s->capture, "cuStreamDestroy"), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        retire(handle);
        return CUDA_SUCCESS;
    });
}

cuda_code cuStreamSynchronize(cuda_stream handle)
{
    static const char call[] = "cuStreamSynchronize";
    return api(call, 0, [&] {
        Stream *s = stream_of(handle);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        if (s->capture)
            return invalidate(s->capture, call), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        if (prohibited(call))
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        return !s->last || wait_for(s->last) ? CUDA_SUCCESS : sticky;
    });
}

cuda_code cuEventCreate(cuda_event *out, unsigned flags)
{
    return api("cuEventCreate", 0, [&] {
        if (flags != CUDA_EVENT_DISABLE_TIMING)
            unsupported("cuEventCreate with flags 0x%x", flags);
        *out = reinterpret_cast<cuda_event>(make("event", new Event));
        return CUDA_SUCCESS;
    });
}

cuda_code cuEventDestroy_v2(cuda_event handle)
{
    return api("cuEventDestroy", 0, [&] {
        return event_of(handle) ? (retire(handle), CUDA_SUCCESS) : CUDA_ERROR_INVALID_HANDLE;
    });
}

cuda_code cuEventRecord(cuda_event event, cuda_stream stream)
{
    return api("cuEventRecord", 0, [&] {
        Stream *s = stream_of(stream);
        Event *e = event_of(event);
        if (!s || !e)
            return CUDA_ERROR_INVALID_HANDLE;
        if (s->capture && s->capture->invalid)
            return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        e->capture = s->capture;
        e->captured = s->capture != nullptr;
        if (s->capture) {
            e->nodes = s->tail;
            return CUDA_SUCCESS;
        }
        Work work;
        work.call = "cuEventRecord";
        e->operation = put(s, work);
        return CUDA_SUCCESS;
    });
}

/* A stream waits for an event of a capture: it joins. */
static cuda_code wait_captured(Stream *s, Event *e)
{
    static const char call[] = "cuStreamWaitEvent";
    if (!s->capture) {
        s->capture = e->capture;
        s->capture_lane = e->capture->graph->n_lanes++;
        s->tail.clear();
        e->capture->streams.push_back(s);
    } else if (s->capture != e->capture) {
        invalidate(s->capture, call);
        invalidate(e->capture, call);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    s->tail.insert(s->tail.end(), e->nodes.begin(), e->nodes.end());
    return CUDA_SUCCESS;
}

cuda_code cuStreamWaitEvent(cuda_stream stream, cuda_event event, unsigned flags)
{
    return api("cuStreamWaitEvent", 0, [&] {
        Stream *s = stream_of(stream);
        Event *e = event_of(event);
        if (flags)
            unsupported("cuStreamWaitEvent with flags 0x%x", flags);
        if (!s || !e)
            return CUDA_ERROR_INVALID_HANDLE;
        if (e->captured && !e->capture)
            return CUDA_ERROR_CAPTURED_EVENT; /* its capture is over */
        if (s->capture && s->capture->invalid)
            return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        if (e->capture)
            return wait_captured(s, e);
        if (s->capture) {
            invalidate(s->capture, "cuStreamWaitEvent for an event recorded outside");
            return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        }
        if (!e->operation) { /* lawful, and never what was meant */
            report("wait", "cuStreamWaitEvent for an event never recorded does nothing");
            return CUDA_SUCCESS;
        }
        Work work;
        work.call = "cuStreamWaitEvent";
        put(s, work, {e->operation});
        return CUDA_SUCCESS;
    });
}

cuda_code cuEventQuery(cuda_event event)
{
    static const char call[] = "cuEventQuery";
    return api(call, 0, [&] {
        Event *e = event_of(event);
        if (!e)
            return CUDA_ERROR_INVALID_HANDLE;
        if (e->captured) {
            if (e->capture)
                invalidate(e->capture, call);
            return CUDA_ERROR_CAPTURED_EVENT;
        }
        if (prohibited(call))
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        if (!e->operation) { /* complete, by the text */
            report("poll", "cuEventQuery of an event never recorded says that it is done");
            return CUDA_SUCCESS;
        }
        bool done = poll(e->operation);
        return sticky ? sticky : done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    });
}
