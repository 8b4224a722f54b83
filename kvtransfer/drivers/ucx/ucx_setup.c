#include "kvtransfer/drivers/ucx/ucx_setup.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "kvtransfer/drivers/ucx/ucx_address.h"
#include "kvtransfer/drivers/ucx/ucx_links.h"
#include "kvtransfer/drivers/ucx/ucx_status.h"
#include "kvtransfer/transport/accept_gate.h"
#include "kvtransfer/transport/data_port.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

/* The kernel takes a second at most for one whose other end is there; a cable, three. */
#define LINK_LIMIT_NS (5 * NS_PER_S)

#define DEVICES_FOLDER "/sys/class/net" /* without it UCX starts, and reaches nobody */

/* ---- the process ---- */

static ucs_log_func_rc_t log_line(const char *file, unsigned line, const char *function,
                                  ucs_log_level_t level,
                                  const ucs_log_component_config_t *component, const char *message,
                                  va_list arguments)
{
    char text[256];
    (void)file;
    (void)line;
    (void)component;
    if (level == UCS_LOG_LEVEL_FATAL)
        return UCS_LOG_FUNC_RC_CONTINUE; /* the process ends: in UCX's own words */
    /* Errors are those of lost peers, which whoever misses the peer reports; a warning is about
     * something else, such as an option without effect. */
    enum log_level ours = level == UCS_LOG_LEVEL_WARN ? LOG_WARN : LOG_DEBUG;
    if (level > UCS_LOG_LEVEL_DIAG || !log_is_on(ours))
        return UCS_LOG_FUNC_RC_STOP;
    vsnprintf(text, sizeof text, message, arguments);
    log_write(ours, NULL, "ucx %s: %s", function, text);
    return UCS_LOG_FUNC_RC_STOP;
}

void ucx_process_init(void)
{
    static const int TAKEN[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGHUP};
    for (size_t i = 0; i < sizeof TAKEN / sizeof *TAKEN; i++)
        signal(TAKEN[i], SIG_DFL);
    ucs_log_push_handler(log_line);
}

const char *ucx_version(void)
{
    return ucp_get_version_string();
}

/* U25: two UCX of the same soname can be on one machine. A later one of the same API version keeps what
 * this program was built with; that is UCX's own rule, and how the image's flavours share a program. */
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

/* ---- options ---- */

static enum status modify(ucp_config_t *config, const char *name, const char *value,
                          struct error *error)
{
    ucs_status_t code = ucp_config_modify(config, name, value);
    if (code == UCS_OK)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT, "UCX refuses %s=%s: %s", name, value,
                     ucs_status_string(code));
}

/* An option of the TCP transport. 1.13 wants its name without the prefix, and takes it with one for
 * nothing but a warning; 1.22 refuses it without. */
static enum status modify_tcp(ucp_config_t *config, const char *name, const char *value,
                              struct error *error)
{
    char with_prefix[64];
    if (ucp_config_modify(config, name, value) == UCS_OK)
        return STATUS_OK;
    snprintf(with_prefix, sizeof with_prefix, "TCP_%s", name);
    return modify(config, with_prefix, value, error);
}

static enum status write_options(ucp_config_t *config, const struct ucx_options *options,
                                 struct error *error)
{
    TRY(modify(config, "TLS", "tcp,self", error));
    TRY(modify_tcp(config, "TX_SEG_SIZE", "64K", error)); /* 8K: half the speed */
    TRY(modify_tcp(config, "RX_SEG_SIZE", "256K", error));
    TRY(modify(config, "RNDV_THRESH", "inf", error)); /* U2: rendezvous loses callbacks */
    /* A reader's death can abort the owner inside 1.13.1 while UCX sends from our memory without a
     * copy ("Assertion `comp->count > 0' failed"): one of about 12 kills. */
    TRY(modify(config, "ZCOPY_THRESH", "inf", error));
    TRY(modify(config, "ADDRESS_VERSION", "v1", error)); /* that ucx_address.h knows */
    TRY(data_port_check(&(struct data_port){options->net_devices, options->port_range}, error));
    if (access(DEVICES_FOLDER, R_OK | X_OK) != 0)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "UCX looks for network devices in " DEVICES_FOLDER
            ", which cannot be read here (%s): mount /sys, or set another kv_transport",
            strerror(errno));
    if (options->port_range && *options->port_range)
        TRY(modify_tcp(config, "PORT_RANGE", options->port_range, error));
    if (!options->net_devices || !*options->net_devices)
        return modify(config, "NET_DEVICES", "all", error);
    return modify(config, "NET_DEVICES", options->net_devices, error);
}

/* ---- context, worker ---- */

static enum status refused(struct error *error, const char *what, ucs_status_t code)
{
    enum status status = ucx_status(code);
    return error_set(error, status == STATUS_OK ? STATUS_BUG : status, "UCX: no %s: %s", what,
                     ucs_status_string(code));
}

enum status ucx_options_check(const struct ucx_options *options, struct error *error)
{
    ucp_config_t *config;
    ucs_status_t code = ucp_config_read(NULL, NULL, &config);
    if (code != UCS_OK)
        return refused(error, "configuration", code);
    enum status status = write_options(config, options, error);
    ucp_config_release(config);
    return status;
}

static enum status create_context(struct ucx_transport *transport,
                                  const struct ucx_options *options, struct error *error)
{
    ucp_config_t *config;
    ucs_status_t code = ucp_config_read(NULL, NULL, &config);
    if (code != UCS_OK)
        return refused(error, "configuration", code);
    enum status status = write_options(config, options, error);
    if (status == STATUS_OK) {
        /* U3: no remote memory access over TCP, it can kill the survivor of a death. */
        const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                                     .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                                     .name = "kvferry"};
        code = ucp_init(&params, config, &transport->context);
        if (code != UCS_OK)
            status = refused(error, "context", code);
    }
    ucp_config_release(config);
    return status;
}

static enum status copy_worker_address(struct ucx_transport *transport, struct error *error)
{
    ucp_worker_attr_t attributes = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucs_status_t code = ucp_worker_query(transport->worker, &attributes);
    if (code != UCS_OK)
        return refused(error, "worker address", code);
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
    accept_gate_begin(transport); /* U17a: it listens at a port that nobody asked for */
    ucs_status_t code = ucp_worker_create(transport->context, &params, &transport->worker);
    accept_gate_end();
    if (code == UCS_OK)
        code = ucp_worker_get_efd(transport->worker, &transport->event_fd);
    if (code != UCS_OK)
        return refused(error, "worker", code);

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
