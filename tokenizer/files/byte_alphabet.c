/*
 * In closed form rather than as a table: the bytes that stand for themselves are three runs, the
 * others are numbered from U+0100 in their order, again three runs.
 */
#include "tokenizer/files/byte_alphabet.h"

#include "base/utf8.h"

int byte_alphabet_byte(uint32_t codepoint)
{
    if ((codepoint >= 0x21 && codepoint <= 0x7e) || (codepoint >= 0xa1 && codepoint <= 0xac) ||
        (codepoint >= 0xae && codepoint <= 0xff))
        return (int)codepoint;
    if (codepoint >= 0x100 && codepoint <= 0x120) /* 00-20 */
        return (int)(codepoint - 0x100);
    if (codepoint >= 0x121 && codepoint <= 0x142) /* 7f-a0 */
        return (int)(codepoint - 0x121 + 0x7f);
    return codepoint == 0x143 ? 0xad : -1;
}

size_t byte_alphabet_read(const char *text, size_t n_bytes, uint8_t *bytes_out)
{
    size_t n_out = 0;

    for (size_t at = 0; at < n_bytes;) {
        uint32_t codepoint;
        at += utf8_read(text + at, &codepoint);
        int byte = byte_alphabet_byte(codepoint);
        if (byte < 0)
            return NOT_BYTE_LEVEL;
        bytes_out[n_out++] = (uint8_t)byte;
    }
    return n_out;
}

size_t byte_alphabet_write(uint8_t byte, char character_out[2])
{
    uint32_t codepoint = byte;

    if (byte <= 0x20)
        codepoint = 0x100u + byte;
    else if (byte >= 0x7f && byte <= 0xa0)
        codepoint = 0x121u + byte - 0x7f;
    else if (byte == 0xad)
        codepoint = 0x143;
    if (codepoint < 0x80) {
        character_out[0] = (char)codepoint;
        return 1;
    }
    character_out[0] = (char)(0xc0 | codepoint >> 6);
    character_out[1] = (char)(0x80 | (codepoint & 0x3f));
    return 2;
}
