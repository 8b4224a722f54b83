#include "tokenizer/normalizer.h"

#include "tokenizer/field.h"
#include "tokenizer/nfc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NESTING_MAX 8

static enum status add_step(struct normalizer *normalizer, const struct field *field,
                            enum normalizer_kind kind, struct error *error)
{
    struct normalizer_step *step = &normalizer->steps[normalizer->n_steps];

    if (normalizer->n_steps == NORMALIZER_STEPS_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "%s is one too many, at most %d are supported",
                         field->path, NORMALIZER_STEPS_MAX);
    normalizer->n_steps++;
    step->kind = kind;
    if (kind == NORMALIZER_PREPEND)
        return replacement_take_content(&step->replacement, field, "prepend", error);
    return kind == NORMALIZER_NFC ? STATUS_OK : replacement_init(&step->replacement, field, error);
}

static enum status read_one(struct normalizer *normalizer, const struct field *field,
                            unsigned depth, struct error *error)
{
    const char *type;

    TRY(field_type(field, error, &type));
    if (depth == NESTING_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "%s is nested too deep", field->path);
    if (strcmp(type, "NFC") == 0)
        return add_step(normalizer, field, NORMALIZER_NFC, error);
    if (strcmp(type, "Prepend") == 0)
        return add_step(normalizer, field, NORMALIZER_PREPEND, error);
    if (strcmp(type, "Replace") == 0)
        return add_step(normalizer, field, NORMALIZER_REPLACE, error);
    if (strcmp(type, "Sequence") != 0)
        return field_refuse(field, error, type);

    struct field members = field_member(field, "normalizers");
    TRY(field_need_array(&members, error));
    for (size_t i = 0; i < field_length(&members); i++) {
        struct field member = field_element(&members, i);
        TRY(read_one(normalizer, &member, depth + 1, error));
    }
    return STATUS_OK;
}

enum status normalizer_init(struct normalizer *normalizer, const struct field *field,
                            struct error *error)
{
    *normalizer = (struct normalizer){0};
    if (field_is_absent(field))
        return STATUS_OK;
    enum status status = read_one(normalizer, field, 0, error);
    if (status != STATUS_OK)
        normalizer_finish(normalizer);
    return status;
}

void normalizer_finish(struct normalizer *normalizer)
{
    for (unsigned i = 0; i < normalizer->n_steps; i++)
        replacement_finish(&normalizer->steps[i].replacement);
    *normalizer = (struct normalizer){0};
}

bool normalizer_prepends(const struct normalizer *normalizer)
{
    for (unsigned i = 0; i < normalizer->n_steps; i++)
        if (normalizer->steps[i].kind == NORMALIZER_PREPEND)
            return true;
    return false;
}

static enum status apply_nfc(struct rewritten *text)
{
    char *normal;
    size_t n_bytes;

    TRY(nfc_normalize(text->bytes, text->n_bytes, &normal, &n_bytes));
    if (!normal)
        return STATUS_OK;
    free(text->bytes);
    text->bytes = normal;
    text->n_bytes = n_bytes;
    text->bytes_max = n_bytes;
    return STATUS_OK;
}

static enum status apply_prepend(const struct replacement *replacement, struct rewritten *text,
                                 struct error *error)
{
    size_t n_text = text->n_bytes;

    if (n_text == 0 || replacement->n_content == 0)
        return STATUS_OK;
    TRY(rewritten_append(text, replacement->content, replacement->n_content, error));
    memmove(text->bytes + replacement->n_content, text->bytes, n_text);
    memcpy(text->bytes, replacement->content, replacement->n_content);
    text->is_moved = false;
    return STATUS_OK;
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
        if (step->kind == NORMALIZER_NFC)
            status = apply_nfc(&normal);
        else if (step->kind == NORMALIZER_PREPEND)
            status = apply_prepend(&step->replacement, &normal, error);
        else
            status = replacement_apply(&step->replacement, matcher, &normal, error);
    }
    if (status != STATUS_OK)
        rewritten_finish(&normal);
    *normal_out = normal;
    return status;
}
