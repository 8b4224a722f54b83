#include "worker/request_number.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define DIGITS 16

static uint64_t hashed(const char *text)
{
    static const struct hash_key NO_SECRET = {{0}};
    return hash128_of(&NO_SECRET, text, strlen(text)).lo;
}

uint64_t request_number(const char *request_id)
{
    char digits[DIGITS + 1] = "";
    strncpy(digits, request_id, DIGITS);
    bool is_drawn = strspn(digits, "0123456789abcdef") == DIGITS;
    uint64_t number = is_drawn ? strtoull(digits, NULL, 16) : hashed(request_id);
    return number ? number : 1;
}
