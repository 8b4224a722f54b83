/*
 * encoder_line - a prompt of a model with an encoder, as one line of tokens.
 *
 *     [ text | filling up to a block | start ] [ reply ... ]
 *                                     ^ reply_at
 *
 * The encoder sees the whole text at once. Its cross blocks (model/forward/forward.h) are those of the line before reply_at; the
 * decoder's own begin there, with the token that begins each reply. So tables, schedules and hand-overs count one sequence of
 * tokens, as of any model. What differs: a text is computed in one step, and only the cross blocks of a whole text can be reused.
 *
 * Thread: any (plain data).
 */
#pragma once

#include <stdint.h>

struct encoder_line {
    uint32_t text_max; /* tokens of a text; 0: the model has no encoder, and a line is the prompt */
    uint32_t reply_max;
    uint32_t block_tokens;
    uint32_t start_id;
};

/* Where the decoder's tokens begin; without an encoder 0. */
uint32_t encoder_line_reply_at(const struct encoder_line *line, uint32_t n_text);
/* Tokens of a prompt. */
uint32_t encoder_line_tokens(const struct encoder_line *line, uint32_t n_text);
/* Of the longest text, and with the longest reply. */
uint32_t encoder_line_longest(const struct encoder_line *line);
uint32_t encoder_line_context(const struct encoder_line *line);
/* tokens_out [encoder_line_tokens] */
void encoder_line_write(const struct encoder_line *line, const uint32_t *text, uint32_t n_text,
                        uint32_t *tokens_out);
