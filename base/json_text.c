#include "base/json_text.h"

#include <string.h>

static const char BYTE_ORDER_MARK[] = "\xef\xbb\xbf";

enum status json_text_parse(const char *text, size_t bytes, const char *file, size_t flags,
                            json_t **root_out, struct error *error)
{
    json_error_t reason;
    flags |= JSON_REJECT_DUPLICATES;
    if (bytes >= 3 && memcmp(text, BYTE_ORDER_MARK, 3) == 0)
        return error_set(error, STATUS_CORRUPT,
                         "%s is no JSON: it begins with a byte order mark, which has to go", file);
    json_t *root = json_loadb(text ? text : "", bytes, flags, &reason);
    if (!root && json_error_code(&reason) == json_error_numeric_overflow)
        root = json_loadb(text, bytes, flags | JSON_DECODE_INT_AS_REAL, &reason);
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
    return error_set(error, STATUS_CORRUPT, "%s is no JSON: line %d, column %d: %s", file,
                     reason.line, reason.column, reason.text);
}
