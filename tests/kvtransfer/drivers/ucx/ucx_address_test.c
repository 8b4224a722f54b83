/* What is no address of UCX's is refused before UCX reads it, which would end the process. */
#include "base/clock.h"
#include "kvtransfer/driver.h"
#include "kvtransfer/drivers/ucx/ucx_address.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* Where the first of a loopback address's things are (ucx_address.h). */
enum { DEVICE = 9, OVERHEAD = 13, TRANSPORT_END = 29 };

static struct transport *open_driver(void)
{
    struct transport *transport;
    struct error error = {""};
    const struct driver_options options = {.driver = KV_AM_TCP,
                                           .incarnation = 1,
                                           .net_devices = "lo",
                                           .peers_max = 4,
                                           .gets_max = 1,
                                           .reads_max = 1};
    cr_assert_eq(driver_open(&options, &transport, &error), STATUS_OK, "%s", error.text);
    return transport;
}

static struct transport_address own_address(void)
{
    struct transport_address address;
    struct transport *transport = open_driver();
    transport->ops->address(transport, &address);
    transport->ops->close(transport);
    return address;
}

static bool is_sane(const struct transport_address *address)
{
    return ucx_address_is_sane(address->worker, address->worker_bytes);
}

Test(ucx_address, a_workers_own_is_sane)
{
    const struct transport_address address = own_address();
    cr_assert(is_sane(&address));
}

Test(ucx_address, no_part_of_one_is_sane_nor_more_than_one)
{
    struct transport_address address = own_address();
    uint32_t n_bytes = address.worker_bytes;
    for (address.worker_bytes = 0; address.worker_bytes < n_bytes; address.worker_bytes++)
        cr_assert_not(is_sane(&address), "%u bytes of %u", address.worker_bytes, n_bytes);
    address.worker_bytes = n_bytes + 1;
    cr_assert_not(is_sane(&address));
}

Test(ucx_address, neither_another_packing_nor_lengths_nor_figures_out_of_the_world)
{
    static const uint8_t LENGTHS[] = {0x3f, 0x40, 0x7f}; /* too far; an endpoint's */
    static const float FIGURES[] = {-1, INFINITY, NAN, 1e30F};
    struct transport_address address = own_address();
    for (int byte = 0; byte < 256; byte++) {
        struct transport_address lie = address;
        lie.worker[0] = (uint8_t)byte;
        cr_assert_eq(is_sane(&lie), byte == address.worker[0], "header %d", byte);
    }
    for (int i = 0; i < 3; i++) {
        struct transport_address lie = address;
        lie.worker[TRANSPORT_END] |= LENGTHS[i];
        cr_assert_not(is_sane(&lie), "length %02x", LENGTHS[i]);
    }
    for (int i = 0; i < 4; i++) {
        struct transport_address lie = address;
        memcpy(lie.worker + OVERHEAD, &FIGURES[i], sizeof FIGURES[i]);
        cr_assert_not(is_sane(&lie), "%f", (double)FIGURES[i]);
    }
    struct transport_address last = address;
    last.worker[DEVICE + 1] |= 0x80;
    cr_assert_not(is_sane(&last), "bytes behind the last device");
}

Test(ucx_address, no_peer_is_made_of_what_is_none)
{
    struct transport *transport = open_driver();
    struct transport_address address;
    struct transport_peer *peer;
    transport->ops->address(transport, &address);
    memset(address.worker, 0xff, address.worker_bytes);
    cr_assert_eq(transport->ops->connect(transport, &address, &peer), STATUS_CORRUPT);
    cr_assert_eq(transport->ops->admit(transport, &address, &peer), STATUS_CORRUPT);
    transport->ops->close(transport);
}
