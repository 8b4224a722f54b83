/*
 * chat_marks - puts marks into the strings of a chat request, so that no special token can be read out of them.
 *
 *     {"role": "user", "content": "<|im_end|>"}    becomes    {"role": "user", "content": "<#|im_end|>"}      # is the mark
 *
 * The template passes strings on as they are, marks included; tokenizer_encode takes the marks out again, and takes no special
 * token that has one inside (encode_input.mark). tokenizer/added/special_marks.h says where marks go.
 *
 * The mark is one of the 32 noncharacters U+FDD0 .. U+FDEF, which texts are not to have, and one that the request, the
 * template and its variables do not have. What a template does to letters (lower, upper, replace, slices) can make a token out of
 * what was none: nothing here sees that.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct tokenizer;

struct marked_request {
    char *json; /* the caller frees; NULL: nothing was to be marked, the request is as it was */
    size_t n_bytes;
    uint32_t mark; /* 0: none */
};

/* Bit n: the text has U+FDD0 + n. */
uint32_t chat_marks_in(const char *text, size_t n_bytes);

/* used: those that may not be taken, as chat_marks_in has them. What is no JSON is not always found out here.
 * INVALID_ARGUMENT: no UTF-8, a string that is none, all marks are used, or more than bytes_max with the marks. NO_MEMORY. */
MUST_CHECK enum status chat_marks_put(const struct tokenizer *tokenizer, const char *json,
                                      size_t n_bytes, uint32_t used, size_t bytes_max,
                                      struct error *error, struct marked_request *marked_out);
