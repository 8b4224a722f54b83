#include "tokenizer/added/special_tokens.h"

#include "base/utf8.h"

#include <assert.h>
#include <stdlib.h>

#define SENTENCEPIECE_SPACE 0x2581u

/* ---- the tokens ---- */

static bool is_blank(uint32_t codepoint)
{
    return codepoint == SENTENCEPIECE_SPACE || utf8_is_white_space(codepoint);
}

/* Cuts what a normalizer writes in another way off both ends, as long as something is left. */
static void strip(const char **text_inout, size_t *n_inout)
{
    const char *text = *text_inout;
    size_t begin = 0, end = *n_inout;
    uint32_t codepoint;
    while (begin < end) {
        size_t length = utf8_read(text + begin, &codepoint);
        if (!is_blank(codepoint))
            break;
        begin += length;
    }
    while (end > begin) {
        size_t previous = utf8_previous(text, end);
        utf8_read(text + previous, &codepoint);
        if (!is_blank(codepoint))
            break;
        end = previous;
    }
    if (begin == end)
        return;
    *text_inout = text + begin;
    *n_inout = end - begin;
}

/* The same content twice is one. */
static enum status add(struct byte_tree *tree, const char *text, size_t n_bytes)
{
    enum status status = byte_tree_add(tree, text, n_bytes, (uint32_t)n_bytes);
    return status == STATUS_CORRUPT ? STATUS_OK : status;
}

enum status special_tokens_add(struct special_tokens *special, const char *content, size_t n_bytes,
                               bool is_normalized)
{
    assert(n_bytes > 0);
    if (is_normalized)
        strip(&content, &n_bytes);
    char *turned = malloc(n_bytes);
    if (!turned)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < n_bytes; i++)
        turned[i] = content[n_bytes - 1 - i];
    enum status status = add(&special->forward, content, n_bytes);
    if (status == STATUS_OK)
        status = add(&special->backward, turned, n_bytes);
    free(turned);
    if (n_bytes > special->longest_bytes)
        special->longest_bytes = n_bytes;
    return status;
}

void special_tokens_finish(struct special_tokens *special)
{
    byte_tree_finish(&special->forward);
    byte_tree_finish(&special->backward);
    *special = (struct special_tokens){0};
}

/* ---- where marks go ---- */

struct stripped {
    size_t begin, end; /* of the text, without white space */
};

static struct stripped find_ends(const char *text, size_t n_bytes)
{
    struct stripped ends = {0, n_bytes};
    uint32_t codepoint;
    while (ends.begin < n_bytes) {
        size_t length = utf8_read(text + ends.begin, &codepoint);
        if (!utf8_is_white_space(codepoint))
            break;
        ends.begin += length;
    }
    while (ends.end > ends.begin) {
        size_t previous = utf8_previous(text, ends.end);
        utf8_read(text + previous, &codepoint);
        if (!utf8_is_white_space(codepoint))
            break;
        ends.end = previous;
    }
    return ends;
}

/* How many marks are due behind the character at at: one if a token begins there, all of it or as far as the text goes, with or
 * without the white space at its end; two if the character is a token. White space alone begins none: templates cut it off. */
static unsigned marks_behind(const struct byte_tree *tree, const char *text, size_t n_bytes,
                             const struct stripped *ends, size_t at)
{
    uint32_t node = BYTE_TREE_ROOT, codepoint;
    for (size_t i = at; i < n_bytes; i++) {
        node = byte_tree_step(tree, node, (uint8_t)text[i]);
        if (node == BYTE_TREE_NO_WAY)
            return 0;
        if (byte_tree_number(tree, node) != BYTE_TREE_NONE)
            return utf8_read(text + at, &codepoint) == i + 1 - at ? 2 : 1;
        if (i + 1 == ends->end)
            return 1;
    }
    return at < ends->end;
}

/* Whether the text from begin on starts with the end of a token; a whole one has its mark inside. */
static bool ends_behind(const struct special_tokens *special, const char *text, size_t n_bytes,
                        size_t begin)
{
    size_t most = n_bytes - begin < special->longest_bytes ? n_bytes - begin
                                                           : special->longest_bytes;
    for (size_t length = 1; length <= most; length++) {
        uint32_t node = BYTE_TREE_ROOT;
        size_t i = length;
        do
            node = byte_tree_step(&special->backward, node, (uint8_t)text[begin + --i]);
        while (i > 0 && node != BYTE_TREE_NO_WAY);
        if (node != BYTE_TREE_NO_WAY &&
            byte_tree_number(&special->backward, node) == BYTE_TREE_NONE)
            return true;
    }
    return false;
}

void special_tokens_find(const struct special_tokens *special, const char *text, size_t n_bytes,
                         special_mark_call call, void *arg)
{
    uint32_t codepoint;
    if (n_bytes == 0 || special->longest_bytes == 0)
        return;
    const struct stripped ends = find_ends(text, n_bytes);
    unsigned n_due = 0; /* behind the character before */
    for (size_t at = 0; at < n_bytes;) {
        bool is_end = (at == 0 || at == ends.begin) && at < ends.end &&
                      ends_behind(special, text, n_bytes, at);
        for (unsigned i = n_due > 0 || !is_end ? n_due : 1; i > 0; i--)
            call(arg, at);
        n_due = marks_behind(&special->forward, text, n_bytes, &ends, at);
        at += utf8_read(text + at, &codepoint);
    }
    for (; n_due > 0; n_due--)
        call(arg, n_bytes);
}
