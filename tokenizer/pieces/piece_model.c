/* Each kind reads its own fields of model; what a kind does not know is not looked at, as in the tokenizers package. */
#include "tokenizer/pieces/piece_model.h"

#include "tokenizer/files/byte_alphabet.h"
#include "tokenizer/files/field.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_PENALTY     10.0 /* of Unigram's scores */
#define WORD_CHARACTERS_MAX 100  /* of WordPiece, if the file does not say */
#define WORDPIECE_PREFIX    "##"

/* What reading a model needs. */
struct reading {
    struct piece_model *model;
    const struct field *field;
    const struct field *added;
    bool is_byte_level;
    struct error *error;
};

static const char *const KIND_NAMES[] = {
    [PIECE_BPE] = "BPE",
    [PIECE_UNIGRAM] = "Unigram",
    [PIECE_WORDPIECE] = "WordPiece",
    [PIECE_WORDLEVEL] = "WordLevel",
};

/* BPE */

/* A byte that may need the unknown token; TOKEN_NONE when there is none. */
static uint32_t byte_without_token(const struct piece_model *model)
{
    const struct vocab *vocab = model->vocab;

    for (uint32_t byte = 0; byte < 256; byte++) {
        bool has_token = vocab->is_byte_level && vocab->byte_ids[byte] != TOKEN_NONE;
        bool falls_back = model->bpe.byte_fallback && vocab->fallback_ids[byte] != TOKEN_NONE;
        if (!has_token && !falls_back)
            return byte;
    }
    return TOKEN_NONE;
}

/* byte_fallback of a byte-level vocabulary would fall back to the bytes of the alphabet's
 * characters, which the decoder does not take back. */
static enum status read_fallback(const struct reading *reading)
{
    struct piece_model *model = reading->model;
    struct field byte_fallback = field_member(reading->field, "byte_fallback");
    bool wanted = false;

    TRY(field_bool(&byte_fallback, reading->error, &wanted));
    model->bpe.byte_fallback = wanted && !model->vocab->is_byte_level;
    if (model->bpe.byte_fallback == wanted || byte_without_token(model) == TOKEN_NONE)
        return STATUS_OK;
    return error_set(reading->error, STATUS_UNSUPPORTED,
                     "%s is true with a byte-level vocabulary that lacks the byte 0x%02x, which is "
                     "not supported",
                     byte_fallback.path, byte_without_token(model));
}

/* The token that model.unk_token names; absent, or not in model.vocab: TOKEN_NONE. */
static enum status find_unknown(const struct reading *reading, struct field *field_out,
                                uint32_t *id_out)
{
    const char *text;
    size_t n_bytes;

    *id_out = TOKEN_NONE;
    *field_out = field_member(reading->field, "unk_token");
    if (field_is_absent(field_out))
        return STATUS_OK;
    TRY(field_text(field_out, reading->error, &text, &n_bytes));
    *id_out = vocab_find_text(reading->model->vocab, text, n_bytes);
    return STATUS_OK;
}

/* The tokenizers package looks for it in model.vocab alone, and only when a text needs it. */
static enum status read_unknown(const struct reading *reading)
{
    struct piece_model *model = reading->model;
    struct field fuse_unk = field_member(reading->field, "fuse_unk");
    struct field unk_token;

    TRY(field_bool(&fuse_unk, reading->error, &model->bpe.fuse_unk));
    TRY(find_unknown(reading, &unk_token, &model->bpe.unk_id));
    uint32_t byte = byte_without_token(model);
    if (field_is_absent(&unk_token) || model->bpe.unk_id != TOKEN_NONE || byte == TOKEN_NONE)
        return STATUS_OK;
    return error_set(
        reading->error, STATUS_CORRUPT,
        "%s is \"%.60s\", which model.vocab does not have, as little as the byte 0x%02x",
        unk_token.path, json_string_value(unk_token.value), byte);
}

/* A prefix or suffix, as bytes where the vocabulary is of bytes. n_text_out: as the file writes it. */
static enum status read_affix(const struct reading *reading, const char *name, struct affix *affix,
                              size_t *n_text_out)
{
    struct field field = field_member(reading->field, name);
    const char *text;
    size_t n_bytes;

    *n_text_out = 0;
    if (field_is_blank(&field))
        return STATUS_OK;
    TRY(field_text(&field, reading->error, &text, &n_bytes));
    if (n_bytes > AFFIX_BYTES_MAX)
        return error_set(reading->error, STATUS_UNSUPPORTED,
                         "%s has %zu bytes, at most %d are supported", field.path, n_bytes,
                         AFFIX_BYTES_MAX);
    if (reading->model->bpe.byte_fallback)
        return error_set(reading->error, STATUS_UNSUPPORTED,
                         "%s is set beside byte_fallback, which is not supported", field.path);
    memcpy(affix->bytes, text, n_bytes);
    affix->n = *n_text_out = n_bytes;
    if (!reading->is_byte_level)
        return STATUS_OK;
    affix->n = byte_alphabet_read(text, n_bytes, (uint8_t *)affix->bytes);
    if (affix->n != NOT_BYTE_LEVEL)
        return STATUS_OK;
    return error_set(reading->error, STATUS_UNSUPPORTED,
                     "%s is \"%s\", which bytes are not written with, though pre_tokenizer is "
                     "ByteLevel",
                     field.path, text);
}

static enum status refuse_dropout(const struct reading *reading)
{
    struct field dropout = field_member(reading->field, "dropout");
    bool is_zero = json_is_number(dropout.value) && !(json_number_value(dropout.value) > 0.0);

    if (field_is_absent(&dropout) || is_zero)
        return STATUS_OK;
    return error_set(reading->error, STATUS_UNSUPPORTED, "%s is set, which is not supported",
                     dropout.path);
}

static enum status read_bpe(const struct reading *reading)
{
    struct piece_model *model = reading->model;
    struct field vocab = field_member(reading->field, "vocab");
    struct field merges = field_member(reading->field, "merges");
    struct field ignore_merges = field_member(reading->field, "ignore_merges");
    size_t n_prefix, n_suffix;

    TRY(refuse_dropout(reading));
    TRY(field_bool(&ignore_merges, reading->error, &model->bpe.ignore_merges));
    TRY(vocab_create(&vocab, reading->added, reading->is_byte_level, reading->error,
                     &model->vocab));
    TRY(read_fallback(reading));
    TRY(read_unknown(reading));
    TRY(read_affix(reading, "continuing_subword_prefix", &model->bpe.prefix, &n_prefix));
    TRY(read_affix(reading, "end_of_word_suffix", &model->bpe.suffix, &n_suffix));
    return merges_init(&model->merges, &merges, model->vocab, n_prefix, reading->error);
}

/* Unigram */

/* One [text, score] of model.vocab; a text that comes twice has its later id. */
static enum status read_scored(const struct reading *reading, const struct field *vocab,
                               uint32_t id, json_t *ids)
{
    struct field pair = field_element(vocab, id);
    const json_t *text = json_array_get(pair.value, 0);
    const json_t *score = json_array_get(pair.value, 1);

    if (json_array_size(pair.value) != 2 || !json_is_string(text) || !json_is_number(score))
        return error_set(reading->error, STATUS_CORRUPT, "%s is not [text, score]", pair.path);
    if (json_object_getn(ids, json_string_value(text), json_string_length(text)))
        return error_set(reading->error, STATUS_UNSUPPORTED,
                         "%s is \"%.60s\", which an id before it has", pair.path,
                         json_string_value(text));
    double value = json_number_value(score);
    reading->model->unigram.scores[id] = value;
    if (id == 0 || value < reading->model->unigram.unknown_score)
        reading->model->unigram.unknown_score = value;
    return json_object_setn_new_nocheck(ids, json_string_value(text), json_string_length(text),
                                        json_integer(id)) == 0
               ? STATUS_OK
               : STATUS_NO_MEMORY;
}

static enum status read_unigram_unknown(const struct reading *reading, size_t n_tokens)
{
    struct field unk_id = field_member(reading->field, "unk_id");
    uint32_t *id = &reading->model->unigram.unk_id;

    *id = TOKEN_NONE;
    if (field_is_absent(&unk_id))
        return STATUS_OK;
    TRY(field_id(&unk_id, reading->error, id));
    if (*id < n_tokens)
        return STATUS_OK;
    return error_set(reading->error, STATUS_CORRUPT, "%s is %u, but model.vocab has %zu tokens",
                     unk_id.path, *id, n_tokens);
}

/* The array of vocab becomes an object, as the other kinds have, for the one reader of vocabularies. */
static enum status read_scored_vocab(const struct reading *reading, const struct field *vocab,
                                     json_t *ids)
{
    struct piece_model *model = reading->model;
    const size_t n_tokens = field_length(vocab);
    struct field known = *vocab;

    if (n_tokens > TOKENIZER_IDS_MAX)
        return error_set(reading->error, STATUS_UNSUPPORTED,
                         "%s has %zu tokens, at most %u are supported", vocab->path, n_tokens,
                         TOKENIZER_IDS_MAX);
    model->unigram.scores = calloc(n_tokens + 1, sizeof *model->unigram.scores);
    if (!model->unigram.scores || !ids)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < n_tokens; i++)
        TRY(read_scored(reading, vocab, (uint32_t)i, ids));
    model->unigram.unknown_score -= UNKNOWN_PENALTY;
    if (model->unigram.sums_in_float32)
        model->unigram.unknown_score = (double)(float)model->unigram.unknown_score;
    known.value = ids;
    return vocab_create(&known, reading->added, false, reading->error, &model->vocab);
}

static enum status read_unigram(const struct reading *reading)
{
    struct piece_model *model = reading->model;
    struct field vocab = field_member(reading->field, "vocab");
    struct field byte_fallback = field_member(reading->field, "byte_fallback");
    struct field bytes_in_text = field_member(reading->field,
                                              "bytes_in_text"); /* SentencePiece's are not */
    struct field float32 = field_member(reading->field, "sums_in_float32");
    bool has_bytes = true;

    TRY(field_need_array(&vocab, reading->error));
    TRY(read_unigram_unknown(reading, field_length(&vocab)));
    TRY(field_bool(&byte_fallback, reading->error, &model->unigram.byte_fallback));
    TRY(field_bool(&bytes_in_text, reading->error, &has_bytes));
    TRY(field_bool(&float32, reading->error, &model->unigram.sums_in_float32));
    json_t *ids = json_object();
    enum status status = read_scored_vocab(reading, &vocab, ids);
    json_decref(ids);
    return status == STATUS_OK ? token_trie_init(&model->trie, model->vocab, has_bytes) : status;
}

/* WordPiece and WordLevel */

static enum status read_word_vocab(const struct reading *reading, uint32_t *unk_id_out)
{
    struct field vocab = field_member(reading->field, "vocab");
    struct field unk_token;

    TRY(vocab_create(&vocab, reading->added, false, reading->error, &reading->model->vocab));
    return find_unknown(reading, &unk_token, unk_id_out);
}

static enum status read_characters_max(const struct reading *reading, uint64_t *max_out)
{
    struct field field = field_member(reading->field, "max_input_chars_per_word");
    json_int_t max = WORD_CHARACTERS_MAX;

    if (!field_is_absent(&field)) {
        max = json_integer_value(field.value);
        if (!json_is_integer(field.value) || max < 0)
            return error_set(reading->error, STATUS_CORRUPT,
                             "%s is not a whole number of 0 or more", field.path);
    }
    *max_out = (uint64_t)max;
    return STATUS_OK;
}

static enum status read_wordpiece(const struct reading *reading)
{
    struct piece_model *model = reading->model;
    struct wordpiece *wordpiece = &model->wordpiece;
    struct field prefix = field_member(reading->field, "continuing_subword_prefix");
    const char *text = WORDPIECE_PREFIX;
    size_t n_bytes = strlen(text);

    TRY(read_word_vocab(reading, &wordpiece->unk_id));
    TRY(read_characters_max(reading, &wordpiece->characters_max));
    if (!field_is_absent(&prefix))
        TRY(field_text(&prefix, reading->error, &text, &n_bytes));
    TRY(token_trie_init(&model->trie, model->vocab, true));
    wordpiece->trie = &model->trie;
    wordpiece->has_prefix = n_bytes > 0;
    wordpiece->continued = TOKEN_TRIE_ROOT;
    for (size_t i = 0; i < n_bytes; i++) {
        wordpiece->continued = token_trie_step(&model->trie, wordpiece->continued,
                                               (uint8_t)text[i]);
        if (wordpiece->continued == TOKEN_TRIE_NO_WAY)
            break;
    }
    return STATUS_OK;
}

/* The kind */

static bool find_kind(const char *name, enum piece_model_kind *kind_out)
{
    for (unsigned i = 0; i < sizeof KIND_NAMES / sizeof *KIND_NAMES; i++) {
        if (strcmp(name, KIND_NAMES[i]) == 0) {
            *kind_out = (enum piece_model_kind)i;
            return true;
        }
    }
    return false;
}

/* Files of old leave the type out; then it is BPE's merges that tell, and WordPiece's and Unigram's own fields. */
static enum piece_model_kind guess_kind(const struct field *field)
{
    if (json_object_get(field->value, "merges"))
        return PIECE_BPE;
    if (json_is_array(json_object_get(field->value, "vocab")))
        return PIECE_UNIGRAM;
    if (json_object_get(field->value, "continuing_subword_prefix"))
        return PIECE_WORDPIECE;
    return json_object_get(field->value, "unk_token") ? PIECE_WORDLEVEL : PIECE_BPE;
}

bool piece_model_is_bpe(const struct field *model_field)
{
    const char *type = json_string_value(json_object_get(model_field->value, "type"));
    return type ? strcmp(type, KIND_NAMES[PIECE_BPE]) == 0 : guess_kind(model_field) == PIECE_BPE;
}

enum status piece_model_read(struct piece_model *model, const struct field *model_field,
                             const struct field *added_field, bool is_byte_level,
                             struct error *error)
{
    const struct reading reading = {model, model_field, added_field, is_byte_level, error};
    struct field type_field = field_member(model_field, "type");

    TRY(field_need_object(model_field, error));
    model->kind = guess_kind(model_field);
    if (!field_is_absent(&type_field)) {
        const char *type;
        TRY(field_text(&type_field, error, &type, NULL));
        if (!find_kind(type, &model->kind))
            return field_refuse(&type_field, error, type);
    }
    assert(!is_byte_level || model->kind == PIECE_BPE);
    switch (model->kind) {
    case PIECE_BPE:
        return read_bpe(&reading);
    case PIECE_UNIGRAM:
        return read_unigram(&reading);
    case PIECE_WORDPIECE:
        return read_wordpiece(&reading);
    case PIECE_WORDLEVEL:
        break;
    }
    return read_word_vocab(&reading, &model->unk_id);
}

void piece_model_finish(struct piece_model *model)
{
    merges_finish(&model->merges);
    token_trie_finish(&model->trie);
    free(model->unigram.scores);
    vocab_destroy(model->vocab);
    *model = (struct piece_model){0};
}

/* Encoding */

void piece_encoder_init(struct piece_encoder *encoder, const struct piece_model *model,
                        struct token_buffer *tokens, struct halt *halt, struct error *error)
{
    *encoder = (struct piece_encoder){
        .model = model,
        .tokens = tokens,
        .error = error,
        .bpe = {.vocab = model->vocab,
                .merges = &model->merges,
                .rules = &model->bpe,
                .tokens = tokens,
                .halt = halt},
        .unigram = {.vocab = model->vocab,
                    .trie = &model->trie,
                    .rules = &model->unigram,
                    .tokens = tokens,
                    .halt = halt},
    };
}

void piece_encoder_finish(struct piece_encoder *encoder)
{
    bpe_finish(&encoder->bpe);
    unigram_finish(&encoder->unigram);
}

static enum status encode_word(const struct piece_encoder *encoder, const uint8_t *word,
                               size_t n_bytes)
{
    const struct piece_model *model = encoder->model;

    if (model->kind == PIECE_WORDPIECE)
        return wordpiece_encode(&model->wordpiece, word, n_bytes, encoder->tokens);
    uint32_t id = vocab_find(model->vocab, word, n_bytes);
    if (id == TOKEN_NONE)
        id = model->unk_id;
    if (id == TOKEN_NONE)
        return STATUS_INVALID_ARGUMENT;
    token_buffer_put(encoder->tokens, id);
    return STATUS_OK;
}

enum status piece_encode(struct piece_encoder *encoder, const char *piece, size_t n_bytes)
{
    const uint8_t *bytes = (const uint8_t *)piece;

    assert(n_bytes > 0);
    if (encoder->model->kind == PIECE_BPE)
        return bpe_encode(&encoder->bpe, bytes, n_bytes);
    if (encoder->model->kind == PIECE_UNIGRAM)
        return unigram_encode(&encoder->unigram, bytes, n_bytes, encoder->error);
    if (encode_word(encoder, bytes, n_bytes) == STATUS_OK)
        return STATUS_OK;
    return error_set(encoder->error, STATUS_INVALID_ARGUMENT,
                     "text has \"%.*s\", for which the tokenizer has no token",
                     n_bytes > 60 ? 60 : (int)n_bytes, piece);
}
