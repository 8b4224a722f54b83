/* utf8 - see utf8.h. */
#include "rpc/utf8.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

/* Bytes of the character that starts at bytes, 0 when it is none. */
static size_t character_bytes(const uint8_t *bytes, size_t n_bytes)
{
    uint8_t first = bytes[0];
    if (first < 0x80)
        return first != 0;

    size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || length > n_bytes)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((bytes[i] & 0xC0) != 0x80)
            return 0;

    uint8_t second = bytes[1];
    bool is_overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
    bool is_surrogate = first == 0xED && second >= 0xA0;
    bool is_too_large = first == 0xF4 && second >= 0x90;
    return is_overlong || is_surrogate || is_too_large ? 0 : length;
}

size_t rpc_utf8_valid_prefix(const uint8_t *bytes, size_t n_bytes)
{
    size_t i = 0;
    while (i < n_bytes) {
        size_t length = character_bytes(bytes + i, n_bytes - i);
        if (length == 0)
            break;
        i += length;
    }
    return i;
}

void rpc_utf8_clean(const char *bytes, size_t n_bytes, char *out, size_t out_bytes)
{
    assert(out_bytes > 0);
    size_t n_out = 0;
    for (size_t i = 0; i < n_bytes;) {
        size_t length = character_bytes((const uint8_t *)bytes + i, n_bytes - i);
        bool is_bad = length == 0 ||
                      (length == 1 && ((uint8_t)bytes[i] < 0x20 || bytes[i] == 0x7F));
        size_t n = length == 0 ? 1 : length;
        if (n_out + n >= out_bytes)
            break;
        if (is_bad)
            out[n_out] = '?';
        else
            memcpy(out + n_out, bytes + i, n);
        n_out += n;
        i += n;
    }
    out[n_out] = '\0';
}
