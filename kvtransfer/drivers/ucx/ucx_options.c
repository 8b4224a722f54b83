#include "kvtransfer/drivers/ucx/ucx_options.h"

#include "kvtransfer/drivers/ucx/ucx_status.h"
#include "kvtransfer/transport/data_port.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define DEVICES_FOLDER "/sys/class/net" /* without it UCX starts, and reaches nobody */

static enum status modify(ucp_config_t *config, const char *name, const char *value,
                          struct error *error)
{
    ucs_status_t code = ucp_config_modify(config, name, value);
    if (code == UCS_OK)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT, "UCX refuses %s=%s: %s", name, value,
                     ucs_status_string(code));
}

/* An option of the TCP transport. UCX 1.13 wants its name without the prefix, and warns and ignores it with the prefix;
 * UCX 1.22 refuses it without. */
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
    /* While UCX 1.13.1 sends from our memory without a copy, the death of a reader can abort the owner
     * ("Assertion `comp->count > 0' failed"): about one of 12 kills did. */
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

enum status ucx_options_read(const struct ucx_options *options, struct ucp_config **config_out,
                             struct error *error)
{
    ucp_config_t *config;
    ucs_status_t code = ucp_config_read(NULL, NULL, &config);
    if (code != UCS_OK)
        return ucx_status_refused(error, "configuration", code);
    enum status status = write_options(config, options, error);
    if (status != STATUS_OK) {
        ucp_config_release(config);
        return status;
    }
    *config_out = config;
    return STATUS_OK;
}

enum status ucx_options_check(const struct ucx_options *options, struct error *error)
{
    ucp_config_t *config = NULL;
    TRY(ucx_options_read(options, &config, error));
    ucp_config_release(config);
    return STATUS_OK;
}
