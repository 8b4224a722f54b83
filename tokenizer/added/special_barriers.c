#include "tokenizer/added/special_barriers.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* The first that is not before at. */
static size_t first_from(const struct special_barriers *barriers, size_t at)
{
    size_t low = 0, high = barriers->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (barriers->places[middle] >= at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct special_barriers special_barriers_within(const struct special_barriers *barriers,
                                                size_t begin, size_t end)
{
    size_t first = first_from(barriers, begin), behind = first_from(barriers, end + 1);
    return (struct special_barriers){barriers->n > 0 ? barriers->places + first : NULL,
                                     behind - first};
}

bool special_barriers_split(const struct special_barriers *barriers, const char *text, size_t begin,
                            size_t end)
{
    size_t low = first_from(barriers, begin + 1);
    uint32_t codepoint;
    if (low == barriers->n)
        return false;
    bool is_one = utf8_read(text + begin, &codepoint) == end - begin;
    if (!is_one)
        return barriers->places[low] < end;
    return low + 1 < barriers->n && barriers->places[low + 1] == end;
}

enum status special_marks_take(const char *text, size_t n_bytes, uint32_t mark, char **text_out,
                               size_t *n_bytes_out, size_t **places_out, size_t *n_places_out)
{
    char sign[4];
    size_t sign_bytes = utf8_write(mark, sign), n_marks = 0, n = 0;
    const char *end = text + n_bytes;
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), sign, sign_bytes));)
        n_marks++, at += sign_bytes;
    char *clean = malloc(n_bytes + 1);
    size_t *places = malloc((n_marks + 1) * sizeof *places);
    if (!clean || !places) {
        free(clean);
        free(places);
        return STATUS_NO_MEMORY;
    }
    n_marks = 0;
    for (const char *at = text; at < end;) {
        const char *found = memmem(at, (size_t)(end - at), sign, sign_bytes);
        size_t length = (size_t)((found ? found : end) - at);
        memcpy(clean + n, at, length);
        n += length;
        at += length + (found ? sign_bytes : 0);
        if (found)
            places[n_marks++] = n;
    }
    *text_out = clean;
    *n_bytes_out = n;
    *places_out = places;
    *n_places_out = n_marks;
    return STATUS_OK;
}
