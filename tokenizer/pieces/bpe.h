/*
 * bpe - one piece of text to token ids: of all neighbouring pairs the one of lowest rank merges
 * first, the leftmost of equals.
 *
 * Merging starts from the tokens of the bytes of a byte-level piece, else of its characters. A
 * character without a token becomes the tokens of its bytes (byte_fallback), the unknown token, or
 * nothing.
 *
 * Short pieces are searched pair by pair. Longer ones keep a list of what is left and a heap of
 * the pairs, n log n, so that a megabyte of one letter takes no longer than other text:
 *
 *     ids     [piece bytes]   4 bytes each: what merging starts from
 *     nodes   [piece bytes]   16 bytes each
 *     heap    [<= 2 x ...]    8 bytes each: rank << 32 | position; stale ones are skipped
 *
 * Thread: one at a time each; what they point to is only read.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/halt.h"
#include "tokenizer/pieces/merges.h"
#include "tokenizer/tokens.h"
#include "tokenizer/vocab/affix.h"
#include "tokenizer/vocab/vocab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpe_node;

/* How merging starts. */
struct bpe_rules {
    bool byte_fallback;
    bool fuse_unk;       /* neighbouring unknown characters have one unk_id together */
    bool ignore_merges;  /* a piece that is a token is not merged */
    uint32_t unk_id;     /* TOKEN_NONE: characters without a token are left out */
    struct affix prefix; /* of all characters but the first one */
    struct affix suffix; /* of the last one */
};

struct bpe {
    const struct vocab *vocab;
    const struct merges *merges;
    const struct bpe_rules *rules;
    struct token_buffer *tokens;
    struct halt *halt; /* borrowed; looked at while a long piece merges */
    /* Grown to the longest piece so far. */
    uint32_t *ids;
    struct bpe_node *nodes;
    size_t nodes_max;
    uint64_t *heap;
    size_t heap_max;
};

/* Nothing is allocated before the first long piece. The caller sets the members up to halt. */
void bpe_finish(struct bpe *bpe);

/* Appends the ids of the piece to tokens. NO_MEMORY, CANCELLED: for a long piece. */
MUST_CHECK enum status bpe_encode(struct bpe *bpe, const uint8_t *piece, size_t n_bytes);
