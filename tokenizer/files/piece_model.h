/*
 * piece_model - a model of SentencePiece, wherever its pieces come from, in the words of tokenizer.json, as Transformers puts it there.
 *
 * BPE's merges follow from the scores; a normalizer that SentencePiece has built in is the charsmap.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum model_type { MODEL_UNIGRAM = 1, MODEL_BPE = 2, MODEL_WORD = 3, MODEL_CHARACTER = 4 };

/* As the files number them, GGUF's too. */
enum piece_type {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN = 2,
    PIECE_CONTROL = 3,
    PIECE_OF_USER = 4,
    PIECE_UNUSED = 5,
    PIECE_BYTE = 6,
};

struct piece {
    const char *text; /* [n_bytes] */
    size_t n_bytes;
    float score;
    enum piece_type type;
};

struct piece_model {
    const char *name; /* for sentences */
    struct error *error;
    struct piece *pieces; /* [n_pieces] */
    size_t n_pieces, pieces_max;
    uint64_t type;
    bool byte_fallback, has_suffixes;
    bool prepends, collapses,
        escapes; /* spaces: one in front, none at the ends and one of several, as U+2581 */
    uint64_t unk, bos, eos, pad; /* ids; beyond the pieces: none */
    const uint8_t *charsmap;     /* [n_charsmap] */
    size_t n_charsmap;
};

/* Fills root, which would be tokenizer.json. config: of tokenizer_config.json, or NULL; what it says goes before what the model says.
 * CORRUPT: model->error says where. NO_MEMORY. */
MUST_CHECK enum status piece_model_fill(const struct piece_model *model, const json_t *config,
                                        json_t *root);
/* config, with the names of special tokens that it does not give. The caller owns it; NULL: no memory. */
json_t *piece_model_config(const struct piece_model *model, const json_t *config);
