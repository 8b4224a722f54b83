#include "api/openai/large_integer.h"

#include "api/openai/json_fields.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* In place of the integer: a string of no client, as long as that. "xxx..." behind it. */
#define MARK      "\"\\u0000"
#define BYTES_MIN 19u /* of an integer beyond 64 bits */

struct place {
    size_t from, bytes;
};

/* The integer at whose end the parser stopped. False: it was something else. */
static bool find_integer(const char *body, size_t bytes, const json_error_t *why, struct place *out)
{
    if (json_error_code(why) != json_error_numeric_overflow || why->position <= 0 ||
        (size_t)why->position > bytes)
        return false;
    size_t end = (size_t)why->position, from = end;
    while (from > 0 && isdigit((unsigned char)body[from - 1]))
        from--;
    if (from > 0 && body[from - 1] == '-')
        from--;
    *out = (struct place){from, end - from};
    return out->bytes >= BYTES_MIN && from > 0 && !strchr("eE+.", body[from - 1]);
}

static bool is_mark(const json_t *value, const struct place *at)
{
    return json_is_string(value) && json_string_length(value) == at->bytes - sizeof MARK + 1 &&
           json_string_value(value)[0] == '\0' && json_string_value(value)[1] == 'x';
}

static bool has_mark(json_t *value, const struct place *at)
{
    const char *name;
    size_t i;
    json_t *inner;
    if (is_mark(value, at))
        return true;
    json_object_foreach(value, name, inner) if (has_mark(inner, at)) return true;
    json_array_foreach(value, i, inner) if (has_mark(inner, at)) return true;
    return false;
}

/* NULL: it is no JSON otherwise, either. */
static json_t *read_marked(const char *body, size_t bytes, const struct place *at)
{
    char *copy = malloc(bytes);
    if (!copy)
        return NULL;
    memcpy(copy, body, bytes);
    memset(copy + at->from, 'x', at->bytes);
    memcpy(copy + at->from, MARK, sizeof MARK - 1);
    copy[at->from + at->bytes - 1] = '"';
    json_t *read = json_loadb(copy, bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    free(copy);
    return read;
}

void large_integer_refuse(const char *body, size_t bytes, const json_error_t *why,
                          struct openai_error *error)
{
    struct place at;
    const char *name;
    json_t *value;
    if (!find_integer(body, bytes, why, &at))
        return;
    json_t *read = read_marked(body, bytes, &at);
    /* Of what could be read with the mark the integer is not the end. */
    const double number = read ? strtod(body + at.from, NULL) : 0;
    const struct json_fields fields = {read, "", error};
    json_object_foreach(read, name, value)
    {
        const bool is_it = is_mark(value, &at);
        if (has_mark(value, &at))
            json_field_fail(&fields, "invalid_value", name,
                            "%s %g%s; integers beyond 64 bits are not taken", is_it ? "is" : "has",
                            number, is_it ? "" : " in it");
    }
    json_decref(read);
}
