#include "text/constraint/regex_weight.h"

#include <stdbool.h>
#include <string.h>

/* byte alone makes what may be empty, or stands at its end. */
static bool is_counted(char before, char byte)
{
    switch (byte) {
    case '*':
    case '{':
    case '$':
        return true;
    case '?':
        return before != '(';
    case '^':
        return before != '[';
    case '|':
        return strchr("(|", before);
    case ')':
        return strchr("(|:", before);
    default:
        return false;
    }
}

size_t regex_weight(const char *text, size_t n_bytes)
{
    size_t weight = 0;
    char before = '(';
    for (size_t i = 0; i < n_bytes; i++) {
        weight += is_counted(before, text[i]);
        before = text[i];
        if (text[i] == '\\') {
            i++;
            before = 'a';
        }
    }
    return weight + (n_bytes == 0 || before == '|');
}
