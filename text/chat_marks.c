#include "text/chat_marks.h"

#include "base/utf8.h"
#include "tokenizer/added/special_marks.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MARK_FIRST 0xfdd0u
#define N_MARKS    32u
#define MARK_BYTES 3u

struct bytes {
    char *bytes;
    size_t n, max;
    bool has_failed;
};

struct marking {
    const struct tokenizer *tokenizer;
    const char *json;
    size_t n_bytes;
    struct error *error;
    char mark[4];
    size_t at;           /* the JSON before this has been copied */
    struct bytes text;   /* of a string with escapes: what it stands for */
    struct bytes marked; /* the JSON that is made */
    /* of the string that is being marked */
    const char *string;
    size_t copied;
    bool has_escapes;
    bool has_marks; /* of any string */
};

static void put(struct bytes *out, const char *bytes, size_t n)
{
    if (out->has_failed || n == 0)
        return;
    if (out->n + n > out->max) {
        size_t max = 2 * (out->n + n) + 256;
        char *grown = realloc(out->bytes, max);
        if (!grown) {
            out->has_failed = true;
            return;
        }
        out->bytes = grown;
        out->max = max;
    }
    memcpy(out->bytes + out->n, bytes, n);
    out->n += n;
}

uint32_t chat_marks_in(const char *text, size_t n_bytes)
{
    uint32_t used = 0;
    const char *end = text + n_bytes;
    for (const char *at = text; end - at >= (ptrdiff_t)MARK_BYTES; at++) {
        at = memchr(at, 0xef, (size_t)(end - at) - (MARK_BYTES - 1));
        if (!at)
            break;
        uint8_t last = (uint8_t)at[2];
        if ((uint8_t)at[1] == 0xb7 && last >= 0x90 && last < 0x90 + N_MARKS)
            used |= 1u << (last - 0x90);
    }
    return used;
}

/* Four hexadecimal digits; false: they are none. */
static bool read_unit(const char *at, const char *end, uint32_t *unit_out)
{
    uint32_t unit = 0;
    if (end - at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit == 16)
            return false;
        unit = 16 * unit + digit;
    }
    *unit_out = unit;
    return true;
}

/* At the u of an escape; returns what follows it, NULL: it is none. */
static const char *read_unicode(struct bytes *out, const char *at, const char *end)
{
    uint32_t codepoint, low;
    char text[4];
    if (!read_unit(at + 1, end, &codepoint))
        return NULL;
    at += 5;
    if (codepoint >= 0xd800 && codepoint < 0xdc00) {
        if (end - at < 6 || at[0] != '\\' || at[1] != 'u' || !read_unit(at + 2, end, &low) ||
            low < 0xdc00 || low > 0xdfff)
            return NULL;
        codepoint = 0x10000 + ((codepoint - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
    } else if (codepoint >= 0xdc00 && codepoint < 0xe000) {
        return NULL;
    }
    put(out, text, utf8_write(codepoint, text));
    return at;
}

/* What the string between at and end stands for. False: it has an escape that is none. */
static bool read_string(struct bytes *out, const char *at, const char *end)
{
    static const char NAMES[] = "\"\\/bfnrt", MEANT[] = "\"\\/\b\f\n\r\t";
    out->n = 0;
    while (at < end) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        put(out, at, (size_t)((escape ? escape : end) - at));
        if (!escape)
            return true;
        at = escape + 1; /* the string does not end with one */
        const char *name = *at ? strchr(NAMES, *at) : NULL;
        if (name)
            put(out, &MEANT[name - NAMES], 1);
        at = *at == 'u' ? read_unicode(out, at, end) : name ? at + 1 : NULL;
        if (!at)
            return false;
    }
    return true;
}

/* Text as it stands in a JSON string. */
static void write_text(struct bytes *out, const char *text, size_t n_bytes)
{
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < n_bytes; i++) {
        uint8_t c = (uint8_t)text[i];
        if (c < ' ') {
            const char escape[] = {'\\', 'u', '0', '0', DIGITS[c >> 4], DIGITS[c & 15]};
            put(out, escape, sizeof escape);
            continue;
        }
        if (c == '"' || c == '\\')
            put(out, "\\", 1);
        put(out, &text[i], 1);
    }
}

static void copy_string(struct marking *marking, size_t until)
{
    const char *from = marking->string + marking->copied;
    size_t n = until - marking->copied;
    if (marking->has_escapes)
        write_text(&marking->marked, from, n);
    else
        put(&marking->marked, from, n);
    marking->copied = until;
}

static void put_mark(void *arg, size_t at)
{
    struct marking *marking = arg;
    copy_string(marking, at);
    put(&marking->marked, marking->mark, MARK_BYTES);
    marking->has_marks = true;
}

/* The end of the string that begins behind a quote at begin; n_bytes: it has none. */
static size_t string_end(const char *json, size_t n_bytes, size_t begin, bool *has_escapes_out)
{
    bool has_escapes = false;
    size_t at = begin;
    while (at < n_bytes && json[at] != '"') {
        has_escapes |= json[at] == '\\';
        at += json[at] == '\\' ? 2 : 1;
    }
    *has_escapes_out = has_escapes;
    return at < n_bytes ? at : n_bytes;
}

/* One string, from begin to end. False: an escape is none. */
static bool mark_string(struct marking *marking, size_t begin, size_t end)
{
    size_t n_bytes = end - begin;
    marking->string = marking->json + begin;
    if (marking->has_escapes) {
        if (!read_string(&marking->text, marking->json + begin, marking->json + end))
            return false;
        if (marking->text.has_failed)
            return true; /* told at the end */
        marking->string = marking->text.bytes;
        n_bytes = marking->text.n;
    }
    put(&marking->marked, marking->json + marking->at, begin - marking->at);
    marking->at = begin;
    marking->copied = 0;
    special_marks_find(marking->tokenizer, n_bytes > 0 ? marking->string : "", n_bytes, put_mark,
                       marking);
    if (marking->copied > 0 || marking->has_escapes) {
        copy_string(marking, n_bytes);
        marking->at = end;
    }
    return true;
}

/* act on each string. */
static enum status walk(struct marking *marking, bool (*act)(struct marking *, size_t, size_t))
{
    for (size_t at = 0; at < marking->n_bytes;) {
        const char *quote = memchr(marking->json + at, '"', marking->n_bytes - at);
        if (!quote)
            break;
        size_t begin = (size_t)(quote - marking->json) + 1;
        size_t end = string_end(marking->json, marking->n_bytes, begin, &marking->has_escapes);
        if (end == marking->n_bytes)
            return error_set(marking->error, STATUS_INVALID_ARGUMENT,
                             "the chat request is no JSON: the string at byte %zu has no end",
                             begin);
        if (!act(marking, begin, end))
            return error_set(marking->error, STATUS_INVALID_ARGUMENT,
                             "the chat request is no JSON: the string at byte %zu has an escape "
                             "that is none",
                             begin);
        at = end + 1;
    }
    return STATUS_OK;
}

static bool read_only(struct marking *marking, size_t begin, size_t end)
{
    if (!marking->has_escapes)
        return true;
    bool is_sound = read_string(&marking->text, marking->json + begin, marking->json + end);
    if (is_sound && !marking->text.has_failed && marking->text.n > 0) {
        uint32_t used = chat_marks_in(marking->text.bytes, marking->text.n);
        put(&marking->marked, (const char *)&used, sizeof used); /* a list of sets */
    }
    return is_sound;
}

/* Noncharacters that are written out, and those that are written as escapes. */
static enum status find_used(struct marking *marking, uint32_t *used_inout)
{
    *used_inout |= chat_marks_in(marking->json, marking->n_bytes);
    if (!memmem(marking->json, marking->n_bytes, "\\u", 2))
        return STATUS_OK;
    TRY(walk(marking, read_only));
    for (size_t i = 0; i + sizeof(uint32_t) <= marking->marked.n; i += sizeof(uint32_t)) {
        uint32_t used;
        memcpy(&used, marking->marked.bytes + i, sizeof used);
        *used_inout |= used;
    }
    marking->marked.n = 0;
    return STATUS_OK;
}

static enum status run(struct marking *marking, uint32_t used, size_t bytes_max, uint32_t *mark_out)
{
    size_t invalid = marking->n_bytes > 0 ? utf8_first_invalid(marking->json, marking->n_bytes) : 0;
    if (invalid < marking->n_bytes)
        return error_set(marking->error, STATUS_INVALID_ARGUMENT,
                         "the chat request is not UTF-8 at byte %zu", invalid);
    TRY(find_used(marking, &used));
    if (used == UINT32_MAX)
        return error_set(marking->error, STATUS_INVALID_ARGUMENT,
                         "the chat request has each of U+FDD0 .. U+FDEF, of which one is needed to "
                         "keep special tokens apart");
    uint32_t mark = MARK_FIRST + (uint32_t)__builtin_ctz(~used);
    size_t n = utf8_write(mark, marking->mark);
    assert(n == MARK_BYTES);
    TRY(walk(marking, mark_string));
    put(&marking->marked, marking->json + marking->at, marking->n_bytes - marking->at);
    if (marking->marked.has_failed || marking->text.has_failed)
        return STATUS_NO_MEMORY;
    if (marking->has_marks && marking->marked.n > bytes_max)
        return error_set(marking->error, STATUS_INVALID_ARGUMENT,
                         "the chat request has %zu bytes with the marks that keep special tokens "
                         "apart, at most %zu are read",
                         marking->marked.n, bytes_max);
    *mark_out = mark;
    return STATUS_OK;
}

enum status chat_marks_put(const struct tokenizer *tokenizer, const char *json, size_t n_bytes,
                           uint32_t used, size_t bytes_max, struct error *error,
                           struct marked_request *marked_out)
{
    struct marking marking = {
        .tokenizer = tokenizer, .json = json, .n_bytes = n_bytes, .error = error};
    uint32_t mark;
    enum status status = run(&marking, used, bytes_max, &mark);
    free(marking.text.bytes);
    if (status != STATUS_OK || !marking.has_marks) {
        free(marking.marked.bytes);
        if (status == STATUS_OK)
            *marked_out = (struct marked_request){.n_bytes = n_bytes};
        return status;
    }
    *marked_out = (struct marked_request){
        .json = marking.marked.bytes, .n_bytes = marking.marked.n, .mark = mark};
    return STATUS_OK;
}
