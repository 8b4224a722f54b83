/*
 * sink_window - which tokens stay visible in a reply without end: the first ones and the last ones.
 *
 * (StreamingLLM, Xiao et al. 2024, arXiv 2309.17453.) A prompt sees all its tokens. A token of the reply sees the first sinks
 * tokens and the last window - sinks, its own among them. So when the prompt is complete, the spans between are given back, and
 * what is left moves together: the table of a sequence has no gap, and does not grow.
 *
 *     tokens   [ sinks ... ][ dropped ..................... ][ hidden | seen by the query ]
 *     table    [ sinks ... ][ hidden | seen ]                 places = tokens - dropped
 *
 * K is cached before RoPE and rotated by its place among the visible keys, so blocks need not change when they move. Attention adds
 * in an order that places decide: so what is dropped is a multiple of SINK_STEP tokens, and blocks of any size up to that give the
 * same bits.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"
#include "kvcache/cache_groups.h"

#define SINK_STEP 64u
#define SINK_SEQUENCE_TOKENS                                                                       \
    (1u << 20) /* of a sequence with sinks: a prompt within the context, and its reply */

struct sink_window {
    uint32_t window; /* tokens that a query sees, sinks among them; 0: all */
    uint32_t sinks;  /* under window */
};

/* Those of a request with that window; 0: it has none of its own. */
static inline struct sink_window sink_window_of(const struct sink_window *sinks, uint32_t window)
{
    return (struct sink_window){window != 0 && sinks->window != 0 ? window : sinks->window,
                                sinks->sinks};
}

/* Tokens that are dropped at a time. */
static inline uint32_t sink_window_step(uint32_t block_tokens)
{
    return block_tokens > SINK_STEP ? block_tokens : SINK_STEP;
}

/* Spans at the beginning that are never dropped. */
static inline uint32_t sink_window_kept(const struct sink_window *sinks, uint32_t block_tokens)
{
    const uint32_t step = sink_window_step(block_tokens);
    return cache_spans(step, sinks->sinks) * (step / block_tokens);
}

/* Spans behind those that neither the reply's query at that position nor a later one sees. */
static inline uint32_t sink_window_dropped(const struct sink_window *sinks, uint32_t block_tokens,
                                           uint32_t position)
{
    const uint32_t n_last = sinks->window - sinks->sinks, step = sink_window_step(block_tokens);
    const uint32_t kept = sink_window_kept(sinks, block_tokens) * block_tokens;
    const uint32_t first = position + 1 > n_last ? position + 1 - n_last : 0;
    return sinks->window == 0 || first <= kept ? 0 : (first - kept) / step * (step / block_tokens);
}

/* The most spans that a reply has; UINT32_MAX: without a window, all. */
static inline uint32_t sink_window_spans_max(const struct sink_window *sinks, uint32_t block_tokens)
{
    const uint32_t n_last = sinks->window - sinks->sinks + sink_window_step(block_tokens) - 1;
    return sinks->window == 0
               ? UINT32_MAX
               : sink_window_kept(sinks, block_tokens) + cache_spans(block_tokens, n_last);
}
