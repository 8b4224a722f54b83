#include "router/events/block_union.h"

#include <assert.h>
#include <stdlib.h>

#define NONE UINT32_MAX

/* A block of one source. */
struct link {
    struct prefix_hash hash;
    uint32_t source, entry;
    uint32_t next;           /* in its bucket, or of the unused ones */
    uint32_t before, behind; /* of its source, in the order in which they came */
};

struct entry {
    struct prefix_hash hash;
    uint32_t n_sources; /* 0: unused */
    uint32_t next;      /* in its bucket, or of the unused ones */
};

struct line {
    uint32_t first, last;
};

struct block_union {
    struct block_union_options options;
    struct span_events *spans; /* the number of a span is that of its entry */
    uint32_t mask;
    uint32_t *link_buckets, *entry_buckets; /* [mask + 1] */
    struct link *links;                     /* [blocks_max] */
    struct entry *entries;                  /* [blocks_max] */
    struct line *lines;                     /* [sources_max] */
    uint32_t unused_link, unused_entry;     /* NONE: none of those that were used before */
    uint32_t n_links_made, n_entries_made;  /* were ever used */
    uint32_t n_entries;
};

/* ---- creation ---- */

static bool make_arrays(struct block_union *all)
{
    const struct block_union_options *options = &all->options;
    uint32_t n_buckets = 1;
    while (n_buckets < options->blocks_max)
        n_buckets *= 2;
    all->mask = n_buckets - 1;
    all->link_buckets = malloc(n_buckets * sizeof *all->link_buckets);
    all->entry_buckets = malloc(n_buckets * sizeof *all->entry_buckets);
    all->links = calloc(options->blocks_max, sizeof *all->links);
    all->entries = calloc(options->blocks_max, sizeof *all->entries);
    all->lines = malloc(options->sources_max * sizeof *all->lines);
    if (!all->link_buckets || !all->entry_buckets || !all->links || !all->entries || !all->lines)
        return false;
    for (uint32_t i = 0; i < n_buckets; i++)
        all->link_buckets[i] = all->entry_buckets[i] = NONE;
    all->unused_link = all->unused_entry = NONE;
    for (uint32_t i = 0; i < options->sources_max; i++)
        all->lines[i] = (struct line){NONE, NONE};
    return true;
}

enum status block_union_create(const struct block_union_options *options,
                               struct block_union **union_out)
{
    if (options->sources_max == 0 || options->blocks_max == 0 ||
        options->blocks_max > UINT32_MAX / 4)
        return STATUS_INVALID_ARGUMENT;
    struct block_union *all = calloc(1, sizeof *all);
    if (!all)
        return STATUS_NO_MEMORY;
    all->options = *options;
    enum status status = make_arrays(all) ? STATUS_OK : STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = span_events_create(
            &(struct span_events_options){.spans_max = options->blocks_max,
                                          .events_max = options->events_max,
                                          .block_tokens = options->block_tokens},
            &all->spans);
    if (status != STATUS_OK) {
        block_union_destroy(all);
        return status;
    }
    *union_out = all;
    return STATUS_OK;
}

void block_union_destroy(struct block_union *all)
{
    if (!all)
        return;
    span_events_destroy(all->spans);
    free(all->link_buckets);
    free(all->entry_buckets);
    free(all->links);
    free(all->entries);
    free(all->lines);
    free(all);
}

/* ---- finding ---- */

static uint32_t *link_bucket(const struct block_union *all, uint32_t source,
                             struct prefix_hash hash)
{
    return &all->link_buckets[(hash.lo + source * 0x9e3779b9u) & all->mask];
}

/* Where its number stands; *NONE: there is none. */
static uint32_t *find_link(const struct block_union *all, uint32_t source, struct prefix_hash hash)
{
    uint32_t *at = link_bucket(all, source, hash);
    while (*at != NONE &&
           (all->links[*at].source != source || !prefix_hash_equal(all->links[*at].hash, hash)))
        at = &all->links[*at].next;
    return at;
}

static uint32_t *find_entry(const struct block_union *all, struct prefix_hash hash)
{
    uint32_t *at = &all->entry_buckets[hash.lo & all->mask];
    while (*at != NONE && !prefix_hash_equal(all->entries[*at].hash, hash))
        at = &all->entries[*at].next;
    return at;
}

/* ---- entries ---- */

/* There are as many as links, so there is one where there is a link. */
static uint32_t take_entry(struct block_union *all, struct prefix_hash hash,
                           struct prefix_hash parent, const uint32_t *token_ids)
{
    uint32_t *bucket = &all->entry_buckets[hash.lo & all->mask];
    const uint32_t id = all->unused_entry != NONE ? all->unused_entry : all->n_entries_made++;
    assert(id < all->options.blocks_max && "each has a link");
    if (id == all->unused_entry)
        all->unused_entry = all->entries[id].next;
    all->entries[id] = (struct entry){.hash = hash, .next = *bucket};
    *bucket = id;
    all->n_entries++;
    span_events_store(all->spans, id, hash, parent, token_ids, all->options.block_tokens);
    return id;
}

static void leave_entry(struct block_union *all, uint32_t id)
{
    struct entry *entry = &all->entries[id];
    assert(entry->n_sources > 0);
    if (--entry->n_sources > 0)
        return;
    uint32_t *at = find_entry(all, entry->hash);
    assert(*at == id);
    *at = entry->next;
    entry->next = all->unused_entry;
    all->unused_entry = id;
    all->n_entries--;
    span_events_remove(all->spans, id);
}

/* ---- links ---- */

static void add_link(struct block_union *all, uint32_t source, struct prefix_hash hash,
                     uint32_t entry)
{
    const uint32_t id = all->unused_link != NONE ? all->unused_link : all->n_links_made++;
    struct link *link = &all->links[id];
    struct line *line = &all->lines[source];
    uint32_t *bucket = link_bucket(all, source, hash);
    if (id == all->unused_link)
        all->unused_link = link->next;
    *link = (struct link){.hash = hash,
                          .source = source,
                          .entry = entry,
                          .next = *bucket,
                          .before = line->last,
                          .behind = NONE};
    *bucket = id;
    *(line->last == NONE ? &line->first : &all->links[line->last].behind) = id;
    line->last = id;
    all->entries[entry].n_sources++;
}

static void remove_link(struct block_union *all, uint32_t *at)
{
    const uint32_t id = *at;
    struct link *link = &all->links[id];
    struct line *line = &all->lines[link->source];
    *(link->before == NONE ? &line->first : &all->links[link->before].behind) = link->behind;
    *(link->behind == NONE ? &line->last : &all->links[link->behind].before) = link->before;
    *at = link->next;
    link->next = all->unused_link;
    all->unused_link = id;
    leave_entry(all, link->entry);
}

bool block_union_store(struct block_union *all, uint32_t source, struct prefix_hash hash,
                       struct prefix_hash parent, const uint32_t *token_ids)
{
    assert(source < all->options.sources_max);
    const uint32_t block_tokens = all->options.block_tokens;
    struct prefix_hash before = {0}, own;
    if (*find_link(all, source, hash) != NONE)
        return true;
    if (!prefix_hash_is_none(parent)) {
        const uint32_t above = *find_link(all, source, parent);
        if (above == NONE)
            return false;
        before = all->entries[all->links[above].entry].hash;
    }
    if (all->unused_link == NONE && all->n_links_made == all->options.blocks_max)
        return false;
    prefix_hash_next(&all->options.key, before, token_ids, block_tokens, block_tokens, &own);
    uint32_t entry = *find_entry(all, own);
    if (entry == NONE)
        entry = take_entry(all, own, before, token_ids);
    add_link(all, source, hash, entry);
    return true;
}

void block_union_remove(struct block_union *all, uint32_t source, struct prefix_hash hash)
{
    assert(source < all->options.sources_max);
    uint32_t *at = find_link(all, source, hash);
    if (*at != NONE)
        remove_link(all, at);
}

/* The last ones first: a block came after the one that it follows. */
void block_union_clear(struct block_union *all, uint32_t source)
{
    assert(source < all->options.sources_max);
    while (all->lines[source].last != NONE)
        remove_link(all, find_link(all, source, all->links[all->lines[source].last].hash));
}

const struct span_events *block_union_spans(const struct block_union *all)
{
    return all->spans;
}

uint32_t block_union_count(const struct block_union *all)
{
    return all->n_entries;
}
