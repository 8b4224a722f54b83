/* Capture and graphs. */
#include "double.h"

#include <algorithm>
#include <pthread.h>

enum : size_t { BYTES_OF_NODE = 1024 }; /* that a graph takes; the real one does not say */

cuda_code cuStreamBeginCapture_v2(cuda_stream handle, unsigned mode)
{
    static const char call[] = "cuStreamBeginCapture";
    return api(call, 0, [&] {
        Stream *s = stream_of(handle);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        if (s->capture)
            return invalidate(s->capture, call), CUDA_ERROR_ILLEGAL_STATE;
        s->capture = new Capture{s, mode, pthread_self(), false, new Graph, {s}};
        s->tail.clear();
        s->capture_lane = s->capture->graph->n_lanes++;
        captures.push_back(s->capture);
        return CUDA_SUCCESS;
    });
}

static void collect(const Graph &graph, int n, std::set<int> &seen)
{
    if (seen.insert(n).second)
        for (int d : graph.nodes[static_cast<size_t>(n)].before)
            collect(graph, d, seen);
}

/* Everything that was forked into the capture has joined its origin. */
static cuda_code check_joined(const Capture &capture)
{
    std::set<int> joined;
    for (int n : capture.origin->tail)
        collect(*capture.graph, n, joined);
    for (Stream *other : capture.streams)
        for (int n : other->tail)
            if (!joined.count(n)) {
                report("capture", "stream %u was forked into the capture and never joined: %s",
                       other->ordinal, capture.graph->nodes[static_cast<size_t>(n)].work.call);
                return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
            }
    return CUDA_SUCCESS;
}

static void forget(Capture *capture)
{
    for (Stream *other : capture->streams) {
        other->capture = nullptr;
        other->tail.clear();
    }
    for (auto &h : handles)
        if (h.second == std::string("event") && static_cast<Event *>(h.first)->capture == capture)
            static_cast<Event *>(h.first)->capture = nullptr;
    captures.erase(std::find(captures.begin(), captures.end(), capture));
    delete capture;
}

cuda_code cuStreamEndCapture(cuda_stream handle, cuda_graph *out)
{
    static const char call[] = "cuStreamEndCapture";
    return api(call, 0, [&] {
        *out = nullptr;
        Stream *s = stream_of(handle);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        Capture *c = s->capture;
        if (!c)
            return CUDA_ERROR_ILLEGAL_STATE;
        if (c->origin != s)
            return invalidate(c, call), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
        if (c->mode != CAPTURE_RELAXED && !pthread_equal(c->thread, pthread_self()))
            return invalidate(c, call), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
        cuda_code code = c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : check_joined(*c);
        if (code)
            delete c->graph;
        else
            *out = reinterpret_cast<cuda_graph>(make("graph", c->graph));
        forget(c);
        return code;
    });
}

cuda_code cuGraphInstantiateWithFlags(cuda_graph_exec *out, cuda_graph handle,
                                      unsigned long long flags)
{
    return api("cuGraphInstantiate", 0, [&] {
        static int n_execs;
        if (flags)
            unsupported("cuGraphInstantiate with flags 0x%llx", flags);
        if (!handle || !is(handle, "graph"))
            return CUDA_ERROR_INVALID_VALUE;
        auto g = reinterpret_cast<Graph *>(handle);
        auto e = make("executable graph", new Exec{g->nodes, {}, nullptr, 0});
        n_execs++;
        for (uint32_t i = 0; i < g->n_lanes; i++)
            e->lanes.push_back(
                new_lane("graph " + std::to_string(n_execs) + " branch " + std::to_string(i)));
        *out = reinterpret_cast<cuda_graph_exec>(e);
        return CUDA_SUCCESS;
    });
}

/* The executable graph that may be launched into a stream; NULL: it may not. Into a capture it is not covered. */
static Exec *exec_for(const char *call, cuda_graph_exec handle, const Stream *s)
{
    if (!s || !handle || !is(handle, "executable graph"))
        return nullptr;
    if (s->capture)
        unsupported("%s into a capturing stream", call);
    return reinterpret_cast<Exec *>(handle);
}

/* What the first launch would do else: in the order of the stream, like one. */
cuda_code cuGraphUpload(cuda_graph_exec handle, cuda_stream stream)
{
    static const char call[] = "cuGraphUpload";
    return api(call, 0, [&] {
        Stream *s = stream_of(stream);
        Exec *e = exec_for(call, handle, s);
        if (!e)
            return CUDA_ERROR_INVALID_VALUE;
        size_t bytes = e->bytes ? 0 : e->nodes.size() * BYTES_OF_NODE;
        if (!device_take(bytes))
            return CUDA_ERROR_OUT_OF_MEMORY;
        e->bytes += bytes;
        Work mark;
        mark.call = call;
        e->last = put(s, mark, {e->last});
        return CUDA_SUCCESS;
    });
}

static cuda_code destroy(void *handle, const char *kind)
{
    if (!handle || !is(handle, kind))
        return CUDA_ERROR_INVALID_VALUE;
    retire(handle);
    return CUDA_SUCCESS;
}

cuda_code cuGraphDestroy(cuda_graph handle)
{
    return api("cuGraphDestroy", 0, [&] { return destroy(handle, "graph"); });
}

/* Work that was launched already goes on. */
cuda_code cuGraphExecDestroy(cuda_graph_exec handle)
{
    return api("cuGraphExecDestroy", 0, [&] {
        cuda_code code = destroy(handle, "executable graph");
        if (code == CUDA_SUCCESS)
            device_give(reinterpret_cast<Exec *>(handle)->bytes);
        return code;
    });
}

cuda_code cuGraphLaunch(cuda_graph_exec handle, cuda_stream stream)
{
    static const char call[] = "cuGraphLaunch";
    return api(call, 0, [&] {
        Stream *s = stream_of(stream);
        Exec *e = exec_for(call, handle, s);
        if (!e)
            return CUDA_ERROR_INVALID_VALUE;
        Work mark;
        mark.call = call;
        OperationRef begin = put(s, mark, {e->last});
        std::vector<OperationRef> operations;
        for (auto &n : e->nodes) {
            std::vector<OperationRef> before = {begin};
            for (int d : n.before)
                before.push_back(operations[static_cast<size_t>(d)]);
            operations.push_back(enqueue(e->lanes[n.lane], before, n.work));
        }
        e->last = put(s, mark, operations);
        return CUDA_SUCCESS;
    });
}
