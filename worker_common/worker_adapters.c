#include "worker_common/worker_adapters.h"

#include "model/adapter/adapter.h"
#include "worker_common/worker_device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LATER_RANK 64u /* of adapters that are loaded later, if nothing is said */

/* text: "name=folder". */
static enum status load(struct adapter_set *set, const char *text, struct error *error)
{
    char name[ADAPTER_NAME_MAX + 2];
    const char *end = strchr(text, '=');
    struct adapter_id id;
    if (!end || end == text || !end[1])
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "adapter is \"%.200s\", expected NAME=FOLDER", text);
    snprintf(name, sizeof name, "%.*s", (int)(end - text), text);
    return adapter_set_add(set, name, end + 1, error, &id);
}

static bool loads_later(const struct worker_options *options)
{
    return options->adapter_folder && options->adapter_folder[0];
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static enum status check_folder(const char *folder, struct error *error)
{
    struct stat found;
    if (stat(folder, &found) != 0)
        return error_set(error, errno_status(errno), "adapter_folder is \"%.200s\": %s", folder,
                         strerror(errno));
    if (!S_ISDIR(found.st_mode))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "adapter_folder is \"%.200s\", expected a folder", folder);
    return STATUS_OK;
}

enum status worker_adapters_load(struct worker *worker, const struct worker_options *options,
                                 struct error *error)
{
    const struct adapter_set_options set = {.model = worker->model,
                                            .rank_max = options->adapter_rank_max,
                                            .bytes_max = options->adapter_memory};
    if (options->adapters.n == 0 && options->adapter_rank_max == 0 && !loads_later(options))
        return STATUS_OK;
    if (strncmp(worker_device_name(options), "cuda", 4) == 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "adapter is set, and device is %s: adapters are computed on the CPU alone",
                         worker_device_name(options));
    TRY(adapter_check_model(worker->model, error));
    if (loads_later(options))
        TRY(check_folder(options->adapter_folder, error));
    TRY(adapter_set_create(&set, &worker->adapters));
    for (uint32_t i = 0; i < options->adapters.n; i++)
        TRY(load(worker->adapters, options->adapters.texts[i], error));
    worker->adapter_rank_max = options->adapter_rank_max;
    if (options->adapter_rank_max == 0)
        worker->adapter_rank_max = larger(adapter_set_rank(worker->adapters),
                                          loads_later(options) ? LATER_RANK : 0);
    adapter_set_limit_rank(worker->adapters, worker->adapter_rank_max);
    return STATUS_OK;
}

uint64_t worker_adapters_room(const struct worker *worker, const struct worker_options *options)
{
    const uint64_t taken = adapter_set_bytes(worker->adapters);
    return loads_later(options) && options->adapter_memory > taken ? options->adapter_memory - taken
                                                                   : 0;
}
