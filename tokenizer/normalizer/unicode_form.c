/*
 * decompose -> order marks -> compose (of NFC and NFKC), over an array of code points; the text is then written over
 * the array itself, which is always longer.
 */
#include "tokenizer/normalizer/unicode_form.h"

#include "base/utf8.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* The longest decomposition of one character: U+FDFA's of compatibility; canonical ones have 4 (U+1F82 and its like). */
#define DECOMPOSITION_MAX 18

struct codepoints {
    utf8proc_int32_t *at;
    size_t n;
    size_t max;
};

static enum status codepoints_reserve(struct codepoints *codepoints, size_t more)
{
    if (codepoints->n + more <= codepoints->max)
        return STATUS_OK;
    size_t max = codepoints->max + codepoints->max / 2 + more;
    utf8proc_int32_t *at = realloc(codepoints->at, max * sizeof *at);
    if (!at)
        return STATUS_NO_MEMORY;
    codepoints->at = at;
    codepoints->max = max;
    return STATUS_OK;
}

static unsigned combining_class(utf8proc_int32_t codepoint)
{
    return (unsigned)utf8proc_get_property(codepoint)->combining_class;
}

static enum status decompose(const char *text, size_t n_bytes, bool is_compatible,
                             struct codepoints *codepoints)
{
    const utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                      (is_compatible ? UTF8PROC_COMPAT : 0);

    for (size_t at = 0; at < n_bytes;) {
        uint32_t codepoint;
        int boundary = 0;
        at += utf8_read(text + at, &codepoint);
        TRY(codepoints_reserve(codepoints, DECOMPOSITION_MAX));
        if (codepoint < 0x80) {
            codepoints->at[codepoints->n++] = (utf8proc_int32_t)codepoint;
            continue;
        }
        utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)codepoint,
                                                     codepoints->at + codepoints->n,
                                                     DECOMPOSITION_MAX, options, &boundary);
        assert(n > 0 && n <= DECOMPOSITION_MAX);
        codepoints->n += (size_t)n;
    }
    return STATUS_OK;
}

/* Sorts a run of marks by class, equals in their order. scratch has room for n. */
static void sort_marks(utf8proc_int32_t *marks, size_t n, utf8proc_int32_t *scratch)
{
    assert(n > 1);
    size_t starts[257] = {0};

    if (n < 8) { /* the usual: insertion, nothing to set up */
        for (size_t i = 1; i < n; i++)
            for (size_t j = i; j > 0 && combining_class(marks[j - 1]) > combining_class(marks[j]);
                 j--) {
                utf8proc_int32_t mark = marks[j];
                marks[j] = marks[j - 1];
                marks[j - 1] = mark;
            }
        return;
    }
    for (size_t i = 0; i < n; i++)
        starts[combining_class(marks[i]) + 1]++;
    for (unsigned i = 1; i < 257; i++)
        starts[i] += starts[i - 1];
    for (size_t i = 0; i < n; i++)
        scratch[starts[combining_class(marks[i])]++] = marks[i];
    memcpy(marks, scratch, n * sizeof *marks);
}

/* The scratch follows the text in the same allocation. */
static enum status order(struct codepoints *codepoints)
{
    TRY(codepoints_reserve(codepoints, codepoints->n));
    utf8proc_int32_t *scratch = codepoints->at + codepoints->n;

    for (size_t i = 0; i < codepoints->n; i++) {
        size_t end = i;
        while (end < codepoints->n && combining_class(codepoints->at[end]) != 0)
            end++;
        if (end - i > 1)
            sort_marks(codepoints->at + i, end - i, scratch);
        i = end;
    }
    return STATUS_OK;
}

static void compose(struct codepoints *codepoints)
{
    utf8proc_ssize_t n = utf8proc_normalize_utf32(codepoints->at, (utf8proc_ssize_t)codepoints->n,
                                                  UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    assert(n >= 0 && (size_t)n <= codepoints->n);
    codepoints->n = (size_t)n;
}

/* Takes the array: it becomes the text, in place, as a character takes four bytes of UTF-8 at most. */
static void write_text(const struct codepoints *codepoints, char **text_out, size_t *n_bytes_out)
{
    char *text = (char *)codepoints->at;
    size_t n_bytes = 0;

    for (size_t i = 0; i < codepoints->n; i++) {
        char bytes[4];
        size_t length = utf8_write((uint32_t)codepoints->at[i], bytes);
        memcpy(text + n_bytes, bytes, length);
        n_bytes += length;
    }
    *text_out = text;
    *n_bytes_out = n_bytes;
}

static bool is_ascii(const char *text, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        if ((unsigned char)text[i] >= 0x80)
            return false;
    return true;
}

enum status unicode_normalize(const char *text, size_t n_bytes, enum unicode_form form,
                              char **normal_out, size_t *n_normal_out)
{
    const bool is_compatible = form == UNICODE_NFKC || form == UNICODE_NFKD;
    const bool is_composed = form == UNICODE_NFC || form == UNICODE_NFKC;
    struct codepoints codepoints = {0};

    *normal_out = NULL;
    *n_normal_out = n_bytes;
    if (is_ascii(text, n_bytes))
        return STATUS_OK;
    codepoints.max = n_bytes + DECOMPOSITION_MAX;
    codepoints.at = malloc(codepoints.max * sizeof *codepoints.at);
    enum status status = codepoints.at ? decompose(text, n_bytes, is_compatible, &codepoints)
                                       : STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = order(&codepoints);
    if (status != STATUS_OK) {
        free(codepoints.at);
        return status;
    }
    if (is_composed)
        compose(&codepoints);
    write_text(&codepoints, normal_out, n_normal_out);
    return STATUS_OK;
}
