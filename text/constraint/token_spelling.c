#include "text/constraint/token_spelling.h"

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- the bytes of each token ---- */

static bool is_among(uint32_t id, const uint32_t *ids, uint32_t n_ids)
{
    for (uint32_t i = 0; i < n_ids; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static bool is_special(const struct tokenizer *tokenizer, uint32_t id, const uint32_t *ends,
                       uint32_t n_ends)
{
    const struct special_ids ids = tokenizer_special_ids(tokenizer);
    return tokenizer_is_special(tokenizer, id) || is_among(id, ends, n_ends) || id == ids.bos ||
           id == ids.eos || id == ids.pad || id == ids.unk;
}

/* Writes the bytes of id at out, if not NULL, and returns how many there are. */
static uint32_t write_token(const struct tokenizer *tokenizer, uint32_t id, bool special,
                            uint8_t *out)
{
    size_t n_bytes = 0;
    const char *text = tokenizer_token_bytes(tokenizer, id, &n_bytes);
    if (!special) {
        if (n_bytes && (uint8_t)text[0] == SPELLING_SPECIAL)
            return 0;
        if (out && n_bytes)
            memcpy(out, text, n_bytes);
        return (uint32_t)n_bytes;
    }
    if (out) {
        out[0] = SPELLING_SPECIAL;
        if (n_bytes)
            memcpy(out + 1, text, n_bytes);
    }
    return (uint32_t)n_bytes + 1;
}

static enum status read_tokens(struct token_spelling *spelling, const uint32_t *ends,
                               uint32_t n_ends)
{
    const struct tokenizer *tokenizer = spelling->tokenizer;
    const uint32_t n_known = tokenizer_n_ids(tokenizer) < spelling->n_ids
                                 ? tokenizer_n_ids(tokenizer)
                                 : spelling->n_ids;
    uint32_t n_bytes = 0;
    for (uint32_t id = 0; id < n_known; id++) {
        const bool special = is_special(tokenizer, id, ends, n_ends);
        spelling->starts[id] = n_bytes;
        spelling->lengths[id] = write_token(tokenizer, id, special, NULL);
        n_bytes += spelling->lengths[id];
    }
    spelling->bytes = malloc(n_bytes + 1);
    if (!spelling->bytes)
        return STATUS_NO_MEMORY;
    for (uint32_t id = 0; id < n_known; id++) {
        const bool special = is_special(tokenizer, id, ends, n_ends);
        if (spelling->lengths[id] == 0)
            continue;
        write_token(tokenizer, id, special, spelling->bytes + spelling->starts[id]);
        if (!special)
            spelling->texts[spelling->n_texts++] = id;
    }
    return STATUS_OK;
}

static int by_bytes(const void *left, const void *right, void *arg)
{
    const struct token_spelling *spelling = arg;
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const uint32_t n_a = spelling->lengths[a], n_b = spelling->lengths[b];
    const int order = memcmp(spelling->bytes + spelling->starts[a],
                             spelling->bytes + spelling->starts[b], n_a < n_b ? n_a : n_b);
    if (order)
        return order;
    if (n_a != n_b)
        return n_a < n_b ? -1 : 1;
    return a > b ? -1 : 1;
}

/* ---- the longest token that fits ---- */

static int byte_at(const struct token_spelling *spelling, uint32_t place, uint32_t depth)
{
    const uint32_t id = spelling->texts[place];
    return depth < spelling->lengths[id] ? spelling->bytes[spelling->starts[id] + depth] : -1;
}

/* The first place from low, before high, whose byte at depth is at least byte. */
static uint32_t first_place(const struct token_spelling *spelling, uint32_t low, uint32_t high,
                            uint32_t depth, int byte)
{
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (byte_at(spelling, middle, depth) < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that piece begins with, or TOKEN_NONE. */
static uint32_t longest_token(const struct token_spelling *spelling, const uint8_t *piece,
                              size_t n_bytes)
{
    uint32_t longest = TOKEN_NONE, low = 0, high = spelling->n_texts;
    for (uint32_t depth = 0; depth < n_bytes; depth++) {
        low = first_place(spelling, low, high, depth, piece[depth]);
        high = first_place(spelling, low, high, depth, piece[depth] + 1);
        if (low == high)
            break;
        if (spelling->lengths[spelling->texts[low]] == depth + 1)
            longest = spelling->texts[low];
    }
    return longest;
}

static size_t encode_longest(const struct token_spelling *spelling, const uint8_t *piece,
                             size_t n_bytes, uint32_t *ids_out, size_t ids_max)
{
    size_t n_ids = 0;
    for (size_t at = 0; at < n_bytes;) {
        const uint32_t id = longest_token(spelling, piece + at, n_bytes - at);
        if (id == TOKEN_NONE)
            break;
        if (n_ids < ids_max)
            ids_out[n_ids] = id;
        n_ids++;
        at += spelling->lengths[id];
    }
    return n_ids;
}

/* ---- the encoder ---- */

static bool spells(const struct token_spelling *spelling, const uint32_t *ids, size_t n_ids,
                   const uint8_t *piece, size_t n_bytes)
{
    size_t at = 0;
    for (size_t i = 0; i < n_ids; i++) {
        const uint32_t length = spelling->lengths[ids[i]];
        if (length == 0 || length > n_bytes - at ||
            memcmp(spelling->bytes + spelling->starts[ids[i]], piece + at, length) != 0)
            return false;
        at += length;
    }
    return at == n_bytes;
}

#define ENCODED_IDS_MAX (SPELLING_WINDOW_MAX + 16)

/* By the encoder; what it makes of lead goes. 0: not as it is, or not at all. */
static size_t encode_text(const struct token_spelling *spelling, const uint8_t *piece,
                          size_t n_bytes, uint32_t ids_out[ENCODED_IDS_MAX])
{
    char text[SPELLING_WINDOW_MAX + 1];
    const size_t n_lead = spelling->n_lead ? 1 : 0;
    text[0] = spelling->lead;
    memcpy(text + n_lead, piece, n_bytes);
    struct token_buffer buffer = {.ids = ids_out, .ids_max = ENCODED_IDS_MAX};
    const struct encode_input input = {.text = text, .text_bytes = n_bytes + n_lead};
    const enum status status = tokenizer_encode(spelling->tokenizer, &input, &buffer, NULL);
    if (status != STATUS_OK || buffer.n_ids <= spelling->n_lead)
        return 0;
    for (size_t i = 0; i < buffer.n_ids; i++)
        if (ids_out[i] >= spelling->n_ids)
            return 0;
    const size_t n_ids = buffer.n_ids - spelling->n_lead;
    memmove(ids_out, ids_out + spelling->n_lead, n_ids * sizeof *ids_out);
    return spells(spelling, ids_out, n_ids, piece, n_bytes) ? n_ids : 0;
}

/* How much of a piece, which begins with a character, the encoder can have: whole characters. */
static size_t whole_bytes(const uint8_t *piece, size_t n_bytes)
{
    size_t at = 0, length;
    while (at < n_bytes && utf8_sequence(piece + at, n_bytes - at, &length) == UTF8_WHOLE)
        at += length;
    return at;
}

size_t token_spelling_encode(const struct token_spelling *spelling, const uint8_t *piece,
                             size_t n_bytes, uint32_t *ids_out, size_t ids_max)
{
    assert(spelling->spells_ascii);
    n_bytes = n_bytes < spelling->window ? n_bytes : spelling->window;
    /* The rest of a character that has begun before. */
    size_t begun = 0;
    while (begun < n_bytes && begun < 3 && (piece[begun] & 0xC0) == 0x80)
        begun++;
    size_t n_ids = encode_longest(spelling, piece, begun, ids_out, ids_max);

    uint32_t ids[ENCODED_IDS_MAX];
    const size_t whole = whole_bytes(piece + begun, n_bytes - begun);
    const size_t n_whole = whole ? encode_text(spelling, piece + begun, whole, ids) : 0;
    for (size_t i = 0; i < n_whole; i++, n_ids++)
        if (n_ids < ids_max)
            ids_out[n_ids] = ids[i];

    const size_t done = begun + (n_whole ? whole : 0);
    const size_t room = n_ids < ids_max ? ids_max - n_ids : 0;
    return n_ids + encode_longest(spelling, piece + done, n_bytes - done,
                                  room ? ids_out + n_ids : NULL, room);
}

/* ---- create and destroy ---- */

/* A few of the longest tokens are to be whole in it: the library leaves out those at the end. */
static uint32_t window_bytes(const struct token_spelling *spelling)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < spelling->n_texts; i++)
        if (spelling->lengths[spelling->texts[i]] > longest)
            longest = spelling->lengths[spelling->texts[i]];
    if (longest > SPELLING_WINDOW_MAX / 4)
        return SPELLING_WINDOW_MAX;
    return 4 * longest > SPELLING_WINDOW_MIN ? 4 * longest : SPELLING_WINDOW_MIN;
}

static bool has_ascii(const struct token_spelling *spelling)
{
    for (int byte = ' '; byte <= '~'; byte++)
        if (longest_token(spelling, &(const uint8_t){(uint8_t)byte}, 1) == TOKEN_NONE)
            return false;
    return true;
}

/* An encoder may put a blank before a text. Then a piece gets a lead, of whose tokens none goes on into the piece. */
static void choose_lead(struct token_spelling *spelling)
{
    static const char LEADS[] = {'\n', '\t', '\x02', '\x1f'};
    static const char *const PIECES[] = {"a", " a", "{\"", "\n", "  ", "1"};
    uint32_t ids[ENCODED_IDS_MAX];
    if (encode_text(spelling, (const uint8_t *)"a", 1, ids))
        return;
    for (size_t i = 0; i < sizeof LEADS; i++) {
        struct token_buffer buffer = {.ids = ids, .ids_max = ENCODED_IDS_MAX};
        const struct encode_input input = {.text = LEADS + i, .text_bytes = 1};
        if (tokenizer_encode(spelling->tokenizer, &input, &buffer, NULL) != STATUS_OK)
            continue;
        spelling->lead = LEADS[i];
        spelling->n_lead = (uint32_t)buffer.n_ids;
        bool fits = buffer.n_ids > 0;
        for (size_t k = 0; fits && k < sizeof PIECES / sizeof *PIECES; k++)
            fits = encode_text(spelling, (const uint8_t *)PIECES[k], strlen(PIECES[k]), ids) > 0;
        if (fits)
            return;
    }
    spelling->n_lead = 0;
}

enum status token_spelling_create(const struct tokenizer *tokenizer, uint32_t n_ids,
                                  const uint32_t *ends, uint32_t n_ends,
                                  struct token_spelling **spelling_out)
{
    enum status status = STATUS_NO_MEMORY;
    struct token_spelling *spelling = calloc(1, sizeof *spelling);
    if (!spelling)
        return STATUS_NO_MEMORY;
    spelling->tokenizer = tokenizer;
    spelling->n_ids = n_ids;
    spelling->lengths = calloc((size_t)n_ids + 1, sizeof *spelling->lengths);
    spelling->starts = calloc((size_t)n_ids + 1, sizeof *spelling->starts);
    spelling->texts = calloc((size_t)n_ids + 1, sizeof *spelling->texts);
    if (!spelling->lengths || !spelling->starts || !spelling->texts)
        goto fail;
    status = read_tokens(spelling, ends, n_ends);
    if (status != STATUS_OK)
        goto fail;
    qsort_r(spelling->texts, spelling->n_texts, sizeof *spelling->texts, by_bytes, spelling);
    spelling->window = window_bytes(spelling);
    spelling->spells_ascii = has_ascii(spelling);
    if (spelling->spells_ascii)
        choose_lead(spelling);
    *spelling_out = spelling;
    return STATUS_OK;

fail:
    token_spelling_destroy(spelling);
    return status;
}

void token_spelling_destroy(struct token_spelling *spelling)
{
    if (!spelling)
        return;
    free(spelling->lengths);
    free(spelling->starts);
    free(spelling->bytes);
    free(spelling->texts);
    free(spelling);
}
