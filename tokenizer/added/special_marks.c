#include "tokenizer/added/special_marks.h"

#include "tokenizer/tokenizer_parts.h"

void special_marks_find(const struct tokenizer *tokenizer, const char *text, size_t n_bytes,
                        special_mark_call call, void *arg)
{
    special_tokens_find(&tokenizer->added.special, text, n_bytes, call, arg);
}
