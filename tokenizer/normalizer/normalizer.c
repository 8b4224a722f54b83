/* A step is what a normalizer's reader makes of it: a function, and what that needs. */
#include "tokenizer/normalizer/normalizer.h"

#include "base/utf8.h"
#include "tokenizer/files/byte_alphabet.h"
#include "tokenizer/files/field.h"

#include <stdlib.h>
#include <string.h>

/* What steps do */

static enum status apply_form(const struct normalizer_step *step, struct split_matcher *matcher,
                              struct rewritten *text, struct error *error)
{
    char *normal;
    size_t n_bytes;

    (void)matcher;
    TRY(unicode_normalize(text->bytes, text->n_bytes, step->form, &normal, &n_bytes));
    if (!normal)
        return STATUS_OK;
    struct rewritten made = {normal, n_bytes, n_bytes, text->is_moved};
    rewritten_finish(text);
    *text = made;
    return rewritten_append(text, "", 0, error); /* within its bound? */
}

static enum status apply_prepend(const struct normalizer_step *step, struct split_matcher *matcher,
                                 struct rewritten *text, struct error *error)
{
    const struct replacement *replacement = &step->replacement;
    size_t n_text = text->n_bytes;

    (void)matcher;
    if (n_text == 0 || replacement->n_content == 0)
        return STATUS_OK;
    TRY(rewritten_append(text, replacement->content, replacement->n_content, error));
    memmove(text->bytes + replacement->n_content, text->bytes, n_text);
    memcpy(text->bytes, replacement->content, replacement->n_content);
    text->is_moved = false;
    return STATUS_OK;
}

static enum status apply_replace(const struct normalizer_step *step, struct split_matcher *matcher,
                                 struct rewritten *text, struct error *error)
{
    return replacement_apply(&step->replacement, matcher, text, error);
}

static enum status apply_map(const struct normalizer_step *step, struct split_matcher *matcher,
                             struct rewritten *text, struct error *error)
{
    (void)matcher;
    return character_map_apply(step->map, &step->ascii, text, error);
}

static enum status apply_charsmap(const struct normalizer_step *step, struct split_matcher *matcher,
                                  struct rewritten *text, struct error *error)
{
    (void)matcher;
    return charsmap_apply(&step->charsmap, text, error);
}

static bool is_stripped(const struct normalizer_step *step, const struct rewritten *text, size_t at,
                        size_t *length_out)
{
    uint32_t codepoint;
    *length_out = utf8_read(text->bytes + at, &codepoint);
    return step->strips_spaces ? codepoint == ' ' : utf8_is_white_space(codepoint);
}

static enum status apply_strip(const struct normalizer_step *step, struct split_matcher *matcher,
                               struct rewritten *text, struct error *error)
{
    size_t begin = 0, length;

    (void)matcher;
    (void)error;
    while (step->strips_left && begin < text->n_bytes && is_stripped(step, text, begin, &length))
        begin += length;
    while (step->strips_right && text->n_bytes > begin) {
        size_t last = utf8_previous(text->bytes, text->n_bytes);
        if (!is_stripped(step, text, last, &length))
            break;
        text->n_bytes = last;
    }
    if (begin == 0)
        return STATUS_OK;
    memmove(text->bytes, text->bytes + begin, text->n_bytes - begin);
    text->n_bytes -= begin;
    text->is_moved = true;
    return STATUS_OK;
}

static enum status apply_bytes(const struct normalizer_step *step, struct split_matcher *matcher,
                               struct rewritten *text, struct error *error)
{
    struct rewritten made = {.is_moved = text->is_moved};
    enum status status = STATUS_OK;

    (void)step;
    (void)matcher;
    for (size_t i = 0; i < text->n_bytes && status == STATUS_OK; i++) {
        char character[2];
        size_t length = byte_alphabet_write((uint8_t)text->bytes[i], character);
        status = rewritten_append(&made, character, length, error);
    }
    rewritten_finish(status == STATUS_OK ? text : &made);
    if (status == STATUS_OK)
        *text = made;
    return status;
}

/* Reading */

/* The next step, zero but for what it does. */
static enum status add_step(struct normalizer *normalizer, const struct field *field,
                            normalizer_apply apply, struct error *error,
                            struct normalizer_step **step_out)
{
    if (normalizer->n_steps == NORMALIZER_STEPS_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "%s is one too many, at most %d are supported",
                         field->path, NORMALIZER_STEPS_MAX);
    *step_out = &normalizer->steps[normalizer->n_steps++];
    (*step_out)->apply = apply;
    return STATUS_OK;
}

static enum status add_form(struct normalizer *normalizer, const struct field *field,
                            enum unicode_form form, struct error *error)
{
    struct normalizer_step *step;
    TRY(add_step(normalizer, field, apply_form, error, &step));
    step->form = form;
    return STATUS_OK;
}

static enum status add_map(struct normalizer *normalizer, const struct field *field,
                           character_map map, struct error *error)
{
    struct normalizer_step *step;
    TRY(add_step(normalizer, field, apply_map, error, &step));
    step->map = map;
    character_map_fill_ascii(map, &step->ascii);
    return STATUS_OK;
}

static enum status read_prepend(struct normalizer *normalizer, const struct field *field,
                                struct error *error)
{
    struct normalizer_step *step;
    TRY(add_step(normalizer, field, apply_prepend, error, &step));
    normalizer->prepends = true;
    return replacement_take_content(&step->replacement, field, "prepend", error);
}

static enum status read_replace(struct normalizer *normalizer, const struct field *field,
                                struct error *error)
{
    struct normalizer_step *step;
    TRY(add_step(normalizer, field, apply_replace, error, &step));
    return replacement_init(&step->replacement, field, error);
}

static enum status read_precompiled(struct normalizer *normalizer, const struct field *field,
                                    struct error *error)
{
    struct normalizer_step *step;
    TRY(add_step(normalizer, field, apply_charsmap, error, &step));
    return charsmap_init(&step->charsmap, field, error);
}

static enum status read_strip(struct normalizer *normalizer, const struct field *field,
                              struct error *error)
{
    struct field left = field_member(field, "strip_left");
    struct field right = field_member(field, "strip_right");
    struct field only_spaces = field_member(field, "only_spaces"); /* as SentencePiece */
    struct normalizer_step *step;

    TRY(add_step(normalizer, field, apply_strip, error, &step));
    step->strips_left = step->strips_right = true;
    TRY(field_bool(&only_spaces, error, &step->strips_spaces));
    TRY(field_bool(&left, error, &step->strips_left));
    return field_bool(&right, error, &step->strips_right);
}

static enum status read_bytes(struct normalizer *normalizer, const struct field *field,
                              struct error *error)
{
    struct normalizer_step *step;
    return add_step(normalizer, field, apply_bytes, error, &step);
}

/* Accents go with the case, if the file does not say otherwise. */
static enum status read_bert(struct normalizer *normalizer, const struct field *field,
                             struct error *error)
{
    struct field clean = field_member(field, "clean_text");
    struct field apart = field_member(field, "handle_chinese_chars");
    struct field bare = field_member(field, "strip_accents");
    struct field lower = field_member(field, "lowercase");
    bool cleans = true, sets_apart = true, lowers = true;

    TRY(field_bool(&clean, error, &cleans));
    TRY(field_bool(&apart, error, &sets_apart));
    TRY(field_bool(&lower, error, &lowers));
    bool bares = lowers;
    TRY(field_bool(&bare, error, &bares));
    if (cleans)
        TRY(add_map(normalizer, field, character_map_clean, error));
    if (sets_apart)
        TRY(add_map(normalizer, field, character_map_apart, error));
    if (bares) {
        TRY(add_form(normalizer, field, UNICODE_NFD, error));
        TRY(add_map(normalizer, field, character_map_bare, error));
    }
    return lowers ? add_map(normalizer, field, character_map_lower, error) : STATUS_OK;
}

typedef enum status (*read_steps)(struct normalizer *normalizer, const struct field *field,
                                  struct error *error);

/* A row has a reader, or a character map, or else a form. */
static const struct known {
    const char *type;
    read_steps read;
    character_map map;
    enum unicode_form form;
} KNOWN[] = {
    {.type = "NFC", .form = UNICODE_NFC},
    {.type = "NFD", .form = UNICODE_NFD},
    {.type = "NFKC", .form = UNICODE_NFKC},
    {.type = "NFKD", .form = UNICODE_NFKD},
    {.type = "Lowercase", .map = character_map_lower},
    {.type = "Nmt", .map = character_map_nmt},
    {.type = "StripAccents", .map = character_map_no_marks},
    {.type = "Prepend", .read = read_prepend},
    {.type = "Replace", .read = read_replace},
    {.type = "Precompiled", .read = read_precompiled},
    {.type = "Strip", .read = read_strip},
    {.type = "ByteLevel", .read = read_bytes},
    {.type = "BertNormalizer", .read = read_bert},
};

/* NULL: there is no such normalizer here. */
static const struct known *find_known(const char *type)
{
    for (unsigned i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (strcmp(type, KNOWN[i].type) == 0)
            return &KNOWN[i];
    return NULL;
}

static enum status read_one(void *arg, const struct field *field, const char *type,
                            struct error *error)
{
    struct normalizer *normalizer = arg;
    const struct known *known = find_known(type);

    if (!known)
        return field_refuse(field, error, type);
    if (known->read)
        return known->read(normalizer, field, error);
    return known->map ? add_map(normalizer, field, known->map, error)
                      : add_form(normalizer, field, known->form, error);
}

enum status normalizer_init(struct normalizer *normalizer, const struct field *field,
                            struct error *error)
{
    *normalizer = (struct normalizer){0};
    if (field_is_absent(field))
        return STATUS_OK;
    enum status status = field_read_steps(field, "normalizers", read_one, normalizer, error);
    if (status != STATUS_OK)
        normalizer_finish(normalizer);
    return status;
}

void normalizer_finish(struct normalizer *normalizer)
{
    for (unsigned i = 0; i < normalizer->n_steps; i++) {
        replacement_finish(&normalizer->steps[i].replacement);
        charsmap_finish(&normalizer->steps[i].charsmap);
    }
    *normalizer = (struct normalizer){0};
}

enum status normalizer_run(const struct normalizer *normalizer, struct split_matcher *matcher,
                           const char *text, size_t n_bytes, struct error *error,
                           struct rewritten *normal_out)
{
    struct rewritten normal = {0};
    enum status status = STATUS_OK;

    if (normalizer->n_steps > 0)
        status = rewritten_append(&normal, text, n_bytes, error);
    for (unsigned i = 0; i < normalizer->n_steps && status == STATUS_OK; i++) {
        const struct normalizer_step *step = &normalizer->steps[i];
        status = step->apply(step, matcher, &normal, error);
    }
    if (status != STATUS_OK)
        rewritten_finish(&normal);
    *normal_out = normal;
    return status;
}
