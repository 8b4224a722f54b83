/*
 * gguf_tokenizer - the tokenizer of a GGUF file in the words of tokenizer.json and tokenizer_config.json.
 *
 *     tokenizer.ggml.model   gpt2: BPE over bytes, split as tokenizer.ggml.pre says
 *                            llama: BPE over characters as SentencePiece has it; merges follow from the scores
 *                            gemma4: the same, with the merges of the file
 *                            t5: Unigram as SentencePiece has it (gguf_pieces.h)
 *
 * A kind or a way to split that is not in the tables is refused by name.
 *
 * Thread: any; no state.
 */
#pragma once

#include "gguf/gguf_file.h"

#include <jansson.h>

/* The caller owns *root_out. CORRUPT, UNSUPPORTED with a sentence that names the key; NO_MEMORY. */
MUST_CHECK enum status gguf_tokenizer_make(const struct gguf_file *file, json_t **root_out,
                                           struct error *error);
/* With chat templates, if the file has any. */
MUST_CHECK enum status gguf_tokenizer_config_make(const struct gguf_file *file, json_t **root_out,
                                                  struct error *error);
