/*
 * Merging gives the same ids whichever way the pair of lowest rank is found:
 *
 *     encode_short   n steps of n comparisons, all in registers and the first cache
 *     encode_long    n steps of log n: a doubly linked list over the piece, and a binary heap whose
 *                    keys order by rank first and by place second, as the definition does
 */
#include "tokenizer/pieces/bpe.h"

#include "base/utf8.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Below this the search is faster than the heap: measured on English text, flat from 32 to 128. */
#define SHORT_PIECE_BYTES 64
#define NO_NODE           UINT32_MAX

struct bpe_node {
    uint32_t id; /* TOKEN_NONE: merged into the one before */
    uint32_t previous;
    uint32_t next;
    uint32_t rank; /* of the merge with the next one */
};

void bpe_finish(struct bpe *bpe)
{
    free(bpe->ids);
    free(bpe->nodes);
    free(bpe->heap);
    bpe->ids = NULL;
    bpe->nodes = NULL;
    bpe->heap = NULL;
}

static uint32_t pair_rank(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    return merges_find(bpe->merges, left, right)->rank;
}

/* The tokens of a character's bytes; returns how many; 0: a byte has no token. */
static size_t fall_back(const struct bpe *bpe, const uint8_t *character, size_t n_bytes,
                        uint32_t *ids)
{
    for (size_t i = 0; i < n_bytes; i++) {
        ids[i] = bpe->vocab->fallback_ids[character[i]];
        if (ids[i] == TOKEN_NONE)
            return 0;
    }
    return n_bytes;
}

/* The token of one character of a piece, with what it is written with there. */
static uint32_t find_symbol(const struct bpe *bpe, const uint8_t *piece, size_t n_bytes, size_t at,
                            size_t length)
{
    const struct affix *prefix = &bpe->rules->prefix, *suffix = &bpe->rules->suffix;
    const bool has_prefix = prefix->n > 0 && at > 0;
    const bool has_suffix = suffix->n > 0 && at + length == n_bytes;
    uint8_t written[2 * AFFIX_BYTES_MAX + 4];
    size_t n = 0;

    if (!has_prefix && !has_suffix)
        return length == 1 ? bpe->vocab->byte_ids[piece[at]]
                           : vocab_find(bpe->vocab, piece + at, length);
    if (has_prefix)
        memcpy(written, prefix->bytes, n = prefix->n);
    memcpy(written + n, piece + at, length);
    n += length;
    if (has_suffix)
        memcpy(written + n, suffix->bytes, suffix->n);
    return vocab_find(bpe->vocab, written, n + (has_suffix ? suffix->n : 0));
}

/* What merging starts from: at most n_bytes ids, returns how many. As in the tokenizers package an
 * unknown token is put only when the next known one comes, so that byte tokens overtake it. */
static size_t read_symbols(const struct bpe *bpe, const uint8_t *piece, size_t n_bytes,
                           uint32_t *ids)
{
    const struct bpe_rules *rules = bpe->rules;
    bool has_unknown = false;
    size_t n = 0;

    for (size_t at = 0, length; at < n_bytes; at += length) {
        uint32_t codepoint;
        length = bpe->vocab->is_byte_level ? 1 : utf8_read((const char *)piece + at, &codepoint);
        uint32_t id = find_symbol(bpe, piece, n_bytes, at, length);
        size_t n_fallback = 0;
        if (id == TOKEN_NONE && rules->byte_fallback)
            n_fallback = fall_back(bpe, piece + at, length, ids + n);
        n += n_fallback;
        if (n_fallback > 0 || (id == TOKEN_NONE && rules->unk_id == TOKEN_NONE))
            continue;
        if (has_unknown && (id != TOKEN_NONE || !rules->fuse_unk))
            ids[n++] = rules->unk_id;
        has_unknown = id == TOKEN_NONE;
        if (!has_unknown)
            ids[n++] = id;
    }
    if (has_unknown)
        ids[n++] = rules->unk_id;
    assert(n <= n_bytes);
    return n;
}

static void encode_short(struct bpe *bpe, const uint8_t *piece, size_t n_bytes)
{
    uint32_t ids[SHORT_PIECE_BYTES];
    uint32_t ranks[SHORT_PIECE_BYTES]; /* of ids[i] with ids[i + 1] */

    assert(n_bytes <= SHORT_PIECE_BYTES);
    size_t n = read_symbols(bpe, piece, n_bytes, ids);
    for (size_t i = 0; i + 1 < n; i++)
        ranks[i] = pair_rank(bpe, ids[i], ids[i + 1]);

    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best])
                best = i;
        if (ranks[best] == MERGE_RANK_NONE)
            break;
        ids[best] = merges_find(bpe->merges, ids[best], ids[best + 1])->id;
        n--;
        memmove(ids + best + 1, ids + best + 2, (n - best - 1) * sizeof *ids);
        memmove(ranks + best, ranks + best + 1, (n - best) * sizeof *ranks);
        if (best > 0)
            ranks[best - 1] = pair_rank(bpe, ids[best - 1], ids[best]);
        if (best + 1 < n)
            ranks[best] = pair_rank(bpe, ids[best], ids[best + 1]);
    }
    for (size_t i = 0; i < n; i++)
        token_buffer_put(bpe->tokens, ids[i]);
}

static enum status heap_push(struct bpe *bpe, size_t *n_heap, uint64_t key)
{
    if (*n_heap == bpe->heap_max) {
        size_t heap_max = bpe->heap_max ? bpe->heap_max * 2 : 256;
        uint64_t *heap = realloc(bpe->heap, heap_max * sizeof *heap);
        if (!heap)
            return STATUS_NO_MEMORY;
        bpe->heap = heap;
        bpe->heap_max = heap_max;
    }
    size_t at = (*n_heap)++;
    while (at > 0 && bpe->heap[(at - 1) / 2] > key) {
        bpe->heap[at] = bpe->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    bpe->heap[at] = key;
    return STATUS_OK;
}

static uint64_t heap_pop(uint64_t *heap, size_t *n_heap)
{
    assert(*n_heap > 0);
    uint64_t least = heap[0];
    uint64_t key = heap[--*n_heap];
    size_t at = 0;

    for (size_t child = 1; child < *n_heap; child = 2 * at + 1) {
        if (child + 1 < *n_heap && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= key)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = key;
    return least;
}

/* Looks up the pair that begins at a node, and queues it. */
static enum status queue_pair(struct bpe *bpe, uint32_t at, size_t *n_heap)
{
    struct bpe_node *node = &bpe->nodes[at];

    assert(node->id != TOKEN_NONE);
    node->rank = MERGE_RANK_NONE;
    if (node->next == NO_NODE)
        return STATUS_OK;
    node->rank = pair_rank(bpe, node->id, bpe->nodes[node->next].id);
    if (node->rank == MERGE_RANK_NONE)
        return STATUS_OK;
    return heap_push(bpe, n_heap, (uint64_t)node->rank << 32 | at);
}

static enum status nodes_reserve(struct bpe *bpe, size_t n_bytes)
{
    if (n_bytes <= bpe->nodes_max)
        return STATUS_OK;
    free(bpe->ids);
    free(bpe->nodes);
    bpe->nodes_max = 0;
    bpe->ids = malloc(n_bytes * sizeof *bpe->ids);
    bpe->nodes = malloc(n_bytes * sizeof *bpe->nodes);
    if (!bpe->ids || !bpe->nodes)
        return STATUS_NO_MEMORY;
    bpe->nodes_max = n_bytes;
    return STATUS_OK;
}

/* Returns how many there are. */
static uint32_t nodes_fill(struct bpe *bpe, const uint8_t *piece, size_t n_bytes)
{
    uint32_t n = (uint32_t)read_symbols(bpe, piece, n_bytes, bpe->ids);

    for (uint32_t i = 0; i < n; i++)
        bpe->nodes[i] = (struct bpe_node){.id = bpe->ids[i],
                                          .previous = i == 0 ? NO_NODE : i - 1,
                                          .next = i + 1 == n ? NO_NODE : i + 1};
    return n;
}

/* Merges the node at with the next one. */
static enum status merge_pair(struct bpe *bpe, uint32_t at, size_t *n_heap)
{
    struct bpe_node *node = &bpe->nodes[at];
    assert(node->next != NO_NODE);
    struct bpe_node *gone = &bpe->nodes[node->next];
    assert(gone->previous == at);

    node->id = merges_find(bpe->merges, node->id, gone->id)->id;
    node->next = gone->next;
    gone->id = TOKEN_NONE;
    gone->rank = MERGE_RANK_NONE;
    if (node->next != NO_NODE)
        bpe->nodes[node->next].previous = at;
    TRY(queue_pair(bpe, at, n_heap));
    return node->previous == NO_NODE ? STATUS_OK : queue_pair(bpe, node->previous, n_heap);
}

static enum status encode_long(struct bpe *bpe, const uint8_t *piece, size_t n_bytes)
{
    size_t n_heap = 0;

    assert(n_bytes < NO_NODE);
    TRY(nodes_reserve(bpe, n_bytes));
    uint32_t n = nodes_fill(bpe, piece, n_bytes);
    for (uint32_t i = 0; i < n; i++)
        TRY(queue_pair(bpe, i, &n_heap));
    while (n_heap > 0) {
        TRY(halt_look(bpe->halt));
        uint64_t key = heap_pop(bpe->heap, &n_heap);
        uint32_t at = (uint32_t)key;
        /* A key is stale when its pair has changed since: then the rank has too, as no longer text
         * merges by the same pair; a node that is gone has no rank. */
        if (bpe->nodes[at].rank == (uint32_t)(key >> 32))
            TRY(merge_pair(bpe, at, &n_heap));
    }
    for (uint32_t at = n == 0 ? NO_NODE : 0; at != NO_NODE; at = bpe->nodes[at].next)
        token_buffer_put(bpe->tokens, bpe->nodes[at].id);
    return STATUS_OK;
}

enum status bpe_encode(struct bpe *bpe, const uint8_t *piece, size_t n_bytes)
{
    assert(n_bytes > 0 && bpe->tokens && bpe->vocab && bpe->merges && bpe->rules);
    if (bpe->rules->ignore_merges) {
        uint32_t id = vocab_find(bpe->vocab, piece, n_bytes);
        if (id != TOKEN_NONE) {
            token_buffer_put(bpe->tokens, id);
            return STATUS_OK;
        }
    }
    if (n_bytes > SHORT_PIECE_BYTES)
        return encode_long(bpe, piece, n_bytes);
    encode_short(bpe, piece, n_bytes);
    return STATUS_OK;
}
