#include "tokenizer/normalizer/charsmap.h"

#include "base/base64.h"
#include "base/utf8.h"
#include "tokenizer/files/field.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define GRAPHEME_BYTES_MAX 5 /* longer ones are only looked up character by character */

static uint32_t read_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

/* The first number goes; the rest must be whole, and its texts UTF-8. */
static bool take_table(struct charsmap *charsmap, size_t n_bytes)
{
    if (n_bytes < 4)
        return false;
    uint32_t n_trie = read_u32(charsmap->bytes);
    n_bytes -= 4;
    memmove(charsmap->bytes, charsmap->bytes + 4, n_bytes);
    charsmap->n_bytes = n_bytes;
    charsmap->n_units = n_trie / 4;
    if (n_trie < 4 || n_trie % 4 != 0 || n_trie > n_bytes)
        return false;
    const char *texts = (const char *)charsmap->bytes + n_trie;
    return utf8_first_invalid(texts, n_bytes - n_trie) == n_bytes - n_trie;
}

void charsmap_finish(struct charsmap *charsmap)
{
    free(charsmap->bytes);
    *charsmap = (struct charsmap){0};
}

/* The units of a double array (Darts-clone): what a unit says, and where its children are. */

static bool unit_at(const struct charsmap *charsmap, uint32_t place, uint32_t *unit_out)
{
    if (place >= charsmap->n_units)
        return false;
    *unit_out = read_u32(charsmap->bytes + (size_t)4 * place);
    return true;
}

static uint32_t unit_offset(uint32_t unit)
{
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

static bool unit_has_leaf(uint32_t unit)
{
    return unit >> 8 & 1;
}

static uint32_t unit_label(uint32_t unit)
{
    return unit & ((1u << 31) | 0xff);
}

/* The value of the shortest or the longest beginning of key that is in the trie, the longest of whole characters. Returns its bytes;
 * 0: there is none. */
static size_t find_value(const struct charsmap *charsmap, const char *key, size_t n_key,
                         uint32_t *value_out)
{
    uint32_t unit, leaf, place = 0;
    size_t n_found = 0;

    if (!unit_at(charsmap, place, &unit))
        return 0;
    place = unit_offset(unit);
    for (size_t i = 0; i < n_key && key[i] != '\0'; i++) {
        uint8_t byte = (uint8_t)key[i];
        place ^= byte;
        if (!unit_at(charsmap, place, &unit) || unit_label(unit) != byte)
            break;
        place ^= unit_offset(unit);
        const bool is_inside = i + 1 < n_key && ((uint8_t)key[i + 1] & 0xc0) == 0x80;
        if (!unit_has_leaf(unit) || (charsmap->takes_longest && is_inside))
            continue;
        if (!unit_at(charsmap, place, &leaf))
            break;
        *value_out = leaf & ~(1u << 31);
        n_found = i + 1;
        if (!charsmap->takes_longest)
            break;
    }
    return n_found;
}

/* What a beginning of key becomes. Returns its bytes; 0: key stays. */
static size_t find_text(const struct charsmap *charsmap, const char *key, size_t n_key,
                        const char **text_out, size_t *n_bytes_out)
{
    const size_t n_trie = 4 * charsmap->n_units;
    const char *texts = (const char *)charsmap->bytes + n_trie;
    const size_t n_texts = charsmap->n_bytes - n_trie;
    uint32_t value;

    const size_t n_found = find_value(charsmap, key, n_key, &value);
    if (n_found == 0 || value > n_texts ||
        (value < n_texts && ((uint8_t)texts[value] & 0xc0) == 0x80)) /* inside of a character */
        return 0;
    const char *end = memchr(texts + value, '\0', n_texts - value);
    *text_out = texts + value;
    *n_bytes_out = end ? (size_t)(end - texts) - value : n_texts - value;
    return n_found;
}

static void fill_same(struct charsmap *charsmap)
{
    for (unsigned i = 0; i < sizeof charsmap->is_same; i++) {
        char character = (char)i;
        const char *text;
        size_t n_bytes;
        charsmap->is_same[i] = find_text(charsmap, &character, 1, &text, &n_bytes) == 0;
    }
}

enum status charsmap_init(struct charsmap *charsmap, const struct field *field, struct error *error)
{
    struct field map = field_member(field, "precompiled_charsmap");
    struct field longest = field_member(field, "takes_longest");
    const char *text;
    size_t n_text, n_bytes;

    *charsmap = (struct charsmap){0};
    TRY(field_bool(&longest, error, &charsmap->takes_longest));
    if (field_is_blank(&map))
        return STATUS_OK;
    TRY(field_text(&map, error, &text, &n_text));
    charsmap->bytes = malloc(base64_bytes_max(n_text) + 1);
    if (!charsmap->bytes)
        return STATUS_NO_MEMORY;
    if (base64_decode(text, n_text, charsmap->bytes, &n_bytes) && take_table(charsmap, n_bytes)) {
        fill_same(charsmap);
        return STATUS_OK;
    }
    charsmap_finish(charsmap);
    return error_set(error, STATUS_CORRUPT, "%s is no base64 of a table of characters", map.path);
}

static enum status put_characters(const struct charsmap *charsmap, const char *grapheme,
                                  size_t n_bytes, struct rewritten *made, struct error *error)
{
    for (size_t at = 0, length; at < n_bytes; at += length) {
        uint32_t codepoint;
        length = utf8_read(grapheme + at, &codepoint);
        const char *text = grapheme + at;
        size_t n_text = length;
        find_text(charsmap, grapheme + at, length, &text, &n_text);
        TRY(rewritten_append(made, text, n_text, error));
    }
    return STATUS_OK;
}

static enum status put_grapheme(const struct charsmap *charsmap, const char *grapheme,
                                size_t n_bytes, struct rewritten *made, struct error *error)
{
    const char *text;
    size_t n_text;

    if (n_bytes <= GRAPHEME_BYTES_MAX && find_text(charsmap, grapheme, n_bytes, &text, &n_text))
        return rewritten_append(made, text, n_text, error);
    return put_characters(charsmap, grapheme, n_bytes, made, error);
}

/* Bytes of the grapheme that begins at at. */
static size_t grapheme_bytes(const struct rewritten *text, size_t at)
{
    utf8proc_int32_t state = 0;
    uint32_t codepoint, next;
    size_t end = at + utf8_read(text->bytes + at, &codepoint);

    while (end < text->n_bytes) {
        size_t length = utf8_read(text->bytes + end, &next);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)codepoint, (utf8proc_int32_t)next,
                                             &state))
            break;
        codepoint = next;
        end += length;
    }
    return end - at;
}

/* Of the text from at on: a beginning is replaced, or one character stays. Returns the bytes that are done. */
static enum status put_longest(const struct charsmap *charsmap, const struct rewritten *text,
                               size_t at, struct rewritten *made, struct error *error,
                               size_t *n_done_out)
{
    const char *key = text->bytes + at, *by = key;
    size_t n_by;
    uint32_t codepoint;
    const size_t n_found = find_text(charsmap, key, text->n_bytes - at, &by, &n_by);

    *n_done_out = n_found > 0 ? n_found : utf8_read(key, &codepoint);
    return rewritten_append(made, by, n_found > 0 ? n_by : *n_done_out, error);
}

/* Characters of ASCII from at on that stay, each a grapheme, as another one of ASCII follows. Of the longest beginning more than one
 * character may be replaced together. */
static size_t count_same(const struct charsmap *charsmap, const struct rewritten *text, size_t at)
{
    size_t end = at;

    while (!charsmap->takes_longest && end + 1 < text->n_bytes) {
        uint8_t byte = (uint8_t)text->bytes[end], next = (uint8_t)text->bytes[end + 1];
        if (byte >= 0x80 || next >= 0x80 || !charsmap->is_same[byte] || byte == '\r')
            break;
        end++;
    }
    return end - at;
}

enum status charsmap_apply(const struct charsmap *charsmap, struct rewritten *text_inout,
                           struct error *error)
{
    struct rewritten made = {.is_moved = text_inout->is_moved};
    enum status status = STATUS_OK;

    if (!charsmap->bytes)
        return STATUS_OK;
    for (size_t at = 0, n_bytes; at < text_inout->n_bytes && status == STATUS_OK; at += n_bytes) {
        n_bytes = count_same(charsmap, text_inout, at);
        if (n_bytes > 0) {
            status = rewritten_append(&made, text_inout->bytes + at, n_bytes, error);
        } else if (charsmap->takes_longest) {
            status = put_longest(charsmap, text_inout, at, &made, error, &n_bytes);
        } else {
            n_bytes = grapheme_bytes(text_inout, at);
            status = put_grapheme(charsmap, text_inout->bytes + at, n_bytes, &made, error);
        }
    }
    rewritten_finish(status == STATUS_OK ? text_inout : &made);
    if (status == STATUS_OK)
        *text_inout = made;
    return status;
}
