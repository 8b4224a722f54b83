/* Tokens are sorted by their bytes, so that those below a node are next to each other. Nodes are then made level
 * by level: a node's children follow those of the node before it. */
#include "tokenizer/vocab/token_trie.h"

#include "tokenizer/tokens.h"
#include "tokenizer/vocab/vocab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct sorted_token {
    const uint8_t *bytes;
    size_t n_bytes;
    uint32_t id;
};

/* The tokens below a node: those that begin with its text. */
struct range {
    uint32_t begin, end;
    uint32_t depth;
};

struct building {
    struct token_trie *trie;
    struct sorted_token *tokens;
    uint32_t n_tokens;
    struct range *ranges; /* [nodes_max] by node */
    size_t nodes_max;
};

static int by_bytes(const void *left, const void *right)
{
    const struct sorted_token *a = left, *b = right;
    int order = memcmp(a->bytes, b->bytes, a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes);

    if (order != 0)
        return order;
    if (a->n_bytes != b->n_bytes)
        return (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
    return (a->id > b->id) - (a->id < b->id);
}

/* Whether id is the token of a byte, <0xHH>. */
static bool is_byte(const struct vocab *vocab, uint32_t id)
{
    for (unsigned i = 0; i < 256; i++)
        if (vocab->fallback_ids[i] == id)
            return true;
    return false;
}

/* The tokens in order; of several with the same bytes one. */
static enum status sort_tokens(struct building *building, const struct vocab *vocab, bool has_bytes)
{
    size_t n_bytes_all = 0;
    building->tokens = malloc((vocab->n_ids + (size_t)1) * sizeof *building->tokens);
    if (!building->tokens)
        return STATUS_NO_MEMORY;
    for (uint32_t id = 0; id < vocab->n_ids; id++) {
        size_t n_bytes;
        const uint8_t *bytes = vocab_bytes(vocab, id, &n_bytes);
        bool is_found = n_bytes > 0 && !(vocab->flags[id] & TOKEN_FLAG_ADDED_ONLY) &&
                        vocab_find(vocab, bytes, n_bytes) == id;
        if (!is_found || (!has_bytes && n_bytes == 6 && is_byte(vocab, id)))
            continue;
        building->tokens[building->n_tokens++] = (struct sorted_token){bytes, n_bytes, id};
        n_bytes_all += n_bytes;
    }
    building->nodes_max = n_bytes_all + 1;
    qsort(building->tokens, building->n_tokens, sizeof *building->tokens, by_bytes);
    return STATUS_OK;
}

static enum status allocate(struct building *building)
{
    struct token_trie *trie = building->trie;
    size_t nodes_max = building->nodes_max;

    building->ranges = malloc(nodes_max * sizeof *building->ranges);
    trie->first = malloc((nodes_max + 1) * sizeof *trie->first);
    trie->bytes = malloc(nodes_max);
    trie->numbers = malloc(nodes_max * sizeof *trie->numbers);
    return building->ranges && trie->first && trie->bytes && trie->numbers ? STATUS_OK
                                                                           : STATUS_NO_MEMORY;
}

static void add_node(struct building *building, uint8_t byte, const struct range *range)
{
    struct token_trie *trie = building->trie;
    const struct sorted_token *first = &building->tokens[range->begin];
    const bool ends = range->begin < range->end && first->n_bytes == range->depth;

    assert(trie->n_nodes < building->nodes_max);
    trie->bytes[trie->n_nodes] = byte;
    trie->numbers[trie->n_nodes] = ends ? first->id : TOKEN_NONE;
    building->ranges[trie->n_nodes] = *range;
    building->ranges[trie->n_nodes].begin += ends;
    trie->n_nodes++;
}

/* One child for each byte that follows the node's text. */
static void add_children(struct building *building, uint32_t node)
{
    const struct range range = building->ranges[node];

    building->trie->first[node] = building->trie->n_nodes;
    for (uint32_t at = range.begin, end; at < range.end; at = end) {
        uint8_t byte = building->tokens[at].bytes[range.depth];
        for (end = at + 1; end < range.end; end++)
            if (building->tokens[end].bytes[range.depth] != byte)
                break;
        add_node(building, byte, &(struct range){at, end, range.depth + 1});
    }
}

enum status token_trie_init(struct token_trie *trie, const struct vocab *vocab, bool has_bytes)
{
    struct building building = {.trie = trie};

    *trie = (struct token_trie){0};
    enum status status = sort_tokens(&building, vocab, has_bytes);
    if (status == STATUS_OK)
        status = allocate(&building);
    if (status == STATUS_OK) {
        add_node(&building, 0, &(struct range){0, building.n_tokens, 0});
        for (uint32_t node = 0; node < trie->n_nodes; node++)
            add_children(&building, node);
        trie->first[trie->n_nodes] = trie->n_nodes;
    } else {
        token_trie_finish(trie);
    }
    free(building.tokens);
    free(building.ranges);
    return status;
}

void token_trie_finish(struct token_trie *trie)
{
    free(trie->first);
    free(trie->bytes);
    free(trie->numbers);
    *trie = (struct token_trie){0};
}

uint32_t token_trie_step(const struct token_trie *trie, uint32_t node, uint8_t byte)
{
    assert(node < trie->n_nodes);
    const uint32_t first = trie->first[node];
    const uint8_t *children = trie->bytes + first;
    const uint32_t n = trie->first[node + 1] - first;

    if (n < 8) { /* as most have */
        for (uint32_t i = 0; i < n; i++)
            if (children[i] == byte)
                return first + i;
        return TOKEN_TRIE_NO_WAY;
    }
    const uint8_t *found = memchr(children, byte, n);
    return found ? first + (uint32_t)(found - children) : TOKEN_TRIE_NO_WAY;
}
