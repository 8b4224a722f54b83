/*
 * Two passes over the message: its settings first, then its pieces. BPE's merges follow from the scores; a normalizer that
 * SentencePiece has built in is the charsmap of the file.
 */
#include "tokenizer/files/sentencepiece.h"

#include "base/base64.h"
#include "base/utf8.h"
#include "tokenizer/files/document.h"
#include "tokenizer/files/scored_merges.h"
#include "tokenizer/files/wire_reader.h"
#include "tokenizer/tokens.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* T5's tokens for gaps, if the folder does not say how many, and the most that it may say. */
enum { GAPS = 100, GAPS_MAX = 1000 };

enum model_type { MODEL_UNIGRAM = 1, MODEL_BPE = 2, MODEL_WORD = 3, MODEL_CHARACTER = 4 };

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

struct model {
    const char *name;
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

/* Reading */

static enum status refuse_bytes(const struct model *model, const char *what)
{
    return error_set(model->error, STATUS_CORRUPT, "%s is no model of SentencePiece: %s",
                     model->name, what);
}

static struct wire_reader reader_of(const struct wire_field *field)
{
    return (struct wire_reader){field->bytes, field->bytes + field->n_bytes};
}

static float float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

static enum status grow(struct model *model)
{
    if (model->n_pieces < model->pieces_max)
        return STATUS_OK;
    if (model->n_pieces == TOKENIZER_IDS_MAX)
        return error_set(model->error, STATUS_UNSUPPORTED,
                         "%s has more than %u tokens, which is not supported", model->name,
                         TOKENIZER_IDS_MAX);
    const size_t pieces_max = model->pieces_max ? 2 * model->pieces_max : 4096;
    struct piece *pieces = realloc(model->pieces, pieces_max * sizeof *pieces);
    if (!pieces)
        return STATUS_NO_MEMORY;
    model->pieces = pieces;
    model->pieces_max = pieces_max;
    return STATUS_OK;
}

static enum status read_piece(struct model *model, struct wire_reader reader)
{
    struct piece piece = {.type = PIECE_NORMAL};
    struct wire_field field;
    bool is_bad;

    TRY(grow(model));
    while (wire_next(&reader, &field, &is_bad)) {
        if (field.number == 1 && field.type == WIRE_BYTES) {
            piece.text = (const char *)field.bytes;
            piece.n_bytes = field.n_bytes;
        } else if (field.number == 2 && field.type == WIRE_FIXED32) {
            piece.score = float_of(field.value);
        } else if (field.number == 3 && field.type == WIRE_VARINT && field.value <= PIECE_BYTE) {
            piece.type = (enum piece_type)field.value;
        }
    }
    const bool is_text = piece.n_bytes > 0 &&
                         utf8_first_invalid(piece.text, piece.n_bytes) == piece.n_bytes;
    if (is_bad || !is_text || !(piece.score - piece.score == 0.0F))
        return error_set(model->error, STATUS_CORRUPT,
                         "%s: token %zu has no text of UTF-8, or no finite score", model->name,
                         model->n_pieces);
    model->pieces[model->n_pieces++] = piece;
    return STATUS_OK;
}

static enum status read_trainer(struct model *model, struct wire_reader reader)
{
    struct wire_field field;
    bool is_bad;

    while (wire_next(&reader, &field, &is_bad)) {
        if (field.type != WIRE_VARINT)
            continue;
        switch (field.number) {
        case 3:
            model->type = field.value;
            break;
        case 24:
            model->has_suffixes = field.value;
            break;
        case 35:
            model->byte_fallback = field.value;
            break;
        case 40:
            model->unk = field.value;
            break;
        case 41:
            model->bos = field.value;
            break;
        case 42:
            model->eos = field.value;
            break;
        case 43:
            model->pad = field.value;
            break;
        default:
            break;
        }
    }
    return is_bad ? refuse_bytes(model, "its trainer_spec is cut") : STATUS_OK;
}

static enum status read_normalizer(struct model *model, struct wire_reader reader)
{
    struct wire_field field;
    bool is_bad;

    while (wire_next(&reader, &field, &is_bad)) {
        if (field.number == 2 && field.type == WIRE_BYTES) {
            model->charsmap = field.bytes;
            model->n_charsmap = field.n_bytes;
        } else if (field.number == 3 && field.type == WIRE_VARINT) {
            model->prepends = field.value;
        } else if (field.number == 4 && field.type == WIRE_VARINT) {
            model->collapses = field.value;
        } else if (field.number == 5 && field.type == WIRE_VARINT) {
            model->escapes = field.value;
        }
    }
    return is_bad ? refuse_bytes(model, "its normalizer_spec is cut") : STATUS_OK;
}

static enum status read_all(struct model *model, const char *bytes, size_t n_bytes)
{
    const uint8_t *start = (const uint8_t *)bytes;
    struct wire_reader reader = {start, start + n_bytes};
    struct wire_field field;
    bool is_bad;

    while (wire_next(&reader, &field, &is_bad)) {
        if (field.type != WIRE_BYTES)
            continue;
        if (field.number == 1)
            TRY(read_piece(model, reader_of(&field)));
        else if (field.number == 2)
            TRY(read_trainer(model, reader_of(&field)));
        else if (field.number == 3)
            TRY(read_normalizer(model, reader_of(&field)));
    }
    if (is_bad)
        return refuse_bytes(model, "a field is cut, or of no known type");
    return model->n_pieces > 0 ? STATUS_OK : refuse_bytes(model, "it has no tokens");
}

static enum status check(const struct model *model)
{
    static const char *const names[] = {[MODEL_WORD] = "WORD", [MODEL_CHARACTER] = "CHAR"};

    if (model->type == MODEL_WORD || model->type == MODEL_CHARACTER)
        return error_set(model->error, STATUS_UNSUPPORTED,
                         "%s: model_type is %s, supported are UNIGRAM and BPE", model->name,
                         names[model->type]);
    if (model->type != MODEL_UNIGRAM && model->type != MODEL_BPE)
        return error_set(model->error, STATUS_CORRUPT,
                         "%s: model_type is %" PRIu64 ", there are 1 to 4", model->name,
                         model->type);
    if (!model->escapes || model->has_suffixes)
        return error_set(
            model->error, STATUS_UNSUPPORTED, "%s: %s, which is not supported", model->name,
            model->escapes ? "treat_whitespace_as_suffix is true" : "escape_whitespaces is false");
    return STATUS_OK;
}

/* Writing */

static bool is_added(enum piece_type type)
{
    return type == PIECE_UNKNOWN || type == PIECE_CONTROL || type == PIECE_OF_USER;
}

static bool has_piece(const struct model *model, uint64_t id)
{
    return id < model->n_pieces;
}

static struct document_token token_of(const struct model *model, uint64_t id)
{
    return (struct document_token){id, model->pieces[id].text, model->pieces[id].n_bytes};
}

static bool has_gaps(const struct model *model)
{
    static const char GAP[] = "<extra_id_";

    for (size_t id = 0; id < model->n_pieces; id++)
        if (model->pieces[id].n_bytes >= sizeof GAP &&
            memcmp(model->pieces[id].text, GAP, sizeof GAP - 1) == 0)
            return true;
    return false;
}

static json_t *text_of(const struct model *model, uint64_t id)
{
    return json_stringn(model->pieces[id].text, model->pieces[id].n_bytes);
}

static bool flag_of(const json_t *config, const char *name, bool otherwise)
{
    const json_t *value = json_object_get(config, name);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static bool is_class(const json_t *config, const char *part)
{
    const char *name = json_string_value(json_object_get(config, "tokenizer_class"));
    return name && strstr(name, part) != NULL;
}

/* T5's tokens for gaps, which stand behind the pieces, the first one last. A folder may say how many, and a model may have them. */
static void add_gaps(const struct model *model, const json_t *config, json_t *list)
{
    const json_t *told = json_object_get(config, "extra_ids");
    const json_int_t wanted = json_is_integer(told) ? json_integer_value(told) : GAPS;
    const size_t n = wanted > 0 && wanted <= GAPS_MAX ? (size_t)wanted : 0;

    if (!is_class(config, "T5") || has_gaps(model))
        return;
    for (size_t i = 0; i < n; i++) {
        char text[32];
        const int n_bytes = snprintf(text, sizeof text, "<extra_id_%zu>", n - 1 - i);
        const struct document_token token = {model->n_pieces + i, text, (size_t)n_bytes};
        json_array_append_new(list, document_added_token(&token, true));
    }
}

static json_t *added_tokens(const struct model *model, const json_t *config)
{
    json_t *list = json_array();

    for (size_t id = 0; id < model->n_pieces; id++) {
        const struct document_token token = token_of(model, id);
        if (is_added(model->pieces[id].type))
            json_array_append_new(
                list, document_added_token(&token, model->pieces[id].type != PIECE_OF_USER));
    }
    add_gaps(model, config, list);
    return list;
}

static enum status add_charsmap(const struct model *model, json_t *normalizers)
{
    if (model->n_charsmap == 0)
        return STATUS_OK;
    char *text = base64_encode(model->charsmap, model->n_charsmap);
    if (!text)
        return STATUS_NO_MEMORY;
    json_array_append_new(normalizers, json_pack("{s:s, s:b, s:s}", "type", "Precompiled",
                                                 "takes_longest", 1, "precompiled_charsmap", text));
    free(text);
    return STATUS_OK;
}

/* As SentencePiece does it: the charsmap, then spaces at the ends go and several become one, then one comes in front, and all are
 * written as U+2581. */
static json_t *normalizers(const struct model *model, bool prepends)
{
    json_t *list = json_array(), *spaces = document_space_normalizers(prepends);

    if (add_charsmap(model, list) != STATUS_OK) {
        json_decref(list);
        list = NULL;
    }
    if (model->collapses) {
        json_array_append_new(list, json_pack("{s:s, s:b}", "type", "Strip", "only_spaces", 1));
        json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern",
                                              "Regex", " {2,}", "content", " "));
    }
    json_array_extend(list, spaces);
    json_decref(spaces);
    return list ? document_sequence("normalizers", list) : NULL;
}

/* Metaspace puts the space in front of a text alone where the folder says legacy: false, not of what follows a special token. */
static json_t *pre_tokenizer(bool prepends_first)
{
    if (!prepends_first)
        return json_null();
    return json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", DOCUMENT_SPACE,
                     "prepend_scheme", "first", "split", 0);
}

static enum status add_merges(const struct model *model, json_t *list)
{
    struct scored_token *tokens = calloc(model->n_pieces, sizeof *tokens);
    size_t n = 0;

    if (!tokens)
        return STATUS_NO_MEMORY;
    for (size_t id = 0; id < model->n_pieces; id++) {
        const struct piece *piece = &model->pieces[id];
        if (piece->type == PIECE_NORMAL || piece->type == PIECE_OF_USER)
            tokens[n++] = (struct scored_token){piece->text, piece->n_bytes, piece->score};
    }
    enum status status = scored_merges_add(tokens, n, list);
    free(tokens);
    return status;
}

static enum status fill_bpe(const struct model *model, json_t *part)
{
    json_t *vocab = json_object(), *merges = json_array();

    json_object_set_new(part, "type", json_string("BPE"));
    json_object_set_new(part, "fuse_unk", json_true());
    json_object_set_new(part, "byte_fallback", json_boolean(model->byte_fallback));
    if (has_piece(model, model->unk))
        json_object_set_new(part, "unk_token", text_of(model, model->unk));
    json_object_set_new(part, "vocab", vocab);
    json_object_set_new(part, "merges", merges);
    for (size_t id = 0; id < model->n_pieces; id++) {
        const struct piece *piece = &model->pieces[id];
        if (json_object_getn(vocab, piece->text, piece->n_bytes))
            return error_set(model->error, STATUS_CORRUPT,
                             "%s has the token \"%.*s\" twice, %zu is the second", model->name,
                             piece->n_bytes > 60 ? 60 : (int)piece->n_bytes, piece->text, id);
        if (json_object_setn_new(vocab, piece->text, piece->n_bytes,
                                 json_integer((json_int_t)id)) != 0)
            return STATUS_NO_MEMORY;
    }
    return add_merges(model, merges);
}

static enum status fill_unigram(const struct model *model, json_t *part)
{
    json_t *vocab = json_array();

    json_object_set_new(part, "type", json_string("Unigram"));
    json_object_set_new(part, "byte_fallback", json_boolean(model->byte_fallback));
    json_object_set_new(part, "bytes_in_text", json_false());
    json_object_set_new(part, "sums_in_float32", json_true());
    if (has_piece(model, model->unk))
        json_object_set_new(part, "unk_id", json_integer((json_int_t)model->unk));
    json_object_set_new(part, "vocab", vocab);
    for (size_t id = 0; id < model->n_pieces; id++)
        if (json_array_append_new(vocab, json_pack("[o, f]", text_of(model, id),
                                                   (double)model->pieces[id].score)) != 0)
            return STATUS_NO_MEMORY;
    return STATUS_OK;
}

/* What stands around a text if the folder does not say: bos before it of BPE, as Llama has it; eos behind it of T5. */
static json_t *post_processor(const struct model *model, const json_t *config)
{
    struct document_token before = {0}, after = {0};

    if (flag_of(config, "add_bos_token", model->type == MODEL_BPE) && has_piece(model, model->bos))
        before = token_of(model, model->bos);
    if (flag_of(config, "add_eos_token", is_class(config, "T5")) && has_piece(model, model->eos))
        after = token_of(model, model->eos);
    return document_template(&before, &after);
}

static enum status fill(const struct model *model, const json_t *config, json_t *root)
{
    const bool prepends_first = model->prepends && !flag_of(config, "legacy", true);
    json_t *part = json_object();

    json_object_set_new(root, "version", json_string("1.0"));
    json_object_set_new(root, "added_tokens", added_tokens(model, config));
    json_object_set_new(root, "normalizer", normalizers(model, model->prepends && !prepends_first));
    json_object_set_new(root, "pre_tokenizer", pre_tokenizer(prepends_first));
    json_object_set_new(root, "post_processor", post_processor(model, config));
    json_object_set_new(root, "decoder", document_space_decoder(model->prepends));
    json_object_set_new(root, "model", part);
    if (!part || !json_object_get(root, "normalizer"))
        return STATUS_NO_MEMORY;
    return model->type == MODEL_BPE ? fill_bpe(model, part) : fill_unigram(model, part);
}

/* The names of special tokens that the folder does not give. */
static json_t *complete_config(const struct model *model, const json_t *config)
{
    const struct {
        const char *name;
        uint64_t id;
    } names[] = {{"bos_token", model->bos},
                 {"eos_token", model->eos},
                 {"unk_token", model->unk},
                 {"pad_token", model->pad}};
    json_t *made = config ? json_copy((json_t *)(uintptr_t)config) : json_object();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!json_object_get(config, names[i].name) && has_piece(model, names[i].id) &&
            is_added(model->pieces[names[i].id].type))
            json_object_set_new(made, names[i].name, text_of(model, names[i].id));
    return made;
}

/* "IQ== 0" and so on: tiktoken's files have that name in places, too. */
static bool is_tiktoken(const char *bytes, size_t n_bytes)
{
    size_t at = 0;

    while (at < n_bytes && at < 64 &&
           (isalnum((unsigned char)bytes[at]) || strchr("+/=", bytes[at])) && bytes[at] != '\0')
        at++;
    return at > 0 && at % 4 == 0 && at + 2 < n_bytes && bytes[at] == ' ' &&
           isdigit((unsigned char)bytes[at + 1]);
}

enum status sentencepiece_read(const char *bytes, size_t n_bytes, const char *name,
                               const json_t *config, struct error *error, json_t **tokenizer_out,
                               json_t **config_out)
{
    struct model model = {.name = name,
                          .error = error,
                          .type = MODEL_UNIGRAM,
                          .prepends = true,
                          .collapses = true,
                          .escapes = true,
                          .bos = 1,
                          .eos = 2,
                          .pad = UINT64_MAX};
    json_t *root = json_object();

    *tokenizer_out = *config_out = NULL;
    enum status status = root ? STATUS_OK : STATUS_NO_MEMORY;
    if (is_tiktoken(bytes, n_bytes))
        status = error_set(error, STATUS_UNSUPPORTED,
                           "%s is a table of tiktoken, which does not say how text is split: let "
                           "Transformers write a tokenizer.json",
                           name);
    if (status == STATUS_OK)
        status = read_all(&model, bytes, n_bytes);
    if (status == STATUS_OK)
        status = check(&model);
    if (status == STATUS_OK)
        status = fill(&model, config, root);
    if (status == STATUS_OK) {
        *config_out = complete_config(&model, config);
        *tokenizer_out = json_incref(root);
    }
    json_decref(root);
    free(model.pieces);
    return status;
}
