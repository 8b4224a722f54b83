#include "tokenizer/decoder/decoder_chain.h"

#include "tokenizer/files/field.h"
#include "tokenizer/pre_tokenizer/metaspace.h"

#include <string.h>

#define NESTING_MAX    8
#define STRIP_CUTS_MAX 1024

/* How far the chain is; each may only be followed by later ones. */
enum stage { STAGE_EDIT, STAGE_BYTE_FALLBACK, STAGE_METASPACE, STAGE_FUSE, STAGE_STRIP };

struct reading {
    struct decoder_chain *chain;
    enum stage stage;
    unsigned n_read;
    bool is_alone; /* only Fuse may come */
    struct error *error;
};

static enum status next_edit(struct reading *reading, const struct field *field,
                             struct decoder_edit **edit_out)
{
    struct decoder_chain *chain = reading->chain;

    if (chain->n_edits == DECODER_EDITS_MAX)
        return error_set(reading->error, STATUS_UNSUPPORTED,
                         "%s is one too many, at most %d are supported", field->path,
                         DECODER_EDITS_MAX);
    *edit_out = &chain->edits[chain->n_edits++];
    return STATUS_OK;
}

static enum status read_count(const struct field *field, struct error *error, uint32_t *count_out)
{
    json_int_t count = json_integer_value(field->value);

    if (!json_is_integer(field->value) || count < 0 || count > STRIP_CUTS_MAX)
        return error_set(error, STATUS_CORRUPT, "%s is not a whole number of 0 to %d", field->path,
                         STRIP_CUTS_MAX);
    *count_out = (uint32_t)count;
    return STATUS_OK;
}

/* Strip at the end would hold back all text of a stream, and nobody uses it. */
static enum status read_strip(struct reading *reading, const struct field *field)
{
    struct field content = field_member(field, "content");
    struct field start = field_member(field, "start");
    struct field stop = field_member(field, "stop");
    struct decoder_strip strip = {0};
    struct decoder_edit *edit;
    uint32_t n_stop;

    TRY(field_character(&content, reading->error, strip.character, &strip.n));
    TRY(read_count(&start, reading->error, &strip.count_max));
    TRY(read_count(&stop, reading->error, &n_stop));
    if (n_stop > 0)
        return error_set(reading->error, STATUS_UNSUPPORTED, "%s is %u, only 0 is supported",
                         stop.path, n_stop);
    if (reading->stage == STAGE_EDIT) {
        TRY(next_edit(reading, field, &edit));
        edit->strip = strip;
        return STATUS_OK;
    }
    reading->chain->strip = strip;
    return STATUS_OK;
}

static enum status read_metaspace(struct reading *reading, const struct field *field)
{
    struct decoder_chain *chain = reading->chain;
    enum prepend_scheme scheme;

    TRY(metaspace_read(field, reading->error, chain->space, &chain->n_space, &scheme));
    chain->drops_first = scheme != PREPEND_NEVER;
    return STATUS_OK;
}

static enum status read_stage(struct reading *reading, const struct field *field, enum stage stage)
{
    struct decoder_edit *edit;

    switch (stage) {
    case STAGE_EDIT:
        TRY(next_edit(reading, field, &edit));
        return replacement_init(&edit->replacement, field, reading->error);
    case STAGE_BYTE_FALLBACK:
        reading->chain->byte_fallback = true;
        return STATUS_OK;
    case STAGE_METASPACE:
        return read_metaspace(reading, field);
    case STAGE_FUSE:
        break;
    case STAGE_STRIP:
        return read_strip(reading, field);
    }
    return STATUS_OK;
}

/* False: no such type. */
static bool find_stage(const char *type, enum stage *stage_out)
{
    static const struct {
        const char *type;
        enum stage stage;
    } known[] = {{"Replace", STAGE_EDIT},
                 {"ByteFallback", STAGE_BYTE_FALLBACK},
                 {"Metaspace", STAGE_METASPACE},
                 {"Fuse", STAGE_FUSE},
                 {"Strip", STAGE_STRIP}};

    for (unsigned i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(type, known[i].type) == 0) {
            *stage_out = known[i].stage;
            return true;
        }
    }
    return false;
}

/* Whether a stage may come where the chain is. Strip is also one of the edits; only edits and Fuse
 * come again. */
static bool is_in_order(const struct reading *reading, enum stage stage)
{
    if (stage == STAGE_STRIP)
        return reading->stage == STAGE_EDIT || reading->stage == STAGE_FUSE;
    if (stage == STAGE_EDIT || stage == STAGE_FUSE)
        return reading->stage <= stage;
    return reading->stage < stage;
}

/* The prefix or suffix of words; a blank one is refused where every token would have it. */
static enum status read_affix(struct reading *reading, const struct field *field, const char *name,
                              const char *otherwise, struct affix *affix)
{
    struct field affix_field = field_member(field, name);
    const char *text = otherwise;
    size_t n_bytes = strlen(otherwise);

    if (!field_is_absent(&affix_field))
        TRY(field_text(&affix_field, reading->error, &text, &n_bytes));
    if (n_bytes > sizeof affix->bytes || n_bytes == 0)
        return error_set(reading->error, STATUS_UNSUPPORTED,
                         "%s has %zu bytes, supported are 1 to %zu", affix_field.path, n_bytes,
                         sizeof affix->bytes);
    memcpy(affix->bytes, text, n_bytes);
    affix->n = n_bytes;
    return STATUS_OK;
}

static enum status read_wordpiece(struct reading *reading, const struct field *field)
{
    struct field cleanup = field_member(field, "cleanup");

    reading->chain->kind = DECODER_WORDPIECE;
    reading->chain->cleans_up = true;
    TRY(field_bool(&cleanup, reading->error, &reading->chain->cleans_up));
    return read_affix(reading, field, "prefix", "##", &reading->chain->affix);
}

static enum status read_ctc(struct reading *reading, const struct field *field)
{
    struct field cleanup = field_member(field, "cleanup");
    struct decoder_chain *chain = reading->chain;

    chain->kind = DECODER_CTC;
    chain->cleans_up = true;
    TRY(field_bool(&cleanup, reading->error, &chain->cleans_up));
    TRY(read_affix(reading, field, "word_delimiter_token", "|", &chain->delimiter));
    return read_affix(reading, field, "pad_token", "<pad>", &chain->affix);
}

/* A decoder that none but Fuse may follow. handled_out false: it is no such one. */
static enum status read_first(struct reading *reading, const struct field *field, const char *type,
                              bool *handled_out)
{
    const enum stage before = reading->stage;

    *handled_out = true;
    reading->stage = STAGE_FUSE;
    reading->is_alone = true;
    if (strcmp(type, "ByteLevel") == 0) {
        reading->chain->kind = DECODER_BYTES;
        return STATUS_OK;
    }
    if (strcmp(type, "WordPiece") == 0)
        return read_wordpiece(reading, field);
    if (strcmp(type, "CTC") == 0)
        return read_ctc(reading, field);
    if (strcmp(type, "BPEDecoder") == 0) {
        reading->chain->kind = DECODER_SUFFIX;
        return read_affix(reading, field, "suffix", "</w>", &reading->chain->affix);
    }
    *handled_out = false;
    reading->stage = before;
    reading->is_alone = false;
    return STATUS_OK;
}

static enum status read_one(struct reading *reading, const struct field *field)
{
    enum stage stage;
    const char *type;
    bool is_handled = false;

    TRY(field_type(field, reading->error, &type));
    if (reading->n_read++ == 0)
        TRY(read_first(reading, field, type, &is_handled));
    if (is_handled)
        return STATUS_OK;
    if (!find_stage(type, &stage))
        return field_refuse(field, reading->error, type);
    if (!is_in_order(reading, stage) || (reading->is_alone && stage != STAGE_FUSE))
        return error_set(reading->error, STATUS_UNSUPPORTED,
                         "%s is %s after another decoder, which is not supported in this order",
                         field->path, type);
    TRY(read_stage(reading, field, stage));
    if (stage != STAGE_STRIP || reading->stage == STAGE_FUSE)
        reading->stage = stage;
    return STATUS_OK;
}

static enum status read_nested(struct reading *reading, const struct field *field, unsigned depth)
{
    const char *type;

    TRY(field_type(field, reading->error, &type));
    if (depth == NESTING_MAX)
        return error_set(reading->error, STATUS_UNSUPPORTED, "%s is nested too deep", field->path);
    if (strcmp(type, "Sequence") != 0)
        return read_one(reading, field);
    struct field members = field_member(field, "decoders");
    TRY(field_need_array(&members, reading->error));
    for (size_t i = 0; i < field_length(&members); i++) {
        struct field member = field_element(&members, i);
        TRY(read_nested(reading, &member, depth + 1));
    }
    return STATUS_OK;
}

bool decoder_takes_bytes(const struct field *decoder)
{
    const json_t *value = decoder->value;

    for (unsigned depth = 0; depth < NESTING_MAX && value; depth++) {
        const char *type = json_string_value(json_object_get(value, "type"));
        if (!type || strcmp(type, "Sequence") != 0)
            return type && strcmp(type, "ByteLevel") == 0;
        value = json_array_get(json_object_get(value, "decoders"), 0);
    }
    return false;
}

enum status decoder_chain_read(struct decoder_chain *chain, const struct field *decoder,
                               struct error *error)
{
    struct reading reading = {.chain = chain, .error = error};

    *chain = (struct decoder_chain){0};
    if (!field_is_absent(decoder))
        return read_nested(&reading, decoder, 0);
    chain->kind = DECODER_SPACED;
    return STATUS_OK;
}

void decoder_chain_finish(struct decoder_chain *chain)
{
    for (unsigned i = 0; i < chain->n_edits; i++)
        replacement_finish(&chain->edits[i].replacement);
    *chain = (struct decoder_chain){0};
}
