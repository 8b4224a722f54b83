#include "router/requests/stop_strings.h"

#include <assert.h>
#include <string.h>

void stop_strings_add(struct stop_strings *stops, const char *text, size_t bytes)
{
    assert(stops->n < STOP_STRINGS_MAX && bytes >= 1 && bytes <= STOP_STRING_BYTES_MAX);
    memcpy(stops->text[stops->n], text, bytes);
    stops->bytes[stops->n++] = (uint16_t)bytes;
}

/* Where the stop string begins that ends first in out[0 .. n - 1]; n when there is none. The longest of
 * those that end there. */
static size_t find_first(struct stop_strings *stops, const char *out, size_t n)
{
    size_t begin = n;
    size_t end = n + 1;
    for (uint32_t i = 0; i < stops->n; i++) {
        const char *at = memmem(out, n, stops->text[i], stops->bytes[i]);
        if (!at)
            continue;
        size_t at_begin = (size_t)(at - out);
        size_t at_end = at_begin + stops->bytes[i];
        if (at_end < end || (at_end == end && at_begin < begin)) {
            begin = at_begin;
            end = at_end;
            stops->found = i;
        }
    }
    return begin;
}

/* Bytes at the end of out that may be the beginning of a stop string. */
static size_t count_held(const struct stop_strings *stops, const char *out, size_t n)
{
    size_t held = 0;
    for (uint32_t i = 0; i < stops->n; i++) {
        size_t most = stops->bytes[i] - 1u;
        for (size_t k = most < n ? most : n; k > held; k--)
            if (memcmp(out + n - k, stops->text[i], k) == 0)
                held = k;
    }
    return held;
}

size_t stop_strings_push(struct stop_strings *stops, const char *text, size_t bytes, char *out)
{
    assert(stops->n_held <= sizeof stops->held);
    if (stops->is_found)
        return 0;
    memmove(out + stops->n_held, text, bytes);
    memcpy(out, stops->held, stops->n_held);
    size_t n = stops->n_held + bytes;
    stops->n_held = 0;

    size_t begin = find_first(stops, out, n);
    if (begin < n) {
        stops->is_found = true;
        return stops->is_kept ? begin + stops->bytes[stops->found] : begin;
    }
    size_t held = count_held(stops, out, n);
    assert(held <= n && held < STOP_STRING_BYTES_MAX && "a whole one would have been found");
    memcpy(stops->held, out + n - held, held);
    stops->n_held = (uint16_t)held;
    return n - held;
}

size_t stop_strings_finish(struct stop_strings *stops, char *out)
{
    assert(!stops->is_found && "what follows a stop string never leaves");
    size_t n = stops->n_held;
    memcpy(out, stops->held, n);
    stops->n_held = 0;
    return n;
}
