/*
 * The bytes held and those of the token are judged together, a sequence at a time; only a sequence
 * that the token leaves unfinished is held again. tokenizer_decode is the same, over all tokens.
 */
#include "tokenizer/token_decoder.h"

#include "base/utf8.h"

#include <assert.h>
#include <string.h>

static const char REPLACEMENT[3] = {(char)0xef, (char)0xbf, (char)0xbd}; /* U+FFFD */

void token_decoder_init(struct token_decoder *decoder, const struct tokenizer *tokenizer,
                        bool skip_special)
{
    assert(tokenizer);
    *decoder = (struct token_decoder){.tokenizer = tokenizer, .skip_special = skip_special};
}

size_t token_decoder_push(struct token_decoder *decoder, uint32_t id,
                          char text_out[TOKEN_TEXT_BYTES_MAX])
{
    assert(decoder->tokenizer && decoder->n_held <= TOKEN_DECODER_HELD_MAX);
    uint8_t bytes[TOKEN_DECODER_HELD_MAX + TOKEN_BYTES_MAX];
    size_t n_text = 0;
    size_t n_token;

    if (id >= tokenizer_n_ids(decoder->tokenizer) ||
        (decoder->skip_special && tokenizer_is_special(decoder->tokenizer, id)))
        return 0;
    const char *token = tokenizer_token_bytes(decoder->tokenizer, id, &n_token);
    size_t n_bytes = decoder->n_held + n_token;
    assert(n_bytes <= sizeof bytes);
    memcpy(bytes, decoder->held, decoder->n_held);
    memcpy(bytes + decoder->n_held, token, n_token);
    decoder->n_held = 0;

    for (size_t at = 0; at < n_bytes;) {
        size_t length;
        enum utf8_form form = utf8_sequence(bytes + at, n_bytes - at, &length);
        if (form == UTF8_PART) {
            assert(length <= TOKEN_DECODER_HELD_MAX);
            memcpy(decoder->held, bytes + at, length);
            decoder->n_held = (uint8_t)length;
            break;
        }
        size_t n_out = form == UTF8_WHOLE ? length : sizeof REPLACEMENT;
        memcpy(text_out + n_text, form == UTF8_WHOLE ? (const char *)bytes + at : REPLACEMENT,
               n_out);
        n_text += n_out;
        at += length;
    }
    assert(n_text <= TOKEN_TEXT_BYTES_MAX);
    return n_text;
}

size_t token_decoder_finish(struct token_decoder *decoder, char text_out[TOKEN_TEXT_BYTES_MAX])
{
    if (decoder->n_held == 0)
        return 0;
    decoder->n_held = 0;
    memcpy(text_out, REPLACEMENT, sizeof REPLACEMENT);
    return sizeof REPLACEMENT;
}

static void append(struct text_buffer *text, const char *bytes, size_t n_bytes)
{
    size_t room = text->bytes && text->bytes_max > text->n_bytes ? text->bytes_max - text->n_bytes
                                                                 : 0;
    if (room > 0)
        memcpy(text->bytes + text->n_bytes, bytes, n_bytes < room ? n_bytes : room);
    text->n_bytes += n_bytes;
}

enum status tokenizer_decode(const struct tokenizer *tokenizer, const struct decode_input *input,
                             struct text_buffer *text_inout, struct error *error)
{
    struct token_decoder decoder;
    char bytes[TOKEN_TEXT_BYTES_MAX];

    assert(input->ids || input->n_ids == 0);
    text_inout->n_bytes = 0;
    token_decoder_init(&decoder, tokenizer, input->skip_special);
    for (size_t i = 0; i < input->n_ids; i++) {
        if (input->ids[i] >= tokenizer_n_ids(tokenizer))
            return error_set(error, STATUS_INVALID_ARGUMENT, "ids[%zu] is %u, it must be below %u",
                             i, input->ids[i], tokenizer_n_ids(tokenizer));
        append(text_inout, bytes, token_decoder_push(&decoder, input->ids[i], bytes));
    }
    append(text_inout, bytes, token_decoder_finish(&decoder, bytes));
    if (text_inout->bytes && text_inout->n_bytes > text_inout->bytes_max)
        return error_set(error, STATUS_PROMPT_TOO_LONG, "the text has %zu bytes, at most %zu fit",
                         text_inout->n_bytes, text_inout->bytes_max);
    return STATUS_OK;
}
