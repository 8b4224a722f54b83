/*
 * Byte-level: the bytes held and those of the token are judged together, a sequence at a time; only
 * a sequence that the token leaves unfinished is held again. Else a token is text, and what is held
 * is a run of byte tokens. tokenizer_decode is the same, over all tokens.
 */
#include "tokenizer/token_decoder.h"

#include "base/utf8.h"
#include "tokenizer/tokenizer_parts.h"

#include <assert.h>
#include <string.h>

static const char REPLACEMENT[3] = {(char)0xef, (char)0xbf, (char)0xbd}; /* U+FFFD */

void token_decoder_init(struct token_decoder *decoder, const struct tokenizer *tokenizer,
                        bool skip_special)
{
    assert(tokenizer);
    *decoder = (struct token_decoder){.tokenizer = tokenizer, .skip_special = skip_special};
}

static bool is_hole(const struct tokenizer *tokenizer, uint32_t id)
{
    return tokenizer->model.vocab->flags[id] & TOKEN_FLAG_HOLE;
}

/* The bytes of byte-level tokens */

static size_t push_bytes(struct token_decoder *decoder, const char *token, size_t n_token,
                         char *text_out)
{
    uint8_t bytes[TOKEN_DECODER_HELD_MAX + TOKEN_BYTES_MAX];
    size_t n_bytes = decoder->n_held + n_token;
    size_t n_text = 0;

    assert(n_bytes <= sizeof bytes);
    if (decoder->n_held == 0 && utf8_first_invalid(token, n_token) == n_token) { /* as most are */
        memcpy(text_out, token, n_token);
        return n_token;
    }
    memcpy(bytes, decoder->held, decoder->n_held);
    memcpy(bytes + decoder->n_held, token, n_token);
    decoder->n_held = 0;

    for (size_t at = 0; at < n_bytes;) {
        size_t length;
        enum utf8_form form = utf8_sequence(bytes + at, n_bytes - at, &length);
        if (form == UTF8_PART) {
            assert(length <= TOKEN_DECODER_HELD_MAX);
            memcpy(decoder->held, bytes + at, length);
            decoder->n_held = (uint32_t)length;
            break;
        }
        size_t n_out = form == UTF8_WHOLE ? length : sizeof REPLACEMENT;
        memcpy(text_out + n_text, form == UTF8_WHOLE ? (const char *)bytes + at : REPLACEMENT,
               n_out);
        n_text += n_out;
        at += length;
    }
    return n_text;
}

/* Text, and runs of byte tokens */

static bool is_character(const char *text, size_t n_bytes, const char *character, size_t length)
{
    return length > 0 && n_bytes == length && memcmp(text, character, length) == 0;
}

/* Text of one token, or of a run. is_spaced: Metaspace's character becomes a space or nothing. Returns the bytes written, no more than
 * the text's. */
static size_t put_text(const struct token_decoder *decoder, bool is_spaced, const char *text,
                       size_t n_bytes, char *text_out)
{
    const struct token_texts *texts = &decoder->tokenizer->texts;
    size_t n_text = 0;

    if (!is_spaced) {
        memcpy(text_out, text, n_bytes);
        return n_bytes;
    }
    for (size_t at = 0, length; at < n_bytes; at += length) {
        uint32_t codepoint;
        const char *character = text + at;
        size_t n_character = length = utf8_read(character, &codepoint);
        if (is_character(character, length, texts->space, texts->n_space)) {
            if (!decoder->has_begun && texts->drops_first)
                continue;
            character = " ";
            n_character = 1;
        }
        memcpy(text_out + n_text, character, n_character);
        n_text += n_character;
    }
    return n_text;
}

static size_t put_token(struct token_decoder *decoder, const char *token, size_t n_bytes,
                        char *text_out)
{
    const bool is_spaced = decoder->tokenizer->texts.n_space > 0;
    const size_t n_text = put_text(decoder, is_spaced, token, n_bytes, text_out);

    decoder->has_begun = true;
    return n_text;
}

/* Text of a run of byte tokens. */
static size_t put_run_text(struct token_decoder *decoder, const char *run, size_t n_bytes,
                           bool goes_on, char *text_out)
{
    const struct token_texts *texts = &decoder->tokenizer->texts;
    char edited[3 * TOKEN_DECODER_HELD_MAX + 2 * TEXT_STEPS_HELD_MAX];
    size_t n_text = n_bytes;

    if (texts->runs.n > 0) {
        n_text = text_steps_push(&texts->runs, &decoder->run, run, n_bytes, edited);
        if (!goes_on)
            n_text += text_steps_finish(&texts->runs, &decoder->run, edited + n_text);
        run = edited;
    }
    n_text = put_text(decoder, texts->spaces_runs, run, n_text, text_out);
    decoder->has_begun |= !goes_on;
    return n_text;
}

/* Bytes of whole characters at the start of what is held; all of it if no character is cut. */
static size_t whole_characters(const struct token_decoder *decoder)
{
    size_t n_bytes = decoder->n_held;

    for (size_t at = 0, length; at < n_bytes; at += length)
        if (utf8_sequence(decoder->held + at, n_bytes - at, &length) == UTF8_PART)
            return at;
    return n_bytes;
}

/* The run of byte tokens leaves; what stays of it is kept, if it goes on. */
static size_t put_run(struct token_decoder *decoder, bool goes_on, char *text_out)
{
    const char *run = (const char *)decoder->held;
    size_t n_run = goes_on ? whole_characters(decoder) : decoder->n_held;
    size_t n_text = 0;

    if (n_run == 0)
        return 0;
    if (utf8_first_invalid(run, n_run) == n_run) {
        n_text = put_run_text(decoder, run, n_run, goes_on, text_out);
    } else {
        for (size_t i = 0; i < n_run; i++)
            n_text += put_run_text(decoder, REPLACEMENT, sizeof REPLACEMENT, false,
                                   text_out + n_text);
    }
    decoder->n_held -= (uint32_t)n_run;
    memmove(decoder->held, decoder->held + n_run, decoder->n_held);
    return n_text;
}

static size_t push_text(struct token_decoder *decoder, uint32_t id, const char *token,
                        size_t n_token, char *text_out)
{
    const struct token_texts *texts = &decoder->tokenizer->texts;
    size_t n_text = 0;

    if (!texts->is_byte[id]) {
        n_text = put_run(decoder, false, text_out);
        if (decoder->owes_space)
            text_out[n_text++] = ' ';
        decoder->owes_space = texts->ends_word && texts->ends_word[id];
        if (texts->first.starts && !decoder->has_begun) {
            token = (const char *)texts->first.bytes + texts->first.starts[id];
            n_token = texts->first.starts[id + 1] - texts->first.starts[id];
        }
        return n_text + put_token(decoder, token, n_token, text_out + n_text);
    }
    if (decoder->n_held == TOKEN_DECODER_HELD_MAX)
        n_text = put_run(decoder, true, text_out);
    decoder->held[decoder->n_held++] = (uint8_t)token[0];
    return n_text;
}

/* The text that is there goes through the steps of the text as a whole. */
static size_t put_whole(struct token_decoder *decoder, size_t n_bytes, char *text_inout)
{
    const struct text_steps *steps = &decoder->tokenizer->texts.whole;
    char text[TOKEN_TEXT_BYTES_MAX];

    if (n_bytes == 0 || text_steps_are_over(steps, &decoder->whole))
        return n_bytes;
    memcpy(text, text_inout, n_bytes);
    return text_steps_push(steps, &decoder->whole, text, n_bytes, text_inout);
}

size_t token_decoder_push(struct token_decoder *decoder, uint32_t id,
                          char text_out[TOKEN_TEXT_BYTES_MAX])
{
    const struct tokenizer *tokenizer = decoder->tokenizer;
    size_t n_token;

    assert(tokenizer && decoder->n_held <= TOKEN_DECODER_HELD_MAX);
    if (id >= tokenizer_n_ids(tokenizer) || is_hole(tokenizer, id) ||
        (decoder->skip_special && tokenizer_is_special(tokenizer, id)))
        return 0;
    if (tokenizer->texts.leaves_out_repeats && decoder->has_last && decoder->last_id == id)
        return 0;
    decoder->has_last = true;
    decoder->last_id = id;
    const char *token = tokenizer_token_bytes(tokenizer, id, &n_token);
    size_t n_text = tokenizer->texts.is_byte_level
                        ? push_bytes(decoder, token, n_token, text_out)
                        : push_text(decoder, id, token, n_token, text_out);
    n_text = put_whole(decoder, n_text, text_out);
    assert(n_text <= TOKEN_TEXT_BYTES_MAX);
    return n_text;
}

size_t token_decoder_finish(struct token_decoder *decoder, char text_out[TOKEN_TEXT_BYTES_MAX])
{
    size_t n_text = 0;

    if (!decoder->tokenizer->texts.is_byte_level) {
        n_text = put_run(decoder, false, text_out);
    } else if (decoder->n_held > 0) {
        memcpy(text_out, REPLACEMENT, sizeof REPLACEMENT);
        n_text = sizeof REPLACEMENT;
    }
    n_text = put_whole(decoder, n_text, text_out);
    n_text += text_steps_finish(&decoder->tokenizer->texts.whole, &decoder->whole,
                                text_out + n_text);
    token_decoder_init(decoder, decoder->tokenizer, decoder->skip_special);
    return n_text;
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
