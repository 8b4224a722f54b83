#include "tokenizer/files/sentencepiece.h"

#include "base/utf8.h"
#include "tokenizer/files/piece_model.h"
#include "tokenizer/files/wire_reader.h"
#include "tokenizer/tokens.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reading */

static enum status refuse_bytes(const struct piece_model *model, const char *what)
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

static enum status grow(struct piece_model *model)
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

static enum status read_piece(struct piece_model *model, struct wire_reader reader)
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

static enum status read_trainer(struct piece_model *model, struct wire_reader reader)
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

static enum status read_normalizer(struct piece_model *model, struct wire_reader reader)
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

static enum status read_all(struct piece_model *model, const char *bytes, size_t n_bytes)
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

static enum status check(const struct piece_model *model)
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
    struct piece_model model = {.name = name,
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
        status = piece_model_fill(&model, config, root);
    if (status == STATUS_OK) {
        *config_out = piece_model_config(&model, config);
        *tokenizer_out = json_incref(root);
    }
    json_decref(root);
    free(model.pieces);
    return status;
}
