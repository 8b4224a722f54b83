#include "kvtransfer/drivers/stream/stream_options.h"

#include "kvtransfer/transport/data_port.h"

enum status stream_options_check(const struct stream_options *options, struct error *error)
{
    const struct data_port port = {options->net_devices, options->port_range};
    return options->driver == STREAM_TLS ? data_port_check(&port, error) : STATUS_OK;
}
