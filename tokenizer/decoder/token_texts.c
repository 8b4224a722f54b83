#include "tokenizer/decoder/token_texts.h"

#include "tokenizer/files/byte_alphabet.h"
#include "tokenizer/files/field.h"
#include "tokenizer/halt.h"
#include "tokenizer/pattern/split_pattern.h"
#include "tokenizer/tokens.h"
#include "tokenizer/vocab/vocab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* While the tables are filled; texts grow until they are whole. */
struct filling {
    struct token_texts *texts;
    const struct decoder_chain *chain;
    const struct vocab *vocab;
    struct split_matcher *matcher;
    struct error *error;
    struct rewritten all, first;
    struct rewritten text, other; /* of one token */
};

static void strip_ends(const struct decoder_strip *strip, struct rewritten *text)
{
    size_t at = 0;

    if (text->n_bytes == 0)
        return;
    for (uint32_t i = 0; i < strip->start_max && text->n_bytes - at >= strip->n &&
                         memcmp(text->bytes + at, strip->character, strip->n) == 0;
         i++)
        at += strip->n;
    for (uint32_t i = 0;
         i < strip->stop_max && text->n_bytes - at >= strip->n &&
         memcmp(text->bytes + text->n_bytes - strip->n, strip->character, strip->n) == 0;
         i++)
        text->n_bytes -= strip->n;
    memmove(text->bytes, text->bytes + at, text->n_bytes - at);
    text->n_bytes -= at;
}

/* <0xHH>, -1 when it is none. As in the tokenizers package, +H too. */
static int fallback_byte(const struct rewritten *text)
{
    char digits[3] = {0};
    char *end;

    if (text->n_bytes != 6 || memcmp(text->bytes, "<0x", 3) != 0 || text->bytes[5] != '>')
        return -1;
    memcpy(digits, text->bytes + 3, 2);
    if (strspn(digits, "+0123456789abcdefABCDEF") != 2 || digits[1] == '+')
        return -1;
    long byte = strtol(digits, &end, 16);
    return *end ? -1 : (int)byte;
}

/* Each kind makes text of a token's; and, where the first token differs, other. */

static enum status edit(struct filling *filling, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        const struct decoder_edit *edit = &filling->chain->edits[i];
        if (edit->strip.n > 0)
            strip_ends(&edit->strip, &filling->text);
        else
            TRY(replacement_apply(&edit->replacement, filling->matcher, &filling->text,
                                  filling->error));
    }
    return STATUS_OK;
}

static enum status make_pieces(struct filling *filling, uint32_t id)
{
    const struct decoder_chain *chain = filling->chain;

    TRY(edit(filling, 0, chain->n_first_edits));
    const int byte = chain->byte_fallback ? fallback_byte(&filling->text) : -1;
    if (byte < 0)
        return edit(filling, chain->n_first_edits, chain->n_edits);
    filling->text.bytes[0] = (char)byte;
    filling->text.n_bytes = 1;
    filling->texts->is_byte[id] = true;
    return STATUS_OK;
}

static void make_bytes(struct filling *filling)
{
    struct rewritten *text = &filling->text;
    uint8_t bytes[TOKEN_SPELLING_MAX];
    size_t n_bytes = byte_alphabet_read(text->bytes, text->n_bytes, bytes);

    if (n_bytes == NOT_BYTE_LEVEL)
        return;
    memcpy(text->bytes, bytes, n_bytes);
    text->n_bytes = n_bytes;
}

/* All that is written is replaced; the text never grows. */
static void replace_bytes(struct rewritten *text, const char *written, size_t n_written,
                          const char *by)
{
    const size_t n_by = strlen(by);
    size_t n_bytes = 0;

    assert(n_by <= n_written);
    for (size_t at = 0; at < text->n_bytes;) {
        if (text->n_bytes - at >= n_written && memcmp(text->bytes + at, written, n_written) == 0) {
            memcpy(text->bytes + n_bytes, by, n_by);
            n_bytes += n_by;
            at += n_written;
        } else {
            text->bytes[n_bytes++] = text->bytes[at++];
        }
    }
    text->n_bytes = n_bytes;
}

static void replace_all(struct rewritten *text, const char *written, const char *by)
{
    replace_bytes(text, written, strlen(written), by);
}

/* In the order of the tokenizers package. */
static void clean_up(struct rewritten *text)
{
    static const char *const changes[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };

    for (unsigned i = 0; i < sizeof changes / sizeof *changes; i++)
        replace_all(text, changes[i][0], changes[i][1]);
}

/* The token with a space before it, which of the first one is not there. */
static enum status make_spaced(struct filling *filling)
{
    struct rewritten *text = &filling->text, *other = &filling->other;

    TRY(rewritten_append(other, text->bytes, text->n_bytes, filling->error));
    text->n_bytes = 0;
    TRY(rewritten_append(text, " ", 1, filling->error));
    return rewritten_append(text, other->bytes, other->n_bytes, filling->error);
}

static enum status make_wordpiece(struct filling *filling)
{
    const struct affix *prefix = &filling->chain->affix;
    struct rewritten *text = &filling->text, *other = &filling->other;
    bool goes_on = text->n_bytes >= prefix->n && memcmp(text->bytes, prefix->bytes, prefix->n) == 0;

    TRY(make_spaced(filling));
    if (goes_on) {
        text->n_bytes -= 1 + prefix->n;
        memmove(text->bytes, text->bytes + 1 + prefix->n, text->n_bytes);
    }
    if (filling->chain->cleans_up) {
        clean_up(text);
        clean_up(other);
    }
    return STATUS_OK;
}

/* The suffix goes, which is a space if a token follows. Within a token it would be one, too: no vocabulary has that. */
static enum status make_suffix(struct filling *filling, uint32_t id)
{
    const struct affix *suffix = &filling->chain->affix;
    struct rewritten *text = &filling->text;

    if (text->n_bytes < suffix->n)
        return STATUS_OK;
    const size_t n_kept = text->n_bytes - suffix->n;
    for (size_t at = 0; at < n_kept; at++)
        if (memcmp(text->bytes + at, suffix->bytes, suffix->n) == 0)
            return error_set(filling->error, STATUS_UNSUPPORTED,
                             "tokenizer.json: decoder has the suffix \"%.*s\", which the token of "
                             "id %u has before its end",
                             (int)suffix->n, suffix->bytes, id);
    if (memcmp(text->bytes + n_kept, suffix->bytes, suffix->n) == 0) {
        text->n_bytes = n_kept;
        filling->texts->ends_word[id] = true;
    }
    return STATUS_OK;
}

static void make_ctc(struct filling *filling)
{
    const struct affix *padding = &filling->chain->affix, *delimiter = &filling->chain->delimiter;
    struct rewritten *text = &filling->text;

    replace_bytes(text, padding->bytes, padding->n, "");
    if (!filling->chain->cleans_up)
        return;
    clean_up(text);
    replace_bytes(text, delimiter->bytes, delimiter->n, " ");
}

static enum status make_text(struct filling *filling, uint32_t id)
{
    switch (filling->chain->kind) {
    case DECODER_PIECES:
        return make_pieces(filling, id);
    case DECODER_BYTES:
        make_bytes(filling);
        return STATUS_OK;
    case DECODER_WORDPIECE:
        return make_wordpiece(filling);
    case DECODER_SUFFIX:
        return make_suffix(filling, id);
    case DECODER_CTC:
        make_ctc(filling);
        return STATUS_OK;
    case DECODER_SPACED:
        break;
    }
    return make_spaced(filling);
}

static enum status put_text(struct filling *filling, uint32_t id, const struct rewritten *text,
                            struct rewritten *all, uint32_t *starts)
{
    if (text->n_bytes > TOKEN_BYTES_MAX)
        return error_set(
            filling->error, STATUS_UNSUPPORTED,
            "tokenizer.json: decoder makes %zu bytes of id %u; at most %d are supported",
            text->n_bytes, id, TOKEN_BYTES_MAX);
    TRY(rewritten_append(all, text->bytes, text->n_bytes, filling->error));
    starts[id + 1] = (uint32_t)all->n_bytes;
    return STATUS_OK;
}

static enum status fill_one(struct filling *filling, uint32_t id)
{
    struct token_texts *texts = filling->texts;
    size_t n_bytes;
    const char *bytes = (const char *)vocab_bytes(filling->vocab, id, &n_bytes);

    filling->text.n_bytes = filling->other.n_bytes = 0;
    if (n_bytes > 0) { /* else no token has the id */
        TRY(rewritten_append(&filling->text, bytes, n_bytes, filling->error));
        TRY(make_text(filling, id));
    }
    TRY(put_text(filling, id, &filling->text, &filling->all, texts->all.starts));
    if (!texts->first.starts)
        return STATUS_OK;
    return put_text(filling, id, &filling->other, &filling->first, texts->first.starts);
}

/* A byte more, so that a table of empty texts is there, too. */
static enum status fill_all(struct filling *filling)
{
    enum status status = STATUS_OK;

    for (uint32_t id = 0; id < filling->vocab->n_ids && status == STATUS_OK; id++)
        status = fill_one(filling, id);
    if (status == STATUS_OK)
        status = rewritten_append(&filling->all, "", 1, filling->error);
    if (status == STATUS_OK && filling->texts->first.starts)
        status = rewritten_append(&filling->first, "", 1, filling->error);
    return status;
}

static enum status allocate(struct token_texts *texts, enum decoder_kind kind, uint32_t n_ids)
{
    const bool has_first = kind == DECODER_WORDPIECE || kind == DECODER_SPACED;

    texts->all.starts = calloc(n_ids + (size_t)1, sizeof *texts->all.starts);
    texts->is_byte = calloc(n_ids, sizeof *texts->is_byte);
    if (has_first)
        texts->first.starts = calloc(n_ids + (size_t)1, sizeof *texts->first.starts);
    if (kind == DECODER_SUFFIX)
        texts->ends_word = calloc(n_ids, sizeof *texts->ends_word);
    return texts->all.starts && texts->is_byte && (!has_first || texts->first.starts) &&
                   (kind != DECODER_SUFFIX || texts->ends_word)
               ? STATUS_OK
               : STATUS_NO_MEMORY;
}

static enum status fill(struct token_texts *texts, const struct decoder_chain *chain,
                        const struct vocab *vocab, struct error *error)
{
    struct filling filling = {.texts = texts, .chain = chain, .vocab = vocab, .error = error};
    struct halt halt = {0};

    TRY(allocate(texts, chain->kind, vocab->n_ids));
    enum status status = split_matcher_create(TOKENIZER_FILE_BYTES_MAX, &halt, &filling.matcher);
    if (status == STATUS_OK)
        status = fill_all(&filling);
    if (status == STATUS_INVALID_ARGUMENT)
        status = error_set(
            error, STATUS_UNSUPPORTED,
            "tokenizer.json: decoder has a Replace that is beyond its limit for a token");
    split_matcher_destroy(filling.matcher);
    rewritten_finish(&filling.text);
    rewritten_finish(&filling.other);
    texts->all.bytes = (uint8_t *)filling.all.bytes;
    texts->first.bytes = (uint8_t *)filling.first.bytes;
    return status;
}

enum status token_texts_init(struct token_texts *texts, const struct field *decoder,
                             const struct vocab *vocab, struct error *error)
{
    struct decoder_chain chain;

    *texts = (struct token_texts){0};
    enum status status = decoder_chain_read(&chain, decoder, error);
    texts->is_byte_level = chain.kind == DECODER_BYTES;
    texts->leaves_out_repeats = chain.kind == DECODER_CTC;
    texts->drops_first = chain.drops_first;
    texts->n_space = chain.n_space;
    memcpy(texts->space, chain.space, sizeof texts->space);
    texts->spaces_runs = chain.spaces_runs;
    texts->runs = chain.runs;
    texts->whole = chain.whole;
    assert(status != STATUS_OK || !vocab->is_byte_level || texts->is_byte_level);
    if (status == STATUS_OK && !vocab->is_byte_level)
        status = fill(texts, &chain, vocab, error);
    decoder_chain_finish(&chain);
    if (status != STATUS_OK)
        token_texts_finish(texts);
    return status;
}

void token_texts_finish(struct token_texts *texts)
{
    free(texts->all.bytes);
    free(texts->all.starts);
    free(texts->first.bytes);
    free(texts->first.starts);
    free(texts->is_byte);
    free(texts->ends_word);
    *texts = (struct token_texts){0};
}
