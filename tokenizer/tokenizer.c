/*
 * A text goes through the stages depth first, a stretch at a time:
 *
 *     encode_set(plain) -> encode_normalized -> encode_set(normalized) -> encode_plain -> pieces
 *
 * Ids of added tokens are put between the stretches as they come.
 */
#include "tokenizer/tokenizer.h"

#include "base/utf8.h"
#include "tokenizer/added/special_barriers.h"
#include "tokenizer/normalizer/normalizer.h"
#include "tokenizer/tokenizer_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void tokenizer_destroy(struct tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    added_tokens_finish(&tokenizer->added);
    token_texts_finish(&tokenizer->texts);
    splitter_finish(&tokenizer->splitter);
    normalizer_finish(&tokenizer->normalizer);
    piece_model_finish(&tokenizer->model);
    free(tokenizer);
}

/* One call of tokenizer_encode. */
struct encoding {
    const struct tokenizer *tokenizer;
    const char *start; /* of the whole text */
    bool is_first;     /* the stretch that is being encoded begins there */
    bool skip_special;
    struct special_barriers barriers; /* places in the whole text */
    uint32_t mark;
    struct error *error;
    struct halt halt;
    struct split_matcher *matcher;
    struct split_run run;
    struct piece_encoder encoder;
};

static enum status encode_piece(void *arg, const char *piece, size_t n_bytes)
{
    return piece_encode(arg, piece, n_bytes);
}

typedef enum status (*encode_text)(struct encoding *encoding, const char *text, size_t n_bytes);

static enum status encode_plain(struct encoding *encoding, const char *text, size_t n_bytes)
{
    return split_run(&encoding->run, text, n_bytes, encoding->is_first);
}

/* A text and the barriers in it. */
struct stretch {
    const char *text;
    size_t n_bytes;
    struct special_barriers barriers;
};

/* Looks for the added tokens of a set; what lies between them goes to rest. */
static enum status encode_set(struct encoding *encoding, const struct byte_tree *set,
                              const struct stretch *stretch, encode_text rest)
{
    const char *text = stretch->text;
    struct added_search search = {.added = &encoding->tokenizer->added,
                                  .set = set,
                                  .barriers = stretch->barriers,
                                  .matcher = encoding->matcher,
                                  .skip_special = encoding->skip_special,
                                  .text = text,
                                  .n_bytes = stretch->n_bytes};
    uint32_t id;

    do {
        size_t range[2];
        TRY(added_search_next(&search, encoding->error, range, &id));
        encoding->is_first &= range[0] == 0;
        if (range[1] > range[0])
            TRY(rest(encoding, text + range[0], range[1] - range[0]));
        if (id != TOKEN_NONE)
            token_buffer_put(encoding->encoder.tokens, id);
    } while (id != TOKEN_NONE);
    return STATUS_OK;
}

/* Where the barriers of a stretch are once it is normalized: its text with the marks is normalized, too, and must be the same but
 * for them. The caller frees places_out. */
static enum status find_normal_barriers(struct encoding *encoding, const char *text, size_t n_bytes,
                                        const struct rewritten *normal, size_t **places_out,
                                        size_t *n_places_out)
{
    const size_t offset = (size_t)(text - encoding->start);
    const struct special_barriers within = special_barriers_within(&encoding->barriers, offset,
                                                                   offset + n_bytes);
    struct rewritten marked = {0}, normal_marked = {0};
    char sign[4], *clean = NULL;
    size_t sign_bytes = utf8_write(encoding->mark, sign), done = 0, n_clean = 0;
    enum status status = STATUS_OK;

    for (size_t i = 0; i <= within.n && status == STATUS_OK; i++) {
        size_t until = i < within.n ? within.places[i] - offset : n_bytes;
        status = rewritten_append(&marked, text + done, until - done, encoding->error);
        if (status == STATUS_OK && i < within.n)
            status = rewritten_append(&marked, sign, sign_bytes, encoding->error);
        done = until;
    }
    if (status == STATUS_OK)
        status = normalizer_run(&encoding->tokenizer->normalizer, encoding->matcher, marked.bytes,
                                marked.n_bytes, encoding->error, &normal_marked);
    if (status == STATUS_OK)
        status = special_marks_take(normal_marked.bytes, normal_marked.n_bytes, encoding->mark,
                                    &clean, &n_clean, places_out, n_places_out);
    if (status == STATUS_OK && (*n_places_out != within.n || n_clean != normal->n_bytes ||
                                memcmp(clean, normal->bytes, n_clean) != 0)) {
        free(*places_out);
        status = error_set(encoding->error, STATUS_INVALID_ARGUMENT,
                           "a special token in the text stands where normalization changes it");
    }
    free(clean);
    rewritten_finish(&normal_marked);
    rewritten_finish(&marked);
    return status;
}

/* What a normalizer has made of a stretch of the text. */
static enum status encode_stretch(struct encoding *encoding, const char *text, size_t n_bytes,
                                  const struct rewritten *normal)
{
    const struct added_tokens *added = &encoding->tokenizer->added;
    struct stretch stretch = {normal->bytes, normal->n_bytes, {0}};
    size_t *places = NULL;
    if (encoding->barriers.n > 0 && added->has_normalized_special) {
        TRY(find_normal_barriers(encoding, text, n_bytes, normal, &places, &stretch.barriers.n));
        stretch.barriers.places = places;
    }
    enum status status = encode_set(encoding, &added->normalized, &stretch, encode_plain);
    free(places);
    return status;
}

/* The same without a normalizer. */
static enum status encode_same(struct encoding *encoding, const char *text, size_t n_bytes)
{
    const size_t offset = (size_t)(text - encoding->start);
    struct special_barriers within = special_barriers_within(&encoding->barriers, offset,
                                                             offset + n_bytes);
    size_t *places = NULL;
    if (within.n > 0) {
        places = malloc(within.n * sizeof *places);
        if (!places)
            return STATUS_NO_MEMORY;
        for (size_t i = 0; i < within.n; i++)
            places[i] = within.places[i] - offset;
    }
    const struct stretch stretch = {text, n_bytes, {places, within.n}};
    enum status status = encode_set(encoding, &encoding->tokenizer->added.normalized, &stretch,
                                    encode_plain);
    free(places);
    return status;
}

static enum status encode_normalized(struct encoding *encoding, const char *text, size_t n_bytes)
{
    struct rewritten normal;

    TRY(normalizer_run(&encoding->tokenizer->normalizer, encoding->matcher, text, n_bytes,
                       encoding->error, &normal));
    encoding->is_first = text == encoding->start && !normal.is_moved;
    bool is_rewritten = encoding->tokenizer->normalizer.n_steps > 0;
    enum status status = STATUS_OK;
    if (!is_rewritten)
        status = encode_same(encoding, text, n_bytes);
    else if (normal.n_bytes > 0)
        status = encode_stretch(encoding, text, n_bytes, &normal);
    rewritten_finish(&normal);
    return status;
}

static void put_side(struct token_buffer *tokens, const struct template_side *side)
{
    for (uint32_t i = 0; i < side->n_ids; i++)
        token_buffer_put(tokens, side->ids[i]);
}

/* steps_out: what the patterns spent; NULL: nobody asks. */
static enum status encode_all(const struct tokenizer *tokenizer, const struct encode_input *input,
                              const struct special_barriers *barriers, struct token_buffer *tokens,
                              struct error *error, uint64_t *steps_out)
{
    struct encoding encoding = {.tokenizer = tokenizer,
                                .start = input->text,
                                .skip_special = !input->parse_special,
                                .barriers = *barriers,
                                .mark = input->mark,
                                .error = error,
                                .halt = {.ask = input->is_unwanted, .arg = input->arg}};

    piece_encoder_init(&encoding.encoder, &tokenizer->model, tokens, &encoding.halt, error);
    TRY(split_matcher_create(input->text_bytes, &encoding.halt, &encoding.matcher));
    encoding.run = (struct split_run){.splitter = &tokenizer->splitter,
                                      .matcher = encoding.matcher,
                                      .error = error,
                                      .emit = encode_piece,
                                      .arg = &encoding.encoder};
    const struct stretch whole = {input->text, input->text_bytes, *barriers};
    enum status status = encode_set(&encoding, &tokenizer->added.plain, &whole, encode_normalized);
    piece_encoder_finish(&encoding.encoder);
    split_run_finish(&encoding.run);
    if (steps_out)
        *steps_out = split_matcher_spent(encoding.matcher);
    split_matcher_destroy(encoding.matcher);
    return status;
}

/* The marks are taken out first, and their places kept. */
static enum status encode_marked(const struct tokenizer *tokenizer,
                                 const struct encode_input *input, struct token_buffer *tokens,
                                 struct error *error)
{
    struct encode_input clean = *input;
    struct special_barriers barriers = {0};
    char *text = NULL;
    size_t *places = NULL;

    if (input->mark != 0) {
        TRY(special_marks_take(input->text, input->text_bytes, input->mark, &text,
                               &clean.text_bytes, &places, &barriers.n));
        clean.text = text;
        barriers.places = places;
    }
    enum status status = STATUS_OK;
    if (clean.text_bytes > 0)
        status = encode_all(tokenizer, &clean, &barriers, tokens, error, NULL);
    free(places);
    free(text);
    return status;
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, const struct encode_input *input,
                             struct token_buffer *tokens_inout, struct error *error)
{
    size_t n_bytes = input->text_bytes;
    assert(tokenizer && (input->text || n_bytes == 0));

    tokens_inout->n_ids = 0;
    if (n_bytes > TOKENIZER_TEXT_BYTES_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "text has %zu bytes, at most %zu are read",
                         n_bytes, TOKENIZER_TEXT_BYTES_MAX);
    size_t invalid = n_bytes == 0 ? 0 : utf8_first_invalid(input->text, n_bytes);
    if (invalid < n_bytes)
        return error_set(error, STATUS_INVALID_ARGUMENT, "text is not UTF-8 at byte %zu", invalid);

    if (input->add_special)
        put_side(tokens_inout, &tokenizer->template.before);
    if (n_bytes > 0)
        TRY(encode_marked(tokenizer, input, tokens_inout, error));
    if (input->add_special)
        put_side(tokens_inout, &tokenizer->template.after);
    if (tokens_inout->ids && tokens_inout->n_ids > tokens_inout->ids_max)
        return error_set(error, STATUS_PROMPT_TOO_LONG, "text has %zu tokens, at most %zu fit",
                         tokens_inout->n_ids, tokens_inout->ids_max);
    return STATUS_OK;
}

enum status tokenizer_split_steps(const struct tokenizer *tokenizer, const char *text,
                                  size_t n_bytes, struct error *error, uint64_t *steps_out)
{
    const struct encode_input input = {.text = text, .text_bytes = n_bytes};
    struct token_buffer counted = {0};
    assert(n_bytes > 0 && n_bytes <= TOKENIZER_TEXT_BYTES_MAX);
    return encode_all(tokenizer, &input, &(struct special_barriers){0}, &counted, error, steps_out);
}

uint32_t tokenizer_n_ids(const struct tokenizer *tokenizer)
{
    return tokenizer->model.vocab->n_ids;
}

const char *tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id,
                                  size_t *n_bytes_out)
{
    const struct token_texts *texts = &tokenizer->texts;
    assert(id < tokenizer->model.vocab->n_ids);

    if (!texts->all.bytes)
        return (const char *)vocab_bytes(tokenizer->model.vocab, id, n_bytes_out);
    *n_bytes_out = texts->all.starts[id + 1] - texts->all.starts[id];
    return (const char *)texts->all.bytes + texts->all.starts[id];
}

size_t tokenizer_token_text(const struct tokenizer *tokenizer, uint32_t id,
                            char text_out[TOKEN_BYTES_MAX])
{
    const struct token_texts *texts = &tokenizer->texts;
    size_t n_bytes, n_text = 0;
    const char *bytes = tokenizer_token_bytes(tokenizer, id, &n_bytes);
    if (tokenizer->model.vocab->flags[id] & TOKEN_FLAG_HOLE)
        return 0;
    assert(n_bytes <= TOKEN_BYTES_MAX);
    for (size_t at = 0; at < n_bytes;) {
        const bool is_space = texts->n_space > 0 && n_bytes - at >= texts->n_space &&
                              memcmp(bytes + at, texts->space, texts->n_space) == 0;
        text_out[n_text++] = is_space ? ' ' : bytes[at];
        at += is_space ? texts->n_space : 1;
    }
    return n_text;
}

/* It leaves out blanks at the ends, if anything. */
static bool only_trims(const struct text_steps *steps)
{
    for (unsigned i = 0; i < steps->n; i++) {
        const struct text_step *step = &steps->steps[i];
        if (step->kind != TEXT_STEP_STRIP || step->n_bytes != 1 || step->bytes[0] != ' ')
            return false;
    }
    return true;
}

bool tokenizer_texts_join(const struct tokenizer *tokenizer)
{
    const struct token_texts *texts = &tokenizer->texts;
    return !texts->ends_word && !texts->leaves_out_repeats && !texts->first.starts &&
           texts->runs.n == 0 && only_trims(&texts->whole);
}

bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id)
{
    assert(id < tokenizer->model.vocab->n_ids);
    return tokenizer->model.vocab->flags[id] & TOKEN_FLAG_SPECIAL;
}

struct special_ids tokenizer_special_ids(const struct tokenizer *tokenizer)
{
    return tokenizer->special_ids;
}

void tokenizer_digest(const struct tokenizer *tokenizer, uint8_t digest_out[TOKENIZER_DIGEST_BYTES])
{
    memcpy(digest_out, tokenizer->digest, TOKENIZER_DIGEST_BYTES);
}
