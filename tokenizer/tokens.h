/*
 * tokens - common definitions for tokens: limits of ids and lengths, and buffers for ids.
 *
 * Thread: any (plain data).
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define TOKENIZER_FILE_BYTES_MAX ((size_t)64 << 20)
#define TOKENIZER_IDS_MAX        (1u << 20)
#define TOKENIZER_TEXT_BYTES_MAX ((size_t)16 << 20)
#define TOKEN_BYTES_MAX          1024
#define TOKEN_SPELLING_MAX                                                                         \
    (2 * TOKEN_BYTES_MAX) /* as a file writes it: the byte alphabet may take two bytes for one */

#define TOKEN_NONE UINT32_MAX

/* Where ids go. ids NULL: they are only counted. */
struct token_buffer {
    uint32_t *ids;
    size_t ids_max;
    size_t n_ids; /* how many there are in all, also when more than ids_max */
};

/* Appends one id, or only counts it when there is no room. */
static inline void token_buffer_put(struct token_buffer *tokens, uint32_t id)
{
    assert(id != TOKEN_NONE);
    if (tokens->n_ids < tokens->ids_max && tokens->ids)
        tokens->ids[tokens->n_ids] = id;
    tokens->n_ids++;
}
