/*
 * crossing - which blocks of a prompt cross from a context worker to a generation worker, and in what order.
 *
 * Both workers compute the same list from the geometry, the length of the prompt and what the receiver holds already:
 * of a full group all spans behind those, of a window group the ones that the first generated token sees. Spans follow
 * each other, and in each span the groups, so that a chunk of the prompt is a piece of the list:
 *
 *     span      3   3      4   4        5   5   5      group 0 is full, 1 and 2 have windows
 *     group     0   2      0   2        0   1   2
 *     index    base, base + 1 ...
 *
 * A recurrent state follows all spans: it is that behind the prompt.
 *
 * With sinks (sink_window.h) the spans that the reply drops at once do not cross; then nothing may be held.
 *
 * The first index is the number of spans held, as in workers that have one group; without a full group it is 0.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "kvcache/block_pool.h"
#include "kvcache/geometry.h"

struct crossing {
    uint32_t n_groups;
    uint32_t n_state;   /* blocks behind the last span */
    uint32_t held, end; /* spans: those that the receiver holds, and all of the prompt */
    uint32_t base;      /* index of the first block */
    uint32_t first[CACHE_GROUPS_MAX]; /* span that crosses of a group */
    uint32_t drop_first, n_dropped;   /* spans that do not cross */
};

/* held_tokens: whole spans. window: the request's own, with sinks; 0: none. */
struct crossing crossing_of(const struct geometry *geometry, uint32_t n_prompt,
                            uint32_t held_tokens, uint32_t window);
/* Blocks of the spans before n_spans, with all of them the state's, too; UINT32_MAX: all. */
uint32_t crossing_count(const struct crossing *crossing, uint32_t n_spans);
/* The leading spans of the prompt that are complete when n_blocks of the list are there. */
uint32_t crossing_spans(const struct crossing *crossing, uint32_t n_blocks);
struct crossing_place {
    uint32_t group, span;
};
/* Of block number i of the list, which has it. One of the state has a group behind the groups. */
struct crossing_place crossing_at(const struct crossing *crossing, uint32_t i);
/* Takes the ids of the spans first .. end - 1 from a table [n_groups][stride], in order, and behind the last one those of the state,
 * [n_state] behind the groups. n_gone: dropped spans that the table does
 * not have. Returns how many. */
uint32_t crossing_list(const struct crossing *crossing, uint32_t first, uint32_t end,
                       const block_id *table, uint32_t stride, uint32_t n_gone, block_id *ids_out);
