/* Two passes: the chain is read, its stages before ByteFallback into a list; then they are applied
 * to every token, and the list goes. */
#include "tokenizer/token_texts.h"

#include "base/utf8.h"
#include "tokenizer/field.h"
#include "tokenizer/halt.h"
#include "tokenizer/replacement.h"
#include "tokenizer/split_pattern.h"
#include "tokenizer/tokens.h"
#include "tokenizer/vocab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NESTING_MAX    8
#define EDITS_MAX      8
#define STRIP_CUTS_MAX 1024

/* Replace, or Strip where the replacement has no pattern. */
struct edit {
    struct replacement replacement;
    char strip[4];
    size_t n_strip;
    uint32_t strip_max;
};

/* How far the chain is; each may only be followed by later ones. */
enum stage { STAGE_EDIT, STAGE_BYTE_FALLBACK, STAGE_METASPACE, STAGE_FUSE, STAGE_STRIP };

struct reading {
    struct token_texts *texts;
    struct edit edits[EDITS_MAX];
    unsigned n_edits;
    enum stage stage;
    unsigned n_read;
    struct error *error;
};

static enum status next_edit(struct reading *reading, const struct field *field,
                             struct edit **edit_out)
{
    if (reading->n_edits == EDITS_MAX)
        return error_set(reading->error, STATUS_UNSUPPORTED,
                         "%s is one too many, at most %d are supported", field->path, EDITS_MAX);
    *edit_out = &reading->edits[reading->n_edits++];
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
    struct token_texts *texts = reading->texts;
    struct field content = field_member(field, "content");
    struct field start = field_member(field, "start");
    struct field stop = field_member(field, "stop");
    struct edit strip = {0};
    struct edit *edit;
    uint32_t n_stop;

    TRY(field_character(&content, reading->error, strip.strip, &strip.n_strip));
    TRY(read_count(&start, reading->error, &strip.strip_max));
    TRY(read_count(&stop, reading->error, &n_stop));
    if (n_stop > 0)
        return error_set(reading->error, STATUS_UNSUPPORTED, "%s is %u, only 0 is supported",
                         stop.path, n_stop);
    if (reading->stage == STAGE_EDIT) {
        TRY(next_edit(reading, field, &edit));
        *edit = strip;
        return STATUS_OK;
    }
    memcpy(texts->strip, strip.strip, sizeof texts->strip);
    texts->n_strip = strip.n_strip;
    texts->strip_max = strip.strip_max;
    return STATUS_OK;
}

static enum status read_metaspace(struct reading *reading, const struct field *field)
{
    struct token_texts *texts = reading->texts;
    enum prepend_scheme scheme;

    TRY(metaspace_read(field, reading->error, texts->space, &texts->n_space, &scheme));
    texts->drops_first = scheme != PREPEND_NEVER;
    return STATUS_OK;
}

static enum status read_stage(struct reading *reading, const struct field *field, enum stage stage)
{
    struct edit *edit;

    switch (stage) {
    case STAGE_EDIT:
        TRY(next_edit(reading, field, &edit));
        return replacement_init(&edit->replacement, field, reading->error);
    case STAGE_BYTE_FALLBACK:
        reading->texts->byte_fallback = true;
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

static enum status read_one(struct reading *reading, const struct field *field)
{
    enum stage stage;
    const char *type;

    TRY(field_type(field, reading->error, &type));
    reading->n_read++;
    if (strcmp(type, "ByteLevel") == 0 && reading->n_read == 1) {
        reading->texts->is_byte_level = true;
        reading->stage = STAGE_METASPACE; /* only Fuse may come */
        return STATUS_OK;
    }
    if (!find_stage(type, &stage))
        return field_refuse(field, reading->error, type);
    if (!is_in_order(reading, stage) || (reading->texts->is_byte_level && stage != STAGE_FUSE))
        return error_set(reading->error, STATUS_UNSUPPORTED,
                         "%s is %s after another decoder, which is not supported in this order",
                         field->path, type);
    TRY(read_stage(reading, field, stage));
    if (stage != STAGE_STRIP || reading->stage == STAGE_FUSE)
        reading->stage = stage;
    return STATUS_OK;
}

static enum status read_chain(struct reading *reading, const struct field *field, unsigned depth)
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
        TRY(read_chain(reading, &member, depth + 1));
    }
    return STATUS_OK;
}

/* Every token's text */

static void strip_start(const struct edit *edit, struct rewritten *text)
{
    size_t at = 0;

    if (text->n_bytes == 0)
        return;
    for (uint32_t i = 0; i < edit->strip_max && text->n_bytes - at >= edit->n_strip &&
                         memcmp(text->bytes + at, edit->strip, edit->n_strip) == 0;
         i++)
        at += edit->n_strip;
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

struct filling {
    struct reading *reading;
    struct split_matcher *matcher;
    struct rewritten text; /* of one token */
    struct rewritten all;
};

static enum status fill_one(struct filling *filling, const struct vocab *vocab, uint32_t id)
{
    struct reading *reading = filling->reading;
    struct token_texts *texts = reading->texts;
    struct rewritten *text = &filling->text;
    size_t n_bytes;
    const char *bytes = (const char *)vocab_bytes(vocab, id, &n_bytes);

    text->n_bytes = 0;
    TRY(rewritten_append(text, bytes, n_bytes, reading->error));
    for (unsigned i = 0; i < reading->n_edits; i++) {
        const struct edit *edit = &reading->edits[i];
        if (edit->n_strip > 0)
            strip_start(edit, text);
        else
            TRY(replacement_apply(&edit->replacement, filling->matcher, text, reading->error));
    }
    if (text->n_bytes > TOKEN_BYTES_MAX)
        return error_set(
            reading->error, STATUS_UNSUPPORTED,
            "tokenizer.json: decoder makes %zu bytes of id %u; at most %d are supported",
            text->n_bytes, id, TOKEN_BYTES_MAX);
    int byte = texts->byte_fallback ? fallback_byte(text) : -1;
    if (byte >= 0) {
        text->bytes[0] = (char)byte;
        text->n_bytes = 1;
        texts->is_byte[id] = true;
    }
    TRY(rewritten_append(&filling->all, text->bytes, text->n_bytes, reading->error));
    texts->starts[id + 1] = (uint32_t)filling->all.n_bytes;
    return STATUS_OK;
}

static enum status fill(struct reading *reading, const struct vocab *vocab)
{
    struct filling filling = {.reading = reading};
    struct token_texts *texts = reading->texts;

    texts->starts = calloc(vocab->n_ids + 1, sizeof *texts->starts);
    texts->is_byte = calloc(vocab->n_ids, sizeof *texts->is_byte);
    if (!texts->starts || !texts->is_byte)
        return STATUS_NO_MEMORY;
    struct halt halt = {0};
    enum status status = split_matcher_create(TOKENIZER_FILE_BYTES_MAX, &halt, &filling.matcher);
    for (uint32_t id = 0; id < vocab->n_ids && status == STATUS_OK; id++)
        status = fill_one(&filling, vocab, id);
    if (status == STATUS_INVALID_ARGUMENT)
        status = error_set(
            reading->error, STATUS_UNSUPPORTED,
            "tokenizer.json: decoder has a Replace that is beyond its limit for a token");
    split_matcher_destroy(filling.matcher);
    rewritten_finish(&filling.text);
    texts->bytes = (uint8_t *)filling.all.bytes;
    return status;
}

enum status token_texts_init(struct token_texts *texts, const struct field *decoder,
                             const struct vocab *vocab, struct error *error)
{
    struct reading reading = {.texts = texts, .error = error};

    *texts = (struct token_texts){0};
    if (field_is_absent(decoder))
        return error_set(error, STATUS_UNSUPPORTED, "%s is missing, which is not supported",
                         decoder->path);
    enum status status = read_chain(&reading, decoder, 0);
    if (status == STATUS_OK && texts->is_byte_level != vocab->is_byte_level)
        status = error_set(error, STATUS_UNSUPPORTED, "%s %s, which is not supported",
                           decoder->path,
                           vocab->is_byte_level ? "is not ByteLevel, but pre_tokenizer is"
                                                : "is ByteLevel, but pre_tokenizer is not");
    if (status == STATUS_OK && !texts->is_byte_level)
        status = fill(&reading, vocab);
    for (unsigned i = 0; i < reading.n_edits; i++)
        replacement_finish(&reading.edits[i].replacement);
    if (status != STATUS_OK)
        token_texts_finish(texts);
    return status;
}

void token_texts_finish(struct token_texts *texts)
{
    free(texts->bytes);
    free(texts->starts);
    free(texts->is_byte);
    *texts = (struct token_texts){0};
}
