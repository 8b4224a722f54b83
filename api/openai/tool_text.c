#include "api/openai/tool_text.h"

#include <assert.h>
#include <string.h>

/* Depths: 1 in the array, 2 in a call, 3 and more in its parameters. */
enum { IN_CALL = 2 };

void tool_text_init(struct tool_text *text, enum tool_mode mode)
{
    *text = (struct tool_text){.mode = mode, .is_key = true};
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Follows strings and brackets. */
static void follow(struct tool_text *text, char c)
{
    if (text->is_in_string) {
        const bool is_end = c == '"' && !text->is_escaped;
        text->is_escaped = c == '\\' && !text->is_escaped;
        text->is_in_string = !is_end;
        return;
    }
    text->is_in_string = c == '"';
    text->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
}

static void begin_member(struct tool_text *text)
{
    text->is_key = true;
    text->has_begun = false;
    text->n_key = 0;
}

static void keep(char *to, uint32_t *n, size_t room, char c)
{
    if (*n + 1 < room) {
        to[(*n)++] = c;
        to[*n] = '\0';
    }
}

static bool has_key(const struct tool_text *text, const char *key)
{
    return strcmp(text->key, key) == 0;
}

/* One character in a call, outside of its parameters, before it is followed. True: the parameters begin with it. */
static bool step(struct tool_text *text, char c)
{
    const bool is_outside = !text->is_in_string;
    if (text->depth < IN_CALL) {
        if (is_outside && c == '{') {
            text->n_name = 0;
            begin_member(text);
        }
        return false;
    }
    if (text->is_key) {
        if (text->is_in_string && (c != '"' || text->is_escaped))
            keep(text->key, &text->n_key, sizeof text->key, c);
        if (is_outside && c == ':')
            text->is_key = false;
        return false;
    }
    if (is_outside && is_blank(c))
        return false;
    if (is_outside && text->depth == IN_CALL && c == ',') {
        begin_member(text);
        return false;
    }
    if (!text->has_begun && has_key(text, "parameters") && text->n_name > 0) {
        text->has_begun = true;
        return true;
    }
    text->has_begun = true;
    if (has_key(text, "name") && (text->is_in_string || c == '"'))
        keep(text->name, &text->n_name, sizeof text->name, c);
    return false;
}

/* How many of the bytes are still of the parameters. */
static size_t run_arguments(struct tool_text *text, const char *bytes, size_t n)
{
    size_t i = 0;
    while (i < n) {
        const bool is_over = !text->is_in_string && text->depth == IN_CALL &&
                             (bytes[i] == ',' || bytes[i] == '}' || is_blank(bytes[i])) &&
                             text->has_begun;
        if (is_over) {
            text->is_in_arguments = false;
            break;
        }
        follow(text, bytes[i++]);
    }
    return i;
}

static bool next_of_required(struct tool_text *text, const char *bytes, size_t *n_inout,
                             struct tool_piece *piece_out)
{
    size_t i = 0;
    if (text->is_in_arguments) {
        const size_t n = run_arguments(text, bytes, *n_inout);
        *piece_out = (struct tool_piece){
            .index = text->n_calls - 1, .arguments = bytes, .n_bytes = n};
        if (n > 0) {
            *n_inout = n;
            return true;
        }
    }
    for (; i < *n_inout; i++) {
        if (step(text, bytes[i])) {
            text->is_in_arguments = true;
            *piece_out = (struct tool_piece){
                .is_new = true, .index = text->n_calls++, .name = text->name};
            *n_inout = i;
            return true;
        }
        follow(text, bytes[i]);
    }
    return false;
}

bool tool_text_next(struct tool_text *text, const char *bytes, size_t *n_inout,
                    struct tool_piece *piece_out)
{
    assert(text->mode != TOOL_FREE);
    if (text->mode == TOOL_REQUIRED)
        return next_of_required(text, bytes, n_inout, piece_out);
    *piece_out = (struct tool_piece){
        .is_new = text->n_calls == 0, .arguments = bytes, .n_bytes = *n_inout};
    text->n_calls = 1;
    return true;
}
