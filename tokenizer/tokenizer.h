/*
 * tokenizer - text to tokens and back, as a Hugging Face folder says.
 *
 * Reads tokenizer.json, or where there is none tekken.json, tokenizer.model or spiece.model (SentencePiece); and, if it is there,
 * tokenizer_config.json. What would change a result and is not built is refused by name (UNSUPPORTED); README.md lists what is.
 *
 *     text -> added tokens -> normalizer -> pre-tokenizer -> the model, of each piece -> template -> ids
 *
 * Bounds: TOKENIZER_FILE_BYTES_MAX, TOKENIZER_IDS_MAX, TOKEN_BYTES_MAX, TOKENIZER_TEXT_BYTES_MAX.
 * A call allocates only while it runs: at most 52 bytes a byte of the longest piece; when the text is
 * not ASCII and a form of Unicode is asked for, 16 bytes a byte of text, 64 of NFKC and NFKD; and copies of what a normalizer or
 * Metaspace rewrites, at most REWRITTEN_BYTES_MAX each. Outputs are never grown.
 *
 * Thread: immutable after tokenizer_load, any number of threads may use one.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/tokens.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKENIZER_DIGEST_BYTES 16
#define TOKENIZER_DIGEST_TEXT  (2 * TOKENIZER_DIGEST_BYTES + 1) /* bytes, NUL included */

struct tokenizer;

struct encode_input {
    const char *text; /* UTF-8, may hold NUL */
    size_t text_bytes;
    bool add_special;   /* put what the template adds (bos, ...) around the text */
    bool parse_special; /* special tokens written in the text are read as such */
    /* A character that is in the text for no meaning of its own: it is taken out, and no special token is read that had it inside
     * (special_marks.h). Not of Unicode's characters: U+FDD0 .. U+FDEF; 0: none. */
    uint32_t mark;
    /* Called now and then while the text is encoded: true ends it. NULL: never. */
    bool (*is_unwanted)(void *arg);
    void *arg;
};

struct decode_input {
    const uint32_t *ids;
    size_t n_ids;
    bool skip_special; /* leave special tokens out of the text */
};

/* Where text goes, not terminated. bytes NULL: it is only measured. */
struct text_buffer {
    char *bytes;
    size_t bytes_max;
    size_t n_bytes; /* how many there are in all, also when more than bytes_max */
};

/* TOKEN_NONE if tokenizer_config.json names none. */
struct special_ids {
    uint32_t bos;
    uint32_t eos;
    uint32_t pad;
    uint32_t unk;
};

/* The files that may describe a tokenizer. */
enum tokenizer_source { TOKENIZER_JSON, TOKENIZER_TEKKEN, TOKENIZER_SENTENCEPIECE };

/* NOT_FOUND: none of the files. CORRUPT, UNSUPPORTED: error names the field. IO_FAILED, NO_MEMORY. */
MUST_CHECK enum status tokenizer_load(const char *folder, struct error *error,
                                      struct tokenizer **tokenizer_out);

/* The same from bytes in memory; config, of tokenizer_config.json, may be NULL. For files that lie elsewhere, and fuzzing. */
MUST_CHECK enum status tokenizer_load_bytes(enum tokenizer_source source,
                                            const struct text_buffer *file,
                                            const struct text_buffer *config, struct error *error,
                                            struct tokenizer **tokenizer_out);

/* NULL is fine. */
void tokenizer_destroy(struct tokenizer *tokenizer);

/* INVALID_ARGUMENT: text is not UTF-8, too long, or beyond what a split pattern may spend.
 * CANCELLED: is_unwanted said so.
 * PROMPT_TOO_LONG: there are more than ids_max; the first ids_max are written, n_ids is set.
 * NO_MEMORY. */
MUST_CHECK enum status tokenizer_encode(const struct tokenizer *tokenizer,
                                        const struct encode_input *input,
                                        struct token_buffer *tokens_inout, struct error *error);

/* What its patterns spend of a text's budget on this one (split_pattern.h); n_bytes: UTF-8 as above, not
 * empty. Fails as tokenizer_encode does, and then steps_out is what was spent until then. */
MUST_CHECK enum status tokenizer_split_steps(const struct tokenizer *tokenizer, const char *text,
                                             size_t n_bytes, struct error *error,
                                             uint64_t *steps_out);

/* Bytes that are no UTF-8 become U+FFFD, as Transformers makes them.
 * INVALID_ARGUMENT: an id is not below tokenizer_n_ids.
 * PROMPT_TOO_LONG: there are more than bytes_max; the first bytes_max are written. */
MUST_CHECK enum status tokenizer_decode(const struct tokenizer *tokenizer,
                                        const struct decode_input *input,
                                        struct text_buffer *text_inout, struct error *error);

/* Ids are 0 .. n - 1, added tokens included. A model's vocab_size may be larger (padding). */
uint32_t tokenizer_n_ids(const struct tokenizer *tokenizer);

/* The bytes that id stands for, perhaps part of a UTF-8 character, before what the decoder does only
 * in a sequence (see token_texts.h); id < n_ids. Borrowed. */
const char *tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id,
                                  size_t *n_bytes_out);

/* The text that id adds to others before it; none of a hole. id < n_ids. Returns its bytes, perhaps part of a UTF-8 character. */
size_t tokenizer_token_text(const struct tokenizer *tokenizer, uint32_t id,
                            char text_out[TOKEN_BYTES_MAX]);
/* Whether a text is these texts of its tokens, one after the other, but for blanks at its ends. Not where the decoder puts a space between
 * tokens by what the last one was, has another text for the first one, leaves out one that comes again, or changes the whole text in another
 * way. */
bool tokenizer_texts_join(const struct tokenizer *tokenizer);

bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id); /* id < n_ids */

struct special_ids tokenizer_special_ids(const struct tokenizer *tokenizer);

/* Of the bytes of the file: equal digests, equal ids. Against accidents, not malice. */
void tokenizer_digest(const struct tokenizer *tokenizer,
                      uint8_t digest_out[TOKENIZER_DIGEST_BYTES]);
/* The same, of a folder whose tokenizer is not loaded. NOT_FOUND: it has none of the files. IO_FAILED,
 * CORRUPT (no plain file), UNSUPPORTED (too large), INVALID_ARGUMENT (the name), NO_MEMORY. */
MUST_CHECK enum status tokenizer_digest_read(const char *folder, struct error *error,
                                             uint8_t digest_out[TOKENIZER_DIGEST_BYTES]);
/* In hexadecimal. */
void tokenizer_digest_format(const uint8_t bytes[TOKENIZER_DIGEST_BYTES],
                             char text_out[TOKENIZER_DIGEST_TEXT]);
