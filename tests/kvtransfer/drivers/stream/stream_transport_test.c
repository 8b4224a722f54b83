/* The transport over our own streams, alone: what it swallows it tells of, what is no address of its
 * driver is refused. */
#include "base/clock.h"
#include "kvtransfer/drivers/stream/stream_transport.h"

#include <criterion/criterion.h>
#include <string.h>

static struct transport *open_transport(enum stream_driver driver)
{
    const struct stream_options options = {.driver = driver,
                                           .incarnation = 1,
                                           .net_devices = "lo",
                                           .peers_max = 2,
                                           .gets_max = 8,
                                           .reads_max = 8};
    struct transport *transport;
    struct error error = {""};
    cr_assert_eq(stream_transport_open(&options, &transport, &error), STATUS_OK, "%s", error.text);
    return transport;
}

/* Commands that came after its owner looked at them, and before the wake was swallowed, would wait. */
Test(stream_transport, a_round_that_swallows_a_wake_is_not_the_last_before_a_sleep)
{
    struct transport *transport = open_transport(STREAM_UNIX);
    cr_assert_eq(transport->ops->progress(transport, clock_now_ns()), 0);
    transport->ops->wake(transport);
    transport->ops->wait(transport, clock_now_ns() + 20 * NS_PER_S);
    transport->ops->wake(transport); /* of a command that nobody has looked at */
    cr_assert_gt(transport->ops->progress(transport, clock_now_ns()), 0);
    cr_assert_eq(transport->ops->progress(transport, clock_now_ns()), 0);
    transport->ops->close(transport);
}

static void refuses(struct transport *transport, const struct transport_address *address)
{
    struct transport_peer *peer = NULL;
    cr_assert_eq(transport->ops->connect(transport, address, &peer), STATUS_CORRUPT);
    cr_assert_null(peer);
}

Test(stream_transport, what_is_no_address_of_a_unix_socket_is_refused)
{
    static const char *const PATHS[] = {"/dev/log",
                                        "/dev/shm/kvferry-abcdef",
                                        "/dev/shm/kvferry-abcdef/",
                                        "/dev/shm/kvferry-abcdef/../kv",
                                        "/dev/shm/kvferry-../def/kv",
                                        "/dev/shm/kvferry-abcdef/.."};
    struct transport *transport = open_transport(STREAM_UNIX);
    struct transport_address address = {.incarnation = 2};
    refuses(transport, &address);
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        address.worker_bytes = (uint32_t)strlen(PATHS[i]);
        memcpy(address.worker, PATHS[i], address.worker_bytes);
        refuses(transport, &address);
    }
    memset(address.worker, 'a', sizeof address.worker);
    memcpy(address.worker, "/dev/shm/kvferry-abcdef/", 24);
    address.worker_bytes = 200;
    refuses(transport, &address);
    transport->ops->close(transport);
}

Test(stream_transport, what_is_no_address_of_tls_is_refused)
{
    struct transport *transport = open_transport(STREAM_TLS);
    struct transport_address good, address;
    transport->ops->address(transport, &good);
    address = good;
    address.secret_bytes = 0;
    refuses(transport, &address);
    address = good;
    address.worker_bytes++;
    refuses(transport, &address);
    address = good;
    address.n_hosts = 0;
    address.worker_bytes = 0;
    refuses(transport, &address);
    address = good;
    address.n_hosts = HOST_ADDRESSES_MAX + 1;
    address.worker_bytes = 2 * address.n_hosts;
    refuses(transport, &address);
    transport->ops->close(transport);
}
