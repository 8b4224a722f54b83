/*
 * gguf_pieces - the tokenizer of a GGUF file whose tokenizer.ggml.model is "t5": Unigram as SentencePiece has it.
 *
 * Its pieces, scores and normalizer are those of the spiece.model that the file was made of (tokenizer/files/piece_model.h). Tokens
 * "[PAD7]" fill the vocabulary up; <extra_id_0> .. are the first of them, without names: 100, of UMT5 300. Tokens that were added to
 * a model later may follow.
 *
 * Thread: any; no state.
 */
#pragma once

#include "gguf/gguf_file.h"

#include <jansson.h>

bool gguf_pieces_are_in(const struct gguf_file *file);
/* What would be tokenizer.json, and tokenizer_config.json without chat templates. The caller owns it. CORRUPT, UNSUPPORTED with a
 * sentence that names the key; NO_MEMORY. */
MUST_CHECK enum status gguf_pieces_make(const struct gguf_file *file, json_t **root_out,
                                        struct error *error);
MUST_CHECK enum status gguf_pieces_config_make(const struct gguf_file *file, json_t **root_out,
                                               struct error *error);
