#include "api/openai/tool_reply.h"

#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* It names the call to its reader alone. */
static json_t *draw_id(void)
{
    uint64_t bits[2];
    char id[48];
    if (random_secret(bits, sizeof bits, NULL) != STATUS_OK)
        return NULL;
    snprintf(id, sizeof id, "call_%016" PRIx64 "%08" PRIx32, bits[0], (uint32_t)bits[1]);
    return json_string(id);
}

static json_t *name_of(const struct tool_piece *piece, const char *named)
{
    return piece->name ? json_loads(piece->name, JSON_DECODE_ANY, NULL) : json_string(named);
}

json_t *tool_reply_delta(const struct tool_piece *piece, const char *named)
{
    json_t *arguments = json_stringn(piece->n_bytes > 0 ? piece->arguments : "", piece->n_bytes);
    if (!piece->is_new)
        return json_pack("{s:I, s:{s:o}}", "index", (json_int_t)piece->index, "function",
                         "arguments", arguments);
    return json_pack("{s:I, s:o, s:s, s:{s:o, s:o}}", "index", (json_int_t)piece->index, "id",
                     draw_id(), "type", "function", "function", "name", name_of(piece, named),
                     "arguments", arguments);
}

static int add_piece(json_t *calls, const struct tool_piece *piece, const char *named)
{
    json_t *call = json_array_get(calls, piece->index);
    if (!call) {
        call = tool_reply_delta(piece, named);
        json_object_del(call, "index");
        return json_array_append_new(calls, call);
    }
    json_t *function = json_object_get(call, "function");
    const json_t *had = json_object_get(function, "arguments");
    const size_t n = json_string_length(had);
    char *joined = malloc(n + piece->n_bytes + 1);
    if (!joined)
        return -1;
    memcpy(joined, json_string_value(had), n);
    memcpy(joined + n, piece->arguments, piece->n_bytes);
    const int failed = json_object_set_new(function, "arguments",
                                           json_stringn(joined, n + piece->n_bytes));
    free(joined);
    return failed;
}

json_t *tool_reply_calls(enum tool_mode mode, const char *named, const char *text, size_t bytes)
{
    struct tool_text calls;
    struct tool_piece piece;
    json_t *list = json_array();
    tool_text_init(&calls, mode);
    for (size_t at = 0, n; list && at < bytes; at += n) {
        n = bytes - at;
        if (tool_text_next(&calls, text + at, &n, &piece) && add_piece(list, &piece, named) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}
