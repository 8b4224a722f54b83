#include "base/log/log.h"
#include "device/cuda_device.h"

#include <assert.h>
#include <stdlib.h>

struct captured {
    struct device_graph base;
    cuda_graph_exec exec;
};

static cuda_stream stream_of(const struct cuda_device *cuda)
{
    return cuda->queues[DEVICE_COMPUTE].stream;
}

/* Other threads may continue: only calls of this thread could break the capture. */
enum status cuda_capture_begin(struct device *device)
{
    struct cuda_device *cuda = cuda_of(device);
    TRY(cuda_make_current(cuda));
    CUDA_DO(cuda, cuStreamBeginCapture, stream_of(cuda), CUDA_CAPTURE_THREAD_LOCAL);
    return STATUS_OK;
}

static enum status n_free(struct cuda_device *cuda, size_t *n_out)
{
    size_t n_all = 0;
    CUDA_DO(cuda, cuMemGetInfo, n_out, &n_all);
    return STATUS_OK;
}

static enum status judge_memory(struct cuda_device *cuda, const char *call, cuda_code code)
{
    if (code != CUDA_CODE_OUT_OF_MEMORY)
        return cuda_judge(cuda, call, code);
    log_error("%s: no memory for a graph: %s", cuda->name, call);
    return STATUS_NO_MEMORY;
}

/* The upload allocates all memory that a replay needs. */
static enum status instantiate(struct cuda_device *cuda, cuda_graph graph,
                               struct captured *captured)
{
    const struct cuda_driver *driver = &cuda->driver;
    size_t before = 0, after = 0;
    cuda_graph_exec exec;
    TRY(n_free(cuda, &before));
    cuda_code code = driver->cuGraphInstantiate(&exec, graph, 0);
    TRY(judge_memory(cuda, "cuGraphInstantiate", code));
    code = driver->cuGraphUpload(exec, stream_of(cuda));
    enum status status = judge_memory(cuda, "cuGraphUpload", code);
    if (status == STATUS_NO_MEMORY)
        (void)cuda_judge(cuda, "cuGraphExecDestroy", driver->cuGraphExecDestroy(exec));
    TRY(status);
    captured->exec = exec;
    TRY(n_free(cuda, &after));
    captured->base.bytes = before > after ? before - after : 0; /* others free memory, too */
    return STATUS_OK;
}

enum status cuda_capture_end(struct device *device, struct device_graph **graph_out)
{
    struct cuda_device *cuda = cuda_of(device);
    struct captured *captured = calloc(1, sizeof *captured);
    cuda_graph graph = NULL;
    cuda_code code = cuda->driver.cuStreamEndCapture(stream_of(cuda), &graph);
    enum status status = cuda_judge(cuda, "cuStreamEndCapture", code);
    if (status == STATUS_OK && !captured)
        status = STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = instantiate(cuda, graph, captured);
    if (graph && status != STATUS_DEVICE_LOST &&
        cuda_judge(cuda, "cuGraphDestroy", cuda->driver.cuGraphDestroy(graph)) != STATUS_OK)
        status = STATUS_DEVICE_LOST;
    if (status != STATUS_OK) {
        free(captured);
        return status;
    }
    assert(captured->exec);
    *graph_out = &captured->base;
    return STATUS_OK;
}

enum status cuda_replay(struct device *device, struct device_graph *graph)
{
    struct cuda_device *cuda = cuda_of(device);
    TRY(cuda_make_current(cuda));
    CUDA_DO(cuda, cuGraphLaunch, ((struct captured *)graph)->exec, stream_of(cuda));
    return STATUS_OK;
}

void cuda_graph_destroy(struct device *device, struct device_graph *graph)
{
    struct cuda_device *cuda = cuda_of(device);
    struct captured *captured = (struct captured *)graph; /* base is its first member */
    if (!device_is_lost(device) && cuda_make_current(cuda) == STATUS_OK)
        (void)cuda_judge(cuda, "cuGraphExecDestroy",
                         cuda->driver.cuGraphExecDestroy(captured->exec));
    free(captured);
}
