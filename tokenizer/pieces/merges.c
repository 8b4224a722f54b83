/*
 * Both halves of a merge, and the two together, are looked up by their bytes while reading;
 * afterwards only ids are compared.
 */
#include "tokenizer/pieces/merges.h"

#include "tokenizer/files/field.h"
#include "tokenizer/tokens.h"
#include "tokenizer/vocab/vocab.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MERGES_MAX (4 * TOKENIZER_IDS_MAX)

/* The two halves of a merge as they are written. */
struct halves {
    const char *left, *right;
    size_t left_bytes, right_bytes;
};

static struct merge *find_slot(const struct merges *merges, uint32_t left, uint32_t right)
{
    assert(left != TOKEN_NONE && right != TOKEN_NONE);
    /* Multiplying by 2^64 over the golden ratio: the high half depends on every bit of both ids. */
    uint64_t mixed = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15ull;
    uint32_t at = (uint32_t)(mixed >> 32) & merges->slot_mask;

    while (merges->slots[at].left != TOKEN_NONE &&
           (merges->slots[at].left != left || merges->slots[at].right != right))
        at = (at + 1) & merges->slot_mask;
    return &merges->slots[at];
}

const struct merge *merges_find(const struct merges *merges, uint32_t left, uint32_t right)
{
    return find_slot(merges, left, right);
}

/* A merge may have its rank; else its place in the list is that. False: it has one that is none. */
static bool read_rank(const json_t *value, uint32_t *rank_inout)
{
    if (json_array_size(value) < 3)
        return true;
    json_int_t rank = json_integer_value(json_array_get(value, 2));
    if (json_array_size(value) > 3 || !json_is_integer(json_array_get(value, 2)) || rank < 0 ||
        rank >= MERGES_MAX)
        return false;
    *rank_inout = (uint32_t)rank;
    return true;
}

/* False when value has neither spelling. */
static bool read_halves(const json_t *value, struct halves *halves)
{
    if (json_is_string(value)) {
        halves->left = json_string_value(value);
        const char *end = halves->left + json_string_length(value);
        const char *space = memchr(halves->left, ' ', (size_t)(end - halves->left));
        if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1)))
            return false;
        halves->left_bytes = (size_t)(space - halves->left);
        halves->right = space + 1;
        halves->right_bytes = (size_t)(end - halves->right);
        return true;
    }
    const json_t *left = json_array_get(value, 0);
    const json_t *right = json_array_get(value, 1);
    if (json_array_size(value) < 2 || !json_is_string(left) || !json_is_string(right))
        return false;
    *halves = (struct halves){json_string_value(left), json_string_value(right),
                              json_string_length(left), json_string_length(right)};
    return true;
}

static enum status find_half(const struct vocab *vocab, const char *text, size_t n_bytes,
                             const char *where, struct error *error, uint32_t *id_out)
{
    *id_out = vocab_find_text(vocab, text, n_bytes);
    if (*id_out != TOKEN_NONE)
        return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "%s names \"%.*s\", which model.vocab does not have",
                     where, n_bytes > 60 ? 60 : (int)n_bytes, text);
}

/* n_prefix: bytes of the right half that the two together do not have. */
static enum status read_merge(const struct field *field, const struct vocab *vocab, size_t n_prefix,
                              struct error *error, struct merge *merge_out)
{
    struct halves halves;
    char whole[2 * TOKEN_SPELLING_MAX];

    if (!read_halves(field->value, &halves) || !read_rank(field->value, &merge_out->rank))
        return error_set(error, STATUS_CORRUPT, "%s is neither \"a b\" nor [\"a\", \"b\"]",
                         field->path);
    TRY(find_half(vocab, halves.left, halves.left_bytes, field->path, error, &merge_out->left));
    TRY(find_half(vocab, halves.right, halves.right_bytes, field->path, error, &merge_out->right));
    assert(halves.left_bytes + halves.right_bytes <= sizeof whole); /* as both were found */
    if (halves.right_bytes <= n_prefix)
        return error_set(error, STATUS_CORRUPT,
                         "%s ends with \"%.*s\", which is no longer than "
                         "model.continuing_subword_prefix",
                         field->path, (int)halves.right_bytes, halves.right);
    halves.right += n_prefix;
    halves.right_bytes -= n_prefix;
    memcpy(whole, halves.left, halves.left_bytes);
    memcpy(whole + halves.left_bytes, halves.right, halves.right_bytes);
    return find_half(vocab, whole, halves.left_bytes + halves.right_bytes, field->path, error,
                     &merge_out->id);
}

static enum status merges_allocate(struct merges *merges, size_t n_merges)
{
    uint32_t n_slots = 16;

    while (n_slots * 5ull < n_merges * 8ull)
        n_slots *= 2;
    merges->slots = malloc(n_slots * sizeof *merges->slots);
    if (!merges->slots)
        return STATUS_NO_MEMORY;
    memset(merges->slots, 0xff, n_slots * sizeof *merges->slots);
    merges->slot_mask = n_slots - 1;
    assert((n_slots & merges->slot_mask) == 0);
    return STATUS_OK;
}

enum status merges_init(struct merges *merges, const struct field *merges_field,
                        const struct vocab *vocab, size_t n_prefix, struct error *error)
{
    *merges = (struct merges){0};
    TRY(field_need_array(merges_field, error));
    size_t n_merges = field_length(merges_field);
    if (n_merges > MERGES_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "%s has %zu entries, at most %u are supported",
                         merges_field->path, n_merges, MERGES_MAX);
    TRY(merges_allocate(merges, n_merges));

    for (size_t i = 0; i < n_merges; i++) {
        struct field field = field_element(merges_field, i);
        struct merge merge = {.rank = (uint32_t)i};
        enum status status = read_merge(&field, vocab, n_prefix, error, &merge);
        if (status != STATUS_OK) {
            merges_finish(merges);
            return status;
        }
        *find_slot(merges, merge.left, merge.right) = merge;
    }
    return STATUS_OK;
}

void merges_finish(struct merges *merges)
{
    free(merges->slots);
    *merges = (struct merges){0};
}
