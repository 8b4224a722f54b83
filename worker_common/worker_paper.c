#include "worker_common/worker_paper.h"

#include "worker_common/worker_device.h"

enum { PRODUCTS, WEIGHTS };

static enum status take(struct device *device, enum device_use use, const char *what,
                        uint64_t bytes, struct device_memory *memory_out, struct error *error)
{
    TRY(worker_device_fits(device, what, bytes, error));
    return device_allocate(device, use, bytes, memory_out);
}

static enum status take_products(struct worker *worker, struct error *error)
{
    return worker_device_advise(take(worker->device, DEVICE_WORKSPACE, "products of cuBLASLt",
                                     DEVICE_PRODUCTS_BYTES, &worker->on_paper[PRODUCTS], error),
                                worker->device, ADVICE_EXACT_MATH, error);
}

static enum status take_weights(struct worker *worker, const struct worker_options *options,
                                struct error *error)
{
    uint64_t bytes;
    TRY(model_planned_bytes(worker->model, options->weights, &bytes, error));
    return worker_device_advise(
        take(worker->device, DEVICE_WEIGHTS, "weights", bytes, &worker->on_paper[WEIGHTS], error),
        worker->device, ADVICE_LESS_WEIGHTS, error);
}

enum status worker_paper_take(struct worker *worker, const struct worker_options *options,
                              const struct worker_step *step, struct error *error)
{
    const struct forward_options forward = worker_forward_options(&worker->identity.geometry, step);
    if (options->device_math == WORKER_MATH_FAST)
        TRY(take_products(worker, error));
    TRY(take_weights(worker, options, error));
    return worker_device_advise(forward_create(worker->model, &forward, error, &worker->forward),
                                worker->device, worker_device_less_work(options), error);
}

void worker_paper_free(struct worker *worker)
{
    forward_destroy(worker->forward);
    worker->forward = NULL;
    for (int i = PRODUCTS; i <= WEIGHTS; i++)
        device_free(worker->device, &worker->on_paper[i]);
}
