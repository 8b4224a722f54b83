#include "kvtransfer/drivers/ucx/ucx_setup.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "kvtransfer/drivers/ucx/ucx_address.h"
#include "kvtransfer/drivers/ucx/ucx_links.h"
#include "kvtransfer/drivers/ucx/ucx_process.h"
#include "kvtransfer/drivers/ucx/ucx_status.h"
#include "kvtransfer/transport/accept_gate.h"
#include "kvtransfer/transport/data_port.h"

#include <assert.h>
#include <string.h>
#include <sys/epoll.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

/* The kernel takes at most a second for a device whose other end exists; a cable takes three. */
#define LINK_LIMIT_NS (5 * NS_PER_S)

/* U25: a machine can have two versions of UCX with the same soname. By UCX's own rule, a later one with the same API version
 * is compatible with the headers of this build. The flavours of the image share one program in this way. */
static enum status check_version(struct error *error)
{
    unsigned major, minor, release;
    ucp_get_version(&major, &minor, &release);
    if (major == UCP_API_MAJOR && minor >= UCP_API_MINOR)
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "the loaded UCX is %u.%u, kvferry needs %d.%d or a later %d", major, minor,
                     UCP_API_MAJOR, UCP_API_MINOR, UCP_API_MAJOR);
}

/* ---- context, worker ---- */

static enum status create_context(struct ucx_transport *transport,
                                  const struct ucx_options *options, struct error *error)
{
    ucp_config_t *config;
    TRY(ucx_options_read(options, &config, error));
    /* U3: no remote memory access over TCP: after a death it can kill the other process. */
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                                 .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                                 .name = "kvferry"};
    ucs_status_t code = ucp_init(&params, config, &transport->context);
    ucp_config_release(config);
    return code == UCS_OK ? STATUS_OK : ucx_status_refused(error, "context", code);
}

static enum status copy_worker_address(struct ucx_transport *transport, struct error *error)
{
    ucp_worker_attr_t attributes = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucs_status_t code = ucp_worker_query(transport->worker, &attributes);
    if (code != UCS_OK)
        return ucx_status_refused(error, "worker address", code);
    bool fits = attributes.address_length <= sizeof transport->worker_address;
    if (fits) {
        memcpy(transport->worker_address, attributes.address, attributes.address_length);
        transport->worker_address_bytes = (uint32_t)attributes.address_length;
    }
    assert(attributes.address_length > 0);
    ucp_worker_release_address(transport->worker, attributes.address);
    transport->knows_addresses = ucx_address_is_sane(transport->worker_address,
                                                     transport->worker_address_bytes);
    if (fits && !transport->knows_addresses)
        log_warn("UCX %s packs addresses in an unknown way: those of peers cannot be checked",
                 ucx_version());
    return fits ? STATUS_OK
                : error_set(error, STATUS_UNSUPPORTED,
                            "UCX: worker address of %zu bytes, over %d: name one network device",
                            attributes.address_length, WORKER_BYTES_MAX);
}

static enum status create_worker(struct ucx_transport *transport, struct error *error)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SINGLE};
    accept_gate_begin(transport); /* U17a: UCX listens at a port by itself */
    ucs_status_t code = ucp_worker_create(transport->context, &params, &transport->worker);
    accept_gate_end();
    if (code == UCS_OK)
        code = ucp_worker_get_efd(transport->worker, &transport->event_fd);
    if (code != UCS_OK)
        return ucx_status_refused(error, "worker", code);

    transport->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (transport->epoll_fd < 0 ||
        epoll_ctl(transport->epoll_fd, EPOLL_CTL_ADD, transport->event_fd, &event) != 0)
        return error_set(error, STATUS_IO_FAILED, "epoll: %m");
    return copy_worker_address(transport, error);
}

static void wait_for_links(const char *devices)
{
    char missing[IF_NAMESIZE];
    if (!ucx_links_wait(devices, LINK_LIMIT_NS, missing) && missing[0])
        log_warn("network device %s has an address but no link: this worker does not use it for KV",
                 missing);
}

enum status ucx_set_up(struct ucx_transport *transport, const struct ucx_options *options,
                       struct error *error)
{
    assert(!transport->context && !transport->worker && transport->epoll_fd < 0);
    TRY(check_version(error));
    const struct data_port port = {options->net_devices, options->port_range};
    wait_for_links(options->net_devices);
    TRY(data_port_hosts(&port, transport->hosts, &transport->n_hosts, error));
    TRY(create_context(transport, options, error));
    return create_worker(transport, error);
}

void ucx_tear_down(struct ucx_transport *transport)
{
    if (transport->epoll_fd >= 0)
        close(transport->epoll_fd);
    if (transport->worker)
        ucp_worker_destroy(transport->worker);
    accept_gate_close(transport);
    if (transport->context)
        ucp_cleanup(transport->context);
}
