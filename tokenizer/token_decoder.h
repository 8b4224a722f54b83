/*
 * token_decoder - the text of a sequence while its tokens arrive.
 *
 * A token may end within a UTF-8 character. Of byte-level tokens the decoder holds back at most three
 * bytes until the character is whole; bytes that can no longer become one leave as U+FFFD. With
 * ByteFallback it holds back a run of byte tokens until it ends, for one bad byte makes all of them
 * U+FFFD; a run of more than TOKEN_DECODER_HELD_MAX is judged in parts of that many. What a decoder does with the text as a whole
 * (text_steps.h) holds back what may change yet. The texts of all pushes
 * and of finish together are exactly what tokenizer_decode gives for the same ids.
 *
 * Thread: one at a time. Memory: the caller's, nothing is allocated. The tokenizer is borrowed.
 */
#pragma once

#include "tokenizer/decoder/text_steps.h"
#include "tokenizer/tokenizer.h"

#define TOKEN_DECODER_HELD_MAX 256
/* The most that one push or finish writes: each byte may become a U+FFFD of three, and steps have held back some. */
#define TOKEN_TEXT_BYTES_MAX                                                                       \
    (3 * (TOKEN_BYTES_MAX + TOKEN_DECODER_HELD_MAX) + 2 * TEXT_STEPS_HELD_MAX)

struct token_decoder {
    const struct tokenizer *tokenizer;
    bool skip_special;
    bool has_last; /* last_id is the token before */
    uint32_t last_id;
    bool has_begun;  /* a token has left: Metaspace's first one is over */
    bool owes_space; /* the last token ended a word */
    uint32_t n_held;
    uint8_t held[TOKEN_DECODER_HELD_MAX];
    struct text_run run, whole;
};

void token_decoder_init(struct token_decoder *decoder, const struct tokenizer *tokenizer,
                        bool skip_special);

/* Returns the bytes written: whole UTF-8 characters, perhaps none. An id that the tokenizer does
 * not have (a model's padding) writes nothing. */
size_t token_decoder_push(struct token_decoder *decoder, uint32_t id,
                          char text_out[TOKEN_TEXT_BYTES_MAX]);

/* What is still held becomes U+FFFD; the decoder is then as after init. */
size_t token_decoder_finish(struct token_decoder *decoder, char text_out[TOKEN_TEXT_BYTES_MAX]);
