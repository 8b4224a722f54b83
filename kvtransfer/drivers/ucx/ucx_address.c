#include "kvtransfer/drivers/ucx/ucx_address.h"

#include <math.h>
#include <string.h>

enum {
    HEADER = 0x20,
    HEADER_BYTES = 9,
    NO_TRANSPORTS = 0x80,
    LAST = 0x80,
    HAS_PATHS = 0x40,
    HAS_SYSTEM_DEVICE = 0x20,
    DEVICE_LENGTH = 0x1f,
    HAS_ENDPOINT = 0x40,
    TRANSPORT_LENGTH = 0x3f,
    TRANSPORT_BYTES = 2 + 3 * 4 + 4 + 1,
    TRANSPORTS_MAX = 64, /* UCX's own bound is 64 or 128, by version */
};

/* Limits of plausible networks, in seconds and bytes a second. */
static const float LARGEST[] = {1.0F, 1e15F, 10.0F};

struct reader {
    const uint8_t *next;
    size_t n_left;
};

/* NULL: so many are not there. */
static const uint8_t *take(struct reader *reader, size_t n)
{
    const uint8_t *taken = reader->next;
    if (n > reader->n_left)
        return NULL;
    reader->next += n;
    reader->n_left -= n;
    return taken;
}

static bool take_transport(struct reader *reader, bool *is_last_out)
{
    const uint8_t *head = take(reader, TRANSPORT_BYTES);
    if (!head)
        return false;
    for (int i = 0; i < 3; i++) {
        float figure;
        memcpy(&figure, head + 2 + 4 * i, sizeof figure);
        if (!isfinite(figure) || figure < 0 || figure > LARGEST[i])
            return false;
    }
    uint8_t length = head[TRANSPORT_BYTES - 1];
    *is_last_out = length & LAST;
    return !(length & HAS_ENDPOINT) && take(reader, length & TRANSPORT_LENGTH);
}

/* What the parser learns of an address. */
struct summary {
    uint32_t n_transports;
    uint32_t device_lengths; /* bit n: a device's address has n bytes */
};

static bool take_device(struct reader *reader, struct summary *summary, bool *is_last_out)
{
    const uint8_t *head = take(reader, 2);
    if (!head)
        return false;
    uint8_t length = head[1];
    size_t n_more = (length & HAS_PATHS ? 1 : 0) + (length & HAS_SYSTEM_DEVICE ? 1 : 0);
    if (!take(reader, n_more + (length & DEVICE_LENGTH)))
        return false;
    *is_last_out = length & LAST;
    summary->device_lengths |= UINT32_C(1) << (length & DEVICE_LENGTH);
    bool is_last = head[0] & NO_TRANSPORTS;
    while (!is_last)
        if (++summary->n_transports > TRANSPORTS_MAX || !take_transport(reader, &is_last))
            return false;
    return true;
}

static bool take_address(const uint8_t *bytes, size_t n_bytes, struct summary *summary)
{
    struct reader reader = {bytes, n_bytes};
    const uint8_t *header = take(&reader, HEADER_BYTES);
    if (!header || header[0] != HEADER)
        return false;
    bool is_last = false;
    while (!is_last)
        if (!take_device(&reader, summary, &is_last))
            return false;
    return reader.n_left == 0;
}

bool ucx_address_is_sane(const uint8_t *bytes, size_t n_bytes)
{
    struct summary summary = {0};
    return take_address(bytes, n_bytes, &summary);
}

uint32_t ucx_address_device_lengths(const uint8_t *bytes, size_t n_bytes)
{
    struct summary summary = {0};
    bool is_sane = take_address(bytes, n_bytes, &summary);
    return is_sane ? summary.device_lengths & ~UINT32_C(1)
                   : 0; /* without memory's, which has none */
}
