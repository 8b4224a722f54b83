#include "tokenizer/decoder/decoder_chain.h"

#include "tokenizer/files/field.h"
#include "tokenizer/pre_tokenizer/metaspace.h"

#include <string.h>

#define STRIP_CUTS_MAX 1024

/* What the next decoder sees: tokens; tokens and runs of byte tokens; words, which only Fuse joins; the whole text. */
enum stage { STAGE_TOKENS, STAGE_RUNS, STAGE_WORDS, STAGE_TEXT };

struct reading {
    struct decoder_chain *chain;
    enum stage stage;
    unsigned n_read;
    struct error *error;
};

static enum status refuse_order(const struct reading *reading, const struct field *field,
                                const char *type)
{
    return error_set(reading->error, STATUS_UNSUPPORTED,
                     "%s is %s after another decoder, which is not supported in this order",
                     field->path, type);
}

static enum status next_edit(struct reading *reading, const struct field *field,
                             struct decoder_edit **edit_out)
{
    struct decoder_chain *chain = reading->chain;

    if (chain->n_edits == DECODER_EDITS_MAX)
        return error_set(reading->error, STATUS_UNSUPPORTED,
                         "%s is one too many, at most %d are supported", field->path,
                         DECODER_EDITS_MAX);
    *edit_out = &chain->edits[chain->n_edits++];
    if (reading->stage == STAGE_TOKENS)
        chain->n_first_edits = chain->n_edits;
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

/* A step for what is seen as it comes; the caller fills it in. */
static enum status next_step(struct reading *reading, const struct field *field,
                             struct text_step **step_out)
{
    struct text_steps *steps = reading->stage == STAGE_TEXT ? &reading->chain->whole
                                                            : &reading->chain->runs;

    if (steps->n == TEXT_STEPS_MAX)
        return error_set(reading->error, STATUS_UNSUPPORTED,
                         "%s is one too many, at most %d are supported", field->path,
                         TEXT_STEPS_MAX);
    *step_out = &steps->steps[steps->n++];
    return STATUS_OK;
}

/* Edits are made of a token before Metaspace sees it. */
static enum status check_edit(const struct reading *reading, const struct field *field,
                              const char *type)
{
    const bool is_behind = reading->chain->n_space > 0 && reading->stage != STAGE_TEXT;
    return is_behind || reading->stage == STAGE_WORDS ? refuse_order(reading, field, type)
                                                      : STATUS_OK;
}

static enum status read_strip_step(struct reading *reading, const struct field *field,
                                   const struct decoder_strip *strip)
{
    struct text_step *step;

    if (strip->stop_max > TEXT_STEP_STOP_MAX)
        return error_set(reading->error, STATUS_UNSUPPORTED,
                         "%s.stop is %u, at most %d is supported", field->path, strip->stop_max,
                         TEXT_STEP_STOP_MAX);
    TRY(next_step(reading, field, &step));
    *step = (struct text_step){.kind = TEXT_STEP_STRIP,
                               .n_bytes = strip->n,
                               .start_max = strip->start_max,
                               .stop_max = strip->stop_max};
    memcpy(step->bytes, strip->character, strip->n);
    return STATUS_OK;
}

static enum status read_strip(struct reading *reading, const struct field *field)
{
    struct field content = field_member(field, "content");
    struct field start = field_member(field, "start");
    struct field stop = field_member(field, "stop");
    struct decoder_strip strip = {0};
    struct decoder_edit *edit;

    TRY(check_edit(reading, field, "Strip"));
    TRY(field_character(&content, reading->error, strip.character, &strip.n));
    TRY(read_count(&start, reading->error, &strip.start_max));
    TRY(read_count(&stop, reading->error, &strip.stop_max));
    if (reading->stage != STAGE_TOKENS)
        TRY(read_strip_step(reading, field, &strip));
    if (reading->stage == STAGE_TEXT)
        return STATUS_OK;
    TRY(next_edit(reading, field, &edit));
    edit->strip = strip;
    return STATUS_OK;
}

/* The text of a pattern: a String, or a Regex of characters that stand for themselves. */
static enum status read_literal(const struct field *pattern, struct error *error,
                                const char **text_out, size_t *n_bytes_out)
{
    struct field string = field_member(pattern, "String");
    struct field regex = field_member(pattern, "Regex");

    if (!field_is_absent(&string))
        return field_text(&string, error, text_out, n_bytes_out);
    TRY(field_text(&regex, error, text_out, n_bytes_out));
    if (strcspn(*text_out, "\\^$.|?*+()[]{}") < *n_bytes_out)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s is \"%.40s\"; of a text as a whole only Replace of a text is supported", regex.path,
            *text_out);
    return STATUS_OK;
}

/* by: no longer than text. */
static enum status add_replace(struct reading *reading, const struct field *field, const char *text,
                               size_t n_text, const char *by, size_t n_by)
{
    struct text_step *step;

    TRY(next_step(reading, field, &step));
    *step = (struct text_step){.kind = TEXT_STEP_REPLACE, .n_bytes = n_text, .n_content = n_by};
    memcpy(step->bytes, text, n_text);
    memcpy(step->content, by, n_by);
    return STATUS_OK;
}

static enum status read_replace_step(struct reading *reading, const struct field *field)
{
    struct field pattern = field_member(field, "pattern");
    struct field content = field_member(field, "content");
    const char *text, *by;
    size_t n_text, n_by;

    TRY(read_literal(&pattern, reading->error, &text, &n_text));
    TRY(field_text(&content, reading->error, &by, &n_by));
    if (n_text == 0 || n_text > TEXT_STEP_BYTES_MAX || n_by > n_text)
        return error_set(reading->error, STATUS_UNSUPPORTED,
                         "%s replaces %zu bytes by %zu; of a text as a whole 1 to %d bytes are "
                         "replaced by no more than there were",
                         field->path, n_text, n_by, TEXT_STEP_BYTES_MAX);
    return add_replace(reading, field, text, n_text, by, n_by);
}

static enum status read_replace(struct reading *reading, const struct field *field)
{
    struct decoder_edit *edit;

    TRY(check_edit(reading, field, "Replace"));
    if (reading->stage != STAGE_TOKENS)
        TRY(read_replace_step(reading, field));
    if (reading->stage == STAGE_TEXT)
        return STATUS_OK;
    TRY(next_edit(reading, field, &edit));
    return replacement_init(&edit->replacement, field, reading->error);
}

/* The whole text is its own first token: its character is left out everywhere. */
static enum status read_metaspace(struct reading *reading, const struct field *field)
{
    struct decoder_chain *chain = reading->chain;
    enum prepend_scheme scheme;
    char space[4];
    size_t n_space;

    TRY(metaspace_read(field, reading->error, space, &n_space, &scheme));
    if (reading->stage == STAGE_TEXT)
        return add_replace(reading, field, space, n_space, " ", scheme == PREPEND_NEVER);
    if (chain->n_space > 0 || reading->stage == STAGE_WORDS)
        return refuse_order(reading, field, "Metaspace");
    memcpy(chain->space, space, n_space);
    chain->n_space = n_space;
    chain->drops_first = scheme != PREPEND_NEVER;
    chain->spaces_runs = reading->stage == STAGE_RUNS;
    return STATUS_OK;
}

static enum status read_byte_fallback(struct reading *reading, const struct field *field)
{
    if (reading->stage != STAGE_TOKENS)
        return refuse_order(reading, field, "ByteFallback");
    reading->stage = STAGE_RUNS;
    reading->chain->byte_fallback = true;
    return STATUS_OK;
}

static enum status read_fuse(struct reading *reading, const struct field *field)
{
    (void)field;
    reading->stage = STAGE_TEXT;
    return STATUS_OK;
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

static enum status read_suffix(struct reading *reading, const struct field *field)
{
    reading->chain->kind = DECODER_SUFFIX;
    return read_affix(reading, field, "suffix", "</w>", &reading->chain->affix);
}

static enum status read_bytes(struct reading *reading, const struct field *field)
{
    (void)field;
    reading->chain->kind = DECODER_BYTES;
    return STATUS_OK;
}

/* Of the first decoder alone: what comes behind sees `stage`. */
static const struct {
    const char *type;
    enum status (*read)(struct reading *reading, const struct field *field);
    enum stage stage;
} FIRST[] = {{"ByteLevel", read_bytes, STAGE_TEXT},
             {"WordPiece", read_wordpiece, STAGE_WORDS},
             {"CTC", read_ctc, STAGE_WORDS},
             {"BPEDecoder", read_suffix, STAGE_WORDS}};

static const struct {
    const char *type;
    enum status (*read)(struct reading *reading, const struct field *field);
} OTHERS[] = {{"Replace", read_replace},
              {"Strip", read_strip},
              {"ByteFallback", read_byte_fallback},
              {"Metaspace", read_metaspace},
              {"Fuse", read_fuse}};

static enum status read_one(void *arg, const struct field *field, const char *type,
                            struct error *error)
{
    struct reading *reading = arg;
    const bool is_first = reading->n_read++ == 0;
    for (size_t i = 0; i < sizeof FIRST / sizeof *FIRST; i++) {
        if (strcmp(type, FIRST[i].type) != 0)
            continue;
        if (!is_first)
            return refuse_order(reading, field, type);
        reading->stage = FIRST[i].stage;
        return FIRST[i].read(reading, field);
    }
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (strcmp(type, OTHERS[i].type) == 0)
            return OTHERS[i].read(reading, field);
    return field_refuse(field, error, type);
}

bool decoder_takes_bytes(const struct field *decoder)
{
    const json_t *value = decoder->value;

    for (unsigned depth = 0; depth < FIELD_NESTING_MAX && value; depth++) {
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
        return field_read_steps(decoder, "decoders", read_one, &reading, error);
    chain->kind = DECODER_SPACED;
    return STATUS_OK;
}

void decoder_chain_finish(struct decoder_chain *chain)
{
    for (unsigned i = 0; i < chain->n_edits; i++)
        replacement_finish(&chain->edits[i].replacement);
    *chain = (struct decoder_chain){0};
}
