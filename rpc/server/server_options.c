#include "rpc/server/server_options.h"

#include "base/clock.h"

void rpc_server_options_init(struct rpc_server_options *options)
{
    *options = (struct rpc_server_options){
        .calls_max = 1024,
        .message_bytes_max = 8u << 20,
        .header_bytes_max = 16u << 10,
        .streams_per_connection_max = 256,
        .call_buffer_bytes_max = 1u << 20,
        .buffered_bytes_max = 64ull << 20,
        .slow_reader_ns = 10 * NS_PER_S,
        .default_deadline_ns = 600 * NS_PER_S,
        .memory_quota_bytes = 256ull << 20,
        .keepalive_time_ms = 10000,
        .keepalive_timeout_ms = 5000,
        .ping_interval_min_ms = 5000,
        .connection_age_ms = 1800000,
    };
    relay_limits_init(&options->relay);
}
