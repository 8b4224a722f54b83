#include "base/json_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char BYTE_ORDER_MARK[] = "\xef\xbb\xbf";

static const char *const CONSTANTS[] = {"NaN", "Infinity", "-Infinity"};

enum { N_CONSTANTS = sizeof CONSTANTS / sizeof *CONSTANTS };

bool json_text_is_constant(const char *text)
{
    for (size_t i = 0; text && i < N_CONSTANTS; i++)
        if (strcmp(text, CONSTANTS[i]) == 0)
            return true;
    return false;
}

/* The length of the constant that text begins with; 0: none, or a key without quotes. */
static size_t constant_at(const char *text, size_t bytes)
{
    for (size_t i = 0; i < N_CONSTANTS; i++) {
        size_t length = strlen(CONSTANTS[i]);
        if (bytes < length || memcmp(text, CONSTANTS[i], length) != 0)
            continue;
        size_t next = length;
        while (next < bytes && strchr(" \t\r\n", text[next]) && text[next])
            next++;
        return next < bytes && text[next] == ':' ? 0 : length;
    }
    return 0;
}

/* Inside a quoted text: one byte, or two for an escape. */
static size_t step_within(const char *text, size_t bytes)
{
    return *text == '\\' && bytes > 1 ? 2 : 1;
}

/* Copies text and puts its constants in quotes, which may double its length. NULL: no memory. */
static char *quote_constants(const char *text, size_t bytes, size_t *bytes_out)
{
    char *made = malloc(2 * bytes + 1);
    bool is_within = false;
    size_t n = 0;
    for (size_t at = 0, length; made && at < bytes; at += length) {
        size_t constant = is_within ? 0 : constant_at(text + at, bytes - at);
        length = constant ? constant : is_within ? step_within(text + at, bytes - at) : 1;
        is_within ^= text[at] == '"';
        if (constant)
            made[n++] = '"';
        memcpy(made + n, text + at, length);
        n += length;
        if (constant)
            made[n++] = '"';
    }
    assert(n <= 2 * bytes);
    *bytes_out = n;
    return made;
}

static json_t *parse_constants(const char *text, size_t bytes, size_t flags)
{
    json_error_t ignored; /* it is about the copy, not about the file's text */
    size_t n;
    char *quoted = quote_constants(text, bytes, &n);
    json_t *root = quoted ? json_loadb(quoted, n, flags, &ignored) : NULL;
    if (quoted && !root && json_error_code(&ignored) == json_error_numeric_overflow)
        root = json_loadb(quoted, n, flags | JSON_DECODE_INT_AS_REAL, &ignored);
    free(quoted);
    return root;
}

enum status json_text_parse(const char *text, size_t bytes, const char *file, size_t flags,
                            json_t **root_out, struct error *error)
{
    json_error_t reason;
    flags |= JSON_REJECT_DUPLICATES;
    if (bytes >= 3 && memcmp(text, BYTE_ORDER_MARK, 3) == 0)
        return error_set(error, STATUS_CORRUPT,
                         "%s is not JSON: it begins with a byte order mark; remove it", file);
    json_t *root = json_loadb(text ? text : "", bytes, flags, &reason);
    if (!root && json_error_code(&reason) == json_error_numeric_overflow)
        root = json_loadb(text, bytes, flags | JSON_DECODE_INT_AS_REAL, &reason);
    if (!root && text && json_error_code(&reason) == json_error_invalid_syntax)
        root = parse_constants(text, bytes, flags);
    if (root) {
        *root_out = root;
        return STATUS_OK;
    }
    enum json_error_code code = json_error_code(&reason);
    if (code == json_error_null_character || code == json_error_null_byte_in_key)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s has a %s with U+0000, which is not supported: line %d, column %d",
                         file, code == json_error_null_character ? "text" : "key", reason.line,
                         reason.column);
    if (code == json_error_out_of_memory)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %s of %zu bytes", file, bytes);
    return error_set(error, STATUS_CORRUPT, "%s is not JSON: line %d, column %d: %s", file,
                     reason.line, reason.column, reason.text);
}
