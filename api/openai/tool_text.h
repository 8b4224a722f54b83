/*
 * tool_text - the text of a reply that calls tools, as it comes: which functions, with which arguments.
 *
 *     NAMED      {...}                                         the arguments of the one function
 *     REQUIRED   [{"name": "f", "parameters": {...}}, ...]     calls, one after the other
 *
 * The text fits its schema (tool_schema.h), but may end anywhere. What does not fit gives no calls.
 *
 * Thread: one at a time.
 */
#pragma once

#include "api/openai/openai_constraint.h"

struct tool_text {
    enum tool_mode mode;
    uint32_t n_calls;
    int depth; /* open brackets */
    bool is_in_string, is_escaped;
    bool is_in_arguments;   /* of the last call */
    bool is_key, has_begun; /* of the member of a call: its key is not over; its value has begun */
    char key[16];           /* as it is in the text, up to its room, as name */
    char name[8 * TOOL_NAME_BYTES_MAX];
    uint32_t n_key, n_name;
};

void tool_text_init(struct tool_text *text, enum tool_mode mode);

/* A piece of the reply. */
struct tool_piece {
    bool is_new;           /* call index begins, with the function name */
    uint32_t index;        /* of the call */
    const char *name;      /* JSON, with its quotes; NULL: the named function's */
    const char *arguments; /* [n_bytes] more of them: inside of the text that was given */
    size_t n_bytes;
};

/* Takes some bytes of the text, at most *n_inout, and sets how many. True: they make a piece, which is good until the next call.
 * Call it until none are left. */
bool tool_text_next(struct tool_text *text, const char *bytes, size_t *n_inout,
                    struct tool_piece *piece_out);
