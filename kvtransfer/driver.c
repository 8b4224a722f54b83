#include "kvtransfer/driver.h"

#include "kvtransfer/drivers/ipc/ipc_transport.h"
#include "kvtransfer/drivers/shm/shm_transport.h"
#include "kvtransfer/drivers/stream/stream_transport.h"
#include "kvtransfer/drivers/ucx/ucx_address.h"
#include "kvtransfer/drivers/ucx/ucx_transport.h"

#include <assert.h>
#include <string.h>

const char *driver_name(enum kv_driver driver)
{
    static const char *const NAMES[] = {"auto", "am-tcp", "shm-read", "unix", "tls", "cuda-ipc"};
    return NAMES[driver];
}

bool driver_is_clear(enum kv_driver driver)
{
    return driver == KV_AM_TCP;
}

bool driver_needs_hosts(const char *name)
{
    return strcmp(name, driver_name(KV_AM_TCP)) == 0 || strcmp(name, driver_name(KV_TLS)) == 0;
}

bool driver_may_reach(const char *name, const struct transport_address *ours,
                      const struct transport_address *theirs)
{
    if (strcmp(name, driver_name(KV_AM_TCP)) != 0)
        return true;
    uint32_t of_ours = ucx_address_device_lengths(ours->worker, ours->worker_bytes);
    uint32_t of_theirs = ucx_address_device_lengths(theirs->worker, theirs->worker_bytes);
    return of_ours == 0 || of_theirs == 0 || (of_ours & of_theirs) != 0;
}

static bool is_stream(enum kv_driver driver)
{
    return driver == KV_UNIX || driver == KV_TLS;
}

static struct ucx_options ucx_options(const struct driver_options *options)
{
    return (struct ucx_options){
        .incarnation = options->incarnation,
        .net_devices = options->net_devices,
        .port_range = options->port_range,
        .peers_max = options->peers_max,
        .gets_max = options->gets_max,
        .reads_max = options->reads_max,
        .pieces_max = options->pieces_max,
    };
}

static struct local_options local_options(const struct driver_options *options)
{
    return (struct local_options){
        .incarnation = options->incarnation,
        .peers_max = options->peers_max,
        .gets_max = options->gets_max,
        .pieces_max = options->pieces_max ? options->pieces_max : options->reads_max,
    };
}

static struct stream_options stream_options(const struct driver_options *options)
{
    return (struct stream_options){
        .driver = options->driver == KV_UNIX ? STREAM_UNIX : STREAM_TLS,
        .incarnation = options->incarnation,
        .net_devices = options->net_devices,
        .port_range = options->port_range,
        .peers_max = options->peers_max,
        .gets_max = options->gets_max,
        .reads_max = options->reads_max,
        .pieces_max = options->pieces_max,
        .unproven_max = options->unproven_max,
        .proof_ns = options->proof_ns,
    };
}

enum status driver_check(const struct driver_options *options, struct error *error)
{
    const struct ucx_options ucx = ucx_options(options);
    const struct stream_options stream = stream_options(options);
    assert(options->driver != KV_DRIVER_AUTO);
    if (options->driver == KV_SHM_READ || options->driver == KV_CUDA_IPC) /* take neither */
        return STATUS_OK;
    return is_stream(options->driver) ? stream_options_check(&stream, error)
                                      : ucx_options_check(&ucx, error);
}

enum status driver_open(const struct driver_options *options, struct transport **transport_out,
                        struct error *error)
{
    const struct ucx_options ucx = ucx_options(options);
    const struct shm_options shm = {local_options(options), options->pool_bytes};
    const struct stream_options stream = stream_options(options);
    const struct ipc_options ipc = {local_options(options), options->device,
                                    options->pool_bytes > 0};
    assert(options->driver != KV_DRIVER_AUTO);
    if (options->driver == KV_CUDA_IPC)
        return ipc_transport_open(&ipc, transport_out, error);
    if (options->driver == KV_SHM_READ)
        return shm_transport_open(&shm, transport_out, error);
    return is_stream(options->driver) ? stream_transport_open(&stream, transport_out, error)
                                      : ucx_transport_open(&ucx, transport_out, error);
}

void *driver_pool(const struct transport *transport, enum kv_driver driver)
{
    return driver == KV_SHM_READ ? shm_transport_pool(transport) : NULL;
}

size_t driver_pool_bytes(enum kv_driver driver, size_t bytes)
{
    const size_t unit = DEVICE_EXPORT_BYTES;
    assert(bytes > 0 && bytes <= SIZE_MAX - unit);
    return driver == KV_CUDA_IPC ? (bytes + unit - 1) / unit * unit : bytes;
}

enum status driver_lend(struct transport *transport, enum kv_driver driver,
                        const struct device_memory *pool, struct error *error)
{
    return driver == KV_CUDA_IPC ? ipc_transport_lend(transport, pool, error) : STATUS_OK;
}
