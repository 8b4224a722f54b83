/*
 * special_marks - where marks go into a text that somebody else wrote, before it becomes a part of a prompt (special_tokens.h).
 *
 * tokenizer_encode takes the marks out again and reads no special token that has one inside: encode_input.mark.
 *
 * Thread: any; no state.
 */
#pragma once

#include "tokenizer/added/special_tokens.h"

struct tokenizer;

/* As special_tokens_find, of the tokenizer's tokens. */
void special_marks_find(const struct tokenizer *tokenizer, const char *text, size_t n_bytes,
                        special_mark_call call, void *arg);
