#include "tokenizer/normalizer/replacement.h"

#include "base/utf8.h"
#include "tokenizer/files/field.h"
#include "tokenizer/pattern/split_pattern.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status rewritten_reserve(struct rewritten *text, size_t bytes_max)
{
    char *grown = bytes_max > text->bytes_max ? realloc(text->bytes, bytes_max) : text->bytes;

    if (!grown)
        return STATUS_NO_MEMORY;
    text->bytes = grown;
    text->bytes_max = bytes_max > text->bytes_max ? bytes_max : text->bytes_max;
    return STATUS_OK;
}

enum status rewritten_append(struct rewritten *text, const char *bytes, size_t n_bytes,
                             struct error *error)
{
    size_t wanted = text->n_bytes + n_bytes;

    if (wanted > REWRITTEN_BYTES_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "text has more than %zu bytes after the normalizer", REWRITTEN_BYTES_MAX);
    if (wanted > text->bytes_max)
        TRY(rewritten_reserve(text, 2 * text->bytes_max > wanted ? 2 * text->bytes_max : wanted));
    if (n_bytes > 0)
        memcpy(text->bytes + text->n_bytes, bytes, n_bytes);
    text->n_bytes = wanted;
    return STATUS_OK;
}

void rewritten_finish(struct rewritten *text)
{
    free(text->bytes);
    *text = (struct rewritten){0};
}

enum status replacement_take_content(struct replacement *replacement, const struct field *field,
                                     const char *name, struct error *error)
{
    struct field content = field_member(field, name);
    const char *text;
    size_t n_bytes;

    assert(!replacement->content);
    TRY(field_text(&content, error, &text, &n_bytes));
    replacement->content = malloc(n_bytes + 1);
    if (!replacement->content)
        return STATUS_NO_MEMORY;
    memcpy(replacement->content, text, n_bytes);
    replacement->n_content = n_bytes;
    return STATUS_OK;
}

enum status replacement_init(struct replacement *replacement, const struct field *field,
                             struct error *error)
{
    struct field pattern = field_member(field, "pattern");

    *replacement = (struct replacement){0};
    enum status status = replacement_take_content(replacement, field, "content", error);
    if (status == STATUS_OK)
        status = split_pattern_read(&pattern, error, &replacement->pattern);
    if (status != STATUS_OK)
        replacement_finish(replacement);
    return status;
}

void replacement_finish(struct replacement *replacement)
{
    split_pattern_destroy(replacement->pattern);
    free(replacement->content);
    *replacement = (struct replacement){0};
}

/* The tokenizers package says that what replaces a match comes from its last character. */
static bool moves_start(const struct rewritten *text, const size_t match[2], size_t n_content)
{
    uint32_t codepoint;

    if (match[0] > 0 || match[1] == 0)
        return false;
    return n_content == 0 || match[1] > utf8_read(text->bytes, &codepoint);
}

static enum status replace_all(const struct replacement *replacement, struct split_matcher *matcher,
                               const struct rewritten *text, struct rewritten *made,
                               struct error *error)
{
    struct split_search search = {.text = text->bytes, .n_bytes = text->n_bytes};
    size_t end = 0;

    for (;;) {
        bool found;
        size_t match[2];
        TRY(split_pattern_next(replacement->pattern, matcher, &search, error, &found, match));
        if (!found)
            break;
        made->is_moved |= moves_start(text, match, replacement->n_content);
        TRY(rewritten_append(made, text->bytes + end, match[0] - end, error));
        TRY(rewritten_append(made, replacement->content, replacement->n_content, error));
        end = match[1];
    }
    return rewritten_append(made, text->bytes + end, text->n_bytes - end, error);
}

enum status replacement_apply(const struct replacement *replacement, struct split_matcher *matcher,
                              struct rewritten *text_inout, struct error *error)
{
    struct rewritten made = {.is_moved = text_inout->is_moved};

    assert(replacement->pattern && matcher);
    if (text_inout->n_bytes == 0) /* not even an empty match */
        return STATUS_OK;
    enum status status = replace_all(replacement, matcher, text_inout, &made, error);
    struct rewritten *gone = status == STATUS_OK ? text_inout : &made;
    rewritten_finish(gone);
    if (status == STATUS_OK)
        *text_inout = made;
    return status;
}
