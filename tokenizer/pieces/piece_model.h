/*
 * piece_model - the model of tokenizer.json: what makes token ids of one piece of text.
 *
 *     BPE          pairs merge                        bpe.h
 *     Unigram      the best sum of scores             unigram.h
 *     WordPiece    the longest token each time        wordpiece.h
 *     WordLevel    the piece is a token, or unknown
 *
 * Thread: a model is immutable once read; a piece_encoder belongs to one call.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/pieces/bpe.h"
#include "tokenizer/pieces/merges.h"
#include "tokenizer/pieces/unigram.h"
#include "tokenizer/pieces/wordpiece.h"
#include "tokenizer/vocab/token_trie.h"
#include "tokenizer/vocab/vocab.h"

struct field;

enum piece_model_kind { PIECE_BPE, PIECE_UNIGRAM, PIECE_WORDPIECE, PIECE_WORDLEVEL };

struct piece_model {
    enum piece_model_kind kind;
    struct vocab *vocab;    /* behind a pointer: NULL until it is read */
    struct token_trie trie; /* not of BPE and WordLevel */
    struct merges merges;
    struct bpe_rules bpe;
    struct unigram_rules unigram;
    struct wordpiece wordpiece;
    uint32_t unk_id; /* of WordLevel */
};

/* Whether the field, the whole model, is BPE; also where it is too broken to say. */
bool piece_model_is_bpe(const struct field *model_field);

/* Reads model, and the ids and flags of added_tokens. is_byte_level: pieces are bytes, not text; of BPE alone. What was read stays in
 * model, also on failure: CORRUPT, UNSUPPORTED (error names the field), NO_MEMORY. */
MUST_CHECK enum status piece_model_read(struct piece_model *model, const struct field *model_field,
                                        const struct field *added_field, bool is_byte_level,
                                        struct error *error);
void piece_model_finish(struct piece_model *model); /* a zeroed one is fine */

struct piece_encoder {
    const struct piece_model *model;
    struct token_buffer *tokens;
    struct error *error;
    struct bpe bpe;
    struct unigram unigram;
};

/* halt and tokens are borrowed; nothing is allocated before the first long piece. */
void piece_encoder_init(struct piece_encoder *encoder, const struct piece_model *model,
                        struct token_buffer *tokens, struct halt *halt, struct error *error);
void piece_encoder_finish(struct piece_encoder *encoder);

/* Appends the ids of the piece, not empty, to tokens. INVALID_ARGUMENT: the model has no token for it; error says so. NO_MEMORY,
 * CANCELLED. */
MUST_CHECK enum status piece_encode(struct piece_encoder *encoder, const char *piece,
                                    size_t n_bytes);
