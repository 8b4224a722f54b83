/*
 * The first byte tells the length and, to keep out overlong forms and surrogates, the range of the
 * second byte; the third and fourth are always 80-bf:
 *
 *     e0: a0-bf    ed: 80-9f    f0: 90-bf    f4: 80-8f    others: 80-bf
 */
#include "base/utf8.h"

#include <assert.h>
#include <string.h>

/* The length by the lead byte, and the range of the second byte; 0: not a lead byte. */
static size_t lead(uint8_t byte, uint8_t *low, uint8_t *high)
{
    *low = 0x80;
    *high = 0xbf;
    if (byte < 0x80)
        return 1;
    if (byte >= 0xc2 && byte <= 0xdf)
        return 2;
    if (byte >= 0xe0 && byte <= 0xef) {
        if (byte == 0xe0)
            *low = 0xa0;
        if (byte == 0xed)
            *high = 0x9f;
        return 3;
    }
    if (byte >= 0xf0 && byte <= 0xf4) {
        if (byte == 0xf0)
            *low = 0x90;
        if (byte == 0xf4)
            *high = 0x8f;
        return 4;
    }
    return 0;
}

enum utf8_form utf8_sequence(const uint8_t *bytes, size_t n_bytes, size_t *length_out)
{
    assert(n_bytes > 0);
    uint8_t low, high;
    size_t length = lead(bytes[0], &low, &high);

    *length_out = 1;
    if (length == 0)
        return UTF8_INVALID;
    for (size_t i = 1; i < length; i++) {
        *length_out = i;
        if (i == n_bytes)
            return UTF8_PART;
        if (bytes[i] < low || bytes[i] > high)
            return UTF8_INVALID;
        low = 0x80;
        high = 0xbf;
    }
    *length_out = length;
    return UTF8_WHOLE;
}

size_t utf8_first_invalid(const char *text, size_t n_bytes)
{
    size_t at = 0;

    while (at < n_bytes) {
        uint64_t eight;
        if (n_bytes - at >= sizeof eight) {
            memcpy(&eight, text + at, sizeof eight);
            if (!(eight & 0x8080808080808080ull)) {
                at += sizeof eight;
                continue;
            }
        }
        size_t length;
        if (utf8_sequence((const uint8_t *)text + at, n_bytes - at, &length) != UTF8_WHOLE)
            return at;
        at += length;
    }
    return n_bytes;
}

bool utf8_is_control(uint32_t codepoint)
{
    return codepoint < 0x20 || (codepoint >= 0x7f && codepoint < 0xa0) || codepoint == 0x061c ||
           codepoint == 0x200e || codepoint == 0x200f ||
           (codepoint >= 0x2028 && codepoint <= 0x202e) ||
           (codepoint >= 0x2066 && codepoint <= 0x2069);
}

void utf8_clean(const char *text, size_t n_bytes, char *out, size_t out_bytes)
{
    assert(out_bytes > 0);
    size_t n_out = 0;
    for (size_t at = 0; at < n_bytes;) {
        const uint8_t *here = (const uint8_t *)text + at;
        size_t length;
        uint32_t codepoint = 0;
        bool is_whole = utf8_sequence(here, n_bytes - at, &length) == UTF8_WHOLE;
        if (is_whole)
            utf8_read(text + at, &codepoint);
        bool is_good = is_whole && !utf8_is_control(codepoint);
        size_t n_shown = is_good ? length : 1;
        if (n_out + n_shown >= out_bytes)
            break;
        memcpy(out + n_out, is_good ? text + at : "?", n_shown);
        n_out += n_shown;
        at += is_whole ? length : 1;
    }
    out[n_out] = '\0';
}

size_t utf8_read(const char *text, uint32_t *codepoint_out)
{
    const uint8_t *bytes = (const uint8_t *)text;

    if (bytes[0] < 0x80) {
        *codepoint_out = bytes[0];
        return 1;
    }
    size_t length = bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;
    uint32_t codepoint = bytes[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++)
        codepoint = codepoint << 6 | (bytes[i] & 0x3fu);
    *codepoint_out = codepoint;
    return length;
}

size_t utf8_write(uint32_t codepoint, char text_out[4])
{
    assert(codepoint <= 0x10ffff);
    if (codepoint < 0x80) {
        text_out[0] = (char)codepoint;
        return 1;
    }
    size_t length = codepoint < 0x800 ? 2 : codepoint < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        text_out[i] = (char)(0x80 | (codepoint & 0x3f));
        codepoint >>= 6;
    }
    text_out[0] = (char)((0xf00u >> length & 0xf0u) | codepoint);
    return length;
}

size_t utf8_count(const char *text, size_t n_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++)
        n += ((uint8_t)text[i] & 0xc0) != 0x80;
    return n;
}

size_t utf8_previous(const char *text, size_t at)
{
    assert(at > 0);
    do
        at--;
    while (at > 0 && ((uint8_t)text[at] & 0xc0) == 0x80);
    return at;
}

bool utf8_is_white_space(uint32_t codepoint)
{
    return (codepoint >= 0x09 && codepoint <= 0x0d) || codepoint == 0x20 || codepoint == 0x85 ||
           codepoint == 0xa0 || codepoint == 0x1680 ||
           (codepoint >= 0x2000 && codepoint <= 0x200a) || codepoint == 0x2028 ||
           codepoint == 0x2029 || codepoint == 0x202f || codepoint == 0x205f || codepoint == 0x3000;
}
