#include "base/hex.h"

void hex_format(const uint8_t *bytes, size_t n_bytes, char *text_out)
{
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < n_bytes; i++) {
        text_out[2 * i] = DIGITS[bytes[i] >> 4];
        text_out[2 * i + 1] = DIGITS[bytes[i] & 15];
    }
    text_out[2 * n_bytes] = '\0';
}

/* -1: no digit. */
static int value_of(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

bool hex_parse(const char *text, size_t length, uint8_t *bytes_out, size_t n_bytes)
{
    if (length != 2 * n_bytes)
        return false;
    for (size_t i = 0; i < n_bytes; i++) {
        int high = value_of(text[2 * i]), low = value_of(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes_out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
