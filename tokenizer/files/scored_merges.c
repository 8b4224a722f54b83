#include "tokenizer/files/scored_merges.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct merge {
    uint32_t token;                        /* that it makes */
    uint32_t cut;                          /* bytes of the left half */
    uint32_t left, right, n_left, n_right; /* indices of the halves, and their characters */
    uint64_t order;                        /* in which it was found */
    double score;
};

struct finder {
    const struct scored_token *tokens;
    uint32_t *slots; /* [n_slots] index + 1 of a token, by a hash of its text; 0: free */
    size_t n_slots;
    struct merge *merges;
    size_t n_merges, n_room;
    bool is_ranked;
};

static uint64_t hash_of(const char *text, size_t n)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (uint8_t)text[i]) * 1099511628211u;
    return hash;
}

static bool is_text(const struct scored_token *token, const char *text, size_t n)
{
    return token->n_bytes == n && memcmp(token->text, text, n) == 0;
}

/* The slot of a text, or the free one where it would be. */
static uint32_t *slot_of(const struct finder *finder, const char *text, size_t n)
{
    size_t at = hash_of(text, n) % finder->n_slots;
    while (finder->slots[at] && !is_text(&finder->tokens[finder->slots[at] - 1], text, n))
        at = at + 1 == finder->n_slots ? 0 : at + 1;
    return &finder->slots[at];
}

static enum status add_merge(struct finder *finder, const struct merge *merge)
{
    if (finder->n_merges == finder->n_room) {
        const size_t n_room = finder->n_room ? 2 * finder->n_room : 4096;
        struct merge *merges = realloc(finder->merges, n_room * sizeof *merges);
        if (!merges)
            return STATUS_NO_MEMORY;
        finder->merges = merges;
        finder->n_room = n_room;
    }
    finder->merges[finder->n_merges] = *merge;
    finder->merges[finder->n_merges].order = finder->n_merges;
    finder->n_merges++;
    return STATUS_OK;
}

/* Of one token: by the indices of the halves. */
static int by_halves(const void *left, const void *right)
{
    const struct merge *a = left, *b = right;
    if (a->left != b->left)
        return (a->left > b->left) - (a->left < b->left);
    return (a->right > b->right) - (a->right < b->right);
}

static int by_score(const void *left, const void *right)
{
    const struct merge *a = left, *b = right;
    if (a->score != b->score)
        return (a->score < b->score) - (a->score > b->score);
    if (a->n_left != b->n_left)
        return (a->n_left < b->n_left) - (a->n_left > b->n_left);
    if (a->n_right != b->n_right)
        return (a->n_right < b->n_right) - (a->n_right > b->n_right);
    return (a->order > b->order) - (a->order < b->order);
}

static enum status find_merges(struct finder *finder, uint32_t index)
{
    const struct scored_token *token = &finder->tokens[index];
    const size_t first = finder->n_merges;
    for (size_t cut = 1; cut < token->n_bytes; cut++) {
        if (((uint8_t)token->text[cut] & 0xc0) == 0x80)
            continue; /* inside of a character */
        const uint32_t left = *slot_of(finder, token->text, cut);
        const uint32_t right = left ? *slot_of(finder, token->text + cut, token->n_bytes - cut) : 0;
        if (!right)
            continue;
        const struct merge merge = {
            .token = index,
            .cut = (uint32_t)cut,
            .left = left - 1,
            .right = right - 1,
            .n_left = (uint32_t)utf8_count(token->text, cut),
            .n_right = (uint32_t)utf8_count(token->text + cut, token->n_bytes - cut),
            .score = token->score};
        TRY(add_merge(finder, &merge));
    }
    if (finder->n_merges > first) {
        qsort(finder->merges + first, finder->n_merges - first, sizeof *finder->merges, by_halves);
        for (size_t i = first; i < finder->n_merges; i++)
            finder->merges[i].order = i;
    }
    return STATUS_OK;
}

static enum status write_merges(const struct finder *finder, json_t *list)
{
    for (size_t i = 0; i < finder->n_merges; i++) {
        const struct merge *merge = &finder->merges[i];
        const struct scored_token *token = &finder->tokens[merge->token];
        json_t *pair = json_array();
        json_array_append_new(pair, json_stringn(token->text, merge->cut));
        json_array_append_new(pair,
                              json_stringn(token->text + merge->cut, token->n_bytes - merge->cut));
        if (finder->is_ranked)
            json_array_append_new(pair, json_integer((json_int_t)-merge->score));
        if (json_array_append_new(list, pair) != 0)
            return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

/* A text that no token is longer than, so that a hostile token of megabytes takes no quadratic time. */
enum { MERGED_BYTES_MAX = 256 };

static enum status find_all(struct finder *finder, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t *slot = slot_of(finder, finder->tokens[i].text, finder->tokens[i].n_bytes);
        if (!*slot)
            *slot = (uint32_t)i + 1;
    }
    for (size_t i = 0; i < n; i++)
        if (finder->tokens[i].n_bytes <= MERGED_BYTES_MAX)
            TRY(find_merges(finder, (uint32_t)i));
    if (finder->n_merges > 0)
        qsort(finder->merges, finder->n_merges, sizeof *finder->merges, by_score);
    return STATUS_OK;
}

static enum status add_all(const struct scored_token *tokens, size_t n, bool is_ranked,
                           json_t *list)
{
    struct finder finder = {.tokens = tokens, .n_slots = 2 * n + 1, .is_ranked = is_ranked};
    finder.slots = calloc(finder.n_slots, sizeof *finder.slots);
    enum status status = finder.slots ? find_all(&finder, n) : STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = write_merges(&finder, list);
    free(finder.slots);
    free(finder.merges);
    return status;
}

enum status scored_merges_add(const struct scored_token *tokens, size_t n, json_t *list)
{
    return add_all(tokens, n, false, list);
}

enum status scored_merges_add_ranked(const struct scored_token *tokens, size_t n, json_t *list)
{
    return add_all(tokens, n, true, list);
}
