/*
 * From left to right each place knows the best way that ends there; each token that begins there may better the place where it
 * ends. The way is then walked back from the end, which turns its links round, and forth again, which puts the ids.
 */
#include "tokenizer/pieces/unigram.h"

#include "base/utf8.h"

#include <assert.h>
#include <stdlib.h>

#define NOWHERE UINT32_MAX

struct unigram_end {
    double score; /* of the whole way */
    uint32_t
        from; /* where its last token begins; once the way is known: where it ends. NOWHERE: no way ends here */
    uint32_t id; /* of that token */
};

void unigram_finish(struct unigram *unigram)
{
    free(unigram->ends);
    unigram->ends = NULL;
    unigram->ends_max = 0;
}

static enum status reserve(struct unigram *unigram, size_t n)
{
    if (n <= unigram->ends_max)
        return STATUS_OK;
    free(unigram->ends);
    unigram->ends_max = 0;
    unigram->ends = malloc(n * sizeof *unigram->ends);
    if (!unigram->ends)
        return STATUS_NO_MEMORY;
    unigram->ends_max = n;
    return STATUS_OK;
}

/* The way to from, and then the token id, is the one to end if it is better. */
static void better(const struct unigram *unigram, size_t end_at, double score, uint32_t from,
                   uint32_t id)
{
    struct unigram_end *end = &unigram->ends[end_at];
    double sum = score + unigram->ends[from].score;

    if (unigram->rules->sums_in_float32)
        sum = (double)(float)sum;
    if (end->from == NOWHERE || sum > end->score)
        *end = (struct unigram_end){sum, from, id};
}

/* All tokens that begin at at, where a character of length bytes begins. */
static enum status look_ahead(struct unigram *unigram, const uint8_t *piece, size_t n_bytes,
                              size_t at, size_t length)
{
    const struct token_trie *trie = unigram->trie;
    const struct unigram_rules *rules = unigram->rules;
    uint32_t node = TOKEN_TRIE_ROOT;
    bool has_single = false;

    for (size_t i = at; i < n_bytes; i++) {
        node = token_trie_step(trie, node, piece[i]);
        if (node == TOKEN_TRIE_NO_WAY)
            break;
        uint32_t id = trie->numbers[node];
        if (id == TOKEN_NONE)
            continue;
        better(unigram, i + 1, rules->scores[id], (uint32_t)at, id);
        has_single |= i + 1 - at == length;
    }
    if (has_single)
        return STATUS_OK;
    if (rules->unk_id == TOKEN_NONE)
        return STATUS_INVALID_ARGUMENT;
    better(unigram, at + length, rules->unknown_score, (uint32_t)at, rules->unk_id);
    return STATUS_OK;
}

static enum status find_way(struct unigram *unigram, const uint8_t *piece, size_t n_bytes,
                            struct error *error)
{
    struct unigram_end *ends = unigram->ends;
    uint32_t codepoint;

    ends[0] = (struct unigram_end){.from = 0};
    for (size_t i = 1; i <= n_bytes; i++)
        ends[i].from = NOWHERE;
    for (size_t at = 0, length; at < n_bytes; at += length) {
        length = utf8_read((const char *)piece + at, &codepoint);
        TRY(halt_look(unigram->halt));
        if (look_ahead(unigram, piece, n_bytes, at, length) != STATUS_OK)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "text has \"%.*s\", for which the tokenizer has no token", (int)length,
                             (const char *)piece + at);
    }
    return STATUS_OK;
}

/* Afterwards from, where a token begins, says where it ends, and id is its own. */
static void turn_round(struct unigram_end *ends, size_t n_bytes)
{
    uint32_t end = (uint32_t)n_bytes, next_end = NOWHERE, next_id = TOKEN_NONE;

    for (;;) {
        const struct unigram_end known = ends[end];
        ends[end].from = next_end;
        ends[end].id = next_id;
        if (end == 0)
            break;
        next_end = end;
        next_id = known.id;
        assert(known.from < end);
        end = known.from;
    }
}

static void put_unknown(struct unigram *unigram, const uint8_t *text, size_t n_bytes)
{
    const struct vocab *vocab = unigram->vocab;
    const uint32_t id = vocab_find(vocab, text, n_bytes);
    bool falls_back = unigram->rules->byte_fallback && id == TOKEN_NONE;

    for (size_t i = 0; i < n_bytes && falls_back; i++)
        falls_back = vocab->fallback_ids[text[i]] != TOKEN_NONE;
    for (size_t i = 0; i < n_bytes && falls_back; i++)
        token_buffer_put(unigram->tokens, vocab->fallback_ids[text[i]]);
    if (!falls_back)
        token_buffer_put(unigram->tokens, id != TOKEN_NONE ? id : unigram->rules->unk_id);
}

enum status unigram_encode(struct unigram *unigram, const uint8_t *piece, size_t n_bytes,
                           struct error *error)
{
    assert(n_bytes > 0 && n_bytes < NOWHERE);
    TRY(reserve(unigram, n_bytes + 1));
    TRY(find_way(unigram, piece, n_bytes, error));
    turn_round(unigram->ends, n_bytes);

    const struct unigram_end *ends = unigram->ends;
    const uint32_t unk_id = unigram->rules->unk_id;
    for (uint32_t at = 0, end; at < n_bytes; at = end) {
        end = ends[at].from;
        if (ends[at].id != unk_id) {
            token_buffer_put(unigram->tokens, ends[at].id);
            continue;
        }
        while (end < n_bytes && ends[end].id == unk_id)
            end = ends[end].from;
        put_unknown(unigram, piece + at, end - at);
    }
    return STATUS_OK;
}
